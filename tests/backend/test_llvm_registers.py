"""Accumulators of reductions live in vector registers: loops that reduce do not store."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.vector_kernels import serial_loops

from autotune import te
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.runtime.cpu.llvm_compiler import CompiledFunction, compile_function
from autotune.runtime.object_cache import ObjectCache
from autotune.task.task import Task


def built(schedule: Any, tensors: list[Any]) -> CompiledFunction:
    final = finalise(analyse(lower_schedule(schedule, tensors)))
    return compile_function(final, "llvm", cache=ObjectCache(None))


def accumulating_loops(kernel: CompiledFunction) -> list[str]:
    """Blocks of the optimised code that jump to themselves and hand on a vector."""
    blocks = re.split(r"\n(?=[\w.]+:)", kernel.optimised())
    found = []
    for block in blocks:
        label = block.split(":", 1)[0]
        sums = re.search(r"= phi <\d+ x (?:float|double)>", block)
        if sums and f"label %{label}" in block:
            found.append(block)
    return found


def handed_on(block: str) -> set[str]:
    """Return the vectors that a loop hands from step to step: at its begin and at its end."""
    label = re.escape(block.split(":", 1)[0])
    phis = re.findall(r"(%[\w.]+) = phi <\d+ x \w+> (.*)", block)
    ends = [re.findall(rf"\[ (%[\w.]+), %{label} \]", values) for _, values in phis]
    return {name for name, _ in phis} | {name for names in ends for name in names}


def assert_in_registers(kernel: CompiledFunction, loops: int = 1) -> None:
    found = accumulating_loops(kernel)
    assert len(found) >= loops, kernel.optimised()
    for block in found:
        stored = set(re.findall(r" store <\d+ x \w+> (%[\w.]+),", block))
        assert stored.isdisjoint(handed_on(block))  # a loop may store what it adds
        assert "extractelement" not in block


@pytest.mark.parametrize(
    ("name", "args", "loops"),
    [
        ("matmul", {"m": 96, "n": 128, "k": 64}, 1),
        ("matmul", {"m": 50, "n": 70, "k": 64}, 1),
        ("conv2d_nchw", {"n": 1, "c": 8, "h": 14, "w": 14, "o": 64, "kh": 3, "kw": 1}, 1),
        ("softmax", {"m": 16, "n": 512}, 2),
        ("softmax", {"m": 16, "n": 500}, 2),
    ],
)
def test_templates_accumulate_in_registers(name: str, args: dict[str, int], loops: int) -> None:
    task = Task.from_reference(name, args, "llvm")
    final = task.final_of({})
    assert_in_registers(compile_function(final, task.target, cache=ObjectCache(None)), loops)


def matrices(n: int) -> tuple[Any, Any, Any]:
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return a, b, c


@pytest.mark.parametrize("cached", [False, True])
def test_a_tile_of_a_matrix_product_is_kept_over_the_reduction(cached: bool) -> None:
    a, b, c = matrices(64)
    s = te.create_schedule(c.op)
    acc = s.cache_write(c, "local") if cached else c
    io, jo, ii, ji = s[c].tile(*s[c].op.axis, 4, 16)
    if cached:
        s[c].vectorize(ji)
        s[acc].compute_at(s[c], jo)
        ii, ji = s[acc].op.axis
        s[acc].reorder(s[acc].op.reduce_axis[0], ii, ji)
    else:
        s[c].reorder(io, jo, s[c].op.reduce_axis[0], ii, ji)
    s[acc].unroll(ii)
    s[acc].vectorize(ji)
    assert_in_registers(built(s, [a, b, c]))


@pytest.mark.parametrize("n", [1024, 1000])
def test_a_factored_sum_of_rows_is_a_vector_that_is_added_up_at_the_end(n: int) -> None:
    a = te.placeholder((8, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    _, inner = s[c].split(k, factor=16)
    parts = s.rfactor(c, inner)
    s[parts].compute_at(s[c], s[c].op.axis[0])
    lane, row = s[parts].op.axis
    s[parts].reorder(row, s[parts].op.reduce_axis[0], lane)
    s[parts].vectorize(lane)
    kernel = built(s, [a, c])
    assert lane.var.name not in serial_loops(kernel)
    assert_in_registers(kernel)


def test_a_convolution_over_rows_keeps_its_pixels() -> None:
    data, weight = te.placeholder((8, 20, 20), name="D"), te.placeholder((8, 3, 3), name="F")
    rc, ry, rx = (te.reduce_axis((0, e), name=n) for e, n in ((8, "rc"), (3, "ry"), (3, "rx")))
    padded = te.compute(
        (8, 22, 22),
        lambda c, y, x: te.if_then_else(
            te.all(y >= 1, y < 21, x >= 1, x < 21), data[c, y - 1, x - 1], 0.0
        ),
        name="P",
    )
    out = te.compute(
        (20, 20),
        lambda y, x: te.sum(padded[rc, y + ry, x + rx] * weight[rc, ry, rx], axis=[rc, ry, rx]),
        name="O",
    )
    s = te.create_schedule(out.op)
    s[padded].compute_inline()
    y, x = s[out].op.axis
    xo, xi = s[out].split(x, factor=4)
    s[out].reorder(y, xo, *s[out].op.reduce_axis, xi)
    s[out].unroll(rx)
    s[out].vectorize(xi)
    kernel = built(s, [data, weight, out])
    assert kernel.function.info.not_vectorized == ()
    assert "masked.load" in kernel.source
    assert_in_registers(kernel)
