"""Listings: those of the broadcast-add and GEMM seeds, and ours as files; all of them also run.

`pytest --update-golden` rewrites the files, which are then to be read before they are committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.te_reference import Reference, random_array
from support.verify import verify

import autotune
from autotune import te
from autotune.ir.evaluate.interpreter import interpret
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import PlaceholderOp, Tensor

Case = tuple[Schedule, list[Tensor]]
NT, NB = 64, 256


def _broadcast_add(n: int) -> tuple[Tensor, Tensor, Tensor]:
    A = te.placeholder((n, 1), name="A")
    B = te.placeholder((n, n), name="B")
    C = te.compute((n, n), lambda x, y: A[x, 0] + B[x, y], name="C")
    return A, B, C


def _bind(s: Schedule, C: Tensor, bx: Any, tx: Any) -> None:
    s[C].bind(bx, te.thread_axis("blockIdx.x"))
    s[C].bind(tx, te.thread_axis("threadIdx.x"))


def broadcast_add_continuous(n: int = 256) -> Case:
    A, B, C = _broadcast_add(n)
    s = te.create_schedule(C.op)
    fused = s[C].fuse(*C.op.axis)
    bx, tx = s[C].split(fused, nparts=NB)
    tx, _ = s[C].split(tx, nparts=NT)
    _bind(s, C, bx, tx)
    return s, [A, B, C]


def broadcast_add_alternate(n: int = 256) -> Case:
    A, B, C = _broadcast_add(n)
    s = te.create_schedule(C.op)
    fused = s[C].fuse(*C.op.axis)
    xo, xi = s[C].split(fused, factor=NB * NT)
    bx, tx = s[C].split(xi, factor=NT)
    s[C].reorder(bx, tx, xo)
    _bind(s, C, bx, tx)
    return s, [A, B, C]


def broadcast_add_small(n: int = 32) -> Case:
    A, B, C = _broadcast_add(n)
    s = te.create_schedule(C.op)
    bx, tx = s[C].split(s[C].fuse(*C.op.axis), factor=NT)
    _bind(s, C, bx, tx)
    return s, [A, B, C]


def _matmul(n: int, m: int, depth: int) -> tuple[Tensor, Tensor, Tensor, Any]:
    A = te.placeholder((n, depth), name="A")
    B = te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), "k")
    C = te.compute((n, m), lambda x, y: te.sum(A[x, k] * B[k, y], axis=k), name="C")
    return A, B, C, k


def gemm() -> Case:
    A, B, C, _ = _matmul(128, 128, 128)
    return te.create_schedule(C.op), [A, B, C]


def gemm_tiled_with_remainders() -> Case:
    A, B, C, k = _matmul(30, 20, 17)
    s = te.create_schedule(C.op)
    accumulator = s.cache_write(C, "local")
    xo, yo, _, _ = s[C].tile(*C.op.axis, 8, 16)
    tile = s[C].fuse(xo, yo)
    s[C].parallel(tile)
    s[accumulator].compute_at(s[C], tile)
    x, y = s[accumulator].op.axis
    ko, ki = s[accumulator].split(k, factor=4)
    s[accumulator].reorder(ko, x, ki, y)
    s[accumulator].unroll(ki)
    s[accumulator].vectorize(y)
    return s, [A, B, C]


def convolution_padded_inside() -> Case:
    D = te.placeholder((3, 9, 9), name="D")
    F = te.placeholder((4, 3, 3, 3), name="F")
    P = te.compute(
        (3, 11, 11),
        lambda c, y, x: te.if_then_else(
            te.all(y >= 1, y < 10, x >= 1, x < 10), D[c, y - 1, x - 1], 0.0
        ),
        name="P",
    )
    rc, ry, rx = (te.reduce_axis((0, 3), name) for name in ("rc", "ry", "rx"))
    R = te.compute(
        (4, 5, 5),
        lambda f, y, x: te.sum(P[rc, y * 2 + ry, x * 2 + rx] * F[f, rc, ry, rx], axis=[rc, ry, rx]),
        name="R",
    )
    s = te.create_schedule(R.op)
    yo, _ = s[R].split(R.op.axis[1], factor=2)
    s[P].compute_at(s[R], yo)
    return s, [D, F, R]


def packed_and_cached() -> Case:
    A, B, C, k = _matmul(12, 16, 8)
    s = te.create_schedule(C.op)
    block = s.cache_read(B, "local", [C])
    yo, yi = s[C].split(C.op.axis[1], factor=8)
    s[C].reorder(yo, C.op.axis[0], k, yi)
    s[block].compute_at(s[C], yo)
    s[block].vectorize(s[block].op.axis[1])
    s[C].vectorize(yi)
    return s, [A, B, C]


def symbolic_row_sums() -> Case:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k] * 2.0, axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=4)
    s[B].split(k, nparts=3)
    return s, [A, B]


CASES: dict[str, Callable[[], Case]] = {
    case.__name__: case
    for case in (
        broadcast_add_continuous,
        broadcast_add_alternate,
        broadcast_add_small,
        gemm,
        gemm_tiled_with_remainders,
        convolution_padded_inside,
        packed_and_cached,
        symbolic_row_sums,
    )
}


def _listing(case: str, simple_mode: bool) -> str:
    schedule, tensors = CASES[case]()
    return str(verify(autotune.lower(schedule, tensors, simple_mode=simple_mode)))


@pytest.mark.parametrize("case", CASES)
def test_the_listing_of_a_schedule_is_the_one_on_file(case: str, golden: Any) -> None:
    golden(f"listings/{case}.txt", _listing(case, simple_mode=True))


@pytest.mark.parametrize("case", [c for c in CASES if not c.startswith("broadcast")])
def test_the_final_form_of_a_schedule_is_the_one_on_file(case: str, golden: Any) -> None:
    golden(f"listings/{case}.final.txt", _listing(case, simple_mode=False))


@pytest.mark.parametrize("case", CASES)
def test_what_a_listing_shows_computes_what_numpy_computes(case: str) -> None:
    schedule, tensors = CASES[case]()
    sizes = dict(zip(autotune.lower(schedule, tensors).sizes, (7, 5), strict=False))
    rng = np.random.default_rng(0)
    shape = Reference({}, sizes).size
    arrays = {
        t: random_array(rng, [shape(e) for e in t.extents], t.dtype)
        for t in tensors
        if isinstance(t.op, PlaceholderOp)
    }
    want = Reference(arrays, sizes).array(tensors[-1])
    final = verify(autotune.lower(schedule, tensors))
    out = np.full_like(want, 77)
    if "blockIdx" in str(final):
        interpret(final, [*arrays.values(), out])
    else:
        compile_function(final, cache=ObjectCache(None))(*arrays.values(), out)
    np.testing.assert_allclose(out, want, rtol=1e-5)


# -- the seeds' listings, as printed there but for the page's lost indentation --------------------

CONTINUOUS = """\
produce C {
// attr [iter_var(blockIdx.x, , blockIdx.x)] thread_extent = 256
// attr [iter_var(threadIdx.x, , threadIdx.x)] thread_extent = 64
for (x.y.fused.inner.inner, 0, 4) {
C[(((blockIdx.x*256) + (threadIdx.x*4)) + x.y.fused.inner.inner)] = \
(A[blockIdx.x] + B[(((blockIdx.x*256) + (threadIdx.x*4)) + x.y.fused.inner.inner)])
}
}
"""

ALTERNATE = """\
produce C {
// attr [iter_var(blockIdx.x, , blockIdx.x)] thread_extent = 256
// attr [iter_var(threadIdx.x, , threadIdx.x)] thread_extent = 64
for (x.y.fused.outer, 0, 4) {
C[(((x.y.fused.outer*16384) + (blockIdx.x*64)) + threadIdx.x)] = \
(A[((x.y.fused.outer*64) + floordiv(((blockIdx.x*64) + threadIdx.x), 256))] + \
B[(((x.y.fused.outer*16384) + (blockIdx.x*64)) + threadIdx.x)])
}
}
"""

#: The feature seed's, its comments left out; it prints 0.000000f and B[(y + (k*128))].
GEMM = """\
produce C {
for (x, 0, 128) {
for (y, 0, 128) {
C[((x*128) + y)] = 0f
for (k, 0, 128) {
C[((x*128) + y)] = (C[((x*128) + y)] + (A[((x*128) + k)]*B[((k*128) + y)]))
}
}
}
}
"""


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("broadcast_add_continuous", CONTINUOUS),
        ("broadcast_add_alternate", ALTERNATE),
        ("gemm", GEMM),
    ],
)
def test_the_listing_is_the_seed_s(case: str, text: str) -> None:
    lines = [line.strip() for line in _listing(case, simple_mode=True).splitlines()]
    assert lines == text.splitlines()
