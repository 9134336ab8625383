"""Direct 2-D convolution on CPUs, NCHW: packed weights, a register tile of pixels by channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autotune import te
from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.operators.operator_arguments import check_arguments
from autotune.template import Knobs, template


def output_size(size: int, kernel: int, stride: int, pad: int) -> int:
    """Return the extent of an output dimension, in elements."""
    return (size + 2 * pad - kernel) // stride + 1


def _flops(
    n: int, c: int, h: int, w: int, o: int, kh: int, kw: int, stride: int = 1, pad: int = 0,
    dtype: str = "float32",
) -> float:
    oh, ow = output_size(h, kh, stride, pad), output_size(w, kw, stride, pad)
    return 2.0 * n * o * oh * ow * c * kh * kw


def reference(
    data: npt.NDArray[Any], weight: npt.NDArray[Any], *, stride: int = 1, pad: int = 0, **_: Any
) -> npt.NDArray[Any]:
    """Convolution as a matrix product over unfolded windows.

    Parameters
    ----------
    data : (n, c, h, w) array
    weight : (o, c, kh, kw) array

    Returns
    -------
    (n, o, oh, ow) array
    """
    padded = np.pad(data, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    result = np.tensordot(windows, weight, axes=((1, 4, 5), (1, 2, 3)))
    return np.ascontiguousarray(result.transpose(0, 3, 1, 2), dtype=data.dtype)


@template("conv2d_nchw", target="llvm", reference=reference, flops=_flops)
def conv2d_nchw(
    cfg: Knobs,
    n: int,
    c: int,
    h: int,
    w: int,
    o: int,
    kh: int,
    kw: int,
    stride: int = 1,
    pad: int = 0,
    dtype: str = "float32",
) -> tuple[Any, list[Any]]:
    """O[n, o, oh, ow] = convolution of D[n, c, h, w] with F[o, c, kh, kw].

    Half floats are multiplied and summed in float32.

    Knobs
    -----
    tile_x, tile_o
        Pixels of a row and output channels of the register tile.
    unroll_kw
        Whether the loop over the kernel's columns is unrolled.
    rows
        Rows of the output that one parallel task computes.
    """
    sizes = {"n": n, "c": c, "h": h, "w": w, "o": o, "kh": kh, "kw": kw, "stride": stride}
    check_arguments("conv2d_nchw", dtype, dtypes.NUMBERS, **sizes)
    D = te.placeholder((n, c, h, w), dtype, name="D")
    F = te.placeholder((o, c, kh, kw), dtype, name="F")
    if pad < 0:
        raise UsageError(f"conv2d_nchw: pad must be at least 0, got {pad}")
    oh, ow = output_size(h, kh, stride, pad), output_size(w, kw, stride, pad)
    if oh < 1 or ow < 1:
        raise UsageError(
            f"conv2d_nchw: a {kh}x{kw} kernel does not fit into {h}x{w} with padding {pad}"
        )
    lanes = max(1, cfg.target.vector_bytes // dtypes.itemsize(dtypes.accumulator(dtype)))
    wide = cfg.target.vector_bytes >= 64
    registers = 32 if wide else 16
    # The first value of a knob is its default.
    tile_x = cfg.define_knob("tile_x", [6, 1, 2, 3, 4, 5, 7, 8, 10, 12, 14, 16])
    vectors_o = [4, 1, 2] if wide else [2, 1, 4]
    tile_o = cfg.define_knob("tile_o", [count * lanes for count in vectors_o])
    unroll_kw = cfg.define_knob("unroll_kw", [True, False])
    rows = cfg.define_knob("rows", [2, 1, 4, 8])
    cfg.add_constraint(
        tile_x * tile_o <= (registers - 2) * lanes, "the accumulators fit in the registers"
    )
    cfg.add_constraint(tile_x <= max(1, ow), "a tile is no wider than the image")
    cfg.add_constraint(rows <= max(1, oh), "a task is no taller than the image")

    zero = te.const(0, dtype)
    P = D
    if pad:
        P = te.compute(
            (n, c, h + 2 * pad, w + 2 * pad),
            lambda b, ci, y, x: te.if_then_else(
                te.all(y >= pad, y < h + pad, x >= pad, x < w + pad),
                D[b, ci, y - pad, x - pad],
                zero,
            ),
            name="P",
        )
    groups, tiles = te.ceildiv(o, tile_o), te.ceildiv(ow, tile_x)
    W = te.compute(
        (groups, c, kh, kw, tile_o),
        lambda oo, ci, ky, kx, oi: F[te.min(oo * tile_o + oi, o - 1), ci, ky, kx],
        name="W",
    )
    rc = te.reduce_axis((0, c), name="rc")
    ry = te.reduce_axis((0, kh), name="ry")
    rx = te.reduce_axis((0, kw), name="rx")
    T = te.compute(
        (n, groups, oh, tiles, tile_x, tile_o),
        lambda b, oo, y, xo, xi, oi: te.sum(
            P[b, rc, y * stride + ry, te.min(xo * tile_x + xi, ow - 1) * stride + rx]
            * W[oo, rc, ry, rx, oi],
            axis=[rc, ry, rx],
        ),
        name="T",
    )
    O = te.compute(  # noqa: E741 - the operator's name in the literature
        (n, o, oh, ow),
        lambda b, oc, y, x: T[
            b, oc // tile_o, y, x // tile_x, x % tile_x, oc % tile_o
        ].astype(dtype),
        name="O",
    )

    s = te.create_schedule(O.op)
    acc = s.cache_write(T, "local")
    b, oc, y, x = s[O].op.axis
    oo, oi = s[O].split(oc, factor=tile_o)
    xo, xi = s[O].split(x, factor=tile_x)
    yo, yi = s[O].split(y, factor=rows)
    s[O].reorder(b, oo, yo, yi, xo, oi, xi)
    s[O].parallel(s[O].fuse(b, oo, yo))
    s[T].compute_at(s[O], xo)
    *_, tx, to = s[T].op.axis
    s[T].unroll(tx)
    s[T].vectorize(to)
    s[acc].compute_at(s[O], xo)
    *outer, ax, ao = s[acc].op.axis
    rc, ry, rx = s[acc].op.reduce_axis
    s[acc].reorder(*outer, rc, ry, rx, ax, ao)
    if unroll_kw:
        s[acc].unroll(rx)
    s[acc].unroll(ax)
    s[acc].vectorize(ao)
    s[W].parallel(s[W].op.axis[0])
    if pad:
        s[P].parallel(s[P].fuse(*s[P].op.axis[:2]))
    return s, [D, F, O]
