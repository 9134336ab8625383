"""Functions that move elements; rows by their numbers; random numbers."""

from __future__ import annotations

import numpy as np

from support.tile_library.meanings import prng, resized, scattered
from support.tile_library.table import case, random_state, whole
from support.tile_tools import floats

case(
    "concatenation", """function (A[N0, A0], B[N0, A1], C[N0, A2]) -> (O) {
        T0[n, a+0: N0, 9] = =(A[n, a]);
        T1[n, a+2: N0, 9] = =(B[n, a]);
        T2[n, a+5: N0, 9] = =(C[n, a]);
        O = T0 + T1 + T2;
    }""",
    (floats(2, 2), floats(2, 3, seed=1), floats(2, 4, seed=2)),
    lambda *parts: np.concatenate(parts, 1), "A B C",
)  # fmt: skip
case("slice that ends at the end", """function (X[N, M], Start, End) -> (O) {
        O[n, m: N, min(End, M) - min(Start, M)] = =(X[n, m + min(Start, M)]);
    }""", (floats(3, 6), 2, 99), lambda x, *_: x[:, 2:99], "X")  # fmt: skip
case("last rows", "function (X[N, M]) -> (O) { O[n, m: min(2, N), M] = =(X[n+max(N-2, 0), m]); }",
     (floats(5, 3),), lambda x: x[-2:], "X")  # fmt: skip
case("flattened", "function (X[A, B, C]) -> (O) { O = reshape(X, A*B*C); }", (floats(2, 3, 4),),
     lambda x: x.reshape(-1), "X")  # fmt: skip
case("given sizes", "function (X[A, B], D0, D1) -> (O) { "
     "O = reshape(X, D0, D1, A * B / (D0 * D1)); }",
     (floats(4, 6), 2, 3), lambda x, *_: x.reshape(2, 3, 4), "X")  # fmt: skip
case("axis more", "function (X[A, B]) -> (O) { O[a, 0, b: A, 1, B] = =(X[a, b]); }",
     (floats(3, 4),), lambda x: x[:, None], "X")  # fmt: skip
case("elements repeated",
     "function (X[A, B]) -> (O) { O[a, 3*b + k: A, 3*B] = =(X[a, b]), k < 3 no_defract; }",
     (floats(2, 3),), lambda x: x.repeat(3, 1), "X")  # fmt: skip
case("whole repeated", """function (X[A, B]) -> (O) {
        O[t * A + a, u * B + b: A * 2, B * 3] = =(X[a, b]), t < 2, u < 3 no_defract;
    }""", (floats(2, 3),), lambda x: np.tile(x, (2, 3)), "X")  # fmt: skip
case("backwards", "function (X[A, B]) -> (O) { O[a, B - 1 - b: A, B] = =(X[a, b]); }",
     (floats(3, 4),), lambda x: x[:, ::-1], "X")  # fmt: skip
case("axes in another order",
     "function (X[A, B, C]) -> (O) { O[c, a, b: C, A, B] = =(X[a, b, c]); }",
     (floats(2, 3, 4),), lambda x: x.transpose(2, 0, 1), "X")  # fmt: skip
case("padded with zeros", "function (X[N, D]) -> (O) { O[n, d: N, D + 3] = =(X[n, d - 1]); }",
     (floats(3, 4),), lambda x: np.pad(x, ((0, 0), (1, 2))), "X")  # fmt: skip
case("padded with something else",
     "function (X[N, D], P) -> (O) { O[n, d + 1: N, D + 3] = =(X[n, d]) default P; }",
     (floats(3, 4), floats(3, 7, seed=1)),
     lambda x, p: np.concatenate([p[:, :1], x, p[:, 5:]], 1), "X P")  # fmt: skip
case("one step of a sequence", """function (X[N, C], P) -> (O) {
        O[n, 2, c: N, 4, C] = =(X[n, c]) default P;
    }""", (floats(2, 3), floats(2, 4, 3, seed=1)),
     lambda x, p: np.stack([p[:, 0], p[:, 1], x, p[:, 3]], 1), "X P")  # fmt: skip
case("sums over something else", """function (X[N, C], P[M, D]) -> (O) {
        O[2 * i, c: M, D] = +(X[i + j, c]), j < 2 default P;
    }""", (floats(4, 3), floats(5, 4, seed=1)), lambda x, p: np.concatenate([
        np.where(np.arange(5)[:, None] % 2 == 0, np.stack([
            x[i // 2 : i // 2 + 2].sum(0) for i in range(5)]), p[:, :3]), p[:, 3:]], 1),
     "X P")  # fmt: skip
case("ones like another", "function (X[A, B], One[S]) -> (O) { O[a, b: A, B] = =(One[0]); }",
     (floats(3, 4), np.array([1], "f4")), lambda x, one: np.ones_like(x), "One")  # fmt: skip
case("ones at places", "function (I[N, M], All[C]) -> (O) { "
     "O[n, m, c: N, M, C] = =(I[n, m] == All[c]); }",
     (whole(0, 3, 2, 3), np.arange(4, dtype="i4")), lambda i, a: i[..., None] == a)  # fmt: skip
case("how many are equal", "function (A[N], B[M]) -> (O) { O[n: N] = +(A[n] == B[m]); }",
     (whole(0, 3, 5), whole(0, 3, 9)),
     lambda a, b: (a[:, None] == b).sum(1).astype("i4"))  # fmt: skip
case("linear interpolation", """function (X[N], Base[F]) -> (O) {
        W[y: 2*F - 1] = +(Base[y + j - F + 1]), j < F;
        O[F*n + j - F + 1: F*N] = +(X[n] * W[j]);
    }""", (floats(4), np.full(3, 1 / 3, "f4")), lambda x, b: resized(x, 3), "X Base")  # fmt: skip
case("sizes as a tensor", "function (X) -> (S) { S = shape(X * 2); }", (floats(3, 1, 5),),
     lambda x: np.array([3, 1, 5], "i4"))  # fmt: skip
case("sizes as outputs", "function (X[A, B]) -> (A, C, Y) { C = max(A, B) * 2 - 1; Y = X * C; }",
     (floats(3, 5),), lambda x: (np.int32(3), np.int32(9), x * 9), "X")  # fmt: skip

# -- rows by their numbers -----------------------------------------------------------------------

case("rows by numbers", "function (V, I) -> (O) { O = gather(V, I); }",
     (floats(5, 3), whole(0, 4, 2, 4)), lambda v, i: v[i], "V")  # fmt: skip
case("elements by numbers, which there need not be",
     "function (V, I) -> (O) { O = gather(V * V, I); }",
     (floats(5), whole(-2, 7, 9)), lambda v, i: (v * v)[np.clip(i, 0, 4)], "V")  # fmt: skip
case("rows added up by numbers", "function (E, I, V) -> (O) { O = scatter(E, I, V); }",
     (floats(6, 2), whole(0, 3, 6), floats(4, 2, seed=1)),
     lambda e, i, v: scattered(e, i, 4), "E")  # fmt: skip
case("embedding of a sentence", """function (Table[W, D], Words[N, T], Order[T, D]) -> (O) {
        E = gather(Table, Words) + Order;
        S[n, d: N, D] = +(E[n, t, d]);
        O = S / T;
    }""", (floats(7, 3), whole(0, 6, 2, 4), floats(4, 3, seed=1)),
     lambda t, w, o: (t[w] + o).mean(1), "Table Order")  # fmt: skip
case("points per cell", """function (Cell[N], Like) -> (O) {
        Ones = as_float(Cell == Cell, 32);
        O = scatter(Ones, Cell, Like);
    }""", (whole(0, 4, 20), floats(5)),
     lambda c, like: np.bincount(c, minlength=5).astype("f4"))  # fmt: skip

# -- random numbers ------------------------------------------------------------------------------

case("random numbers", """function (State) -> (O, Next) {
        T = prng_step(State, 3, 5);
        O = prng_value(T);
        Next = prng_state(T);
    }""", (random_state(),), lambda s: (prng(s, 15)[0].reshape(3, 5), prng(s, 15)[1]))  # fmt: skip
case("many random numbers, of a size that is given", """function (State, N) -> (O, Next) {
        T = prng_step(State, 2, N);
        O = prng_value(T);
        Next = prng_state(T);
    }""", (random_state(1), 3500),
     lambda s, n: (prng(s, 7000)[0].reshape(2, 3500), prng(s, 7000)[1]))  # fmt: skip
case("dropout", """function (State, X[A, B], Level) -> (O) {
        Kept = 1.0 - Level;
        O = (prng_value(prng_step(State, A, B)) < Kept ? X * (1.0 / Kept) : 0.0);
    }""", (random_state(2), floats(8, 9), np.float32(0.4)),
     lambda s, x, level: np.where(prng(s, 72)[0].reshape(8, 9) < 0.6, x / np.float32(0.6), 0),
     "X")  # fmt: skip
case("normal numbers", """function (State) -> (Z) {
        T = prng_step(State, 100);
        U = prng_value(T);
        W = prng_value(prng_step(prng_state(T), 100));
        Z = sqrt(-2.0 * log(U + 1.0e-9)) * cos(6.283185307 * W);
    }""", (random_state(3),), lambda s: np.sqrt(-2 * np.log(prng(s, 100)[0] + 1e-9)) * np.cos(
        2 * np.pi * prng(prng(s, 100)[1], 100)[0]))  # fmt: skip
