"""Realistic Tile programs with what they mean in NumPy: cases for all that takes Tile functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from support.tile_tools import floats

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class TileProgram:
    """A Tile function of float32 arrays.

    Attributes
    ----------
    code
        Its text.
    cases
        Shapes of the inputs, for some calls.
    meaning
        The same with NumPy; several outputs as a tuple.
    fixed
        Inputs that are constants of the algorithm, by position.
    """

    code: str
    cases: tuple[Shapes, ...]
    meaning: Callable[..., Any]
    fixed: tuple[tuple[int, Any], ...] = ()

    def arrays(self, shapes: Shapes) -> list[Any]:
        """Return inputs for one case: random, but for the fixed ones."""
        arrays = [floats(*shape, seed=k) for k, shape in enumerate(shapes)]
        for position, array in self.fixed:
            arrays[position] = np.asarray(array, np.float32)
        return arrays


def _conv(x: Any, k: Any, dilation: tuple[int, int] = (1, 1)) -> Any:
    """Valid convolution of NHWC by HWIO."""
    height = x.shape[1] - dilation[0] * (k.shape[0] - 1)
    width = x.shape[2] - dilation[1] * (k.shape[1] - 1)
    parts = [
        x[:, dilation[0] * i :, dilation[1] * j :][:, :height, :width] @ k[i, j]
        for i in range(k.shape[0])
        for j in range(k.shape[1])
    ]
    return np.sum(parts, axis=0)


def _grouped(x: Any, k: Any) -> Any:
    """Dilated (2, 3) convolution in groups; the kernel is HWGIO."""
    groups, size = k.shape[2], k.shape[3]
    parts = [
        _conv(x[..., g * size : (g + 1) * size], k[:, :, g], (2, 3)) for g in range(groups)
    ]
    return np.concatenate(parts, axis=-1)


def _strided(x: Any, k: Any) -> Any:
    """3 x 3 convolution of NCHW by OIHW with padding 1 and stride 2."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).transpose(0, 2, 3, 1)
    return _conv(padded, k.transpose(2, 3, 1, 0))[:, ::2, ::2].transpose(0, 3, 1, 2)


def _transposed(x: Any, k: Any) -> Any:
    result = np.zeros((2 * (x.shape[0] - 1) + k.shape[0], k.shape[2]), x.dtype)
    for i in range(x.shape[0]):
        for j in range(k.shape[0]):
            result[2 * i + j] += x[i] @ k[j]
    return result


def _pooled(x: Any) -> Any:
    height, width = (x.shape[1] + 1) // 2, (x.shape[2] + 1) // 2
    rows = [
        np.stack([x[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3].max((1, 2)) for j in range(width)], 1)
        for i in range(height)
    ]
    return np.stack(rows, 1)


def _normalised(x: Any, axes: tuple[int, ...]) -> Any:
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5)


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _lstm(x: Any, h: Any, c: Any, w: Any, r: Any, bias: Any) -> Any:
    i, f, g, o = np.split(x @ w + h @ r + bias, 4, axis=1)
    cell = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return _sigmoid(o) * np.tanh(cell), cell


_B = [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]]
_G = [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]
_A = [[1, 1, 1, 0], [0, 1, -1, -1]]

PROGRAMS: dict[str, TileProgram] = {
    "matmul": TileProgram(
        "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
        (((3, 4), (4, 5)), ((5, 1), (1, 2))),
        lambda a, b: a @ b,
    ),
    "dilated and grouped convolution": TileProgram(
        """function (I[N, H, W, C], K[KH, KW, G, CI, CO]) -> (O) {
            O[n, x, y, CO * g + co: N, H - 2 * (KH - 1), W - 3 * (KW - 1), G * CO] =
                +(I[n, x + 2 * i, y + 3 * j, CI * g + ci] * K[i, j, g, ci, co]);
        }""",
        (((2, 6, 8, 4), (3, 2, 2, 2, 3)), ((1, 5, 7, 3), (2, 3, 3, 1, 1))),
        _grouped,
    ),
    "padded and strided convolution": TileProgram(
        """function (I[N, CI, H, W], K[CO, CI, KH, KW]) -> (O) {
            O[n, co, x, y: N, CO, (H + 1) / 2, (W + 1) / 2] =
                +(I[n, ci, 2 * x + i - 1, 2 * y + j - 1] * K[co, ci, i, j]);
        }""",
        (((2, 3, 6, 5), (2, 3, 3, 3)), ((1, 1, 1, 4), (3, 1, 3, 3))),
        _strided,
    ),
    "transposed convolution": TileProgram(
        """function (I[N, CI], K[L, CI, CO]) -> (O) {
            O[2 * i + j, co: 2 * (N - 1) + L, CO] = +(I[i, ci] * K[j, ci, co]);
        }""",
        (((4, 2), (3, 2, 3)), ((3, 1), (1, 1, 2))),
        _transposed,
    ),
    "pooling with rounding up": TileProgram(
        """function (I[N, H, W, C]) -> (O) {
            O[n, x, y, c: N, (H + 1) / 2, (W + 1) / 2, C] =
                >(I[n, 2 * x + i, 2 * y + j, c]), i < 3, j < 3;
        }""",
        (((2, 6, 5, 2),), ((1, 3, 1, 3),)),
        _pooled,
    ),
    "batch norm": TileProgram(
        """function (X[N, H, W, C], Gamma[C], Beta[C]) -> (O) {
            Sum[c: C] = +(X[n, h, w, c]);
            Centred = X - Sum / (N * H * W);
            Square = Centred * Centred;
            Squares[c: C] = +(Square[n, h, w, c]);
            O = Gamma * Centred / sqrt(Squares / (N * H * W) + 1e-5) + Beta;
        }""",
        (((3, 2, 4, 5), (5,), (5,)), ((4, 3, 3, 1), (1,), (1,))),
        lambda x, g, b: _normalised(x, (0, 1, 2)) * g + b,
    ),
    "layer norm": TileProgram(
        """function (X[M, N], Gamma[N], Beta[N]) -> (O) {
            Sum[m, 0: M, 1] = +(X[m, n]);
            Centred = X - Sum / N;
            Square = Centred * Centred;
            Squares[m, 0: M, 1] = +(Square[m, n]);
            O = Gamma * (Centred / sqrt(Squares / N + 1e-5)) + Beta;
        }""",
        (((3, 8), (8,), (8,)), ((2, 5), (5,), (5,))),
        lambda x, g, b: _normalised(x, (1,)) * g + b,
    ),
    "softmax": TileProgram(
        """function (X[M, N]) -> (O) {
            Most[m, 0: M, 1] = >(X[m, n]);
            E = exp(X - Most);
            Sum[m, 0: M, 1] = +(E[m, n]);
            O = E / Sum;
        }""",
        (((3, 8),), ((2, 5),)),
        _softmax,
    ),
    "argmax": TileProgram(
        """function (X[M, N]) -> (O) {
            Most[m: M] = >(X[m, n]);
            At = index(X, 1);
            O[m: M] = >(X[m, n] == Most[m] ? At[m, n]);
        }""",
        (((4, 6),), ((3, 1),)),
        lambda x: x.argmax(axis=1).astype("int32"),
    ),
    "cumulative sums both ways": TileProgram(
        """function (X[N, C]) -> (Up, Down) {
            Up[i, c: N, C] = +(X[k, c]), i - k < N;
            Down[i, c: N, C] = +(X[i + j, c]), j < N;
        }""",
        (((6, 2),), ((5, 3),)),
        lambda x: (x.cumsum(axis=0), x[::-1].cumsum(axis=0)[::-1]),
    ),
    "concatenation": TileProgram(
        """function (A[M, C], B[N, C]) -> (O) {
            First[i, c: M + N, C] = =(A[i, c]);
            Second[i + M, c: M + N, C] = =(B[i, c]);
            O = First + Second;
        }""",
        (((4, 3), (2, 3)), ((1, 2), (5, 2))),
        lambda a, b: np.concatenate([a, b]),
    ),
    "winograd": TileProgram(
        """function (I[N, H, W, CI], K[R, S, CI, CO], B[P, P], G[P, R], A[Q, P]) -> (O) {
            X = (H - 1) / 2;    # tiles of 2 x 2 outputs, the last one perhaps cut
            Y = (W - 1) / 2;
            U0[p, s, ci, co: P, S, CI, CO] = +(G[p, r] * K[r, s, ci, co]);
            U[p, q, ci, co: P, P, CI, CO] = +(G[q, s] * U0[p, s, ci, co]);
            V0[n, x, w, p, ci: N, X, W, P, CI] = +(B[p, k] * I[n, 2 * x + k, w, ci]);
            V[n, x, y, p, q, ci: N, X, Y, P, P, CI] = +(B[q, k] * V0[n, x, 2 * y + k, p, ci]);
            M[n, x, y, p, q, co: N, X, Y, P, P, CO] = +(V[n, x, y, p, q, ci] * U[p, q, ci, co]);
            O0[n, x, y, a, q, co: N, X, Y, Q, P, CO] = +(A[a, p] * M[n, x, y, p, q, co]);
            O[n, 2 * x + a, 2 * y + b, co: N, H - 2, W - 2, CO] =
                +(A[b, q] * O0[n, x, y, a, q, co]);
        }""",
        (
            ((1, 6, 8, 2), (3, 3, 2, 3), (4, 4), (4, 3), (2, 4)),
            ((2, 5, 7, 1), (3, 3, 1, 2), (4, 4), (4, 3), (2, 4)),
        ),
        lambda x, k, b, g, a: _conv(x, k),
        ((2, _B), (3, _G), (4, _A)),
    ),
    "lstm step": TileProgram(
        """function (X[B, I], H[B, U], C[B, U], W[I, F], R[U, F], Bias[F]) -> (HNew, CNew) {
            XW[b, f: B, F] = +(X[b, i] * W[i, f]);
            HR[b, f: B, F] = +(H[b, u] * R[u, f]);
            Z = XW + HR + Bias;
            In[b, u: B, U] = =(Z[b, u]);
            Forget[b, u: B, U] = =(Z[b, u + U]);
            Cell[b, u: B, U] = =(Z[b, u + 2 * U]);
            Out[b, u: B, U] = =(Z[b, u + 3 * U]);
            CNew = sigmoid(Forget) * C + sigmoid(In) * tanh(Cell);
            HNew = sigmoid(Out) * tanh(CNew);
        }""",
        (
            ((2, 3), (2, 4), (2, 4), (3, 16), (4, 16), (16,)),
            ((1, 5), (1, 3), (1, 3), (5, 12), (3, 12), (12,)),
        ),
        _lstm,
    ),
    "product over an axis": TileProgram(
        "function (X[M, N], Y[N]) -> (O) { O[m: M] = *(X[m, n] * Y[n]); }",
        (((3, 4), (4,)), ((2, 5), (5,))),
        lambda x, y: (x * y).prod(axis=1),
    ),
    "nearest of some points": TileProgram(
        """function (X[N, D], P[K, D]) -> (O) {
            Neg = -P;
            D2[n, k, d: N, K, D] = =(X[n, d] + Neg[k, d]);
            Square = D2 * D2;
            Sum[n, k: N, K] = +(Square[n, k, d]);
            Least[n: N] = <(Sum[n, k]);
            O = sqrt(Least);
        }""",
        (((4, 3), (5, 3)), ((2, 1), (1, 1))),
        lambda x, p: np.sqrt(((x[:, None] - p) ** 2).sum(axis=2).min(axis=1)),
    ),
}
