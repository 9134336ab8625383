"""Reductions, operations on elements, probabilities."""

from __future__ import annotations

import numpy as np

from support.tile_library.meanings import softmax
from support.tile_library.table import case, positive, whole
from support.tile_tools import floats

case("sum of everything", "function (X[A, B, C]) -> (S) { S[ : ] = +(X[a, b, c]); }",
     (floats(2, 3, 4),), lambda x: x.sum(), "X")  # fmt: skip
case(
    "mean of some axes, which stay",
    """function (X[X0, X1, X2]) -> (M) {
        S[0, x1, 0: 1, X1, 1] = +(X[x0, x1, x2]);
        M = S / (X0*X2);
    }""",
    (floats(2, 3, 4),), lambda x: x.mean((0, 2), keepdims=True), "X",
)  # fmt: skip
case(
    "variance",
    """function (X[N, M], Mean[N, One]) -> (V) {
        Square = (X - Mean) * (X - Mean);
        S[n: N] = +(Square[n, m]);
        V = S / (M);
    }""",
    (floats(3, 5), floats(3, 5).mean(1, keepdims=True)),
    lambda x, m: ((x - m) ** 2).mean(1), "X Mean",
)  # fmt: skip
case("product of rows", "function (X[N, M]) -> (P) { P[n: N] = *(X[n, m]); }",
     (floats(3, 4),), lambda x: x.prod(1), "X")  # fmt: skip
case("largest of all, by way of a negative", """function (X) -> (M) {
        Neg = -X;
        Least[ : ] = <(Neg[i, j, k]);
        M = -Least;
    }""", (floats(2, 3, 4),), lambda x: x.max(), "X")  # fmt: skip
case(
    "logarithm of a sum of exponentials",
    """function (X[N, M]) -> (R) {
        E = exp(X);
        S[n, 0: N, 1] = +(E[n, m]);
        R = log(S);
    }""",
    (floats(3, 5),), lambda x: np.log(np.exp(x).sum(1, keepdims=True)), "X",
)  # fmt: skip
case(
    "whether all are true",
    """function (X[N, M]) -> (R) {
        B = as_bool(X, 8);
        R[n: N] = <(B[n, m]);
    }""",
    (whole(0, 3, 4, 3),), lambda x: (x != 0).all(1),
)  # fmt: skip
case(
    "whether one is true",
    """function (X[N, M]) -> (R) {
        B = as_int(as_bool(X, 8), 32);
        S[n: N] = +(B[n, m]);
        R = 0 < S;
    }""",
    (whole(-1, 1, 6, 2),), lambda x: (x != 0).any(1),
)  # fmt: skip
case("running sum", "function (X[N, M]) -> (R) { R[n, m: N, M] = +(X[n - k, m]), k < N; }",
     (floats(5, 3),), lambda x: x.cumsum(0), "X")  # fmt: skip
case("running product", "function (X[N, M]) -> (R) { R[n, m: N, M] = *(X[n, m - k]), k < M; }",
     (floats(3, 5),), lambda x: x.cumprod(1), "X")  # fmt: skip
case(
    "where the largest is",
    """function (X[N, M], Places[M]) -> (R) {
        Most[n: N] = >(X[n, m]);
        At[n: N] = >(X[n, m] == Most[n] ? Places[m]);
        R = as_uint(At, 32);
    }""",
    (floats(4, 6), np.arange(6, dtype="f4")), lambda x, p: x.argmax(1).astype("u4"),
)  # fmt: skip
case(
    "whether an element is the largest",
    """function (X[N, M]) -> (R) {
        Most[n, 0: N, 1] = >(X[n, m]);
        R = (Most == X);
    }""",
    (floats(4, 6),), lambda x: x == x.max(1, keepdims=True),
)  # fmt: skip
case(
    "one for the largest, zero for others",
    """function (X[N, M]) -> (R) {
        Mostly[n: N] = >(X[n, m]);
        Most[n, m: N, M] = =(Mostly[n]);
        R = (Most == X ? 1.0 : 0.0);
    }""",
    (floats(4, 6),), lambda x: (x == x.max(1, keepdims=True)).astype("f4"),
)  # fmt: skip

# -- element by element --------------------------------------------------------------------------

case("rectifier", "function (X) -> (Y) { Y = relu(X); }", (floats(3, 4),),
     lambda x: np.maximum(x, 0), "X")  # fmt: skip
case(
    "leaky rectifier with a ceiling",
    """function (X, Alpha, Ceiling) -> (Y) {
        M = (X < 0.0 ? Alpha*X : X);
        Y = (M < Ceiling ? M : Ceiling);
    }""",
    (floats(3, 4), np.float32(0.1), np.float32(1.05)),
    lambda x, a, c: np.minimum(np.where(x < 0, a * x, x), c), "X Alpha",
)  # fmt: skip
case("exponential rectifier", "function (X) -> (Y) { A = 1.5*exp(X) - 1.5; Y = X < 0 ? A : X; }",
     (floats(3, 4),), lambda x: np.where(x < 0, 1.5 * np.exp(x) - 1.5, x), "X")  # fmt: skip
case("sigmoid made of lines",
     "function (X) -> (R) { R = (X < -2.5 ? 0 : (X > 2.5 ? 1 : 0.2 * X + 0.5)); }",
     (3 * floats(3, 4),), lambda x: np.clip(0.2 * x + 0.5, 0, 1), "X")  # fmt: skip
case("sign", "function (X) -> (S) { S = X == 0 ? 0 : (X > 0 ? 1 : -1); }", (whole(-2, 2, 9),),
     lambda x: np.sign(x))  # fmt: skip
case("soft plus", "function (X) -> (Y) { Y = log(1. + exp(X)); }", (floats(3, 4),),
     lambda x: np.log1p(np.exp(x)), "X")  # fmt: skip
case("clipped", "function (X, Low, High) -> (Y) { Z = (Low < X ? X : Low); Y = min(Z, High); }",
     (floats(3, 4), np.float32(-0.9), np.float32(1.1)), np.clip, "X")  # fmt: skip
case("root of what is not negative", "function (X) -> (Y) { Z = (X < 0 ? 0 : X); Y = sqrt(Z); }",
     (whole(-3, 9, 7).astype("f4"),), lambda x: np.sqrt(np.maximum(x, 0)))  # fmt: skip
case("power", "function (X, P) -> (Y) { Y = pow(X, P); }",
     (positive(3, 4), floats(4, seed=1)), lambda x, p: x**p, "X P")  # fmt: skip
case("choice by a condition", "function (C, T, E) -> (Y) { Y = (C ? T : E); }",
     (np.array([True, False, True]), floats(3), floats(3, seed=1)), np.where, "T E")  # fmt: skip
case("equality with a number", "function (X) -> (Y) { Y = (X == 2); }", (whole(0, 3, 9),),
     lambda x: x == 2)  # fmt: skip
case("inequality", "function (A, B) -> (Y) { Y = (A != B); }",
     (whole(0, 1, 3, 4), whole(0, 1, 4)), np.not_equal)  # fmt: skip
case("conditions together", "function (A, B) -> (Y, Z, W, V) { Y = A > 0 & B > 0; "
     "Z = A > 0 | B > 0; W = (A > 0) ^ (B > 0); V = ~(A > 0); }", (floats(9), floats(9, seed=1)),
     lambda a, b: ((a > 0) & (b > 0), (a > 0) | (b > 0), (a > 0) ^ (b > 0), a <= 0))  # fmt: skip
case("bits of integers", "function (A, B) -> (Y, Z, W, V) { Y = A & 12; Z = A | B; W = A ^ B; "
     "V = ~A; }", (whole(-99, 99, 9), whole(0, 99, 9, dtype="int64")),
     lambda a, b: (a & 12, a | b, a ^ b, ~a))  # fmt: skip
case("bits moved", "function (A, N) -> (Y, Z, W) { "
     "Y = A << N; Z = A >> N; W = (A << 1) + 1 >> 2; }",
     (whole(-99, 99, 9), whole(0, 40, 9)),
     lambda a, n: (np.left_shift(a, n), np.right_shift(a, n), ((a << 1) + 1) >> 2))  # fmt: skip
case("fixed point", "function (X, Y) -> (P) { Z = as_int(X, 32) * as_int(Y, 32); "
     "P = as_int((Z + (1 << 7)) >> 8, 16); }",
     (whole(-999, 999, 9, dtype="int16"), whole(0, 256, 9, dtype="int16")),
     lambda x, y: (x.astype("i4") * y + 128 >> 8).astype("i2"))  # fmt: skip
case("conversion to conditions and back", "function (X) -> (Y) { B = as_bool(X, 8); "
     "Y = as_float(B, 32); }", (whole(-1, 1, 9).astype("f4"),),
     lambda x: (x != 0).astype("f4"))  # fmt: skip
case("larger of two, of dimensions, too", "function (A[N], B[M]) -> (Y) { "
     "Y = max(A, B) * max(N, 3) + min(N, M); }", (floats(4), floats(1, seed=2)),
     lambda a, b: np.maximum(a, b) * 4 + 1, "A B")  # fmt: skip

# -- probabilities -------------------------------------------------------------------------------

case("softmax", "function (X[N, M]) -> (Y) { Y = builtin_softmax(X, N, M); }", (floats(3, 5),),
     softmax, "X")  # fmt: skip
case("softmax of rows that are axes", """function (X[N, H, V]) -> (Y) {
        Z = builtin_softmax(reshape(X, N * H, V), N * H, V);
        Y = reshape(Z, N, H, V);
    }""", (floats(2, 3, 4),), softmax, "X")  # fmt: skip
case("logarithm of a softmax", "function (X[N, M]) -> (Y) { Y = builtin_logsoftmax(X, N, M); }",
     (floats(3, 5),), lambda x: np.log(softmax(x)), "X")  # fmt: skip
case(
    "loss of probabilities", """function (P[N, M], T[N, M]) -> (R) {
        L = builtin_binary_crossentropy(P, T, N*M);
        R[n: N] = +(L[n, m]);
    }""",
    (positive(3, 4), positive(3, 4, seed=1)),
    lambda p, t: (-t * np.log(p) - (1 - t) * np.log(1 - p)).sum(1), "P T",
)  # fmt: skip
case(
    "loss of classes", """function (P[N, M], T[N, M]) -> (R) {
        L = log(P);
        S[n: N] = +(T[n, m] * L[n, m]);
        R = -S;
    }""",
    (positive(3, 4), positive(3, 4, seed=1)), lambda p, t: -(t * np.log(p)).sum(1), "P T",
)  # fmt: skip
case(
    "loss of numbered classes", """function (X[N, M], Class[N], All[M]) -> (R) {
        Is[n, m: N, M] = =(Class[n] == All[m]);
        L = builtin_logsoftmax(X, N, M) * as_float(Is, 32);
        S[ : ] = +(L[n, m]);
        R = -S / N;
    }""",
    (floats(4, 3), whole(0, 2, 4), np.arange(3, dtype="i4")),
    lambda x, c, _: -np.log(softmax(x))[np.arange(4), c].mean(), "X",
)  # fmt: skip
