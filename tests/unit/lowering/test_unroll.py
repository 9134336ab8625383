"""Loops that pragmas unroll, by the number of stores that this makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.codegen.llvm.emitter import emit
from autotune.ir.expr import KnobVar
from autotune.ir.stmt import For, PrimFunc
from autotune.ir.visitor import walk
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache


def row_sums() -> tuple[Any, Any, Any, list[Any]]:
    A = te.placeholder((6, 4, 3), name="A")
    k = te.reduce_axis((0, 3), "k")
    C = te.compute((6, 4), lambda i, j: te.sum(A[i, j, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    return s, s[C], (*C.op.axis, k), [A, C]


def kinds(function: PrimFunc) -> dict[str, str]:
    return {loop.var.name: str(loop.kind) for loop in walk(function.body) if isinstance(loop, For)}


# One element takes 1 + 3 stores, a row of four 16, the whole 96.
@pytest.mark.parametrize(
    ("most", "unrolled"),
    [(0, ""), (2, ""), (3, "k"), (15, "k"), (16, "jk"), (95, "jk"), (96, "ijk")],
)
def test_the_outermost_loop_with_few_enough_stores_is_unrolled(most: int, unrolled: str) -> None:
    s, stage, (i, _, _), tensors = row_sums()
    stage.pragma(i, "auto_unroll_max_step", most)
    found = kinds(autotune.lower(s, tensors))
    assert "".join(sorted(v for v, kind in found.items() if kind == "unrolled")) == unrolled


def test_only_loops_from_the_axis_inwards_are_unrolled() -> None:
    s, stage, (_, j, _), tensors = row_sums()
    stage.pragma(j, "auto_unroll_max_step", 1000)
    assert kinds(autotune.lower(s, tensors)) == {"i": "serial", "j": "unrolled", "k": "unrolled"}


def test_a_loop_around_one_that_stays_is_not_unrolled() -> None:
    s, stage, (i, j, k), tensors = row_sums()
    stage.parallel(j)
    stage.pragma(i, "auto_unroll_max_step", 1000)
    assert kinds(autotune.lower(s, tensors)) == {"i": "serial", "j": "parallel", "k": "unrolled"}
    assert k.name == "k"


def test_a_vector_counts_as_one_store() -> None:
    s, stage, (i, j, k), tensors = row_sums()
    stage.reorder(i, k, j)
    stage.vectorize(j)
    stage.pragma(i, "auto_unroll_max_step", 4 * 6)
    assert kinds(autotune.lower(s, tensors)) == {"i": "unrolled", "k": "unrolled"}


def test_the_inner_pragma_holds_for_the_loops_in_it() -> None:
    s, stage, (i, j, _), tensors = row_sums()
    stage.pragma(i, "auto_unroll_max_step", 1000)
    stage.pragma(j, "auto_unroll_max_step", 3)
    assert kinds(autotune.lower(s, tensors)) == {"i": "serial", "j": "serial", "k": "unrolled"}


def test_a_pragma_on_a_loop_of_length_1_covers_what_is_in_it() -> None:
    s, stage, (i, _, _), tensors = row_sums()
    scope, _ = stage.split(i, nparts=1)
    stage.pragma(scope, "auto_unroll_max_step", 16)
    assert kinds(autotune.lower(s, tensors)) == {
        "i.inner": "serial", "j": "unrolled", "k": "unrolled"
    }  # fmt: skip


def test_the_loops_that_start_an_accumulator_are_covered_too() -> None:
    s, stage, (i, j, k), tensors = row_sums()
    stage.reorder(k, i, j)
    stage.pragma(i, "auto_unroll_max_step", 4)
    found = kinds(autotune.lower(s, tensors))
    assert (found["j"], found["j.init"], found["i.init"]) == ("unrolled", "unrolled", "serial")


def test_what_is_not_explicit_stays_a_loop_with_a_hint() -> None:
    s, stage, (i, j, k), tensors = row_sums()
    stage.unroll(k)
    stage.pragma(i, "unroll_explicit", False)
    stage.pragma(j, "auto_unroll_max_step", 16)
    function = autotune.lower(s, tensors)
    assert kinds(function) == {"i": "serial", "j": "unroll_hinted", "k": "unroll_hinted"}
    source = emit(function).text
    assert source.count("!llvm.loop") == 2
    assert '!{!"llvm.loop.unroll.full"}' in source
    a = np.arange(72, dtype=np.float32).reshape(6, 4, 3)
    out = np.zeros((6, 4), np.float32)
    compile_function(function, cache=ObjectCache(None))(a, out)
    np.testing.assert_array_equal(out, a.sum(axis=2))


def test_a_knob_decides_how_much_is_unrolled() -> None:
    s, stage, (i, _, _), tensors = row_sums()
    most, explicit = KnobVar("most", 0, 128), KnobVar("explicit", 0, 1)
    stage.pragma(i, "auto_unroll_max_step", most)
    stage.pragma(i, "unroll_explicit", explicit)
    lowered = lower_schedule(s, tensors)
    found = [
        kinds(finalise(analyse(lowered, {most: steps, explicit: flag})))["j"]
        for steps, flag in ((0, 1), (16, 1), (16, 0))
    ]
    assert found == ["serial", "unrolled", "unroll_hinted"]


def test_an_unrolled_schedule_computes_the_same() -> None:
    a = np.arange(72, dtype=np.float32).reshape(6, 4, 3)
    for most in (3, 16, 96):
        s, stage, (i, _, _), tensors = row_sums()
        stage.pragma(i, "auto_unroll_max_step", most)
        out = np.zeros((6, 4), np.float32)
        compile_function(autotune.lower(s, tensors), cache=ObjectCache(None))(a, out)
        np.testing.assert_array_equal(out, a.sum(axis=2))
