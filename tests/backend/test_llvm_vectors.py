"""Vector loads and stores compiled by LLVM: what they touch, and that they are vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.llvm_kernels import buffer, i32
from support.vector_kernels import DTYPES, agree, also, loop, serial_loops, values

from autotune.ir import ops
from autotune.ir.expr import Const, Expr, Load, SizeVar, Var
from autotune.ir.stmt import Allocate, If, LoopKind, PrimFunc, Stmt, Store, seq

SERIAL = LoopKind.SERIAL


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [2, 3, 4, 5, 8, -1, -2, -3, -8])
def test_strided_loads_are_few_wide_loads_and_shuffles(stride: int, dtype: str) -> None:
    lanes, n = 16, abs(stride) * 15 + 1
    a, out = buffer("A", dtype, n), buffer("out", dtype, lanes)
    start = 0 if stride > 0 else n - 1
    body = loop(lanes, lambda v: Store(out, v, Load(a, v * stride + start)))
    function = PrimFunc("strided", (a, out), frozenset([out]), body)
    kernel = agree(function, [values(dtype, n)], values(dtype, lanes, 1))
    loads = [line for line in kernel.source.splitlines() if " load " in line]
    assert len(loads) == -(-n // lanes)
    assert "insertelement" not in kernel.source


@pytest.mark.parametrize(
    ("name", "index", "loads"),
    [
        ("repeated", lambda v: v // 2, 1),
        ("wrapped", lambda v: v % 4, 1),
        ("wrapped and reversed", lambda v: 3 - v % 4, 1),
        ("in two pieces", lambda v: v // 8 * 12 + v % 8, 2),
        ("the same", lambda v: v * 0 + 5, 1),
    ],
)
def test_lanes_within_a_short_range_share_loads(
    name: str, index: Callable[[Expr], Expr], loads: int
) -> None:
    a, out = buffer("A", "float32", 20), buffer("out", "float32", 16)
    body = loop(16, lambda v: Store(out, v, Load(a, index(v))))
    function = PrimFunc("near", (a, out), frozenset([out]), body)
    kernel = agree(function, [values("float32", 20)], np.zeros(16, "float32"))
    assert sum(" load " in line for line in kernel.source.splitlines()) == loads, name


@pytest.mark.parametrize("stride", [9, -17, 100])
def test_lanes_far_apart_are_loaded_one_by_one(stride: int) -> None:
    n = abs(stride) * 7 + 1
    a, out = buffer("A", "float32", n), buffer("out", "float32", 8)
    start = 0 if stride > 0 else n - 1
    body = loop(8, lambda v: Store(out, v, Load(a, v * stride + start)))
    function = PrimFunc("far", (a, out), frozenset([out]), body)
    kernel = agree(function, [values("float32", n)], np.zeros(8, "float32"))
    assert kernel.source.count("load float") == 8


def test_lanes_at_distances_of_a_size_are_loaded_and_stored_one_by_one() -> None:
    """The addresses of the rows of a panel leave the loop over its columns."""
    n = SizeVar("n")
    a, out = buffer("A", "float32", 6, n), buffer("out", "float32", n, 6)

    def row(o: Expr, v: Expr) -> Expr:
        return ops.binary("min", o * 4 + v, 5)

    body = loop(
        2,
        lambda o: loop(
            n,
            lambda k: loop(4, lambda v: Store(out, k * 6 + row(o, v), Load(a, row(o, v) * n + k))),
            SERIAL,
            "k",
        ),
        SERIAL,
        "o",
    )
    function = PrimFunc("panel", (a, out), frozenset([out]), body, (n,))
    x = values("float32", 18).reshape(6, 3)
    kernel = agree(function, [x], np.zeros((3, 6), "float32"))
    assert "masked" not in kernel.source
    assert kernel.source.count("load float") == 4
    assert kernel.source.count("store float") == 4


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 5, -1, -2])
@pytest.mark.parametrize("guarded", [False, True])
def test_padding_and_strides_touch_nothing_outside(
    stride: int, guarded: bool, dtype: str
) -> None:
    """out[v] = A[stride v - 3] where that exists, else 0: a row of a padded convolution."""
    n = 30
    a, out = buffer("A", dtype, n), buffer("out", dtype, 16)
    start = -3 if stride > 0 else n + 2

    def element(v: Var) -> Stmt:
        at = v * stride + start
        inside = also(at >= 0, at < n)
        if guarded:
            return If(inside, Store(out, v, Load(a, at)))
        return Store(out, v, ops.if_then_else(inside, Load(a, at), Const(0, dtype)))

    function = PrimFunc("padded", (a, out), frozenset([out]), loop(16, element))
    kernel = agree(function, [values(dtype, n)], values(dtype, 16, 1))
    assert serial_loops(kernel) == []
    assert ("masked.load" if 0 < stride < 5 else "masked.gather") in kernel.source


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [1, -1, 2, -3])
@pytest.mark.parametrize("guarded", [False, True])
def test_stores_at_any_stride(stride: int, guarded: bool, dtype: str) -> None:
    lanes, n = 8, abs(stride) * 7 + 1
    a, out = buffer("A", dtype, lanes), buffer("out", dtype, n)
    start = 0 if stride > 0 else n - 1

    def element(v: Var) -> Stmt:
        store = Store(out, v * stride + start, Load(a, v))
        return If(v != 3, store) if guarded else store

    function = PrimFunc("put", (a, out), frozenset([out]), loop(lanes, element))
    kernel = agree(function, [values(dtype, lanes)], values(dtype, n, 1))
    assert serial_loops(kernel) == []
    if abs(stride) == 1:
        assert "extractelement" not in kernel.source


# -- indices read from memory ---------------------------------------------


INDIRECT: dict[str, Callable[[Expr], Expr]] = {
    "as it is": lambda w: w,
    "scaled": lambda w: w * 3 + 1,
    "reversed": lambda w: 15 - w,
    "divided": lambda w: w // 2,
    "wrapped": lambda w: w % 5,
    "cut": lambda w: ops.binary("min", w, 9),
}


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("case", INDIRECT)
def test_gathers_read_what_the_index_says(case: str, guarded: bool, index_dtype: str) -> None:
    table, where = buffer("T", "float32", 48), buffer("W", index_dtype, 16)
    out = buffer("out", "float32", 16)

    def element(v: Var) -> Stmt:
        store = Store(out, v, Load(table, INDIRECT[case](Load(where, v))))
        return If(v < 11, store) if guarded else store

    function = PrimFunc("take", (table, where, out), frozenset([out]), loop(16, element))
    w = np.random.default_rng(0).integers(0, 16, 16).astype(index_dtype)
    if guarded:
        w[11:] = 1_000_000_000  # what inactive lanes would read is far away
    kernel = agree(function, [values("float32", 48), w], np.zeros(16, "float32"))
    assert ("masked.gather" in kernel.source) == guarded
    assert serial_loops(kernel) == []


@pytest.mark.parametrize("guarded", [False, True])
def test_a_gathered_index_is_computed_in_64_bits(guarded: bool) -> None:
    table, where = buffer("T", "float32", 8), buffer("W", "int32", 8)
    out = buffer("out", "float32", 8)

    def element(v: Var) -> Stmt:
        # (w - 10**9) * 3 + 3 * 10**9 = 3 w, beyond 32 bits on the way.
        index = (Load(where, v) - 1_000_000_000) * 3 + ops.const(3_000_000_000)
        store = Store(out, v, Load(table, index))
        return If(v < 7, store) if guarded else store

    body = loop(8, element)
    function = PrimFunc("far", (table, where, out), frozenset([out]), body)
    agree(
        function,
        [values("float32", 8), np.array([0, 1, 2, 1, 0, 2, 2, 1], "int32")],
        np.zeros(8, "float32"),
    )


def test_rows_of_a_table_are_whole_vectors() -> None:
    table, where = buffer("T", "float32", 5 * 16), buffer("W", "int32", 4)
    out = buffer("out", "float32", 4 * 16)
    body = loop(
        4,
        lambda r: loop(16, lambda v: Store(out, r * 16 + v, Load(table, Load(where, r) * 16 + v))),
        SERIAL,
        "r",
    )
    function = PrimFunc("rows", (table, where, out), frozenset([out]), body)
    w = np.array([3, 0, 4, 3], "int32")
    kernel = agree(function, [values("float32", 80), w], np.zeros(64, "float32"))
    assert "load <16 x float>" in kernel.source
    assert "gather" not in kernel.source


@pytest.mark.parametrize("guarded", [False, True])
def test_scatters_write_lanes_in_their_order(guarded: bool) -> None:
    a, where = buffer("A", "float32", 16), buffer("W", "int32", 16)
    out = buffer("out", "float32", 9)

    def element(v: Var) -> Stmt:
        store = Store(out, Load(where, v), Load(a, v))
        return If(v % 3 < 2, store) if guarded else store

    function = PrimFunc("put", (a, where, out), frozenset([out]), loop(16, element))
    w = np.random.default_rng(0).integers(0, 9, 16).astype("int32")
    kernel = agree(function, [values("float32", 16), w], values("float32", 9, 1))
    assert ("masked.scatter" in kernel.source) == guarded
    assert serial_loops(kernel) == []


# -- loops cut into vectors -----------------------------------------------


@pytest.mark.parametrize("extent", [0, 1, 13, 65, 67, 134])
def test_loops_of_any_length_are_vectors(extent: int) -> None:
    a, out = buffer("A", "float32", extent), buffer("out", "float32", extent)
    body = loop(extent, lambda v: Store(out, v, Load(a, v) * Load(a, v)))
    function = PrimFunc("square", (a, out), frozenset([out]), body)
    kernel = agree(function, [values("float32", extent)], np.zeros(extent, "float32"))
    assert ("load float" in kernel.source) == (extent in (1, 65))


def test_loops_over_a_size_end_in_a_masked_vector() -> None:
    n = SizeVar("n")
    a, out = buffer("A", "float32", n), buffer("out", "float32", n)
    body = loop(n, lambda v: Store(out, v, Load(a, v) * Load(a, v)))
    function = PrimFunc("square", (a, out), frozenset([out]), body, (n,))
    for size in (0, 1, 15, 16, 17, 50):
        kernel = agree(function, [values("float32", size)], np.zeros(size, "float32"))
    assert "load float" not in kernel.source


def test_what_each_iteration_allocates_is_vectors_in_registers() -> None:
    a, out = buffer("A", "float32", 48), buffer("out", "float32", 16)
    own = buffer("own", "float32", 3, scope="local")

    def element(v: Var) -> Stmt:
        def fill(k: Var) -> Stmt:
            return Store(own, k, Load(a, k * 16 + v) * Load(a, v))

        total = Load(own, i32(0)) + Load(own, i32(1)) - Load(own, i32(2))
        body = seq(loop(3, fill, LoopKind.UNROLLED, "k"), Store(out, v, total))
        return Allocate(own, If(v < 13, body))

    function = PrimFunc("each", (a, out), frozenset([out]), loop(16, element))
    kernel = agree(function, [values("float32", 48)], np.zeros(16, "float32"))
    assert "load float" not in kernel.source
    assert "alloca" not in kernel.optimised()
