"""Small functions of one operation or loop, compiled, interpreted and compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.ir import ops
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import Buffer, Const, Expr, Load, Var
from autotune.ir.stmt import For, LoopKind, PrimFunc, Stmt, Store
from autotune.lowering.vector.vectorize import vectorize
from autotune.runtime.cpu.llvm_compiler import CompiledFunction, compile_function
from autotune.runtime.object_cache import ObjectCache

Array = npt.NDArray[Any]
SERIAL, PARALLEL = LoopKind.SERIAL, LoopKind.PARALLEL
UNROLLED, VECTORIZED = LoopKind.UNROLLED, LoopKind.VECTORIZED
LANES = 8
INTEGERS = ("int32", "int64")


def i32(value: int) -> Const:
    return Const(value, "int32")


def buffer(name: str, dtype: str, *shape: int | Expr, scope: str = "global") -> Buffer:
    sizes = tuple(i32(s) if isinstance(s, int) else s for s in shape)
    return Buffer(name, dtype, sizes, scope)


def loop(extent: int | Expr, kind: LoopKind, body: Callable[[Var], Stmt], name: str = "i") -> For:
    var = Var(name)
    return For(var, i32(extent) if isinstance(extent, int) else extent, kind, body(var))


def compiled(function: PrimFunc, target: str = "llvm -threads=2") -> CompiledFunction:
    return compile_function(vectorize(function), target, cache=ObjectCache(None))


def poisoned(dtype: str, *shape: int) -> Array:
    array = np.zeros(shape, dtype)
    array.view(np.uint8)[...] = 1 if dtype == "bool" else 0xA5
    return array


def check(
    function: PrimFunc, inputs: list[Array], expected: Array, tolerance: float = 0.0
) -> CompiledFunction:
    """Compiled, interpreted and expected results agree."""
    kernel = compiled(function)
    out = poisoned(expected.dtype.name, *expected.shape)
    kernel(*inputs, out)
    np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)
    told = poisoned(expected.dtype.name, *expected.shape)
    interpret(function, [*inputs, told])
    np.testing.assert_allclose(out, told, rtol=tolerance, atol=tolerance)
    return kernel


def elementwise(
    expr: Callable[..., Expr],
    dtypes: tuple[str, ...],
    out: str,
    kind: LoopKind,
    n: int = 2 * LANES,
) -> PrimFunc:
    """out[i] = expr(in0[i], in1[i], ...)."""
    inputs = [buffer(f"in{k}", dtype, n) for k, dtype in enumerate(dtypes)]
    result = buffer("out", out, n)
    body = loop(
        n // LANES,
        SERIAL,
        lambda o: loop(
            LANES,
            kind,
            lambda i: Store(result, o * LANES + i, expr(*(Load(b, o * LANES + i) for b in inputs))),
        ),
        "o",
    )
    return PrimFunc("elementwise", (*inputs, result), frozenset([result]), body)


def values(dtype: str, n: int = 2 * LANES, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if dtype in INTEGERS:
        return rng.integers(-20, 20, n).astype(dtype)
    return rng.normal(0, 3, n).astype(dtype)


ALL = ("float32", "float64", "int32", "int64", "bool")


def random_index(rng: np.random.Generator, leaves: list[Expr], depth: int) -> Expr:
    """Integer arithmetic over `leaves`; divisors are constants of either sign or a size."""
    if depth == 0 or rng.random() < 0.15:
        return leaves[rng.integers(len(leaves))] if rng.random() < 0.8 else i32(rng.integers(-9, 9))
    a, b = (random_index(rng, leaves, depth - 1) for _ in range(2))
    op = ["+", "-", "*", "//", "%", "min", "max"][rng.integers(7)]
    if op in ("//", "%"):
        b = leaves[-1] if rng.random() < 0.2 else i32(int(rng.choice([-5, -2, 1, 2, 3, 4, 7, 16])))
    if op == "*":
        b = i32(int(rng.integers(-4, 5)))
    return ops.binary(op, a, b)
