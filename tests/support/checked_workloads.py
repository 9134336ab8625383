"""Small workloads over all operators, on which right and wrong kernels are tried."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune import te
from autotune.ir import dtypes
from autotune.task.task import Task
from autotune.template import template

Array = npt.NDArray[Any]


def of_template(name: str, target: str = "llvm", **args: Any) -> Task:
    """Return the task of a built-in template; "cuda" ones are for the CPU."""
    return Task.from_reference(name, args, target)


def of_expressions(
    make: Callable[..., tuple[Sequence[Any], Sequence[Any]]],
    reference: Callable[..., Any] | None,
    accumulator: str | None = None,
    inputs: Callable[..., Any] | None = None,
    **args: Any,
) -> Task:
    """Return the task of a template without knobs: `make` returns its inputs and its outputs."""

    @template("workload", "llvm", reference, accumulator=accumulator, inputs=inputs)
    def made(cfg: Any) -> Any:
        taken, given = make(**args)
        return te.create_schedule([t.op for t in given]), [*taken, *given]

    return Task(made, {}, "llvm")


# -- elements ------------------------------------------------------------------------------

_ERF = np.vectorize(math.erf, otypes=[np.float64])


def _erf(x: Array) -> Array:
    return np.asarray(_ERF(x)).astype(x.dtype)


def gelu(x: Array) -> Array:
    """x / 2 * (1 + erf(x / sqrt(2)))."""
    half = x.dtype.type(0.5)
    return half * x * (x.dtype.type(1) + _erf(x * x.dtype.type(np.sqrt(0.5))))


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


ELEMENTS: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "scale": (lambda x: x * 3 + 1, lambda a: a * a.dtype.type(3) + a.dtype.type(1)),
    "relu": (lambda x: te.max(x, te.const(0, x.dtype)), lambda a: np.maximum(a, a.dtype.type(0))),
    "square": (lambda x: x * x, np.square),
    "exp": (te.exp, np.exp),
    "tanh": (te.tanh, np.tanh),
    "sigmoid": (te.sigmoid, sigmoid),
    "sqrt": (te.sqrt, np.sqrt),
    "log": (te.log, np.log),
    "gelu": (lambda x: x * 0.5 * (te.erf(x * 0.70710678118654752) + 1.0), gelu),
    "silu": (lambda x: x * te.sigmoid(x), lambda a: a * sigmoid(a)),
}
"""Functions of an element, as tensor expressions and in NumPy."""


def elements(function: str, dtype: str = "float32", n: int = 600, **more: Any) -> Task:
    """B[i] = f(A[i]); half types are computed in float32."""
    expression, reference = ELEMENTS[function]

    def make() -> Any:
        A = te.placeholder((n,), dtype, name="A")
        wide = dtypes.accumulator(dtype)
        B = te.compute((n,), lambda i: expression(A[i].astype(wide)).astype(dtype), name="B")
        return [A], [B]

    return of_expressions(make, reference, **more)


# -- two inputs ----------------------------------------------------------------------------


def integer_matmul(dtype: str, total: str, m: int = 12, n: int = 12, k: int = 40) -> Task:
    """C = A @ B with products and sums in a wider integer type."""

    def make() -> Any:
        A, B = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
        r = te.reduce_axis((0, k), name="r")
        C = te.compute(
            (m, n),
            lambda i, j: te.sum(A[i, r].astype(total) * B[r, j].astype(total), axis=r),
            name="C",
        )
        return [A, B], [C]

    return of_expressions(make, lambda a, b: a.astype(total) @ b.astype(total))


def mixed_matmul(
    dtype: str, total: str = "float32", m: int = 12, n: int = 12, k: int = 64, out: str = ""
) -> Task:
    """C = A @ B with products and sums in a type, that of the result too if no other is named."""

    def make() -> Any:
        A, B = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
        r = te.reduce_axis((0, k), name="r")
        C = te.compute(
            (m, n),
            lambda i, j: te.sum(A[i, r].astype(total) * B[r, j].astype(total), axis=r),
            name="C",
        )
        if out:
            C = te.compute((m, n), lambda i, j, sums=C: sums[i, j].astype(out), name="D")
        return [A, B], [C]

    return of_expressions(make, lambda a, b: _wide(a) @ _wide(b))


def _wide(a: Array) -> Array:
    return a if a.dtype.itemsize == 8 else a.astype(np.float32)


def division(dtype: str = "float32", n: int = 600) -> Task:
    """C = A / B."""

    def make() -> Any:
        A, B = te.placeholder((n,), dtype, name="A"), te.placeholder((n,), dtype, name="B")
        return [A, B], [te.compute((n,), lambda i: A[i] / B[i], name="C")]

    return of_expressions(make, lambda a, b: a / b)


def integer_division(dtype: str = "int32", n: int = 600) -> Task:
    """C = A // B, rounded down."""

    def make() -> Any:
        A, B = te.placeholder((n,), dtype, name="A"), te.placeholder((n,), dtype, name="B")
        return [A, B], [te.compute((n,), lambda i: A[i] // B[i], name="C")]

    return of_expressions(make, lambda a, b: a // b)


def integers(dtype: str, n: int = 600) -> Task:
    """C = A * B + A, which wraps around."""

    def make() -> Any:
        A, B = te.placeholder((n,), dtype, name="A"), te.placeholder((n,), dtype, name="B")
        return [A, B], [te.compute((n,), lambda i: (A[i] * B[i] + A[i]).astype(dtype), name="C")]

    return of_expressions(make, lambda a, b: a * b + a)


def halves(n: int = 600) -> Task:
    """B = A / 2 towards zero, of integers, computed in float32."""

    def make() -> Any:
        A = te.placeholder((n,), "int32", name="A")
        half = te.compute((n,), lambda i: (A[i].astype("float32") * 0.5).astype("int32"), name="B")
        return [A], [half]

    return of_expressions(make, lambda a: (a * np.float64(0.5)).astype(np.int32))


def less(dtype: str = "float32", n: int = 600) -> Task:
    """C = A < B, bools."""

    def make() -> Any:
        A, B = te.placeholder((n,), dtype, name="A"), te.placeholder((n,), dtype, name="B")
        return [A, B], [te.compute((n,), lambda i: A[i] < B[i], name="C")]

    return of_expressions(make, lambda a, b: a < b)


def gather(rows: int = 37, n: int = 24, m: int = 50, index: str = "int32") -> Task:
    """C[i, j] = T[I[i], j]."""

    def make() -> Any:
        T, index_of = te.placeholder((rows, n), name="T"), te.placeholder((m,), index, name="I")
        return [T, index_of], [te.compute((m, n), lambda i, j: T[index_of[i], j], name="C")]

    return of_expressions(make, lambda t, i: t[i])


# -- rows ----------------------------------------------------------------------------------


def row_sums(m: int, n: int, dtype: str = "float32", **more: Any) -> Task:
    """Y[i] = sum of a row; half types are summed in float32."""

    def make() -> Any:
        A, k = te.placeholder((m, n), dtype, name="A"), te.reduce_axis((0, n), name="k")
        wide = dtypes.accumulator(dtype)
        S = te.compute((m,), lambda i: te.sum(A[i, k].astype(wide), axis=k), name="S")
        return [A], [te.compute((m,), lambda i: S[i].astype(dtype), name="Y")]

    return of_expressions(make, lambda a: _wide(a).sum(axis=1), **more)


def scan(dtype: str, steps: int, columns: int) -> Task:
    """Y[t, i] = sum of X[0..t, i], computed in float32."""

    def make() -> Any:
        X = te.placeholder((steps, columns), dtype, name="X")
        wide = dtypes.accumulator(dtype)
        S = te.placeholder((steps, columns), wide, name="S")
        first = te.compute((1, columns), lambda _, i: X[0, i].astype(wide), name="first")
        later = te.compute(
            (steps, columns), lambda t, i: S[t - 1, i] + X[t, i].astype(wide), name="later"
        )
        sums = te.scan(first, later, S, inputs=[X], name="sums")
        Y = te.compute((steps, columns), lambda t, i: sums[t, i].astype(dtype), name="Y")
        return [X], [Y]

    return of_expressions(make, lambda x: np.cumsum(_wide(x), axis=0))


def layer_norm(m: int = 6, n: int = 48, dtype: str = "float32") -> Task:
    """(x - mean) / sqrt(variance + 1e-5) * g + b along rows."""

    def make() -> Any:
        X = te.placeholder((m, n), dtype, name="X")
        G, B = te.placeholder((n,), dtype, name="G"), te.placeholder((n,), dtype, name="B")
        k, r = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="r")
        wide = dtypes.accumulator(dtype)
        S = te.compute((m,), lambda i: te.sum(X[i, k].astype(wide), axis=k), name="S")
        D = te.compute((m, n), lambda i, j: X[i, j].astype(wide) - S[i] / n, name="D")
        V = te.compute((m,), lambda i: te.sum(D[i, r] * D[i, r], axis=r), name="V")
        Y = te.compute(
            (m, n),
            lambda i, j: (D[i, j] * te.rsqrt(V[i] / n + 1e-5) * G[j].astype(wide)
                          + B[j].astype(wide)).astype(dtype),
            name="Y",
        )
        return [X, G, B], [Y]

    return of_expressions(make, normalised)


def normalised(x: Array, g: Array, b: Array) -> Array:
    """Layer norm in two passes."""
    x, g, b = map(_wide, (x, g, b))
    d = x - x.mean(axis=1, keepdims=True)
    v = (d * d).mean(axis=1, keepdims=True)
    return d / np.sqrt(v + x.dtype.type(1e-5)) * g + b


def least_and_most(m: int = 6, n: int = 50, dtype: str = "float32") -> Task:
    """Two outputs: the least and the greatest element of each row."""

    def make() -> Any:
        A = te.placeholder((m, n), dtype, name="A")
        k, r = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="r")
        low = te.compute((m,), lambda i: te.min(A[i, k], axis=k), name="L")
        return [A], [low, te.compute((m,), lambda i: te.max(A[i, r], axis=r), name="M")]

    return of_expressions(make, lambda a: (a.min(axis=1), a.max(axis=1)))


def places(m: int = 40, n: int = 50) -> Task:
    """Where each row has its greatest element."""

    def make() -> Any:
        A, k = te.placeholder((m, n), name="A"), te.reduce_axis((0, n), name="k")
        most = te.comm_reducer(
            lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
            lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
            name="argmax",
        )
        at, _ = te.compute((m,), lambda i: most((k.var, A[i, k]), axis=k), name="P")
        return [A], [te.compute((m,), lambda i: at[i], name="I")]

    return of_expressions(make, lambda a: a.argmax(axis=1))


def without_reference(n: int = 600) -> Task:
    """B = 2 A + 1, of which only the expressions say what is right."""

    def make() -> Any:
        A = te.placeholder((n,), name="A")
        return [A], [te.compute((n,), lambda i: A[i] * 2 + 1, name="B")]

    return of_expressions(make, None)


def sums_without_reference(m: int = 8, n: int = 200) -> Task:
    """Row sums, of which only the expressions say what is right."""

    def make() -> Any:
        A, k = te.placeholder((m, n), name="A"), te.reduce_axis((0, n), name="k")
        return [A], [te.compute((m,), lambda i: te.sum(A[i, k], axis=k), name="Y")]

    return of_expressions(make, None)
