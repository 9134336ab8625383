"""Loops that features are read from are those of AutoTVM v0.8; the same schedules also run.

`itervar_features_autotvm08.json` was recorded with Apache TVM v0.8.0 and is not ours to update.
"""

from __future__ import annotations

import json
import re
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.te_reference import Reference, random_array
from support.verify import verify

from autotune import te
from autotune.extract.autotvm08 import autotvm08_loops
from autotune.feature import get_itervar_feature
from autotune.ir.stmt import For, LoopKind, Produce, Stmt
from autotune.ir.visitor import Rewriter, walk
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.gpu.finalise_kernels import finalise_kernels
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import PlaceholderOp, Tensor

ITEMS: dict[str, Any] = {
    item["name"]: item
    for item in json.loads((Path(__file__).parent / "itervar_features_autotvm08.json").read_text())[
        "items"
    ]
}
NAMES = list(ITEMS)


def scheduled(name: str, small: bool = False) -> tuple[Schedule, list[Tensor]]:
    """Run a recipe; with matrices of 64 instead of 256 rows if `small`."""
    recipe = ITEMS[name]["recipe"]
    if small:
        recipe = recipe.replace("N = 256", "N = 64")
    tvm = types.SimpleNamespace(te=te, tir=te)
    space: dict[str, Any] = {"tvm": tvm, "te": te, "np": np}
    exec(recipe, space)
    return space["s"], list(space["args"])


class _AsRecorded(Rewriter):
    """Leaves out producer marks, which the recording does not have."""

    def visit_Produce(self, node: Produce) -> Stmt:
        return self.stmt(node.body)


def ours(name: str) -> str:
    schedule, tensors = scheduled(name)
    analysed = verify(autotvm08_loops(schedule, tensors))
    text = str(_AsRecorded().stmt(analysed.body))
    # One notation for storage.
    return re.sub(r'// attr \[\S+\] storage_scope = "(\w+)"\n( *allocate .*)', r"\2 \1", text)


def recorded(name: str) -> str:
    text = ITEMS[name]["ir_used_for_features"].replace("tir.", "")
    text = re.sub(r"range\(min=0, ext=\d+\)", "", text)
    return str(re.sub(r"], storage_scope = (\w+)", r"] \1", text))


def without_indent(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_the_loops_are_those_of_autotvm(name: str) -> None:
    assert without_indent(ours(name)) == without_indent(recorded(name))


def _as_recorded(rows: list[Any]) -> list[dict[str, Any]]:
    """Rows in the form of the recording, which has names with their types."""
    return [
        {
            "itervar": row[0][1],
            "_attr_": list(row[1][1:]),
            "_arith_": list(row[2][1:]),
            "touch": [list(access) for access in row[3:]],
        }
        for row in rows
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_features_are_those_of_autotvm(name: str) -> None:
    schedule, tensors = scheduled(name)
    found = _as_recorded(get_itervar_feature(schedule, tensors, layout="autotvm08"))
    wanted = [{**row, "itervar": row["itervar"].split(":")[0]} for row in ITEMS[name]["rows"]]
    assert found == wanted


def _has_threads(stmt: Stmt) -> bool:
    bound = (LoopKind.THREAD, LoopKind.VTHREAD)
    return any(isinstance(s, For) and s.kind in bound for s in walk(stmt))


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_schedule_computes_what_numpy_computes(name: str) -> None:
    schedule, tensors = scheduled(name, small=True)
    analysed = verify(analyse(lower_schedule(schedule, tensors)))
    threads = _has_threads(analysed.body)
    final = verify(finalise_kernels(analysed) if threads else finalise(analysed))
    rng = np.random.default_rng(0)
    arrays = {
        t: random_array(rng, t.shape, t.dtype) for t in tensors if isinstance(t.op, PlaceholderOp)
    }
    wanted = [t for t in tensors if t not in arrays]
    out = {t: np.full(t.shape, 77, t.dtype) for t in wanted}
    every = [arrays.get(t, out.get(t)) for t in tensors]
    target = "cuda -on=cpu" if threads else "llvm"
    compile_function(final, target, cache=ObjectCache(None))(*every)
    reference = Reference(arrays)
    for tensor in wanted:
        np.testing.assert_allclose(out[tensor], reference.array(tensor), rtol=1e-4, atol=1e-5)
