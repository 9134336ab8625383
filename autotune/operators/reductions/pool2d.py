"""Pooling of images: the maximum or the mean of each window."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.operators.elements import Array
from autotune.operators.images import output_sizes, padded, windows
from autotune.operators.operator_arguments import check_arguments, check_choice
from autotune.template import template


def reference(data: Array, *, kernel: int, stride: int, pad: int, how: str) -> Array:
    """Maximum or mean of the windows of (n, c, h, w) images; padding belongs to none."""
    square = (kernel, kernel)
    if how == "max":
        lowest = -np.inf if data.dtype.kind not in "iu" else np.iinfo(data.dtype).min
        return np.asarray(windows(data, square, stride, pad, 1, lowest).max(axis=(4, 5)))
    total = windows(data, square, stride, pad, 1).sum(axis=(4, 5))
    ones = np.ones((1, 1, *data.shape[2:]), data.dtype)
    return np.asarray(total / windows(ones, square, stride, pad, 1).sum(axis=(4, 5)))


@template("pool2d", reference=reference)
def pool2d(
    n: int,
    c: int,
    h: int,
    w: int,
    kernel: int,
    stride: int = 1,
    pad: int = 0,
    how: str = "max",
    dtype: str = "float32",
) -> list[Any]:
    """O[n, c, oh, ow] = maximum or mean of windows of D[n, c, h, w]; padding belongs to none.

    Half floats are summed in float32.

    Parameters
    ----------
    n, c, h, w : int
        Images, their channels, rows and columns.
    kernel, stride, pad : int
        Of rows and columns alike: size of a window, steps between windows, and margin. The mean
        of a window is that of its elements inside the image.
    how : str
        "max" or "mean".
    dtype : str
    """
    check_choice("pool2d", "how", how, ("max", "mean"))
    known = dtypes.NUMBERS if how == "max" else dtypes.FLOATS
    sizes = {"n": n, "c": c, "h": h, "w": w, "kernel": kernel, "stride": stride}
    check_arguments("pool2d", dtype, known, **sizes)
    if pad >= kernel:
        raise UsageError(f"pool2d: pad must be less than kernel ({kernel}), got {pad}")
    oh, ow = output_sizes("pool2d", (h, w), (kernel, kernel), stride, pad)
    D = te.placeholder((n, c, h, w), dtype, name="D")
    outside = te.min_value(dtype) if how == "max" else te.const(0, dtype)
    P = padded(D, pad, 2, outside)
    ry, rx = (te.reduce_axis((0, kernel), name=name) for name in ("ry", "rx"))
    reduction = te.max if how == "max" else te.sum
    T = te.compute(
        (n, c, oh, ow),
        lambda b, ch, y, x: reduction(P[b, ch, y * stride + ry, x * stride + rx], axis=[ry, rx]),
        name="O" if how == "max" else "T",
    )
    if how == "max":
        return [D, T]

    def inside(at: Any, size: int) -> Any:
        """Return how many elements of a window are inside the image along one dimension."""
        first = at * stride - pad
        return te.min(first + kernel, size) - te.max(first, 0)

    def mean(b: Any, ch: Any, y: Any, x: Any) -> Any:
        count = inside(y, h) * inside(x, w) if pad else te.const(kernel**2)
        return (T[b, ch, y, x] / count.astype(T.dtype)).astype(dtype)

    return [D, te.compute((n, c, oh, ow), mean, name="O")]
