"""Launches of kernels that take vectors, on a machine whose GPU is a stand-in; run as a program."""

from __future__ import annotations

import ctypes
import re
import sys

import cupy
import numpy as np
import pytest

from autotune import rtc
from autotune.errors import ArgumentError, UsageError
from support.rtc_texts import ELEMENTWISE, SCALED_SUM, parameters


class Both(ctypes.Structure):
    _fields_ = (
        ("inputs", ctypes.c_void_p * 2),
        ("outputs", ctypes.c_void_p * 1),
        ("scale", ctypes.c_float),
    )


def placed(values: np.ndarray, start: int):
    """Return a copy in the GPU's memory that begins so many elements after a multiple of 256."""
    itemsize = values.dtype.itemsize
    room = cupy.zeros(values.size + 512 // itemsize, values.dtype)
    begin = -(room.data.ptr // itemsize) % (256 // itemsize) + start
    view = room[begin : begin + values.size].reshape(values.shape)
    view.set(values)
    return view, room


def run(
    operator: str, input: str, output: str, shape: tuple[int, ...], starts=(0, 0),
    request="kWriteTo", nvec=4, **more,
) -> None:  # fmt: skip
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, shape).astype(input)
    old = random.integers(-4, 5, shape).astype(output)
    (source, _), (target, room) = placed(x, starts[0]), placed(old, starts[1])
    before = room.get()
    rtc.VectorizedKernelRTCLauncher(
        parameters(operator, request), "elementwise", ELEMENTWISE, nvec, shape[-1],
        int(np.prod(shape[:-1])), None, None, [source], [target], **more,
    )  # fmt: skip
    want = rtc.unary(operator).reference(x, old, "add" if request == "kAddTo" else "write")
    np.testing.assert_allclose(target.get(), want, rtol=1e-3 if output == "float16" else 1e-6)
    after = room.get()
    changed = np.flatnonzero(before != after)
    inside = (target.data.ptr - room.data.ptr) // target.itemsize
    assert all(inside <= place < inside + x.size for place in changed), "it wrote outside"


def elementwise() -> None:
    run("sigmoid", "float32", "float32", (1000,))
    run("sigmoid", "float16", "float32", (1003,), (3, 3))
    run("relu", "float32", "float64", (997,), (1, 2), nvec=2)
    run("square", "int8", "int32", (64, 37), (5, 5), "kAddTo", nvec=8, blocks=3)
    run("exp", "float64", "float16", (3, 8), nvec=2, dev_id=0)
    run("abs", "float32", "float32", (0,))


def scaled_sum() -> None:
    a, b = (np.random.default_rng(n).random(777).astype(t) for n, t in enumerate(("f4", "f2")))
    x, y, z = cupy.asarray(a), cupy.asarray(b), cupy.zeros(777, "float32")
    pointers = (ctypes.c_void_p * 2)(x.data.ptr, y.data.ptr), (ctypes.c_void_p * 1)(z.data.ptr)
    given = Both(*pointers, 2.5)
    rtc.VectorizedKernelRTCLauncher(
        "", "scaled_sum", SCALED_SUM, 4, 777, 1, None, given, [x, y], [z], 0
    )
    np.testing.assert_allclose(z.get(), a * np.float32(2.5) + b.astype("f4"), rtol=1e-6)


def mistakes() -> None:
    x, y = cupy.zeros(8, "float32"), cupy.zeros(9, "float32")
    start = parameters("relu"), "elementwise", ELEMENTWISE
    for rest, kind, message in (
        ((3, 8, 1, None, None, [x], [x]), UsageError, "nvec must be a power of two from 1 to 64"),
        ((4, -1, 1, None, None, [x], [x]), UsageError, "lead_dim must be a whole number >= 0"),
        ((4, 8, 1, None, None, [x], []), UsageError, "there must be one output at least"),
        ((4, 8, 1, None, None, x, [x]), UsageError, "inputs must be a list of arrays, as in [x]"),
        ((4, 8, 1, None, None, [x], [y]), ArgumentError, "output 0 must have lead_dim * other_dim"),
        ((4, 8, 1, None, None, [x, x], [x]), ArgumentError, "argument 1 must have the 16 bytes"),
        ((4, 8, 1, None, None, [np.zeros(8)], [x]), ArgumentError, "elementwise: input 0 "),
    ):
        with pytest.raises(kind, match=re.escape(message)) as error:
            rtc.VectorizedKernelRTCLauncher(*start, *rest)
        assert "\n" not in str(error.value)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        {"elementwise": elementwise, "scaled_sum": scaled_sum, "mistakes": mistakes}[name]()
        print(name)
