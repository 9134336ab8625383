"""Which kernels for all sizes there are, and what shapes lose by each: all that is timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from autotune.errors import UsageError
from autotune.shape_dispatch.candidates import Candidate, TunedShape
from autotune.shape_dispatch.comparison import BenchProcess, ComparisonError
from autotune.shape_dispatch.selection import FloatMatrix

# About how long each kernel is timed on a shape in the first comparison, and in the last one.
SURVEY_S, FINAL_S = 0.02, 0.1

Progress = Callable[[str], object]


def distinct_kernels(
    bench: BenchProcess,
    shapes: Sequence[TunedShape],
    made: Sequence[Sequence[Candidate]],
    notify: Progress,
    progress: Progress,
) -> list[Candidate]:
    """Return the fastest variant for each shape, those of the same code once."""
    found: dict[str, Candidate] = {}
    for number, (shape, variants) in enumerate(zip(shapes, made, strict=True), 1):
        progress(f"shape {number} of {len(shapes)}: kernels for all sizes by its configuration")
        try:
            variants = [bench.call("fitted", variant) for variant in variants]
        except ComparisonError as error:
            notify(f"{_text(shape)} makes no kernel for all sizes: {error}")
            continue
        own = dict(shape.args), dict(shape.config or {})
        timed = bench.call("compare", *own, variants, SURVEY_S, number)
        if not np.isfinite(timed.costs_s).any():
            why = next(iter(timed.problems.values()))
            notify(f"{_text(shape)} makes no kernel for all sizes: {why}")
            continue
        by_open: dict[tuple[str, ...], tuple[float, Candidate]] = {}
        for cost, variant in zip(timed.costs_s, variants, strict=True):
            known = by_open.get(variant.open_sizes, (np.inf, variant))
            by_open[variant.open_sizes] = (cost, variant) if cost < known[0] else known
        for cost, variant in by_open.values():
            if np.isfinite(cost):
                found.setdefault(bench.call("code", variant), variant)
    if not found:
        raise UsageError("no configuration works for all sizes; the warnings above say why")
    return list(found.values())


def measure_losses(
    bench: BenchProcess,
    shapes: Sequence[TunedShape],
    kernels: Sequence[Candidate],
    seconds: float,
    notify: Progress,
    progress: Progress,
    names: Sequence[str],
) -> tuple[FloatMatrix, list[float]]:
    """Return what each shape loses by each kernel, inf where it cannot be used, and the bests."""
    losses, best = np.full((len(shapes), len(kernels)), np.inf), []
    for row, shape in enumerate(shapes):
        progress(f"shape {row + 1} of {len(shapes)}: {len(kernels)} kernels")
        own = [
            n for n, kernel in enumerate(kernels)
            if all(shape.args[size] == 1 for size in names if size not in kernel.open_sizes)
        ]  # fmt: skip
        config = None if shape.config is None else dict(shape.config)
        used = [kernels[n] for n in own]
        timed = bench.call("compare", dict(shape.args), config, used, seconds, row)
        for problem in timed.problems.values():
            notify(f"{_text(shape)}: a kernel is left out: {problem}")
        best.append(timed.best_s)
        losses[row, own] = np.maximum(np.array(timed.costs_s) / timed.best_s - 1, 0)
    return losses, best


def usable_kernels(
    losses: FloatMatrix,
    kernels: Sequence[Candidate],
    shapes: Sequence[TunedShape],
    names: Sequence[str],
) -> tuple[FloatMatrix, list[Candidate]]:
    """Leave out kernels that failed for some shape that they should work for."""
    kept = []
    for number, kernel in enumerate(kernels):
        fixed = [n for n in names if n not in kernel.open_sizes]
        own = [row for row, s in enumerate(shapes) if all(s.args[n] == 1 for n in fixed)]
        if np.isfinite(losses[own, number]).all():
            kept.append(number)
    whole = [n for n in kept if kernels[n].open_sizes == tuple(names)]
    if not whole:
        raise UsageError("no configuration works for all sizes; the warnings above say why")
    return losses[:, kept], [kernels[n] for n in kept]


def _text(shape: TunedShape) -> str:
    return ", ".join(f"{name}={value}" for name, value in shape.args.items() if value != "")
