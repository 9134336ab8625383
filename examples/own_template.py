"""A template of one's own, y[i] = sum over j of A[i, j] * x[j], and a run of the command on it.

Run it with `python examples/own_template.py [ROWS [COLUMNS [TRIALS]]]`, or, as any template,
`autotune run examples/own_template.py:matvec --set m=4096 --set n=4096`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotune import te
from autotune.cli.main import main as autotune_command
from autotune.template import Knobs, template


@template("matvec", target="llvm", reference=np.matmul, flops=lambda m, n: 2.0 * m * n)
def matvec(cfg: Knobs, m: int, n: int) -> tuple[Any, list[Any]]:
    """y[m] = A[m, n] @ x[n]; a row is summed in several lanes at once.

    Knobs
    -----
    lanes
        Partial sums of a row that are kept side by side.
    rows
        Rows that one parallel task computes.
    """
    lanes = cfg.define_knob("lanes", [16, 32, 64, 128])
    rows = cfg.define_knob("rows", [16, 1, 4, 64, 256])
    cfg.add_constraint(lanes <= n, "a row fills the lanes")

    A = te.placeholder((m, n), "float32", name="A")
    x = te.placeholder((n,), "float32", name="x")
    zero = te.const(0, "float32")

    # P[i, v] sums every lanes-th product of row i; columns past the end count as zero.
    j = te.reduce_axis((0, te.ceildiv(n, lanes)), name="j")

    def product(i: Any, column: Any) -> Any:
        whole = n % lanes == 0  # a decision on a knob: one trace for each answer
        term = A[i, column] * x[column]
        return term if whole else te.if_then_else(column < n, term, zero)

    P = te.compute((m, lanes), lambda i, v: te.sum(product(i, j * lanes + v), axis=j), name="P")
    v = te.reduce_axis((0, lanes), name="v")
    y = te.compute((m,), lambda i: te.sum(P[i, v], axis=v), name="y")

    s = te.create_schedule(y.op)
    outer, inner = s[y].split(s[y].op.axis[0], factor=rows)
    s[y].parallel(outer)
    s[P].compute_at(s[y], inner)
    i, lane = s[P].op.axis
    s[P].reorder(i, s[P].op.reduce_axis[0], lane)
    if n % lanes == 0:
        s[P].vectorize(lane)
    return s, [A, x, y]


def main(argv: Sequence[str] | None = None) -> int:
    """Tune the template of this file by the command line, and show what was found."""
    words = list(sys.argv[1:] if argv is None else argv)
    m, n, trials = [*words, *["4096", "4096", "20"][len(words) :]]
    workload = [f"{Path(__file__).resolve()}:matvec", "--set", f"m={m}", "--set", f"n={n}"]
    with tempfile.TemporaryDirectory() as folder:
        log = ["--log", str(Path(folder) / "matvec.jsonl")]
        code = autotune_command(["run", *workload, *log, "--trials", trials, "--seed", "0"])
        return code or autotune_command(["best", *workload, *log])


if __name__ == "__main__":
    sys.exit(main())
