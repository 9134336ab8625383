"""2-D convolution of images whose channels are the last dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune.operators.contractions.conv2d_nchw import flops
from autotune.operators.contractions.conv2d_nchw import reference as nchw_reference
from autotune.operators.elements import Array
from autotune.operators.images import convolution
from autotune.template import template


def reference(data: Array, weight: Array, **args: Any) -> Array:
    """Convolution of (n, h, w, c) with (kh, kw, c / groups, o)."""
    found = nchw_reference(data.transpose(0, 3, 1, 2), weight.transpose(3, 2, 0, 1), **args)
    return np.ascontiguousarray(found.transpose(0, 2, 3, 1))


@template("conv2d_nhwc", reference=reference, flops=flops)
def conv2d_nhwc(
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
    """O[n, oh, ow, o] = convolution of D[n, h, w, c] with F[kh, kw, c / groups, o].

    Half floats are multiplied and summed in float32.
    """
    return convolution(
        "conv2d_nhwc", (n, c, h, w), (o, kh, kw), stride, pad, groups, dilation, dtype,
        channels_last=True,
    )  # fmt: skip
