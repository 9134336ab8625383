"""Convolutions, pooling, products and whole layers."""

from __future__ import annotations

import numpy as np

from support.tile_library.meanings import (
    conv1d,
    conv2d,
    grouped,
    same_pads,
    softmax,
    transposed,
    windows,
)
from support.tile_library.table import case, positive
from support.tile_tools import floats

case(
    "convolution, padded to the same size",
    """function (X[N, L, CI], F[W, CI, CO]) -> (Y) {
        Before = max(0, ((L + 1) / 2 - 1) * 2 + W - L) / 2;
        Y[n, o, co: N, (L + 2 - 1) / 2, CO] = +(X[n, 2 * o + w - Before, ci] * F[w, ci, co]);
    }""",
    (floats(2, 8, 3), floats(3, 3, 4, seed=1)),
    lambda x, f: conv1d(x, f, 2, same_pads(8, 3, 2)[:2]),
    "X F",
)
case(
    "convolution, padded more in front",
    """function (X[N, H, V, CI], F[KH, KV, CI, CO]) -> (Y) {
        Top = (max(0, (H - 1) * 1 + KH - H) + 1) / 2;
        Left = (max(0, (V - 1) * 1 + KV - V) + 1) / 2;
        Y[n, y, x, co: N, (H + 1 - 1) / 1, V, CO] =
            +(X[n, 1 * y + i - Top, 1 * x + j - Left, ci] * F[i, j, ci, co]);
    }""",
    (floats(1, 5, 4, 2), floats(4, 3, 2, 3, seed=1)),
    lambda x, f: conv2d(
        x, f, 1, (same_pads(5, 4, 1, upper=False)[:2], same_pads(4, 3, 1, upper=False)[:2])
    ),
    "X F",
)
case(
    "dilated convolution",
    """function (X[N, H, V, CI], F[KH, KV, CI, CO]) -> (Y) {
        Top = 0; Left = 0;
        Y[n, y, x, co: N, (H - (2 * (KH - 1) + 1) + 1) / 1, (V - (2 * (KV - 1) + 1) + 1) / 1, CO] =
            +(X[n, y + 2 * i - Top, x + 2 * j - Left, ci] * F[i, j, ci, co]);
    }""",
    (floats(2, 7, 6, 2), floats(3, 2, 2, 3, seed=1)),
    lambda x, f: conv2d(x, f, dilation=2),
    "X F",
)
case(
    "causal convolution",
    """function (X[N, L, CI], F[W, CI, CO]) -> (Y) {
        Pad = W - 1;
        P[n, l, c: N, L + Pad, CI] = =(X[n, l - Pad, c]);
        Y[n, o, co: N, L, CO] = +(P[n, o + w, ci] * F[w, ci, co]);
    }""",
    (floats(2, 6, 2), floats(3, 2, 3, seed=1)),
    lambda x, f: conv1d(x, f, 1, (2, 0)),
    "X F",
)
case(
    "channel-wise convolution with an assertion",
    """function (X[N, H, V, CI], F[KH, KV, G, M]) -> (Y) {
        Fits = assert_group_count(G == CI);
        R = reshape(F, KH, KV, G, M, CI / G);
        Z[n, y, x, g, m: N, H - KH + 1, V - KV + 1, G, M] =
            +(X[n, y + i, x + j, g * (CI / G) + c] * R[i, j, g, m, c]);
        Y = reshape(Z, N, H - KH + 1, V - KV + 1, (G * M));
    }""",
    (floats(1, 4, 5, 3), floats(2, 3, 3, 2, seed=1)),
    lambda x, f: grouped(x, f.reshape(2, 3, 1, 6), 3),
    "X F",
)
case(
    "grouped convolution whose groups are counted",
    """function (X[N, H, V, CI], F[KH, KV, GCI, CO]) -> (Y) {
        Even = assert_whole_groups(CI / GCI * GCI == CI);
        Z[n, y, x, g, m: N, H - KH + 1, V - KV + 1, (CI / GCI), (CO * GCI / CI)] =
            +(X[n, y + i, x + j, g * (GCI) + c] * F[i, j, c, (CO * GCI / CI) * g + m])
            , m < (CO * GCI / CI);
        Y = reshape(Z, N, H - KH + 1, V - KV + 1, CO);
    }""",
    (floats(1, 4, 4, 4), floats(2, 2, 2, 6, seed=1)),
    lambda x, f: grouped(x, f, 2),
    "X F",
)
case(
    "transposed convolution to a size that is given",
    """function (Y[N, L, CO], F[W, CI, CO], D) -> (X) {
        Before = max(0, ((D + 2 - 1) / 2 - 1) * 2 + W - D) / 2;
        X[n, 2 * o + w - Before, ci: N, D, CI] = +(Y[n, o, co] * F[w, ci, co]);
    }""",
    (floats(2, 4, 3), floats(3, 2, 3, seed=1), 7),
    lambda y, f, d: transposed(y, f, 7, 2, same_pads(7, 3, 2)[0]),
    "Y F",
)
case(
    "transposed convolution in two dimensions",
    """function (Y[N, H, V, CO], F[KH, KV, CI, CO], D0, D1) -> (X) {
        X[n, 2 * y + i, v + j, ci: N, D0, D1, CI] = +(Y[n, y, v, co] * F[i, j, ci, co]);
    }""",
    (floats(1, 3, 2, 2), floats(2, 3, 2, 2, seed=1), 6, 4),
    lambda y, f, *_: np.stack([  # one dimension after the other
        sum(transposed(y[:, :, v], f[:, j], 6, 2, 0) for v in range(2) for j in range(3)
            if v + j == x)
        for x in range(4)
    ], axis=2),
    "Y F",
)  # fmt: skip
case(
    "average pooling that counts what is there",
    """function (X[N, C, L], One[]) -> (Y) {
        Ones[o: L] = =(One[]);
        Before = max(0, ((L + 1) / 2 - 1) * 2 + 3 - L) / 2;
        Count[o: (L + 2 - 1) / 2] = +(Ones[2 * o + a - Before]), a < 3;
        S[n, c, o: N, C, (L + 2 - 1) / 2] = +(X[n, c, 2 * o + a - Before]), a < 3;
        Y = S / Count;
    }""",
    (floats(2, 3, 8), np.float32(1)),
    lambda x, one: np.stack(
        [w.mean(1) for w in windows(x.transpose(0, 2, 1), 3, 2, same_pads(8, 3, 2)[0], 4)], axis=2
    ),
    "X",
)
case(
    "largest of each window",
    """function (X[N, L, C]) -> (Y) {
        Y[n, o, c: N, (L + 1 + 1 - 3 + 2) / 2, C] = >(X[n, 2 * o + a - 1, c]), a < 3;
    }""",
    (floats(2, 7, 3),),
    lambda x: np.stack([w.max(1) for w in windows(x, 3, 2, 1, 4)], axis=1),
    "X",
)
case(
    "winograd's convolution of one dimension",
    """function (X[N, L, CI], F[S, CI, CO], A[BI, BO], B[BI, BI], G[BI, S]) -> (Y) {
        Valid = assert_winograd_valid(BI - S + 1 == BO);
        LO = L - S + 1;
        LB = (LO + BO - 1) / BO;
        U[i, ci, co: BI, CI, CO] = +(G[i, k] * F[k, ci, co]);
        V[n, i, x, ci: N, BI, LB, CI] = +(B[k, i] * X[n, BO * x + k, ci]);
        M[n, i, x, co: N, BI, LB, CO] = +(V[n, i, x, ci] * U[i, ci, co]);
        Y[n, BO * x + i, co: N, LO, CO] = +(A[k, i] * M[n, k, x, co]) no_defract;
    }""",
    (
        floats(2, 9, 2), floats(3, 2, 3, seed=1),
        np.array([[1, 0], [1, 1], [1, -1], [0, -1]], "f4"),
        np.array([[1, 0, 0, 0], [0, 1, -1, 1], [-1, 1, 1, 0], [0, 0, 0, -1]], "f4"),
        np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], "f4"),
    ),
    lambda x, f, *_: conv1d(x, f),
    "X F",
)  # fmt: skip
case(
    "windows as columns",
    """function (X[N, L, C], W) -> (Y) {
        P[n, o, w, c: N, L - W + 1, W, C] = =(X[n, o + w, c]);
        Y = reshape(P, N, L - W + 1, W * C);
    }""",
    (floats(2, 5, 2), 3),
    lambda x, w: np.stack([x[:, o : o + 3].reshape(2, 6) for o in range(3)], axis=1),
    "X",
)
case(
    "depth-wise, then point-wise convolution",
    """function (X[N, L, C], D[W, C, M], P[CM, CO]) -> (Y) {
        Fits = assert_channels(C * M == CM);
        T[n, o, c, m: N, L - W + 1, C, M] = +(X[n, o + w, c] * D[w, c, m]);
        R = reshape(T, N, L - W + 1, C * M);
        Y[n, o, co: N, L - W + 1, CO] = +(R[n, o, cm] * P[cm, co]);
    }""",
    (floats(2, 5, 3), floats(2, 3, 2, seed=1), floats(6, 4, seed=2)),
    lambda x, d, p: sum(
        (x[:, w : w + 4, :, None] * d[w]).reshape(2, 4, 6) for w in range(2)
    ) @ p,
    "X D P",
)  # fmt: skip

# -- products and layers -------------------------------------------------------------------------

case(
    "general product of matrices", """function (A[MID, ROW], B[COL, MID], C) -> (O) {
        OM[row, col: ROW, COL] = +(A[mid, row] * B[col, mid]);
        O = OM * 0.5 + C * 2.0;
    }""",
    (floats(3, 4), floats(5, 3, seed=1), floats(5, seed=2)),
    lambda a, b, c: 0.5 * (a.T @ b.T) + 2 * c, "A B C",
)  # fmt: skip
case(
    "batch of products", """function (X[B, M1, D], Y[B, D, N2]) -> (O) {
        O[b, m1, n2: B, M1, N2] = +(X[b, m1, d] * Y[b, d, n2]);
    }""",
    (floats(2, 3, 4), floats(2, 4, 5, seed=1)), np.matmul, "X Y",
)  # fmt: skip
case(
    "normalised to length one", """function (X[N, M]) -> (O) {
        S = X * X;
        T[n, 0: N, 1] = +(S[n, m]);
        O = X / sqrt(T);
    }""",
    (floats(3, 5),), lambda x: x / np.linalg.norm(x, axis=1, keepdims=True), "X",
)  # fmt: skip
case(
    "attention without padding", """function (Q[T, D], K[S, D], V[S, E], Keep[S]) -> (O) {
        Fits = assert_keys(S >= 1);
        Dot[t, s: T, S] = +(Q[t, d] * K[s, d]);
        Kept = (Keep & 1) == 1 ? Dot / sqrt(D) : -1.0e9;
        P = builtin_softmax(Kept, T, S);
        O[t, e: T, E] = +(P[t, s] * V[s, e]);
    }""",
    (floats(3, 4), floats(5, 4, seed=1), floats(5, 2, seed=2), np.array([1, 3, 0, 5, 2], "i4")),
    lambda q, k, v, keep: softmax(np.where(keep % 2 == 1, q @ k.T / 2, -1e9)) @ v, "Q K V",
)  # fmt: skip
case(
    "batch norm of what is given", """function (X, M, V, Beta, Gamma) -> (O) {
        D = sqrt(V + 0.001);
        O = ((X - M) * Gamma / D) + Beta;
    }""",
    (floats(4, 3), floats(3, seed=1), positive(3), floats(3, seed=2), floats(3, seed=3)),
    lambda x, m, v, b, g: (x - m) * g / np.sqrt(v + 1e-3) + b, "X M V Beta Gamma",
)  # fmt: skip
