"""Tile functions as GPUs see them: products of every kind, rows, windows; with sizes for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autotune.operators.tile_template import arguments_of, tile_template
from autotune.task.task import Task
from autotune.tile import Function, bind, gradient, parse
from autotune.tile.binding.bound_program import TensorType
from support.tile_programs import PROGRAMS
from support.tile_tools import floats

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class GpuCase:
    """A function for GPUs.

    Attributes
    ----------
    code, shapes
        Its text, and shapes of its inputs.
    kernels
        What its kernels store, in order.
    product
        Which of them is a product in tiles of its own size.
    """

    code: str
    shapes: Shapes
    kernels: tuple[str, ...]
    product: str = ""

    def arrays(self) -> list[Any]:
        """Return random inputs."""
        return [floats(*shape, seed=k) for k, shape in enumerate(self.shapes)]


CASES: dict[str, GpuCase] = {
    "matmul": GpuCase(PROGRAMS["matmul"].code, ((33, 19), (19, 50)), ("C",), "C"),
    "batched product, transposed, with what follows": GpuCase(
        """function (A[B, M, K], W[B, N, K], Bias[N]) -> (R) {
            C[b, i, j: B, M, N] = +(A[b, i, k] * W[b, j, k]);
            S = C + Bias;
            R = S > 0 ? S : 0.0;
        }""",
        ((2, 20, 16), (2, 24, 16), (24,)),
        ("R",),
        "R",
    ),
    "padded convolution": GpuCase(
        """function (I[N, C, Y, X], F[O, C, H, W]) -> (R) {
            S[n, o, y, x: N, O, Y, X] = +(I[n, c, y + h - 1, x + w - 1] * F[o, c, h, w]);
            R = S > 0 ? S : 0.0;
        }""",
        ((2, 3, 9, 7), (16, 3, 3, 3)),
        ("R",),
        "R",
    ),
    "strided convolution": GpuCase(
        """function (I[N, H, W, C], K[KH, KW, C, O]) -> (R) {
            R[n, y, x, o: N, (H - KH) / 2 + 1, (W - KW) / 2 + 1, O] =
                +(I[n, 2 * y + i, 2 * x + j, c] * K[i, j, c, o]);
        }""",
        ((2, 11, 9, 4), (3, 3, 4, 12)),
        ("R",),
        "R",
    ),
    "dilated convolution": GpuCase(
        """function (I[N, H, W, C], K[KH, KW, C, O]) -> (R) {
            R[n, y, x, o: N, H - 2 * (KH - 1), W - 2 * (KW - 1), O] =
                +(I[n, y + 2 * i, x + 2 * j, c] * K[i, j, c, o]);
        }""",
        ((1, 9, 9, 4), (3, 3, 4, 12)),
        ("R",),
        "R",
    ),
    "shortest ways": GpuCase(
        "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = <(A[i, k] + B[k, j]); }",
        ((33, 19), (19, 50)),
        ("C",),
        "C",
    ),
    "product within a band": GpuCase(
        "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]), i - j < 5; }",
        ((33, 19), (19, 50)),
        ("C",),
        "C",
    ),
    "attention": GpuCase(
        """function (Q[T, D], K[S, D], V[S, E]) -> (O) {
            Dot[t, s: T, S] = +(Q[t, d] * K[s, d]);
            Most[t, 0: T, 1] = >(Dot[t, s]);
            Exp = exp((Dot - Most) / sqrt(D));
            Sum[t, 0: T, 1] = +(Exp[t, s]);
            P = Exp / Sum;
            O[t, e: T, E] = +(P[t, s] * V[s, e]);
        }""",
        ((20, 16), (24, 16), (24, 12)),
        ("Dot", "P", "O"),
        "Dot",
    ),
    "softmax of several rows": GpuCase(
        """function (X[B, M, N]) -> (O) {
            Most[b, m, 0: B, M, 1] = >(X[b, m, n]);
            E = exp(X - Most);
            Sum[b, m, 0: B, M, 1] = +(E[b, m, n]);
            O = E / Sum;
        }""",
        ((2, 3, 64),),
        ("O",),
    ),
    "layer norm": GpuCase(PROGRAMS["layer norm"].code, ((3, 96), (96,), (96,)), ("O",)),
    "batch norm": GpuCase(
        PROGRAMS["batch norm"].code, ((3, 4, 5, 10), (10,), (10,)), ("Sum", "Squares", "O")
    ),
    "pooling": GpuCase(PROGRAMS["pooling with rounding up"].code, ((2, 7, 6, 6),), ("O",)),
    "argmax": GpuCase(PROGRAMS["argmax"].code, ((5, 70),), ("O",)),
    "lstm step": GpuCase(
        PROGRAMS["lstm step"].code,
        ((9, 12), (9, 8), (9, 8), (12, 32), (8, 32), (32,)),
        ("XW", "Z", "CNew", "HNew"),
        "XW",
    ),
}


def gpu_task(code: str | Function, arrays: list[Any], target: str) -> Task:
    """Return the task of a function for arrays like these."""
    function = parse(code) if isinstance(code, str) else code
    types = [TensorType(a.shape, a.dtype.name) for a in arrays]
    return Task(tile_template(function, "tile", "cuda"), arguments_of(function, types), target)


def gradient_of(name: str) -> tuple[Function, list[Any]]:
    """Return the gradient of a realistic program, and inputs for it."""
    program = PROGRAMS[name]
    function, arrays = parse(program.code), program.arrays(program.cases[0])
    names = [i.name.text for i in function.inputs]
    fixed = {position for position, _ in program.fixed}
    bound = bind(
        function,
        {n: a.shape for n, a in zip(names, arrays, strict=True)},
        {n: a.dtype.name for n, a in zip(names, arrays, strict=True)},
    )
    outputs = [floats(*bound.types[output].shape, seed=9) for output in bound.outputs]
    wrt = [n for position, n in enumerate(names) if position not in fixed]
    return gradient(function, wrt), [*arrays, *outputs]
