"""2-D convolution of images whose channels are the last dimension."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autotune import te
from autotune.ir import dtypes
from autotune.operators.conv2d_nchw import flops
from autotune.operators.conv2d_nchw import reference as nchw_reference
from autotune.operators.elements import computed_in
from autotune.operators.images import check_groups, output_sizes, padded
from autotune.operators.operator_arguments import check_arguments
from autotune.template import template


def reference(
    data: npt.NDArray[Any],
    weight: npt.NDArray[Any],
    *,
    stride: int = 1,
    pad: int = 0,
    groups: int = 1,
    dilation: int = 1,
    **_: Any,
) -> npt.NDArray[Any]:
    """Convolution of (n, h, w, c) with (kh, kw, c / groups, o)."""
    found = nchw_reference(
        data.transpose(0, 3, 1, 2),
        weight.transpose(3, 2, 0, 1),
        stride=stride,
        pad=pad,
        groups=groups,
        dilation=dilation,
    )
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
    sizes = {"n": n, "c": c, "h": h, "w": w, "o": o, "kh": kh, "kw": kw}
    steps = {"stride": stride, "groups": groups, "dilation": dilation}
    check_arguments("conv2d_nhwc", dtype, dtypes.NUMBERS, **sizes, **steps)
    check_groups("conv2d_nhwc", groups, c, o)
    oh, ow = output_sizes("conv2d_nhwc", (h, w), (kh, kw), stride, pad, dilation)
    own, per_group = c // groups, o // groups
    D = te.placeholder((n, h, w, c), dtype, name="D")
    F = te.placeholder((kh, kw, own, o), dtype, name="F")
    P = padded(D, pad, 1, te.const(0, dtype))
    rc, ry, rx = (te.reduce_axis((0, s), name=r) for s, r in ((own, "rc"), (kh, "ry"), (kw, "rx")))

    def element(b: Any, y: Any, x: Any, oc: Any) -> Any:
        channel = rc if groups == 1 else oc // per_group * own + rc
        pixel = P[b, y * stride + ry * dilation, x * stride + rx * dilation, channel]
        return te.sum(pixel * F[ry, rx, rc, oc], axis=[ry, rx, rc])

    O = computed_in(dtypes.accumulator(dtype), dtype, (n, oh, ow, o), element, "O")  # noqa: E741
    return [D, F, O]
