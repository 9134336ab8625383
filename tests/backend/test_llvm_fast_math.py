"""What `-fast-math` lets LLVM do to float arithmetic, and that nothing of it is done without."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from support.llvm_kernels import buffer, i32
from support.vector_kernels import loop

from autotune.ir.expr import Const, Load, Var
from autotune.ir.stmt import LoopKind, PrimFunc, Stmt, Store, seq
from autotune.runtime.cpu.llvm_compiler import CompiledFunction, compile_function
from autotune.runtime.object_cache import ObjectCache
from autotune.target import Target
from autotune.task.task import Task

N = 1000


def sum_of_ratios(target: str) -> CompiledFunction:
    """out[0] = sum of A[i] / B[0]."""
    a, b, out = buffer("A", "float32", N), buffer("B", "float32", 1), buffer("out", "float32", 1)

    def add(i: Var) -> Stmt:
        return Store(out, i32(0), Load(out, i32(0)) + Load(a, i) / Load(b, i32(0)))

    body = seq(Store(out, i32(0), Const(0.0, "float32")), loop(N, add, LoopKind.SERIAL, "i"))
    function = PrimFunc("ratios", (a, b, out), frozenset([out]), body)
    return compile_function(function, target, cache=ObjectCache(None))


def result(kernel: CompiledFunction, a: Any, b: float) -> np.float32:
    out = np.zeros(1, np.float32)
    kernel(a, np.array([b], np.float32), out)
    value: np.float32 = out[0]
    return value


def flags(kernel: CompiledFunction) -> set[str]:
    """What may be done to the operations of a text."""
    found = re.findall(r" = f(?:add|sub|mul|div) ((?:[a-z]+ )*)(?=float|<|double)", kernel.source)
    return {flag for words in found for flag in words.split()}


def test_by_default_sums_are_taken_in_order_and_every_operation_rounds_once() -> None:
    kernel = sum_of_ratios("llvm")
    a = np.random.default_rng(0).normal(0, 1, N).astype(np.float32)
    expected = np.float32(0)
    for x in a:
        expected = np.float32(expected + x / np.float32(3))
    assert result(kernel, a, 3.0) == expected
    assert flags(kernel) <= {"contract"}


def test_fast_math_reorders_sums_and_stays_close() -> None:
    exact, fast = sum_of_ratios("llvm"), sum_of_ratios("llvm -fast-math")
    assert flags(fast) == {"reassoc", "nsz", "arcp", "contract"}
    vectors = re.compile(r"fadd [a-z ]*<\d+ x float>")
    assert vectors.search(fast.optimised())
    assert not vectors.search(exact.optimised())
    a = np.random.default_rng(0).normal(0, 1, N).astype(np.float32)
    np.testing.assert_allclose(result(fast, a, 3.0), result(exact, a, 3.0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_fast_math_keeps_nan_and_infinity(special: float) -> None:
    a = np.ones(N, np.float32)
    a[123] = special
    fast = result(sum_of_ratios("llvm -fast-math"), a, 2.0)
    np.testing.assert_equal(fast, np.float32(special))


@pytest.mark.parametrize(
    ("name", "args"),
    [("matmul", {"m": 17, "n": 19, "k": 23}), ("softmax", {"m": 5, "n": 70})],
)
def test_templates_are_right_with_fast_math(name: str, args: dict[str, int]) -> None:
    task = Task.from_reference(name, args, "llvm -fast-math")
    assert str(task.target) == "llvm -fast-math"
    kernel = compile_function(task.final_of({}), task.target, cache=ObjectCache(None))
    assert "reassoc" in kernel.source
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, a.shape).astype(a.dtype) for a in task.arguments]
    kernel(*arrays)
    *inputs, out = arrays
    assert task.reference is not None
    np.testing.assert_allclose(out, task.reference(*inputs), rtol=1e-4, atol=1e-5)


def test_fast_math_is_part_of_the_targets_text() -> None:
    assert str(Target.of("llvm -fast-math")) == "llvm -fast-math"
    assert Target.of("llvm -fast-math") != Target.of("llvm")
