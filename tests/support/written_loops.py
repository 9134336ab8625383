"""Loops that tests write themselves, and what passes make of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.ir import ops
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import Buffer, Expr, SizeVar, Var
from autotune.ir.stmt import For, FunctionInfo, If, LoopKind, PrimFunc, Stmt
from autotune.ir.visitor import walk
from support.verify import verify


def loop(var: Var, extent: int | Expr, body: Stmt, kind: LoopKind = LoopKind.SERIAL) -> For:
    """Return a loop from 0; one of threads is over threadIdx.x."""
    tag = "threadIdx.x" if kind is LoopKind.THREAD else ""
    return For(var, ops.convert(extent), kind, body, tag)


def changed(
    rule: Callable[[PrimFunc], PrimFunc],
    body: Stmt,
    params: tuple[Buffer, ...],
    *inputs: npt.NDArray[Any],
    sizes: Sequence[Mapping[SizeVar, int]] = ({},),
    info: FunctionInfo | None = None,
) -> PrimFunc:
    """Return what a pass makes of a function, and check that it computes the same.

    The last parameter is the output; `sizes` are tried one after the other.
    """
    output = params[-1]
    function = PrimFunc("f", params, frozenset({output}), body, tuple(sizes[0]))
    function = verify(function if info is None else replace(function, info=info))
    after = verify(rule(function))
    shape = [int(extent.value) for extent in output.shape]
    for values in sizes:
        results = [np.zeros(shape, output.dtype) for _ in range(2)]
        for form, out in zip((function, after), results, strict=True):
            interpret(form, [*inputs, out], values)
        np.testing.assert_array_equal(*results)
    return after


def conditions(function: PrimFunc) -> list[str]:
    """Return the conditions of statements, in order."""
    return [str(stmt.condition) for stmt in walk(function.body) if isinstance(stmt, If)]
