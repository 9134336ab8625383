"""Computations without a reference, right ones and the same with a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune import rules, te
from autotune.ir import dtypes
from autotune.rules.apply_rules import scheduled_outputs
from autotune.target import Target
from autotune.task.task import Task
from autotune.template import Template
from autotune.trace.template_knobs import Knobs

#: Inputs and outputs of a computation.
Made = tuple[list[Any], list[Any]]

#: A computation of a type; faults: "" for none, "dropped" for a sum without its last term,
#: "neighbour" for an element that is read one place further.
Make = Callable[[str, str], Made]


def template_of(make: Callable[[], Any], kind: str = "llvm") -> Template:
    """Return the template of a computation, inputs and outputs, which the rules schedule."""

    def instance(cfg: Knobs) -> Any:
        inputs, outputs, *_ = make()
        schedule = rules.schedule(cfg, outputs)
        return schedule, [*inputs, *scheduled_outputs(schedule, outputs)]

    return Template("computation", kind, instance)


def task_of(make: Callable[[], Any], target: str | Target = "llvm") -> Task:
    """Return the task of such a template."""
    parsed = Target.of(target)
    return Task(template_of(make, parsed.kind), {}, parsed)


def one(make: Callable[..., Any], *inputs: Any) -> Made:
    """Return a computation of the elements of a vector or matrix, given by its inputs."""
    return [*inputs], [te.compute(inputs[0].shape, make, name="Y")]


def _summed(length: int, fault: str, name: str = "k") -> Any:
    return te.reduce_axis((0, length - (fault == "dropped")), name)


def _read(index: Any, length: int, fault: str) -> Any:
    return te.min(index + 1, length - 1) if fault == "neighbour" else index


def _gelu(x: Any) -> Any:
    half, one, scale, cubic = (
        te.const(v, x.dtype) for v in (0.5, 1.0, 0.7978845608, 0.7978845608 * 0.044715)
    )
    return half * x * (one + te.tanh(x * (scale + cubic * x * x)))


def gelu_of_normalised(dtype: str, fault: str = "", m: int = 33, n: int = 96) -> Made:
    """GELU of layer normalisation, with a scale for each column."""
    wide = dtypes.accumulator(dtype)
    X, G = te.placeholder((m, n), dtype, "X"), te.placeholder((n,), dtype, "G")
    k, l = _summed(n, fault), te.reduce_axis((0, n), "l")  # noqa: E741 - as formulas have it
    total = te.compute((m,), lambda i: te.sum(X[i, k].astype(wide), axis=k), name="total")
    squares = te.compute(
        (m,), lambda i: te.sum(X[i, l].astype(wide) * X[i, l].astype(wide), axis=l), name="squares"
    )

    def element(i: Any, j: Any) -> Any:
        mean = total[i] / float(n)
        variance = te.max(squares[i] / float(n) - mean * mean, 0.0)
        scaled = (X[i, j].astype(wide) - mean) * te.rsqrt(variance + 1e-5)
        return _gelu(scaled * G[_read(j, n, fault)].astype(wide)).astype(dtype)

    return [X, G], [te.compute((m, n), element, name="Y")]


def softmax(dtype: str, fault: str = "", m: int = 37, n: int = 100) -> Made:
    """Softmax of rows."""
    wide = dtypes.accumulator(dtype)
    X = te.placeholder((m, n), dtype, "X")
    k, l = te.reduce_axis((0, n), "k"), _summed(n, fault, "l")  # noqa: E741
    most = te.compute((m,), lambda i: te.max(X[i, k].astype(wide), axis=k), name="most")
    e = te.compute(
        (m, n), lambda i, j: te.exp(X[i, _read(j, n, fault)].astype(wide) - most[i]), name="e"
    )
    total = te.compute((m,), lambda i: te.sum(e[i, l], axis=l), name="total")
    return [X], [te.compute((m, n), lambda i, j: (e[i, j] / total[i]).astype(dtype), name="Y")]


def two_products(dtype: str, fault: str = "") -> Made:
    """A product of matrices, cut at 0 and rounded, times another one."""
    wide, (m, n, p, q) = dtypes.accumulator(dtype), (30, 48, 40, 28)
    shapes = {"A": (m, n), "B": (n, p), "C": (p, q)}
    A, B, C = (te.placeholder(shape, dtype, name) for name, shape in shapes.items())
    k, l = te.reduce_axis((0, n), "k"), _summed(p, fault, "l")  # noqa: E741
    M = te.compute(
        (m, p), lambda i, j: te.sum(A[i, k].astype(wide) * B[k, j].astype(wide), axis=k), name="M"
    )
    H = te.compute((m, p), lambda i, j: te.max(M[i, j], 0.0).astype(dtype), name="H")

    def product(i: Any, j: Any) -> Any:
        return te.sum(H[i, l].astype(wide) * C[l, _read(j, q, fault)].astype(wide), axis=l)

    P = te.compute((m, q), product, name="P")
    return [A, B, C], [te.compute((m, q), lambda i, j: P[i, j].astype(dtype), name="Y")]


def convolution(dtype: str, fault: str = "") -> Made:
    """A padded convolution of 3 x 3."""
    wide, (c, h, w, o) = dtypes.accumulator(dtype), (5, 14, 15, 7)
    X, W = te.placeholder((c, h, w), dtype, "X"), te.placeholder((o, c, 3, 3), dtype, "W")
    k, y, x = te.reduce_axis((0, c), "k"), te.reduce_axis((0, 3), "y"), _summed(3, fault, "x")

    def padded(n: Any, i: Any, j: Any) -> Any:
        inside = te.all(i >= 1, i < h + 1, j >= 1, j < w + 1)
        return te.if_then_else(inside, X[n, i - 1, j - 1], te.const(0, dtype))

    P = te.compute((c, h + 2, w + 2), padded, name="P")

    def element(n: Any, i: Any, j: Any) -> Any:
        at = P[k, _read(i, h, fault) + y, j + x].astype(wide)
        return te.sum(at * W[n, k, y, x].astype(wide), axis=[k, y, x])

    S = te.compute((o, h, w), element, name="S")
    return [X, W], [te.compute((o, h, w), lambda *i: S(*i).astype(dtype), name="Y")]


def recurrence(dtype: str, fault: str = "") -> Made:
    """A scan of tanh, in the type itself."""
    t, n = 60, 35
    X, A, S = (te.placeholder((t, n), dtype, name) for name in "XAS")
    first = te.compute((1, n), lambda i, j: X[i, j], name="first")
    half = te.const(0.5, dtype)

    def step(i: Any, j: Any) -> Any:
        return te.tanh(S[i - 1, j] * half + A[i, _read(j, n, fault)] * X[i, j])

    update = te.compute((t, n), step, name="update")
    return [X, A], [te.scan(first, update, S, [X, A], name="Y")]


def mixture(dtype: str, fault: str = "") -> Made:
    """Scores, their softmax times their GELU, and the logarithms of the sums."""
    wide, (m, n, d) = dtypes.accumulator(dtype), (24, 56, 40)
    A, B = te.placeholder((m, d), dtype, "A"), te.placeholder((n, d), dtype, "B")
    k, j1, j2 = _summed(d, fault), te.reduce_axis((0, n), "j1"), te.reduce_axis((0, n), "j2")

    def score(i: Any, j: Any) -> Any:
        return te.sum(A[i, k].astype(wide) * B[_read(j, n, fault), k].astype(wide), axis=k)

    M = te.compute((m, n), score, name="M")
    most = te.compute((m,), lambda i: te.max(M[i, j1], axis=j1), name="most")
    total = te.compute((m,), lambda i: te.sum(te.exp(M[i, j2] - most[i]), axis=j2), name="total")

    def element(i: Any, j: Any) -> Any:
        return (_gelu(M[i, j]) * te.exp(M[i, j] - most[i]) / total[i]).astype(dtype)

    Y = te.compute((m, n), element, name="Y")
    L = te.compute((m,), lambda i: (te.log(total[i]) + most[i]).astype(dtype), name="L")
    return [A, B], [Y, L]


def quantised(dtype: str, fault: str = "", m: int = 40, n: int = 60, d: int = 64) -> Made:
    """Products rounded to eighths by way of int8."""
    wide = dtypes.accumulator(dtype)
    A, B = te.placeholder((m, d), dtype, "A"), te.placeholder((n, d), dtype, "B")
    k = _summed(d, fault)

    def score(i: Any, j: Any) -> Any:
        return te.sum(A[i, k].astype(wide) * B[_read(j, n, fault), k].astype(wide), axis=k)

    M = te.compute((m, n), score, name="M")

    def element(i: Any, j: Any) -> Any:
        whole = te.round(te.max(te.min(M[i, j] * 8.0, 127.0), -127.0)).astype("int8")
        return (whole.astype(wide) * 0.125).astype(dtype)

    return [A, B], [te.compute((m, n), element, name="Y")]


COMPUTATIONS: dict[str, Make] = {
    "gelu": gelu_of_normalised,
    "softmax": softmax,
    "products": two_products,
    "convolution": convolution,
    "recurrence": recurrence,
    "mixture": mixture,
    "quantised": quantised,
}

FLOATS = ("float32", "float16", "bfloat16", "float64")
