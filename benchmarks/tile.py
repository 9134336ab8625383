"""Tile functions on the CPU: tuned ones against NumPy, and the seconds of a first call.

Everything is tuned by `autotune run` into temporary logs, built from them, checked, and timed in
turn; every ratio comes from one run.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import Row, paired, parser, report, row
from cpu import tune, uniform

from autotune import tile
from autotune.operators.reductions.softmax import reference as softmax_in_numpy

MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"
CONV2D = """function (D[B, C, H, W], F[O, C, KH, KW]) -> (R) {
    R[b, o, y, x: B, O, H - KH + 1, W - KW + 1] = +(D[b, c, y + i, x + j] * F[o, c, i, j]);
}"""
SOFTMAX = """function (X[M, N]) -> (Y) {
    Most[i, 0: M, 1] = >(X[i, j]);
    E = exp(X - Most);
    Sum[i, 0: M, 1] = +(E[i, j]);
    Y = E / Sum;
}"""
DENSE = """function (A[M, K], B[K, N], Bias[N]) -> (D) {
    C[i, j: M, N] = +(A[i, k] * B[k, j]);
    Z = C + Bias;
    D = Z > 0 ? Z : 0.0;
}"""
LAYER_NORM = """function (X[M, N], Gamma[N], Beta[N]) -> (O) {
    Sum[m, 0: M, 1] = +(X[m, n]);
    Centred = X - Sum / N;
    Square = Centred * Centred;
    Squares[m, 0: M, 1] = +(Square[m, n]);
    O = Gamma * (Centred / sqrt(Squares / N + 1e-5)) + Beta;
}"""


def tuned(folder: Path, name: str, code: str, args: dict[str, Any], trials: int) -> Any:
    """Tune a Tile function and return what is built from its log."""
    path = folder / f"{name}.tile"
    path.write_text(code)
    built, _ = tune(folder, str(path), args, trials)
    return built


def compile_row(name: str, code: str, *arrays: np.ndarray) -> Row:
    """Time a first call of a function, from its text to its answer, without tuning."""
    begin = time.perf_counter()
    tile.compile(code)(*arrays)
    return row(f"{name}.compile", time.perf_counter() - begin, "s")


def matmul_rows(folder: Path, trials: int) -> list[Row]:
    """Compare a matrix product with NumPy's."""
    n = 512  # the answer is checked by enumerating n ** 3 index sets
    ours = tuned(folder, "product", MATMUL, {"M": n, "N": n, "K": n}, trials)
    a, b = uniform(n, n), uniform(n, n)
    c, d = np.empty((n, n), "f4"), np.empty((n, n), "f4")
    ours_s, numpy_s = paired(lambda: ours(a, b, c), lambda: np.matmul(a, b, out=d))
    np.testing.assert_allclose(c, d, rtol=1e-3, atol=1e-3)
    ratio = row(f"matmul.{n}.over_numpy", numpy_s / ours_s, "ratio", 1.0)
    return [ratio, compile_row("matmul", MATMUL, a, b)]


def conv2d_rows(folder: Path, trials: int) -> list[Row]:
    """Compare a convolution with NumPy's sum over its windows."""
    c, h, o, k = 64, 58, 64, 3
    ours = tuned(
        folder, "conv", CONV2D, {"B": 1, "C": c, "H": h, "W": h, "O": o, "KH": k, "KW": k}, trials
    )
    data, weight, size = uniform(1, c, h, h), uniform(o, c, k, k), h - k + 1
    x = np.empty((1, o, size, size), "f4")
    windows = np.lib.stride_tricks.sliding_window_view(data[0], (k, k), axis=(1, 2))

    def in_numpy() -> np.ndarray:
        return np.tensordot(weight, windows, axes=((1, 2, 3), (0, 3, 4)))

    ours_s, numpy_s = paired(lambda: ours(data, weight, x), in_numpy)
    np.testing.assert_allclose(x[0], in_numpy(), rtol=1e-3, atol=1e-3)
    ratio = row(f"conv2d.{c}x{h}x{h}.over_numpy", numpy_s / ours_s, "ratio", 1.0)
    return [ratio, compile_row("conv2d", CONV2D, data, weight)]


def softmax_rows(folder: Path, trials: int) -> list[Row]:
    """Compare a softmax of rows with NumPy's operations."""
    m, n = 4096, 1024
    ours = tuned(folder, "rows", SOFTMAX, {"M": m, "N": n}, trials)
    x, y = uniform(m, n), np.empty((m, n), "f4")
    ours_s, numpy_s = paired(lambda: ours(x, y), lambda: softmax_in_numpy(x))
    np.testing.assert_allclose(y, softmax_in_numpy(x), rtol=1e-3)
    ratio = row(f"softmax.{m}x{n}.over_numpy", numpy_s / ours_s, "ratio", 1.0)
    return [ratio, compile_row("softmax", SOFTMAX, x)]


def dense_rows(folder: Path, trials: int) -> list[Row]:
    """Compare a product followed by bias and relu with the product alone."""
    n = 512
    args = {"M": n, "N": n, "K": n}
    ours = tuned(folder, "dense", DENSE, args, trials)
    product = tuned(folder, "product", MATMUL, args, trials)
    a, b, bias = uniform(n, n), uniform(n, n), uniform(n)
    c, d = np.empty((n, n), "f4"), np.empty((n, n), "f4")
    ours_s, product_s = paired(lambda: ours(a, b, bias, d), lambda: product(a, b, c))
    np.testing.assert_allclose(d, np.maximum(a @ b + bias, 0), rtol=1e-3, atol=1e-3)
    return [row(f"dense.{n}.over_product", product_s / ours_s, "ratio")]


def layer_norm_rows(folder: Path, trials: int) -> list[Row]:
    """Compare a layer norm with NumPy's operations."""
    m, n = 4096, 1024
    ours = tuned(folder, "norm", LAYER_NORM, {"M": m, "N": n}, trials)
    x, gamma, beta, y = uniform(m, n), uniform(n), uniform(n), np.empty((m, n), "f4")

    def in_numpy() -> np.ndarray:
        centred = x - x.mean(axis=1, keepdims=True)
        scale = np.sqrt((centred * centred).mean(axis=1, keepdims=True) + np.float32(1e-5))
        result: np.ndarray = gamma * (centred / scale) + beta
        return result

    ours_s, numpy_s = paired(lambda: ours(x, gamma, beta, y), in_numpy)
    np.testing.assert_allclose(y, in_numpy(), rtol=1e-3, atol=1e-3)
    return [row(f"layer_norm.{m}x{n}.over_numpy", numpy_s / ours_s, "ratio")]


def main() -> None:
    """Run the benchmarks and report."""
    options = parser(__doc__ or "")
    options.add_argument("--trials", type=int, default=128, help="measurements per kernel")
    options.add_argument("--only", default="", help="regular expression on the names of the parts")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        parts: dict[str, Callable[[], list[Row]]] = {
            "matmul": lambda: matmul_rows(folder, args.trials),
            "conv2d": lambda: conv2d_rows(folder, args.trials),
            "softmax": lambda: softmax_rows(folder, args.trials),
            "dense": lambda: dense_rows(folder, args.trials),
            "layer_norm": lambda: layer_norm_rows(folder, args.trials),
        }
        rows = [r for name, part in parts.items() if re.search(args.only, name) for r in part()]
    report("tile", rows, args.json, args.save)


if __name__ == "__main__":
    main()
