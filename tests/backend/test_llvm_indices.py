"""Vector indices and index arithmetic compiled by LLVM against NumPy and the interpreter."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.llvm_kernels import (
    PARALLEL,
    SERIAL,
    UNROLLED,
    VECTORIZED,
    buffer,
    check,
    compiled,
    i32,
    loop,
    poisoned,
    random_index,
    values,
)
from support.slow_cases import every

from autotune.codegen.llvm import emit
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import Broadcast, Expr, Load, Ramp, SizeVar, Var
from autotune.ir.stmt import For, LoopKind, PrimFunc, Stmt, Store, seq


def one_vector(index: Expr, size: int = 64, dtype: str = "float32") -> PrimFunc:
    """out[ramp] = A[index]."""
    a, out = buffer("A", dtype, size), buffer("out", dtype, index.lanes)
    store = Store(out, Ramp(i32(0), i32(1), index.lanes), Load(a, index))
    return PrimFunc("gather", (a, out), frozenset([out]), store)


VECTOR_INDICES = {
    "contiguous": (Ramp(i32(3), i32(1), 8), [3, 4, 5, 6, 7, 8, 9, 10]),
    "strided": (Ramp(i32(1), i32(5), 8), [1, 6, 11, 16, 21, 26, 31, 36]),
    "reversed": (Ramp(i32(20), i32(-1), 6), [20, 19, 18, 17, 16, 15]),
    "repeated": (Broadcast(i32(7), 4), [7, 7, 7, 7]),
    "divided": (Ramp(i32(2), i32(1), 6) // Broadcast(i32(2), 6), [1, 1, 2, 2, 3, 3]),
    "wrapped": (Ramp(i32(2), i32(1), 6) % Broadcast(i32(3), 6), [2, 0, 1, 2, 0, 1]),
    "sum of both": (
        Ramp(i32(8), i32(1), 4) % Broadcast(i32(4), 4) + Broadcast(i32(9), 4),
        [9, 10, 11, 12],
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@pytest.mark.parametrize("name", VECTOR_INDICES)
def test_vector_loads_of_every_form(name: str, dtype: str) -> None:
    index, expected = VECTOR_INDICES[name]
    a = values(dtype, 64)
    check(one_vector(index, dtype=dtype), [a], a[expected])


def test_consecutive_lanes_load_as_one_vector() -> None:
    kernel = compiled(one_vector(VECTOR_INDICES["sum of both"][0]))
    assert "load <4 x float>" in kernel.source


@pytest.mark.parametrize("kind", [SERIAL, UNROLLED, VECTORIZED, PARALLEL])
@pytest.mark.parametrize("divisor", [1, 2, 3, 8, -3])
def test_loop_variables_divide_rounding_down(divisor: int, kind: LoopKind) -> None:
    out = buffer("out", "int32", 48)
    body = loop(
        24,
        kind,
        lambda i: seq(
            Store(out, i * 2, (i - 11) // divisor), Store(out, i * 2 + 1, (i - 11) % divisor)
        ),
    )
    i = np.arange(24) - 11
    expected = np.stack([i // divisor, i % divisor], axis=1).reshape(-1).astype("int32")
    check(PrimFunc("divide", (out,), frozenset([out]), body), [], expected)


def test_sizes_divide_rounding_down() -> None:
    n, m = SizeVar("n"), SizeVar("m")
    a, b, out = buffer("A", "int32", n), buffer("B", "int32", m), buffer("out", "int32", 4)
    body = seq(
        Store(out, i32(0), (n - 10) // m),
        Store(out, i32(1), (n - 10) % m),
        Store(out, i32(2), n // (0 - m)),
        Store(out, i32(3), n % (0 - m)),
    )
    function = PrimFunc("sizes", (a, b, out), frozenset([out]), body, (n, m))
    for size_n, size_m in [(3, 4), (17, 4), (2, 8), (8, 4)]:
        expected = [(size_n - 10) // size_m, (size_n - 10) % size_m]
        expected += [size_n // -size_m, size_n % -size_m]
        arrays = [np.zeros(size_n, "int32"), np.zeros(size_m, "int32")]
        check(function, arrays, np.array(expected, "int32"))


def test_indices_are_computed_in_64_bits() -> None:
    a, out = buffer("A", "float32", 1), buffer("out", "float32", 1)
    far = Var("far")
    # 3 * 10**9 - 3 * 10**9: beyond int32 on the way.
    index = far * 1_000_000_000 * 3 - far * 1_000_000_000 * 3
    body = For(far, i32(2), SERIAL, Store(out, i32(0), Load(a, index)))
    check(PrimFunc("wide", (a, out), frozenset([out]), body), [np.ones(1, "float32")],
          np.ones(1, "float32"))  # fmt: skip


@pytest.mark.parametrize("kind", [SERIAL, UNROLLED, VECTORIZED, PARALLEL])
@pytest.mark.parametrize("seed", every(2, range(6)))
def test_random_index_arithmetic_agrees_with_the_interpreter(seed: int, kind: LoopKind) -> None:
    """Values, and positions in a table, of random expressions over loop and size variables."""
    rng = np.random.default_rng(seed)
    n, count = SizeVar("n"), 12
    table, out = buffer("T", "int32", n), buffer("out", "int32", count, 2, 40)

    def point(i: Var, j: Var) -> Stmt:
        stores = []
        for k in range(count):
            index = random_index(rng, [i, j, i * 8 + j, n], 4)
            at = k * 80 + i * 8 + j
            stores.append(Store(out, at, index))
            stores.append(Store(out, at + 40, Load(table, index % n)))
        return seq(*stores)

    body = loop(5, SERIAL, lambda i: loop(8, kind, lambda j: point(i, j), "j"))
    function = PrimFunc("random", (table, out), frozenset([out]), body, (n,))
    x = rng.integers(-100, 100, 13).astype("int32")
    told = poisoned("int32", count, 2, 40)
    interpret(function, [x, told])
    check(function, [x], told)


def test_innermost_loops_step_by_additions_and_outer_loops_multiply() -> None:
    i, j, a, out = Var("i"), Var("j"), buffer("A", "float32", 4 * 40), buffer("out", "float32", 32)
    store = Store(out, i * i32(8) + j, Load(a, i * i32(40) + j * i32(5)))
    body = For(i, i32(4), SERIAL, For(j, i32(8), SERIAL, store))
    function = PrimFunc("nested", (a, out), frozenset([out]), body)
    data = values("float32", 4 * 40)
    check(function, [data], data.reshape(4, 8, 5)[:, :, 0].reshape(-1))
    blocks = re.split(r"\n(?=[\w.]+:)", emit(function).text)
    outer, inner = (next(b for b in blocks if b.startswith(f"loop.{name}.")) for name in "ij")
    assert (outer.count(" = mul "), outer.count(" = phi ")) == (2, 1)
    assert (inner.count(" = mul "), inner.count(" = phi ")) == (0, 2)
