"""No right kernel is refused: other orders of sums, fused multiply-adds, other formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support import checked_workloads as w
from support.benches import Fake, answers_bench
from support.wrong_operators import products, serial_sums
from support.wrong_ways import Kernel, as_computed, write

from autotune.measure.candidate import CandidateError
from autotune.task.task import Task

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Workload:
    """A workload, and right kernels of it by name."""

    name: str
    task: Callable[[], Task]
    kernels: dict[str, Kernel]
    is_small: bool = True


# -- sums ----------------------------------------------------------------------------------


def pairwise(terms: Array) -> Array:
    """Sum halves of the last axis, and then both sums."""
    if terms.shape[-1] < 2:
        return terms[..., 0] if terms.shape[-1] else np.zeros(terms.shape[:-1], terms.dtype)
    middle = terms.shape[-1] // 2
    return np.asarray(pairwise(terms[..., :middle]) + pairwise(terms[..., middle:]))


def serial(terms: Array) -> Array:
    """Sum along the last axis one after another, in the terms' type."""
    return serial_sums(terms, terms.dtype.name)


def blocked(terms: Array, block: int = 16) -> Array:
    """Sum lanes of a vector, then the lanes."""
    rest = -terms.shape[-1] % block
    padded = np.concatenate([terms, np.zeros((*terms.shape[:-1], rest), terms.dtype)], axis=-1)
    lanes = padded.reshape(*terms.shape[:-1], -1, block)
    return serial(np.moveaxis(serial(np.moveaxis(lanes, -2, -1)), -1, -1))


def compensated(terms: Array) -> Array:
    """Sum as Kahan does."""
    total = np.zeros(terms.shape[:-1], terms.dtype)
    lost = np.zeros_like(total)
    for k in range(terms.shape[-1]):
        term = terms[..., k] - lost
        grown = total + term
        lost = (grown - total) - term
        total = grown
    return total


SUMS: dict[str, Callable[[Array], Array]] = {
    "serial": serial,
    "reversed": lambda terms: serial(terms[..., ::-1]),
    "by magnitude": lambda terms: serial(
        np.take_along_axis(terms, np.abs(terms).argsort(axis=-1), axis=-1)
    ),
    "pairwise": pairwise,
    "blocked": blocked,
    "compensated": compensated,
    "exact": lambda terms: terms.astype(np.longdouble).sum(axis=-1).astype(terms.dtype),
}
"""Ways to sum along the last axis."""


def fused(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c, rounded once."""
    return (a.astype(np.longdouble) * b + c).astype(c.dtype)


def fused_sums(a: Array, b: Array) -> Array:
    """Return a[i, k] * b[k, j], summed by fused multiply-adds."""
    total = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for k in range(a.shape[1]):
        total = fused(a[:, k, None], b[None, k], total)
    return total


def by(function: Callable[..., Any], outputs: int = 1) -> Kernel:
    """Make a kernel of a function of the inputs, half types as float32."""

    def kernel(*arrays: Array) -> None:
        with np.errstate(all="ignore"):
            found = function(*map(as_computed, arrays[: len(arrays) - outputs]))
        write(arrays[len(arrays) - outputs :], found if isinstance(found, tuple) else [found])

    return kernel


MATMUL = {
    **{name: by(lambda a, b, of=of: of(products(a, b, a.dtype.name))) for name, of in SUMS.items()},
    "fused": by(fused_sums),
    "blas": by(np.matmul),
}
ROW_SUMS = {name: by(of) for name, of in SUMS.items()}


# -- functions -----------------------------------------------------------------------------


def exp_by_exp2(x: Array) -> Array:
    """exp by exp2, the rounded product's error put right as libraries do."""
    high = np.rint(x * x.dtype.type(1.4426950408889634))
    log2_high = x.dtype.type(0.693359375)
    low = x.dtype.type(math.log(2) - 0.693359375)
    rest = (x - high * log2_high) - high * low
    return np.asarray(np.exp(rest) * np.exp2(high))


def tanh_by_exp(x: Array) -> Array:
    """tanh by expm1, which does not cancel."""
    e = np.expm1(-2 * np.abs(x))
    return np.asarray(np.copysign(-e / (e + 2), x))


def _softmax(x: Array, exp: Callable[[Array], Array], total: Callable[[Array], Array]) -> Array:
    e = exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(e * (1 / total(e)[:, None]))


def online_softmax(x: Array) -> Array:
    """Softmax whose maximum and sum are found in one pass."""
    most = np.full(len(x), -np.inf, x.dtype)
    total = np.zeros(len(x), x.dtype)
    for j in range(x.shape[1]):
        new = np.maximum(most, x[:, j])
        total = total * np.exp(most - new) + np.exp(x[:, j] - new)
        most = new
    return np.asarray(np.exp(x - most[:, None]) / total[:, None])


def _fast_divide(a: Array, b: Array) -> Array:
    return np.asarray(a * (1 / b))


def _norm(x: Array, g: Array, b: Array, total: Callable[[Array], Array]) -> Array:
    n = x.dtype.type(x.shape[1])
    d = x - (total(x) * (1 / n))[:, None]
    scale = 1 / np.sqrt(total(d * d) / n + x.dtype.type(1e-5))
    return np.asarray(d * (scale[:, None] * g) + b)


def norm_of_squares(x: Array, g: Array, b: Array) -> Array:
    """Layer norm in one pass, by the updates of Welford."""
    mean = np.zeros(len(x), x.dtype)
    squares = np.zeros(len(x), x.dtype)
    for k in range(x.shape[1]):
        delta = x[:, k] - mean
        mean = mean + delta / x.dtype.type(k + 1)
        squares = squares + delta * (x[:, k] - mean)
    variance = squares / x.dtype.type(x.shape[1])
    d = x - mean[:, None]
    return np.asarray(d / np.sqrt(variance + x.dtype.type(1e-5))[:, None] * g + b)


def _recurrence(a: Array, x: Array, step: Callable[..., Array]) -> Array:
    h = x.copy()
    for t in range(1, len(x)):
        h[t] = step(a[t], h[t - 1], x[t])
    return h


def recurrence_by_blocks(a: Array, x: Array, block: int = 8) -> Array:
    """Compute blocks of steps from 0, and then add what was before them."""
    h = x.copy()
    for begin in range(0, len(x), block):
        factor = np.ones_like(x[0])
        before = h[begin - 1] if begin else np.zeros_like(x[0])
        own = np.zeros_like(x[0])
        for t in range(begin, min(begin + block, len(x))):
            own = a[t] * own + x[t]
            factor = a[t] * factor
            h[t] = own + factor * before
    return h


def cumsum_by_blocks(axis: int, block: int = 8) -> Kernel:
    """Sum blocks, and then add what was before them."""

    def kernel(x: Array, y: Array) -> None:
        x, y = np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0)
        before = np.zeros_like(x[0])
        for begin in range(0, len(x), block):
            part = np.cumsum(x[begin : begin + block], axis=0, dtype=x.dtype)
            y[begin : begin + block] = part + before
            before = before + part[-1]

    return kernel


def _rnn(x: Array, u: Array, tanh: Callable[[Array], Array], total: Callable[..., Array]) -> Array:
    h = np.zeros((len(x), *x.shape[2:]), x.dtype)
    for t in range(1, len(x)):
        h[t] = tanh(x[t, 0] + total(products(h[t - 1], u[0], x.dtype.name)))
    return h


def _rnn_fused(x: Array, u: Array) -> Array:
    h = np.zeros((len(x), *x.shape[2:]), x.dtype)
    for t in range(1, len(x)):
        total = x[t, 0]
        for k in range(u.shape[1]):
            total = fused(h[t - 1][:, k, None], u[0, k], total)
        h[t] = np.tanh(total)
    return h


def _stable_sigmoid(x: Array) -> Array:
    """Sigmoid without the cancellation of (1 + tanh(x / 2)) / 2, which loses small results."""
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, e, 1) / (1 + e)).astype(x.dtype)


def _lstm(x: Array, u: Array, total: Callable[..., Array]) -> tuple[Array, Array]:
    h = np.zeros((len(x), *x.shape[2:]), x.dtype)
    c = np.zeros_like(h)
    for t in range(1, len(x)):
        i, o, f, g = (
            x[t, q] + total(products(h[t - 1], u[q], x.dtype.name)) for q in range(4)
        )
        i, f, o = map(_stable_sigmoid, (i, f, o))
        c[t] = fused(f, c[t - 1], i * tanh_by_exp(g))
        h[t] = o * tanh_by_exp(c[t])
    return h, c


def _gelu_by_erfc(x: Array) -> Array:
    erfc = np.vectorize(math.erfc, otypes=[np.float64])
    return np.asarray((0.5 * x.astype(np.float64) * erfc(-x * math.sqrt(0.5))).astype(x.dtype))


def _bias_gelu(off: float) -> Callable[[Array, Array], Array]:
    """GELU whose tail is what 1 + erf leaves; the erf is off by parts of a unit, then rounded."""
    erf = np.vectorize(math.erf, otypes=[np.float64])

    def kernel(x: Array, bias: Array) -> Array:
        t = x + bias
        e = erf((t * np.float32(math.sqrt(0.5))).astype(np.float64)) * (1 - off * 2.0**-24)
        return np.float32(0.5) * t * (e.astype(np.float32) + np.float32(1))

    return kernel


ELEMENTS: dict[str, dict[str, Callable[[Array], Array]]] = {
    "exp": {"exp2": exp_by_exp2},
    "tanh": {"expm1": tanh_by_exp},
    "sigmoid": {
        "tanh": lambda x: (1 + np.tanh(x / 2)) / 2,
        "exp of magnitudes": lambda x: np.where(
            x >= 0, 1 / (1 + np.exp(-abs(x))), np.exp(-abs(x)) / (1 + np.exp(-abs(x)))
        ),
    },
    "sqrt": {"rsqrt": lambda x: x * (1 / np.sqrt(x))},
    "log": {"log2": lambda x: np.log2(x) * x.dtype.type(math.log(2))},
    "gelu": {"erfc": _gelu_by_erfc},
    "silu": {"divided": lambda x: x / (1 + np.exp(-x))},
    "scale": {"fused": lambda x: fused(x, x.dtype.type(3) + 0 * x, x.dtype.type(1) + 0 * x)},
}


def _half_in_float(a: Array, b: Array) -> None:
    b[...] = (a.astype(np.float32) * np.float32(0.5)).astype(np.int32)


def workloads() -> Iterator[Workload]:
    """Yield all workloads with kernels of them."""
    t = w.of_template
    yield Workload("gelu with a tail", lambda: t("bias_gelu", m=128, n=512),
                   {f"off by {off}": by(_bias_gelu(off)) for off in (0, 0.3, -0.3)})
    yield Workload("half of integers", w.halves, {"in float32": _half_in_float})
    for dtype in ("float32", "float64", "float16", "bfloat16"):
        for m, k in ((8, 5), (6, 64), (4, 700)):
            yield Workload(f"matmul {dtype} {k}",
                           lambda d=dtype, m=m, k=k: t("matmul", m=m, n=m, k=k, dtype=d),
                           MATMUL, k < 99)
            yield Workload(f"row sums {dtype} {k}",
                           lambda d=dtype, m=m, k=k: w.row_sums(m, k, d), ROW_SUMS, k < 99)
        for n in (2, 40, 500):
            yield Workload(
                f"softmax {dtype} {n}", lambda d=dtype, n=n: t("softmax", m=6, n=n, dtype=d),
                {"online": by(online_softmax),
                 **{name: by(lambda x, of=of: _softmax(x, np.exp, of))
                    for name, of in SUMS.items()},
                 **{f"exp2, {name}": by(lambda x, of=of: _softmax(x, exp_by_exp2, of))
                    for name, of in SUMS.items()}}, n < 99)
            yield Workload(
                f"layer norm {dtype} {n}", lambda d=dtype, n=n: w.layer_norm(n=n, dtype=d),
                {"one pass": by(norm_of_squares),
                 **{name: by(lambda *a, of=of: _norm(*a, of)) for name, of in SUMS.items()}},
                n < 99)
        for function, ways in ELEMENTS.items():
            yield Workload(f"{function} {dtype}",
                           lambda f=function, d=dtype: w.elements(f, d),
                           {name: by(of) for name, of in ways.items()})
        yield Workload(f"division {dtype}", lambda d=dtype: w.division(d),
                       {"reciprocal": by(_fast_divide)})
        yield Workload(f"to float32 {dtype}", lambda d=dtype: w.mixed_matmul(
            d, "float64" if d == "float64" else "float32"), MATMUL)
    for dtype in ("float32", "float64"):
        for m, n in ((3, 5), (200, 12), (2000, 2)):
            for axis in (0, 1):
                shape = {"m": (m, n)[axis], "n": (n, m)[axis]}
                yield Workload(
                    f"cumsum {dtype} {shape} {axis}",
                    lambda d=dtype, s=shape, x=axis: t("cumsum", **s, axis=x, dtype=d),
                    {"blocks": cumsum_by_blocks(axis), "long": cumsum_by_blocks(axis, 64),
                     "exact": by(lambda x, a=axis: np.cumsum(x, axis=a, dtype=np.longdouble))},
                    m < 999)
            yield Workload(
                f"recurrence {dtype} {m}",
                lambda d=dtype, m=m, n=n: t("linear_recurrence", m=m, n=n, dtype=d),
                {"fused": by(lambda a, x: _recurrence(a, x, fused)),
                 "exact": by(lambda a, x: _recurrence(
                     a.astype(np.longdouble), x.astype(np.longdouble), lambda a, h, x: a * h + x)),
                 "blocks": by(recurrence_by_blocks)}, m < 999)
        for steps, batch, units in ((2, 1, 4), (16, 2, 24), (64, 1, 48), (200, 1, 16)):
            yield Workload(
                f"rnn {dtype} {steps} {units}",
                lambda d=dtype, s=steps, b=batch, u=units: t(
                    "rnn_cell", steps=s, batch=b, units=u, dtype=d),
                {**{name: by(lambda x, u, of=of: _rnn(x, u, tanh_by_exp, of))
                    for name, of in SUMS.items()}, "fused": by(_rnn_fused)}, steps < 20)
            yield Workload(
                f"lstm {dtype} {steps} {units}",
                lambda d=dtype, s=steps, b=batch, u=units: t(
                    "lstm_cell", steps=s, batch=b, units=u, dtype=d),
                {name: by(lambda x, u, of=of: _lstm(x, u, of), 2) for name, of in SUMS.items()},
                steps < 20)


WORKLOADS = list(workloads())


pytestmark = pytest.mark.usefixtures("own_cache")


def refused(workload: Workload, seed: int) -> list[str]:
    """Return what is said against the kernels of a workload."""
    bench = answers_bench(workload.task(), seed)
    found = []
    for name, kernel in workload.kernels.items():
        try:
            bench.run(Fake(kernel))
        except CandidateError as error:
            found.append(f"{name}: {error.message}")
    return found


@pytest.mark.parametrize("workload", [w for w in WORKLOADS if w.is_small], ids=lambda w: w.name)
def test_no_right_kernel_is_refused(workload: Workload) -> None:
    assert refused(workload, 0) == []


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_no_right_kernel_is_refused_by_other_inputs(workload: Workload) -> None:
    assert [refused(workload, seed) for seed in (0, 1, 2, 3)] == [[]] * 4
