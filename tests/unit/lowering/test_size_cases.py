"""Unrolled loops over equal parts of a size have constant lengths in copies of the code."""

from dataclasses import replace

import pytest
from support.verify import verify
from support.written_loops import changed

from autotune.ir import ops
from autotune.ir.algebra.simplify_expr import Canonical
from autotune.ir.expr import Buffer, Const, Load, SizeVar, Var
from autotune.ir.ops import binary, const
from autotune.ir.stmt import Allocate, For, If, LoopKind, PrimFunc, Store
from autotune.ir.visitor import walk
from autotune.lowering.vector.size_cases import even_part, join_copies, split_by_size

N, M, ROW = SizeVar("n"), SizeVar("m"), Var("row")
OUT = Buffer("out", "int32", (const(32),))


def unrolled(extent, kind=LoopKind.UNROLLED):
    body = Store(OUT, ROW, binary("+", Load(OUT, ROW), ops.convert(1)))
    loop = For(ROW, Canonical().expr(ops.convert(extent)), kind, body, "")
    return verify(PrimFunc("f", (OUT,), frozenset({OUT}), loop, (N, M)))


def lengths(function):
    loops = (stmt for stmt in walk(function.body) if isinstance(stmt, For))
    return [int(s.extent.value) if isinstance(s.extent, Const) else None for s in loops]


@pytest.mark.parametrize(("size", "most", "part"), [(12, 8, 6), (49, 8, 7), (8, 8, 8), (3, 8, 3)])
def test_parts_of_a_size_are_as_equal_as_can_be(size, most, part):
    assert even_part(size, most) == part


@pytest.mark.parametrize("most", [1, 2, 3, 8, 14])
def test_parts_cover_a_size_and_only_small_sizes_have_parts_below_half_of_the_largest(most):
    for size in range(5 * most):
        part = even_part(size, most)
        parts = -(-size // part)
        assert 1 <= part <= most
        assert (part - 1) * parts < size or part == 1
        assert part in (size, 1) or 2 * part > most


@pytest.mark.parametrize("most", [2, 3, 8])
def test_each_length_of_a_part_has_a_copy_and_all_compute_the_same(most):
    sizes = [{N: size, M: 0} for size in range(4 * most)]
    before = unrolled(even_part(N, most))
    after = changed(lambda f: join_copies(split_by_size(f)), before.body, (OUT,), sizes=sizes)
    assert lengths(after) == [*range(1, most + 1)]


def test_storage_of_all_copies_is_allocated_once():
    shared, own = Buffer("shared", "int32", (const(32),)), Buffer("own", "int32", (const(32),))
    copies = split_by_size(unrolled(even_part(N, 3)))
    for number, copy in enumerate(copies):
        body = Allocate(shared, copy.function.body)
        body = body if number else Allocate(own, body)
        copies[number] = replace(copy, function=copy.function.with_body(body))
    joined = verify(join_copies(copies))
    allocations = [stmt for stmt in walk(joined.body) if isinstance(stmt, Allocate)]
    assert [stmt.buffer for stmt in allocations] == [shared, own]
    assert joined.body is allocations[0]


def test_the_code_for_a_small_size_knows_it():
    before = unrolled(even_part(N, 8))
    tested = before.body.with_body(If(binary("<", N, const(7)), before.body.body, None))
    copies = [copy.function.body for copy in split_by_size(before.with_body(tested))]
    open_tests = [any(isinstance(stmt, If) for stmt in walk(body)) for body in copies]
    assert open_tests == [False] * 4 + [True] * 2 + [False] * 2  # 5 of 5 and 9, 6 of 6 and 12, ...


@pytest.mark.parametrize(
    "extent",
    [
        const(4),
        even_part(N, 100),
        even_part(N, even_part(M, 4)),
        binary("max", const(1), binary("min", const(4), N)),
    ],
    ids=["constant", "many", "two sizes", "no parts"],
)
def test_other_lengths_have_no_copies(extent):
    before = unrolled(extent)
    (copy,) = split_by_size(before)
    assert join_copies([copy]) is before


def test_loops_that_are_not_unrolled_have_no_copies():
    before = unrolled(even_part(N, 4), LoopKind.SERIAL)
    (copy,) = split_by_size(before)
    assert copy.function is before
