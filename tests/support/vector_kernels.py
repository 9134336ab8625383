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

from autotune.ir import dtypes, ops
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import Expr, Var
from autotune.ir.stmt import For, LoopKind, PrimFunc, Stmt
from autotune.ir.visitor import walk
from autotune.lowering.vector.vectorize import vectorize
from autotune.runtime.cpu.llvm_compiler import CompiledFunction, compile_function
from autotune.runtime.object_cache import ObjectCache
from support.llvm_kernels import i32
from support.verify import verify

Array = npt.NDArray[Any]
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool")
_libc = ctypes.CDLL(None, use_errno=True)
_NO_ACCESS = 0  # PROT_NONE


def values(dtype: str, n: int, seed: int = 0) -> Array:
    """Small whole numbers, so that sums and products are exact."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    low = 0 if dtypes.is_unsigned(dtype) else -20
    return rng.integers(low, 20, n).astype(dtypes.numpy_dtype(dtype))


def also(*conditions: Expr) -> Expr:
    """All conditions at once."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = ops.binary("and", result, condition)
    return result


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


def loop(
    extent: int | Expr,
    body: Callable[[Var], Stmt],
    kind: LoopKind = LoopKind.VECTORIZED,
    name: str = "v",
) -> For:
    """Return a loop over a fresh variable, vectorized unless told otherwise."""
    var = Var(name)
    return For(var, i32(extent) if isinstance(extent, int) else extent, kind, body(var))


def agree(function: PrimFunc, inputs: Sequence[Array], out: Array) -> CompiledFunction:
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
