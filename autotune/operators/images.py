"""Images: convolutions, sizes and padding for them and for pooling, and windows in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.operators.elements import Array, computed_in
from autotune.operators.operator_arguments import LARGEST, check_arguments


def output_size(size: int, kernel: int, stride: int, pad: int, dilation: int = 1) -> int:
    """Return the extent of an output dimension, in elements; below 1 if the kernel does not fit."""
    return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


def output_sizes(
    template: str,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: int,
    pad: int,
    dilation: int = 1,
) -> tuple[int, int]:
    """Return height and width of the output.

    Raises UsageError if the padding is negative or too large to count in, or the kernel does not
    fit.
    """
    most = (LARGEST - max(size)) // 2
    if not 0 <= pad <= most:
        limit = "at least 0" if pad < 0 else f"at most {most}"
        raise UsageError(f"{template}: pad must be {limit}, got {pad}")
    oh, ow = (output_size(s, k, stride, pad, dilation) for s, k in zip(size, kernel, strict=True))
    if oh < 1 or ow < 1:
        spread = f" with dilation {dilation}" if dilation > 1 else ""
        raise UsageError(
            f"{template}: a {kernel[0]}x{kernel[1]} kernel{spread} does not fit into "
            f"{size[0]}x{size[1]} with padding {pad}"
        )
    return oh, ow


def convolution(
    template: str,
    image: tuple[int, int, int, int],
    kernel: tuple[int, int, int],
    stride: int,
    pad: int,
    groups: int,
    dilation: int,
    dtype: str,
    channels_last: bool = False,
) -> list[Any]:
    """Return images D, weights F and their convolution O, for a template's arguments.

    `image`: images n, channels c, rows h and columns w.
    `kernel`: output channels o, rows kh and columns kw of the kernel.
    `channels_last`: whether D is [n, h, w, c] and F [kh, kw, c / groups, o], else D is [n, c, h, w]
    and F [o, c / groups, kh, kw].

    Raises UsageError if an argument cannot be, or channels are not divided into `groups` of equal
    size.
    """
    (n, c, h, w), (o, kh, kw) = image, kernel
    sizes = {"n": n, "c": c, "h": h, "w": w, "o": o, "kh": kh, "kw": kw}
    steps = {"stride": stride, "groups": groups, "dilation": dilation}
    check_arguments(template, dtype, dtypes.NUMBERS, **sizes, **steps)
    for name, channels in (("c", c), ("o", o)):
        if channels % groups:
            raise UsageError(
                f"{template}: {name} must be a multiple of groups ({groups}), got {channels}"
            )
    oh, ow = output_sizes(template, (h, w), (kh, kw), stride, pad, dilation)
    own, per_group = c // groups, o // groups
    D = te.placeholder((n, h, w, c) if channels_last else (n, c, h, w), dtype, name="D")
    F = te.placeholder((kh, kw, own, o) if channels_last else (o, own, kh, kw), dtype, name="F")
    P = padded(D, pad, 1 if channels_last else 2, te.const(0, dtype))
    rc, ry, rx = (te.reduce_axis((0, s), name=r) for s, r in ((own, "rc"), (kh, "ry"), (kw, "rx")))

    def element(b: Any, oc: Any, y: Any, x: Any) -> Any:
        channel = rc if groups == 1 else oc // per_group * own + rc
        row, column = y * stride + ry * dilation, x * stride + rx * dilation
        if channels_last:
            return te.sum(P[b, row, column, channel] * F[ry, rx, rc, oc], axis=[ry, rx, rc])
        return te.sum(P[b, channel, row, column] * F[oc, rc, ry, rx], axis=[rc, ry, rx])

    def pixel(b: Any, y: Any, x: Any, oc: Any) -> Any:
        return element(b, oc, y, x)

    shape, value = ((n, oh, ow, o), pixel) if channels_last else ((n, o, oh, ow), element)
    return [D, F, computed_in(dtypes.accumulator(dtype), dtype, shape, value, "O")]


def padded(data: Any, pad: int, first: int, value: Any) -> Any:
    """Return images with a margin of `pad` elements of a value around them.

    `first`: position of the rows among the dimensions; the columns come after them.
    `value`: constant, of the type of `data`.
    """
    if not pad:
        return data
    h, w = data.shape[first : first + 2]
    shape = list(data.shape)
    shape[first : first + 2] = h + 2 * pad, w + 2 * pad

    def element(*index: Any) -> Any:
        at = list(index)
        y, x = at[first], at[first + 1]
        at[first : first + 2] = y - pad, x - pad
        inside = te.all(y >= pad, y < h + pad, x >= pad, x < w + pad)
        return te.if_then_else(inside, data(*at), value)

    return te.compute(shape, element, name="P")


def windows(
    data: Array, kernel: tuple[int, int], stride: int, pad: int, dilation: int, value: float = 0
) -> Array:
    """Return the windows of images (n, c, h, w) as a view (n, c, oh, ow, kh, kw)."""
    around = ((0, 0), (0, 0), (pad, pad), (pad, pad))
    spread = tuple((k - 1) * dilation + 1 for k in kernel)
    views = np.lib.stride_tricks.sliding_window_view(
        np.pad(data, around, constant_values=value), spread, axis=(2, 3)
    )
    return views[:, :, ::stride, ::stride, ::dilation, ::dilation]
