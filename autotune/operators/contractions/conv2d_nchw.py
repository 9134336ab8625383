"""2-D convolution of images whose channels come before rows and columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune.operators.elements import Array
from autotune.operators.images import convolution, output_size, windows
from autotune.template import template


def flops(n: int, o: int, kh: int, kw: int, groups: int, **rest: Any) -> float:
    """Return the multiplications and additions of a convolution, those with padding too."""
    how = [rest[name] for name in ("stride", "pad", "dilation")]
    oh, ow = (output_size(rest[s], k, *how) for s, k in (("h", kh), ("w", kw)))
    return float(2 * n * o * oh * ow * (rest["c"] // groups) * kh * kw)


def reference(
    data: Array,
    weight: Array,
    *,
    stride: int = 1,
    pad: int = 0,
    groups: int = 1,
    dilation: int = 1,
    **_: Any,
) -> Array:
    """Convolution of (n, c, h, w) with (o, c / groups, kh, kw).

    It is computed as matrix products over unfolded windows, one for each group.
    """
    kh, kw = weight.shape[2:]
    views = windows(data, (kh, kw), stride, pad, dilation)
    parts = zip(np.split(views, groups, axis=1), np.split(weight, groups), strict=True)
    found = [np.tensordot(view, own, axes=((1, 4, 5), (1, 2, 3))) for view, own in parts]
    whole = np.concatenate(found, axis=3).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(whole, dtype=data.dtype)


@template("conv2d_nchw", reference=reference, flops=flops)
def conv2d_nchw(
    n: int,
    c: int,
    h: int,
    w: int,
    o: int,
    kh: int,
    kw: int,
    stride: int = 1,
    pad: int = 0,
    groups: int = 1,
    dilation: int = 1,
    dtype: str = "float32",
) -> list[Any]:
    """O[n, o, oh, ow] = convolution of D[n, c, h, w] with F[o, c / groups, kh, kw].

    Half floats are multiplied and summed in float32.

    Parameters
    ----------
    n, c, h, w : int
        Images, their channels, rows and columns.
    o, kh, kw : int
        Output channels, rows and columns of the kernel.
    stride, pad, dilation : int
        Of rows and columns alike: steps of the kernel, margin of zeros, and distance of the
        kernel's elements.
    groups : int
        Parts of the channels; output channels of a part read the input channels of that part.
    dtype : str
    """
    return convolution(
        "conv2d_nchw", (n, c, h, w), (o, kh, kw), stride, pad, groups, dilation, dtype
    )
