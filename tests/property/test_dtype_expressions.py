"""Random expressions over all data types: simplified, interpreted and compiled, they agree exactly.

Left out are products of float32 and float64, which LLVM may fuse with additions, rounding less, and
extrema of floats, for which either of two zeros is right. AUTOTUNE_EXAMPLES=5000 runs more.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.dtype_values import Array, assert_same, edges
from support.verify import verify

from autotune.ir import dtypes, ops
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import Buffer, Const, Expr, Load, Var
from autotune.ir.stmt import For, LoopKind, PrimFunc, Store
from autotune.lowering.finalise import analyse, finalise
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache

EXAMPLES = int(os.environ.get("AUTOTUNE_EXAMPLES", "0"))
N = 16
DEPTH = 3
SIZE = (ops.const(N),)
POSITION = Var("i")
INPUTS = {dtype: Buffer(f"in_{dtype}", dtype, SIZE) for dtype in dtypes.ALL}


def leaf(draw: Any, dtype: str) -> Expr:
    """An element of memory, a constant, or the loop's variable."""
    kind = draw(st.sampled_from(("load", "load", "constant", "variable")))
    if kind == "load":
        return Load(INPUTS[dtype], POSITION)
    if kind == "variable" and dtype != "bool":
        return ops.cast(dtype, POSITION)
    if dtypes.is_index(dtype):  # small, as indices do not overflow
        return Const(draw(st.integers(-3, 3)), dtype)
    return Const(draw(st.sampled_from(list(edges(dtype)))), dtype)


def expression(draw: Any, dtype: str, depth: int = DEPTH) -> Expr:
    """Return a random expression of type `dtype`."""
    if depth == 0:
        return leaf(draw, dtype)

    def part(kind: str = dtype) -> Expr:
        return expression(draw, kind, depth - 1)

    if dtype == dtypes.BOOL:
        kind = draw(st.sampled_from(dtypes.NUMBERS))
        op = draw(st.sampled_from(("==", "!=", "<", "<=", ">", ">=")))
        choice = draw(st.sampled_from(("compare", "compare", "and", "or", "not")))
        if choice == "compare":
            return ops.binary(op, part(kind), part(kind))
        return ops.logical_not(part()) if choice == "not" else ops.binary(choice, part(), part())
    choices = ["+", "-", "select", "cast", "cast"]
    if dtypes.is_integer(dtype):
        choices += ["*", "//", "%", "min", "max"]
    elif dtypes.is_half(dtype):
        choices += ["*", "/"]
    choice = draw(st.sampled_from(choices))
    if choice == "cast":
        return ops.cast(dtype, part(draw(st.sampled_from(dtypes.ALL))))
    if choice == "select":
        return ops.select(part("bool"), part(), part())
    if choice in ("//", "%"):
        divisor = draw(st.sampled_from([d for d in (1, 2, 3, 7, -1, -4) if dtypes.fits(d, dtype)]))
        return ops.binary(choice, part(), Const(divisor, dtype))
    return ops.binary(choice, part(), part())


@st.composite
def functions(draw: Any) -> PrimFunc:
    """A loop that stores a random expression."""
    dtype = draw(st.sampled_from(dtypes.ALL))
    out = Buffer("out", dtype, SIZE)
    kind = draw(st.sampled_from((LoopKind.SERIAL, LoopKind.VECTORIZED)))
    body = For(POSITION, ops.const(N), kind, Store(out, POSITION, expression(draw, dtype)))
    return verify(PrimFunc("f", (*INPUTS.values(), out), frozenset([out]), body))


def inputs(seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    drawn = {dtype: rng.choice(edges(dtype), N) for dtype in dtypes.ALL}
    for dtype in ("int32", "int64"):
        drawn[dtype] = rng.integers(-9, 9, N).astype(dtype)
    return list(drawn.values())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=EXAMPLES or 30, derandomize=not EXAMPLES, deadline=None, database=None)
@given(functions(), st.integers(0, 99))
def test_expressions_of_mixed_types_mean_the_same_everywhere(function: PrimFunc, seed: int) -> None:
    analysed = verify(analyse(function))
    final = verify(finalise(analysed))
    kernel = compile_function(final, cache=ObjectCache(None))
    kind = dtypes.numpy_dtype(function.params[-1].dtype)
    results = []
    for run in (function, analysed, final, kernel):
        result = np.zeros(N, kind)
        if isinstance(run, PrimFunc):
            interpret(run, [*inputs(seed), result])
        else:
            run(*inputs(seed), result)
        results.append(result)
    for other in results[1:]:
        assert_same(other, results[0])
