"""What is refused of how results are stored and cached, and in what words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.mistakes import INLINED, NO_OUTPUT, NOT_GIVEN, Program, assert_refused, refused

from autotune import te
from autotune.errors import AutotuneError


def tensor_of_the_cache(p: Program) -> None:
    p.s.cache_write(p.C, "local")
    p.sC.split(p.k, factor=2)


STORE = [
    refused(
        "an unknown scope",
        lambda p: p.sC.set_scope("register"),
        "set_scope on stage 'C': there is no scope 'register'; give one of global, shared, local",
    ),
    refused(
        "the scope of an output",
        lambda p: p.sD.set_scope("local"),
        f"set_scope on stage 'D': {NO_OUTPUT}",
    ),
    refused(
        "the scope of an inlined stage",
        lambda p: [p.sB.compute_inline(), p.sB.set_scope("local")],
        f"set_scope on stage 'B': {INLINED}",
    ),
    refused(
        "align a reduction axis",
        lambda p: p.sC.storage_align(p.k, 8),
        "storage_align on stage 'C', axis 'k': it is not a dimension of the stage's result; give "
        "one of x",
    ),
    refused(
        "align a loop made by split",
        lambda p: p.sB.storage_align(p.sB.split(p.i, factor=2)[0], 8),
        "storage_align on stage 'B', axis 'i.outer': it is not a dimension of the stage's result; "
        "give one of i, j",
    ),
    refused(
        "align by position",
        lambda p: p.sB.storage_align(0, 8),
        "storage_align on stage 'B': expected an axis, got 0; give one of i, j",
    ),
    refused(
        "align to zero",
        lambda p: p.sB.storage_align(p.i, 0),
        "storage_align on stage 'B', axis 'i': the factor is 0; give a whole number of at least 1",
    ),
    refused(
        "align with a negative offset",
        lambda p: p.sB.storage_align(p.i, 8, -1),
        "storage_align on stage 'B', axis 'i': the offset is -1; give a whole number of at least 0",
    ),
    refused(
        "align with an offset as large as the factor",
        lambda p: p.sB.storage_align(p.i, 8, 8),
        "storage_align on stage 'B', axis 'i': the offset 8 is not less than the factor 8; give a "
        "smaller one",
    ),
    refused(
        "align twice",
        lambda p: [p.sB.storage_align(p.i, 8), p.sB.storage_align(p.i, 4)],
        "storage_align on stage 'B', axis 'i': it is aligned already; align each dimension once",
    ),
    refused(
        "align an output",
        lambda p: p.sD.storage_align(p.y, 8),
        f"storage_align on stage 'D': {NO_OUTPUT}",
    ),
    refused(
        "lay an output out",
        lambda p: p.sD.transform_layout(lambda y, x: (x, y)),
        f"transform_layout on stage 'D': {NO_OUTPUT}",
    ),
    refused(
        "lay out twice",
        lambda p: [p.sB.transform_layout(lambda i, j: (j, i)) for _ in range(2)],
        "transform_layout on stage 'B': it has a layout already; give one map that does both",
    ),
    refused(
        "lay out what is aligned",
        lambda p: [p.sB.storage_align(p.i, 8), p.sB.transform_layout(lambda i, j: (j, i))],
        "transform_layout on stage 'B', axis 'i': it is aligned already; transform_layout it first",
    ),
    refused(
        "lay out by a list",
        lambda p: p.sB.transform_layout([1, 0]),
        "transform_layout on stage 'B': expected a function of its 2 indices, got [1, 0]; give "
        "one, as in lambda i, j: (j, i)",
    ),
    refused(
        "lay out by too few indices",
        lambda p: p.sB.transform_layout(lambda i: i),
        "transform_layout on stage 'B': the map does not fit: too many positional arguments; it "
        "gets the indices i, j",
    ),
    refused(
        "lay out by sums",
        lambda p: p.sB.transform_layout(lambda i, j: i * 8 + j),
        "transform_layout on stage 'B': the map gives `((i*8) + j)`; give axes (i, j) or parts of "
        "them, as in i // 8, i % 8, i // 8 % 4; each axis whole or in all its parts",
    ),
    refused(
        "lay out by something else",
        lambda p: p.sB.transform_layout(lambda i, j: (i, "j")),
        "transform_layout on stage 'B': the map gives 'j', which is not an index; give axes (i, "
        "j) or parts of them, as in i // 8, i % 8, i // 8 % 4; each axis whole or in all its parts",
    ),
    refused(
        "leave a dimension out",
        lambda p: p.sB.transform_layout(lambda i, j: j),
        "transform_layout on stage 'B': axis 'i' is not among the indices: its elements would "
        "share a place; give i itself, or i // n and i % n",
    ),
    refused(
        "leave a part out",
        lambda p: p.sB.transform_layout(lambda i, j: (j, i // 8, i % 4)),
        "transform_layout on stage 'B': `floordiv(i, 8)`, `floormod(i, 4)`: not every element "
        "along axis 'i' has a place, and only one; give i itself, or i // n and i % n",
    ),
    refused(
        "divide a remainder",
        lambda p: p.sB.transform_layout(lambda i, j: (i // 4, i % 4 // 2, i % 2, j)),
        "transform_layout on stage 'B': the map gives `floordiv(floormod(i, 4), 2)`, which "
        "divides a remainder; give axes (i, j) or parts of them, as in i // 8, i % 8, i // 8 % 4; "
        "each axis whole or in all its parts",
    ),
    refused(
        "cut by a negative number",
        lambda p: p.sB.transform_layout(lambda i, j: (i // -2, i % -2, j)),
        "transform_layout on stage 'B', axis 'i': the divisor is -2; give a whole number of at "
        "least 1",
    ),
    refused(
        "inline what is laid out",
        lambda p: [p.sB.transform_layout(lambda i, j: (j, i)), p.sB.compute_inline()],
        "compute_inline on stage 'B': its storage was decided on already, and inline it has none; "
        "leave one of the two",
    ),
    refused(
        "buffer a placeholder twice",
        lambda p: p.sA.double_buffer(),
        f"double_buffer on stage 'A': {NOT_GIVEN}",
    ),
    refused(
        "buffer by an unknown way",
        lambda p: p.sB.double_buffer("cache"),
        "double_buffer on stage 'B': there is no way through 'cache'; give 'registers' or 'copies'",
    ),
    refused(
        "buffer an output twice",
        lambda p: p.sD.double_buffer(),
        f"double_buffer on stage 'D': {NO_OUTPUT}",
    ),
    refused(
        "store where a number is",
        lambda p: p.sC.set_store_predicate(1),
        "set_store_predicate on stage 'C': `1` is int32, no condition; compare it with something",
    ),
    refused(
        "store where a text is",
        lambda p: p.sC.set_store_predicate("threadIdx.x == 0"),
        "set_store_predicate on stage 'C': 'threadIdx.x == 0' is not a condition; give one, as in "
        "tx.equal(0)",
    ),
    refused(
        "store by a thread that no loop is bound to",
        lambda p: p.sC.set_store_predicate(te.thread_axis("threadIdx.x").equal(0)),
        "set_store_predicate on stage 'C': `(threadIdx.x == 0)` depends on 'threadIdx.x', which is "
        "neither a dimension of it (x) nor a thread axis that a loop is bound to; bind it first",
    ),
    refused(
        "store where an element has a value",
        lambda p: p.sC.set_store_predicate(p.D[0] > 0),
        "set_store_predicate on stage 'C': `D[0]` is more than arithmetic of integers; leave "
        "floats, tensors and calls out",
    ),
]

CACHE = [
    refused(
        "a copy in an unknown scope",
        lambda p: p.s.cache_read(p.A, "l1", [p.B]),
        "cache_read: there is no scope 'l1'; give one of global, shared, local",
    ),
    refused(
        "a copy for a stage that does not read it",
        lambda p: p.s.cache_read(p.A, "local", [p.D]),
        "cache_read on stage 'D': it does not read 'A'; its readers are: B",
    ),
    refused(
        "a copy for nobody",
        lambda p: p.s.cache_read(p.A, "local", []),
        "cache_read on stage 'A': no reader is given; its readers are: B",
    ),
    refused(
        "a copy for one reader twice",
        lambda p: p.s.cache_read(p.A, "local", [p.B, p.B]),
        "cache_read on stage 'B': it is given twice as a reader; give each reader once",
    ),
    refused(
        "a copy of a foreign tensor",
        lambda p: p.s.cache_read(te.placeholder((3,), name="Z"), "local", [p.B]),
        "'Z' is not a stage of this schedule; it has: A, B, C, D",
    ),
    refused(
        "a copy for a stage",
        lambda p: p.s.cache_read(p.A, "local", [p.sB]),
        "<stage B> is not a stage of this schedule; it has: A, B, C, D",
    ),
    refused(
        "a copy of an operation",
        lambda p: p.s.cache_read(p.A.op, "local", [p.B]),
        "cache_read: expected a tensor first, got <PlaceholderOp A>; give one, as in C",
    ),
    refused(
        "a copy of a text",
        lambda p: p.s.cache_read("A", "local", [p.B]),
        "cache_read: expected a tensor first, got 'A'; give one, as in C",
    ),
    refused(
        "a cache of a placeholder",
        lambda p: p.s.cache_write(p.A, "local"),
        "cache_write on stage 'A': a placeholder is given by the caller and not computed; use "
        "cache_read",
    ),
    refused(
        "a cache in an unknown scope",
        lambda p: p.s.cache_write(p.C, "L1"),
        "cache_write: there is no scope 'L1'; give one of global, shared, local",
    ),
    refused(
        "a cache of no tensor",
        lambda p: p.s.cache_write([], "local"),
        "[] is not a stage of this schedule; it has: A, B, C, D",
    ),
    refused(
        "a cache of two stages",
        lambda p: p.s.cache_write([p.B, p.C], "local"),
        "cache_write on stage 'B': 'C' is another stage; give tensors of one operation at a time",
    ),
    refused(
        "a cache after a split",
        lambda p: [p.sC.split(p.k, factor=2), p.s.cache_write(p.C, "local")],
        "cache_write on stage 'C': its loops were changed already; cache_write it first",
    ),
    refused(
        "a cache after another order",
        lambda p: [p.sB.reorder(p.j, p.i), p.s.cache_write(p.B, "local")],
        "cache_write on stage 'B': its loops were changed already; cache_write it first",
    ),
    refused(
        "a cache after a loop was bound",
        lambda p: [p.sB.bind(p.i, te.thread_axis("threadIdx.x")), p.s.cache_write(p.B, "local")],
        "cache_write on stage 'B': its loops were changed already; cache_write it first",
    ),
    refused(
        "a cache of a stage with another one inside",
        lambda p: [p.sB.compute_at(p.sC, p.x), p.s.cache_write(p.C, "local")],
        "cache_write on stage 'C', axis 'x': stage 'B' is computed at it; cache_write it first",
    ),
    refused(
        "a cache of a stage that is computed ahead",
        lambda p: [p.sC.compute_at(p.sD, p.y), p.sC.double_buffer(), p.s.cache_write(p.C, "local")],
        "cache_write on stage 'C': it is double-buffered already; cache_write it first",
    ),
    refused(
        "partial results of a stage that is computed ahead",
        lambda p: [p.sC.compute_at(p.sD, p.y), p.sC.double_buffer(), p.s.rfactor(p.C, p.k)],
        "rfactor on stage 'C': it is double-buffered already; rfactor it first",
    ),
    refused(
        "a cache of an inlined stage",
        lambda p: [p.sB.compute_inline(), p.s.cache_write(p.B, "local")],
        f"cache_write on stage 'B': {INLINED}",
    ),
    refused(
        "the reduction axis that went to the cache",
        tensor_of_the_cache,
        "split on stage 'C', axis 'k': it belongs to stage 'C.local'; give one of the loops of "
        "'C': x",
    ),
    refused(
        "factor a reduction with a stage inside",
        lambda p: [p.sB.compute_at(p.sC, p.k), p.s.rfactor(p.C, p.k)],
        "rfactor on stage 'C', axis 'k': stage 'B' is computed at it; rfactor it first",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), [*STORE, *CACHE])
def test_a_mistake_is_told_in_one_line(
    make: Callable[[Program], object], error: type[AutotuneError], message: str
) -> None:
    assert_refused(make, error, message)
