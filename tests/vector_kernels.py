"""Small functions with vector loops, run in every way on arrays that lie against unmapped pages.

What a compiled kernel touches beyond an array, on either side, is a crash and not a wrong number.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.ir import ops
from autotune.ir.expr import Buffer, Const, Expr, Var
from autotune.ir.interpreter import interpret
from autotune.ir.stmt import For, Function, LoopKind, Stmt
from autotune.ir.verify import verify
from autotune.ir.visitor import walk
from autotune.lowering.vectorize import vectorize
from autotune.runtime.cache import ObjectCache
from autotune.runtime.llvm import CompiledFunction, compile_function

Array = npt.NDArray[Any]
_libc = ctypes.CDLL(None, use_errno=True)
_NO_ACCESS = 0  # PROT_NONE


def fenced(array: Array, at_end: bool) -> Array:
    """Copy of an array that ends where a page without access begins, or starts after one."""
    page = mmap.PAGESIZE
    inner = max(page, -(-array.nbytes // page) * page)
    memory = mmap.mmap(-1, inner + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for fence in (start, start + page + inner):
        if _libc.mprotect(ctypes.c_void_p(fence), ctypes.c_size_t(page), _NO_ACCESS):
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = page + (inner - array.nbytes if at_end else 0)
    copy = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
    copy[...] = array
    return copy


def i32(value: int) -> Const:
    """Constant for an index."""
    return Const(value, "int32")


def buffer(name: str, dtype: str, *shape: int | Expr, scope: str = "global") -> Buffer:
    """Return a buffer of constant or symbolic extents."""
    sizes = tuple(i32(s) if isinstance(s, int) else s for s in shape)
    return Buffer(name, dtype, sizes, scope)


def loop(
    extent: int | Expr,
    body: Callable[[Var], Stmt],
    kind: LoopKind = LoopKind.VECTORIZED,
    name: str = "v",
) -> For:
    """Return a loop over a fresh variable, vectorized unless told otherwise."""
    var = Var(name)
    return For(var, i32(extent) if isinstance(extent, int) else extent, kind, body(var))


def agree(function: Function, inputs: Sequence[Array], out: Array) -> CompiledFunction:
    """Run the loops, their vectors and the machine code; all write the same into copies of `out`.

    `out` is the last parameter. Returns the compiled function, whose texts tests look at.
    """
    vectors = verify(vectorize(function))
    expected = out.copy()
    interpret(verify(function), [*inputs, expected])
    told = out.copy()
    interpret(vectors, [*inputs, told])
    np.testing.assert_array_equal(told, expected, "interpreted vectors")
    kernel = compile_function(vectors, "llvm -threads=2", cache=ObjectCache(None))
    for at_end in (True, False):
        result = fenced(out, at_end)
        kernel(*(fenced(array, at_end) for array in inputs), result)
        np.testing.assert_array_equal(result, expected, "compiled vectors")
    return kernel


def serial_loops(kernel: CompiledFunction) -> list[str]:
    """Names of the loops that are left."""
    return [stmt.var.name for stmt in walk(kernel.function.body) if isinstance(stmt, For)]


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
