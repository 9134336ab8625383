"""Wrong kernels over all operators and types: Python functions that stand in for compiled ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autotune.ir import dtypes
from autotune.task.task import Task
from support import checked_workloads as w
from support.wrong_operators import (
    CONV,
    LSTM,
    MATMUL,
    NO_LAST,
    NORM,
    RNN,
    SOFTMAX,
    SQUARE,
    gather_wrong,
    half_a_row,
    matmul_in,
    no_scan,
    recurrence,
    restarting,
    row_sums_in,
    saturating,
    scan_in,
    through_float,
    towards_zero,
    wrapping,
)
from support.wrong_ways import WAYS, Kernel, right_function, rounded_to, write


@dataclass(frozen=True)
class Workload:
    """A workload, and which ways to be wrong it is tried with.

    Attributes
    ----------
    name : str
    task : callable
        Makes its task.
    ways : str
        Names of ways in `WAYS`, separated by spaces.
    own : dict
        Kernels written for it, by name.
    """

    name: str
    task: Callable[[], Task]
    ways: str
    own: dict[str, Callable[..., Any]] = field(default_factory=dict)


ALWAYS = "nothing zeros ones stale one off-by-one tail-zero tail-unwritten odd-unwritten"
ROWS = f"{ALWAYS} swapped reversed middle-unwritten"
SIGNS = "negated magnitude in-positive"
SINGLE = "1e-2 1e-3 1e-4 offset out-float16 out-bfloat16 in-float16 in-bfloat16 in-1e-3"
HALF = "1e-2 offset"
DOUBLE = "1e-3 1e-9 out-float32 in-float32 out-bfloat16"
RANGE = (
    "out-clamped-1 out-clamped-6 out-clamped-100 out-small-0.09 in-clamped-1 in-clamped-4 "
    "in-clamped-6 in-clamped-100 in-small-0.09 in-large-1"
)
PRODUCT = "in-first-only in-rolled in-tail"


NARROWER = {"float32": "bfloat16", "float64": "float32"}

TOO_FINE = ("mean in half", "another epsilon")
"""Wrong layer norms that half floats do not tell from right ones."""


def workloads() -> Iterator[Workload]:
    """Yield all workloads with the ways in which kernels are wrong."""
    families = (
        _products, _convolutions, _rows, _scans,
        _elements, _several_inputs, _places, _without_reference,
    )  # fmt: skip
    for family in families:
        yield from family()


def _products() -> Iterator[Workload]:
    """Yield matrix products."""
    for dtype, more in (
        ("float32", SINGLE), ("float64", DOUBLE), ("float16", HALF), ("bfloat16", HALF)
    ):
        narrow = {
            "float32": {"sums in half": matmul_in("float32", "float16"),
                        "sums in bfloat16": matmul_in("float32", "bfloat16"),
                        "products in bfloat16": matmul_in("bfloat16", "float32")},
            "float64": {"sums in float32": matmul_in("float64", "float32"),
                        "products in float32": matmul_in("float32", "float64")},
            "float16": {"sums in half": matmul_in("float32", "float16"),
                        "products and sums in half": matmul_in("float16", "float16")},
            "bfloat16": {"sums in bfloat16": matmul_in("float32", "bfloat16"),
                         "products and sums in bfloat16": matmul_in("bfloat16", "bfloat16")},
        }[dtype]
        yield Workload(
            f"matmul {dtype}",
            lambda d=dtype: w.of_template("matmul", m=32, n=32, k=32, dtype=d),
            f"{ROWS} {SIGNS} {RANGE} {PRODUCT} {more}",
            {**MATMUL, **SQUARE, **narrow},
        )
    for dtype in ("float16", "bfloat16"):
        yield Workload(
            f"matmul {dtype} of 4096 terms",
            lambda d=dtype: w.mixed_matmul(d, "float32", m=4, n=4, k=4096, out=d),
            "nothing zeros ones one tail-zero swapped 1e-2",
            {**MATMUL, "sums in its type": matmul_in("float32", dtype)},
        )
        yield Workload(
            f"matmul {dtype} to float32",
            lambda d=dtype: w.mixed_matmul(d),
            f"zeros one 1e-3 1e-4 out-float16 out-bfloat16 {PRODUCT}",
            {**MATMUL, "sums in its type": matmul_in("float32", dtype),
             "products in its type": matmul_in(dtype, "float32")},
        )
    for dtype in dtypes.INTEGERS:
        yield Workload(
            f"matmul {dtype}",
            lambda d=dtype: w.integer_matmul(d, d),
            ALWAYS,
            {"no last term": NO_LAST} if dtype == "int32" else {},
        )
    yield Workload(
        "matmul int8 to int32", lambda: w.integer_matmul("int8", "int32"), ROWS,
        {**MATMUL, "sums in int16": matmul_in("int32", "int16"),
         "products in int8": matmul_in("int8", "int32"),
         "products in int16": matmul_in("uint8", "int32")},
    )
    yield Workload(
        "matmul uint8 to int32", lambda: w.integer_matmul("uint8", "int32"), ALWAYS,
        {"as if signed": matmul_in("int8", "int32"), "sums in int16": matmul_in("int32", "int16"),
         "products in uint8": matmul_in("uint8", "int32")},
    )
    yield Workload(
        "matmul int16 to int32", lambda: w.integer_matmul("int16", "int32"), ALWAYS,
        {"sums in int16": matmul_in("int32", "int16"),
         "products in int16": matmul_in("int16", "int32"),
         "sums in float32": matmul_in("int32", "float32")},
    )


def _convolutions() -> Iterator[Workload]:
    """Yield convolutions."""
    for dtype, more in (("float32", SINGLE), ("float16", HALF), ("float64", DOUBLE)):
        yield Workload(
            f"conv2d {dtype}",
            lambda d=dtype: w.of_template(
                "conv2d_nchw", n=2, c=4, h=7, w=7, o=5, kh=3, kw=3, pad=1, dtype=d
            ),
            f"{ROWS} {SIGNS} {RANGE} {PRODUCT} {more}",
            CONV,
        )
    yield Workload(
        "conv2d int8",
        lambda: w.of_template(
            "conv2d_nchw", n=1, c=4, h=7, w=7, o=5, kh=3, kw=3, pad=1, dtype="int8"
        ),
        ALWAYS,
    )


def _rows() -> Iterator[Workload]:
    """Yield what reduces or normalises rows."""
    for dtype, more in (
        ("float32", "1e-3 1e-4 in-bfloat16"), ("float64", "1e-3 1e-9 out-float32"),
        ("float16", "1e-2"), ("bfloat16", "1e-2"),
    ):
        narrow = ["sum in half", "sum in bfloat16"]
        yield Workload(
            f"softmax {dtype}",
            lambda d=dtype: w.of_template("softmax", m=8, n=150, dtype=d),
            f"{ROWS} in-small-0.09 in-clamped-1 in-clamped-4 in-clamped-6 in-clamped-100 "
            f"in-positive in-tail out-small-1e-3 {more}",
            {k: v for k, v in SOFTMAX.items() if not dtypes.is_half(dtype) or k not in narrow},
        )
    for dtype, n in (
        ("float32", 200), ("float64", 200), ("float16", 256), ("bfloat16", 256),
        ("bfloat16", 4096), ("float16", 4096),
    ):
        yield Workload(
            f"row sums {dtype} {n}",
            lambda d=dtype, n=n: w.row_sums(6, n, d),
            f"{ALWAYS} swapped {SIGNS} in-clamped-1 in-small-0.09 in-clamped-6 "
            + {"float32": "1e-3 1e-4", "float64": "1e-9 out-float32"}.get(dtype, "1e-2"),
            {"half a row": half_a_row,
             "narrow": row_sums_in(NARROWER.get(dtype, dtype))},
        )
    for how in ("sum", "max", "min"):
        yield Workload(
            f"reduce {how}",
            lambda how=how: w.of_template("reduce", "cuda -on=cpu", m=8, n=130, how=how),
            f"{ALWAYS} swapped negated in-tail in-clamped-1 1e-3 1e-4 out-float16",
        )
    yield Workload(
        "reduce sum float16",
        lambda: w.of_template("reduce", "cuda -on=cpu", m=8, n=300, dtype="float16"),
        f"{ALWAYS} {SIGNS} in-tail",
        {"sums in half": row_sums_in("float16"), "half a row": half_a_row},
    )
    for dtype, more in (("float32", "1e-3 1e-4 out-bfloat16"), ("float16", "1e-2")):
        yield Workload(f"layer norm {dtype}", lambda d=dtype: w.layer_norm(dtype=d),
                       f"{ROWS} in-small-0.09 in-clamped-1 in-clamped-4 in-tail {more}",
                       NORM if dtype == "float32" else
                       {k: v for k, v in NORM.items() if k not in TOO_FINE})


def _scans() -> Iterator[Workload]:
    """Yield scans."""
    for dtype in ("float32", "float64", "int32", "int64"):
        for axis in (0, 1):
            narrow_scan = {"float32": "bfloat16", "float64": "float32", "int32": "int16",
                           "int64": "int32"}[dtype]
            yield Workload(
                f"cumsum {dtype} axis {axis}",
                lambda d=dtype, x=axis: w.of_template("cumsum", m=40, n=40, axis=x, dtype=d),
                f"{ROWS} " + {"float32": "1e-3 1e-4", "float64": "1e-3 1e-9"}.get(dtype, ""),
                {"no recurrence": no_scan, "the other axis": scan_in(dtype, 1 - axis),
                 "narrow": scan_in(narrow_scan, axis), "restarts": restarting(16, axis)},
            )
    for dtype, more in (("float32", "1e-3 1e-4 out-bfloat16"), ("float64", "1e-3 1e-9")):
        yield Workload(
            f"linear recurrence {dtype}",
            lambda d=dtype: w.of_template("linear_recurrence", m=40, n=20, dtype=d),
            f"{ROWS} {SIGNS} in-clamped-1 in-small-0.09 in-clamped-6 {more}",
            {"no recurrence": recurrence(lambda a, h, x: x),
             "no factor": recurrence(lambda a, h, x: h + x),
             "exchanged": recurrence(lambda a, h, x: x * h + a),
             "state in half": recurrence(
                 lambda a, h, x: a * h.astype(np.float16).astype(h.dtype) + x),
             "state in bfloat16": recurrence(
                 lambda a, h, x: a * rounded_to("bfloat16")(h) + x),
             "state clamped": recurrence(lambda a, h, x: a * np.clip(h, -1, 1) + x)},
        )
    for dtype, more in (("float32", "1e-3 1e-4"), ("float64", "1e-3 1e-9 out-float32")):
        yield Workload(
            f"rnn {dtype}",
            lambda d=dtype: w.of_template("rnn_cell", steps=12, batch=3, units=16, dtype=d),
            f"{ROWS} {SIGNS} in-clamped-1 in-small-0.09 in-first-only {more}", RNN)
        yield Workload(
            f"lstm {dtype}",
            lambda d=dtype: w.of_template("lstm_cell", steps=12, batch=3, units=16, dtype=d),
            f"{ROWS} {SIGNS} in-clamped-1 in-small-0.09 in-first-only {more}", LSTM)
    yield Workload(
        "scan float16 of 16384 steps", lambda: w.scan("float16", 16384, 2),
        "nothing zeros ones one tail-zero magnitude negated off-by-one 1e-2",
        {"sums in half": scan_in("float16", 0), "no recurrence": no_scan,
         "restarts": restarting(4096, 0)})


def _elements() -> Iterator[Workload]:
    """Yield functions of one element."""
    for function in ("scale", "relu", "square"):
        for dtype, more in (("float32", SINGLE), ("float64", DOUBLE), ("bfloat16", "1e-2"),
                            ("float16", "1e-2")):
            half = dtypes.is_half(dtype)
            # Beside the 1 that is added half floats lose such numbers, and such squares overflow.
            tells = function == "relu" or (function == "scale" and not half)
            small = "in-small-1e-3" if tells else ""
            lost = "in-clamped-100" if (function, dtype) == ("square", "float16") else ""
            ranges = " ".join(way for way in RANGE.split() if way != lost)
            always = ALWAYS.replace("tail-zero ", "") if function == "relu" else ALWAYS
            sign = "" if function == "square" else "in-positive"
            yield Workload(f"{function} {dtype}", lambda f=function, d=dtype: w.elements(f, d),
                           f"{always} {ranges} {more} {small} {sign}")
    for function, more in (
        ("exp", f"{RANGE.replace('in-clamped-100', '')} in-small-1e-3 in-positive"),
        ("tanh", "in-small-0.09 in-clamped-1 in-clamped-4 in-small-1e-3 negated in-positive"),
        ("sigmoid", "in-small-0.09 in-clamped-1 in-clamped-4 in-clamped-6 in-positive"),
        ("sqrt", "in-small-0.09 in-clamped-1 in-clamped-4 in-clamped-6 in-clamped-100 "
         "in-small-1e-3 out-clamped-1"),
        ("log", "in-small-0.09 in-clamped-1 in-clamped-4 in-clamped-6 in-clamped-100 "
         "out-clamped-1"),
        ("gelu", f"{RANGE} in-small-1e-3 in-positive"),
        ("silu", f"{RANGE} in-small-1e-3 in-positive"),
    ):
        for dtype, extra in (("float32", "1e-3 1e-4 out-bfloat16 in-bfloat16"),
                             ("float64", "1e-9 out-float32"), ("float16", "1e-2")):
            told = more.replace("in-small-1e-3", "") if dtype == "float16" else more
            yield Workload(f"{function} {dtype}", lambda f=function, d=dtype: w.elements(f, d),
                           f"{ALWAYS} {told} {extra}")


def _several_inputs() -> Iterator[Workload]:
    """Yield broadcasts, transposes and operations on two inputs."""
    for pattern in ("float32", "float64", "bfloat16", "int8", "uint64"):
        yield Workload(f"broadcast_add {pattern}",
                       lambda d=pattern: w.of_template("broadcast_add", n=24, dtype=d),
                       ROWS + (f" {SIGNS} in-first-only" if pattern[0] in "fb" else ""))
    for dtype in ("float32", "float16", "int64"):
        yield Workload(f"transpose {dtype}",
                       lambda d=dtype: w.of_template(
                           "transpose", "cuda -on=cpu", m=20, n=20, dtype=d),
                       ROWS, {"copied": no_scan})
    for dtype in dtypes.INTEGERS:
        bits = dtypes.bits(dtype)
        yield Workload(f"a * b + a {dtype}", lambda d=dtype: w.integers(d), ALWAYS,
                       {"saturating": saturating,
                        **({"in float32": through_float("float32"),
                            "in fewer bits": wrapping(f"int{bits // 2}")} if bits > 8 else {})})
    for dtype in ("float32", "float64", "float16"):
        yield Workload(f"division {dtype}", lambda d=dtype: w.division(d),
                       f"{ALWAYS} {SIGNS} in-first-only in-rolled 1e-2 in-clamped-1",
                       {"multiplied": lambda a, b, c: write([c], [a * b]),
                        "inverse": lambda a, b, c: write([c], [b / a])})
    yield Workload("integer division", w.integer_division, ALWAYS, {"towards 0": towards_zero})
    for dtype in ("float32", "float16"):
        yield Workload(f"less {dtype}", lambda d=dtype: w.less(d), "nothing zeros ones stale one",
                       {"greater": lambda a, b, c: write([c], [a > b]),
                        "or equal": lambda a, b, c: write([c], [a <= b]),
                        "magnitudes": lambda a, b, c: write([c], [abs(a) < abs(b)])})


def _places() -> Iterator[Workload]:
    """Yield what reads or returns indices, or has two outputs."""
    yield Workload("gather", w.gather, ROWS,
                   {"next row": gather_wrong(1), "clamped to 8":
                    lambda t, i, c: write([c], [t[np.minimum(i, 8)]])})
    yield Workload("least and most", w.least_and_most, f"{ALWAYS} in-tail {SIGNS}",
                   {"exchanged": lambda a, x, y: write([x, y], [a.max(axis=1), a.min(axis=1)]),
                    "second unwritten": lambda a, x, y: write([x], [a.min(axis=1)]),
                    "second the first": lambda a, x, y: write([x, y], [a.min(axis=1)] * 2)})
    yield Workload("argmax", w.places, "nothing zeros ones stale one off-by-one",
                   {"argmin": lambda a, p: write([p], [a.argmin(axis=1)]),
                    "of magnitudes": lambda a, p: write([p], [abs(a).argmax(axis=1)]),
                    "no last": lambda a, p: write([p], [a[:, :-1].argmax(axis=1)])})


def _without_reference() -> Iterator[Workload]:
    """Yield templates without a reference."""
    twice = lambda a: a * np.float32(2)  # noqa: E731
    yield Workload("without a reference", w.without_reference, "nothing",
                   {"no offset": lambda a, b: write([b], [twice(a)]),
                    "1e-4": lambda a, b: write([b], [(twice(a) + 1) * np.float32(1.0001)]),
                    "tail": lambda a, b: write([b[:-1]], [twice(a)[:-1] + 1]),
                    "clamped": lambda a, b: write([b], [twice(np.clip(a, -6, 6)) + 1]),
                    "zeros": lambda a, b: write([b], [np.zeros_like(a)])})
    yield Workload("sums without a reference", w.sums_without_reference, "nothing",
                   {"half": half_a_row, "in half": row_sums_in("float16"),
                    "in bfloat16": row_sums_in("bfloat16"),
                    "zeros": lambda a, b: b.fill(0)})


def cases(workload: Workload, task: Task) -> Iterator[tuple[str, Kernel]]:
    """Yield the wrong kernels of a workload, with names."""
    inputs = sum(not argument.is_output for argument in task.arguments)
    for way in dict.fromkeys(workload.ways.split()):
        yield way, WAYS[way](right_function(task, inputs), inputs)
    yield from workload.own.items()
