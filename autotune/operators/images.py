"""Windows of images: sizes, padding and checks for convolutions and pooling, and NumPy's views."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autotune import te
from autotune.errors import UsageError
from autotune.operators.operator_arguments import LARGEST

Array = npt.NDArray[Any]


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


def check_groups(template: str, groups: int, c: int, o: int) -> None:
    """Raise `UsageError` if channels are not divided into `groups` of equal size."""
    for name, channels in (("c", c), ("o", o)):
        if channels % groups:
            raise UsageError(
                f"{template}: {name} must be a multiple of groups ({groups}), got {channels}"
            )


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
