"""The kernels that `gpu.py` tunes and judges, and their amounts of work.

Each element counts once, even if a kernel reads it several times; `s` is the size of an element in
bytes.

| row | computes | held against | amount |
|---|---|---|---|
| broadcast_add | C[n, n] = A[n, 1] + B[n, n] | a copy of as many bytes | s (n + 2 n^2) bytes |
| unary.float32, .float16 | y[n] = sigmoid(x[n]), a kernel as text | a copy | 2 s n bytes |
| softmax | Y[m, n] of X[m, n], by rows | a copy | 2 s m n bytes |
| transpose | B[n, m] = A[m, n] | a copy | 2 s m n bytes |
| reduce | B[m] = sums of the rows of A[m, n] | a copy | s (m n + m) bytes |
| cumsum.columns.N | Y[n, n], sums down the columns of X[n, n] | a copy | 2 s n^2 bytes |
| linear_recurrence | H[t] = A[t] H[t - 1] + X[t], each [m, n] | a copy | 3 s m n bytes |
| cumsum.row | y[n], sums along x[n] | `cupy.cumsum` | 2 s n bytes |
| matmul.N | C[n, n] = A[n, n] @ B[n, n], float32 | cuBLAS, TF32 off | 2 n^3 operations |
| tile_matmul.N | the same, from Tile code | cuBLAS, TF32 off | 2 n^3 operations |

The ratio of tile_matmul over that of matmul is the speed of Tile code relative to the template.
Sizes are such that each kernel moves at least four times what the L2 cache holds, and 512 MiB, but
for the column sums of 4096 x 4096: the cache helps them as much as their copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from here import ROOT

COPY, LIBRARY, SCAN = "copy", "cuBLAS", "cupy.cumsum"
AIM, SCAN_AIM, SCAN_OF_COPY = 0.95, 1.0, 0.9
UNARY = f"{ROOT / 'examples' / 'raw_kernel.py'}:elementwise"
TILE_MATMUL = str(ROOT / "benchmarks" / "matmul.tile")
MATMULS = (1024, 2048, 4096, 8192)
LEAST_BYTES = 512 << 20

_MOST_EXACT = 2048
"""Larger products are looked at by the sanitizer, some hundred times slower, at this size."""


@dataclass(frozen=True)
class Kernel:
    """A row of the table.

    Attributes
    ----------
    name, template : str
    args : mapping of str to value
    against : str
        `COPY`, `LIBRARY` or `SCAN`.
    amount : float
        Bytes moved, or operations.
    weight : float
        Its share of the time for tuning, beside the others' weights.
    aim : float
        The ratio that is to be reached.
    """

    name: str
    template: str
    args: Mapping[str, Any]
    against: str
    amount: float
    weight: float = 1.0
    aim: float = AIM

    @property
    def unit(self) -> str:
        """Of speeds: "GB/s" or "GFLOPS"."""
        return "GFLOPS" if self.against == LIBRARY else "GB/s"

    @property
    def settings(self) -> list[str]:
        """Return the arguments as words of `autotune run`."""
        return [word for name, value in self.args.items() for word in ("--set", f"{name}={value}")]

    @property
    def sanitized_args(self) -> dict[str, Any]:
        """Arguments at which the sanitizer looks at the tuned configuration."""
        if self.against != LIBRARY:
            return dict(self.args)
        return {n: min(v, _MOST_EXACT) if isinstance(v, int) else v for n, v in self.args.items()}


def kernels(l2_bytes: float) -> list[Kernel]:
    """Return the rows for a GPU whose L2 cache has this size."""
    n = 8192
    while 8.0 * n * n < max(4.0 * l2_bytes, LEAST_BYTES):
        n *= 2
    return [
        *_moving(n, n),
        _unary("float32", n * n),
        _unary("float16", 2 * n * n),
        _columns(4096),
        _columns(n),
        _recurrence(n, n),
        _row(1 << 26),
        *(_matmul(size, 2.0 if size < 4096 else 3.0) for size in MATMULS),
        _tile_matmul(_MOST_EXACT, 2.0),
    ]


def tiny_kernels(texts: bool) -> list[Kernel]:
    """Return rows that are done at once; kernels as text cannot run on a CPU in a GPU's place."""
    unary = [_unary(dtype, 64 * 48) for dtype in ("float32", "float16")] if texts else []
    scans = [_columns(64), _recurrence(64, 48), *([_row(100)] if texts else [])]
    return [*_moving(64, 48), *unary, *scans, _matmul(64, 1.0), _tile_matmul(64, 1.0)]


def _moving(m: int, n: int) -> list[Kernel]:
    size = 4.0
    return [
        Kernel("broadcast_add", "broadcast_add", {"n": m}, COPY, size * (m + 2 * m * m)),
        Kernel("softmax", "softmax", {"m": m, "n": n}, COPY, size * 2 * m * n),
        Kernel("transpose", "transpose", {"m": m, "n": n}, COPY, size * 2 * m * n),
        Kernel("reduce", "reduce", {"m": 2 * m, "n": n}, COPY, size * (2 * m * n + 2 * m)),
    ]


def _unary(dtype: str, n: int) -> Kernel:
    size = {"float32": 4.0, "float16": 2.0}[dtype]
    args = {"n": n, "op": "sigmoid", "dtype": dtype}
    return Kernel(f"unary.{dtype}", UNARY, args, COPY, 2 * size * n)


def _columns(n: int) -> Kernel:
    args = {"m": n, "n": n}
    return Kernel(f"cumsum.columns.{n}", "cumsum", args, COPY, 8.0 * n * n, aim=SCAN_OF_COPY)


def _recurrence(m: int, n: int) -> Kernel:
    args = {"m": m, "n": n}
    amount = 12.0 * m * n
    return Kernel("linear_recurrence", "linear_recurrence", args, COPY, amount, aim=SCAN_OF_COPY)


def _row(n: int) -> Kernel:
    args = {"m": 1, "n": n, "axis": 1}
    return Kernel("cumsum.row", "cumsum", args, SCAN, 8.0 * n, aim=SCAN_AIM)


def _matmul(n: int, weight: float) -> Kernel:
    args = {"m": n, "n": n, "k": n}
    return Kernel(f"matmul.{n}", "matmul", args, LIBRARY, 2.0 * n**3, weight)


def _tile_matmul(n: int, weight: float) -> Kernel:
    args = {"M": n, "N": n, "K": n}
    return Kernel(f"tile_matmul.{n}", TILE_MATMUL, args, LIBRARY, 2.0 * n**3, weight)


def chosen(rows: Sequence[Kernel], only: str) -> list[Kernel]:
    """Return the rows that --only names, each or all of a kind (`matmul` for `matmul.1024`, ...).

    Raises
    ------
    SystemExit
        If a name is not known.
    """
    names = [name.strip() for name in only.split(",") if name.strip()]
    for name in names:
        if not any(_is(row, name) for row in rows):
            known = ", ".join(row.name for row in rows)
            raise SystemExit(f"--only {name}: there is no such row; there are {known}")
    return [row for row in rows if not names or any(_is(row, name) for name in names)]


def _is(row: Kernel, name: str) -> bool:
    return row.name == name or row.name.startswith(f"{name}.")
