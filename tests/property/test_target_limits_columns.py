"""A target's rule on columns of knobs is that rule on the candidate lowered with plain numbers.

Templates of ours, the CUDA structures of the benchmarks, and some of the tests, on targets so
small that each rule rejects some candidates. `AUTOTUNE_EXAMPLES=N` compares N candidates of each.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune.ir import dtypes
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Const, Expr
from autotune.ir.stmt import Allocate, For
from autotune.ir.visitor import walk
from autotune.lowering import target_limits
from autotune.lowering.gpu.finalise_kernels import DeviceKernel, finalise_kernels, split_kernels
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.lowering.storage_rewrite import elements
from autotune.target import GpuLimits, Target
from autotune.task.task import Task
from autotune.template import Knobs
from autotune.trace.value_sources import ConcreteValues, KnobTable
from search_spaces import Constraint

CANDIDATES = int(os.environ.get("AUTOTUNE_EXAMPLES", "0")) or 24


class SmallTarget(Target):
    """A target that hardly anything fits."""

    limits = GpuLimits(
        threads=24,
        block=(24, 24, 2),
        grid=(1000, 5, 3),
        shared_bytes=512,
        thread_registers=32,
        block_registers=640,
        warp=4,
        vector_bytes=8,
    )

    @property
    def gpu(self) -> GpuLimits | None:
        """Limits of the tests."""
        return self.limits if self.kind == "cuda" else None

    @property
    def memory_bytes(self) -> int:
        """Memory of the tests."""
        return 320


STRUCTURES = f"{Path(__file__).parents[2] / 'benchmarks' / 'structures.py'}:"
OWN = f"{Path(__file__).parents[1] / 'support' / 'structure_templates.py'}:"
#: Templates, and words of the rules that reject some of their candidates.
WORKLOADS: list[tuple[str, dict[str, Any], str]] = [
    (
        f"{STRUCTURES}matmul_cuda",
        {"n": 96},
        "24 threads, blocks along y, shared, 32 registers, 640 registers, vector",
    ),
    (
        f"{STRUCTURES}conv2d_cuda",
        {"channels": 8, "size": 12, "filters": 16},
        "24 threads, threads along z, blocks along z, shared, 32 registers, 640 registers",
    ),
    (f"{STRUCTURES}broadcast_add_cuda", {"n": 4096}, "24 threads, blocks along x, vector"),
    ("matmul", {"m": 17, "n": 35, "k": 7}, "memory, unrolled"),
    ("conv2d_nchw", {"n": 1, "c": 3, "h": 8, "w": 14, "o": 32, "kh": 3, "kw": 3}, "unrolled"),
    ("softmax", {"m": 9, "n": 256}, ""),
    ("broadcast_add", {"n": 64}, ""),
    (f"{OWN}packed_fused", {"m": 7, "n": 13, "k": 5}, "memory"),
    (f"{OWN}fused_blur", {"h": 16, "w": 11}, "memory"),
    (f"{OWN}factored_rows", {"m": 4, "n": 6, "p": 4}, ""),
]

#: How the messages of the rules begin.
WORDS = ("a block has", "a grid has", "a thread has", "a vector takes", "temporaries", "unrolled")


class Lenient(ConcreteValues):
    """Plain values of candidates that the template itself may refuse."""

    def require(self, condition: Any, message: str) -> None:
        """Let it pass: the target's rules are what counts here."""


def on_plain_numbers(task: Task, index: int) -> dict[str, bool]:
    """Return whether each rule holds, by message, that the candidate lowered by itself gives."""
    source = Lenient(KnobTable("plain"), task.space.config(index).values)
    schedule, tensors = task.template(Knobs(source, task.target), **task.args)
    holds: dict[str, bool] = {}
    for condition, message in target_limits.target_rules(
        lower_schedule(schedule, tensors), task.target
    ):
        assert isinstance(condition, Const), condition
        holds[message] = holds.get(message, True) and bool(condition.value)
    return holds


def some_of(task: Task) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return random candidates, refused ones too."""
    rng = np.random.default_rng(5)
    return np.unique(rng.integers(len(task.space), size=CANDIDATES))


@pytest.mark.parametrize(("name", "args", "words"), WORKLOADS, ids=lambda w: str(w)[-30:])
def test_rules_on_columns_are_the_rules_on_each_candidate(
    name: str, args: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_limits, "MAX_UNROLLED", 12)
    monkeypatch.setattr(target_limits, "UNROLLED_OF_NEST", 0)
    kind = "cuda" if "cuda" in name else "llvm"
    options = {} if kind == "cuda" else {"mcpu": "x86-64-v3"}
    task = Task.from_reference(name, args, SmallTarget(kind, options))
    indices = some_of(task)
    concrete = [on_plain_numbers(task, int(index)) for index in indices]
    messages = {message for holds in concrete for message in holds}
    known: dict[str, Constraint] = {rule.name: rule for rule in task.space.constraints}
    rejected: Counter[str] = Counter()
    for message in messages | {m for m in known if m.startswith(WORDS)}:
        expected = [holds.get(message, True) for holds in concrete]
        if message in known:
            found = known[message].holds(task.space.columns(indices), len(indices))
        else:
            found = np.ones(len(indices), np.bool_)
        assert found.tolist() == expected, message
        rejected[message] = expected.count(False)
    for word in filter(None, words.split(", ")):
        assert any(count for rule, count in rejected.items() if word in rule), (word, rejected)


def amounts(kernel: For) -> tuple[int, int, int]:
    """Return threads, bytes of shared memory and of a thread's arrays, as the rules count them."""
    found = (
        target_limits.block_threads(kernel),
        target_limits.shared_bytes(kernel),
        target_limits.local_bytes(kernel),
    )
    threads, shared, local = map(number, found)
    return threads, shared, local


def number(expr: Expr) -> int:
    simple = Simplifier().expr(expr)
    assert isinstance(simple, Const)
    return int(simple.value)


def taken(kernel: DeviceKernel) -> tuple[int, int, int]:
    """Return the same as it is in a kernel that is ready to be written out."""
    threads = math.prod(map(number, kernel.block))
    sizes = {"shared": 0, "local": 0}
    for stmt in walk(kernel.function.body):
        if isinstance(stmt, Allocate) and stmt.buffer.scope in sizes:
            size = number(elements(stmt.buffer)) * dtypes.itemsize(stmt.buffer.dtype)
            is_shared = stmt.buffer.scope == "shared"
            sizes[stmt.buffer.scope] += -(-size // 16) * 16 if is_shared else size
    return threads, sizes["shared"], sizes["local"]


@pytest.mark.parametrize(("name", "args", "words"), WORKLOADS[:3], ids=lambda w: str(w)[-30:])
def test_what_the_rules_count_is_what_the_kernels_take(
    name: str, args: dict[str, Any], words: str
) -> None:
    task = Task.from_reference(name, args, "cuda -arch=sm_90")
    for index in task.space.sample(max(4, CANDIDATES // 10), np.random.default_rng(6)):
        function = task.function(int(index))
        counted = [amounts(kernel) for kernel in target_limits.launches(function.body)]
        kernels = split_kernels(finalise_kernels(function))
        assert counted == [taken(kernel) for kernel in kernels], task.space.config(int(index))
