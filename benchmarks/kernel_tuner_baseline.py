"""Kernel Tuner's strategies on its own recorded caches, in its simulation mode."""

from __future__ import annotations

import gzip
import importlib.util
import json
import math
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from autotune.tuner.replay import Trace

STRATEGIES = (
    "genetic_algorithm",
    "GreedyILS",
    "pso",
    "adaptive_tabu_grey_wolf",
    "hybrid_vndx",
)
"""Strategies that run as baselines, those that this version of Kernel Tuner has."""

TIMES = ("compile_time", "verification_time", "benchmark_time")
"""Milliseconds that a measurement took."""


def installed() -> bool:
    """Whether Kernel Tuner is there."""
    return importlib.util.find_spec("kernel_tuner") is not None


def strategies() -> list[str]:
    """Return the baselines that the installed version knows."""
    from kernel_tuner.interface import strategy_map

    known = {name.lower(): name for name in strategy_map}
    return [known[name.lower()] for name in STRATEGIES if name.lower() in known]


def load_cache(path: str) -> dict[str, Any] | None:
    """Return the content of a Kernel Tuner cache; None if the file is something else."""
    data = Path(path).read_bytes()
    document = json.loads(gzip.decompress(data) if path.endswith(".gz") else data)
    return document if isinstance(document, dict) and "cache" in document else None


def simulate(cache: dict[str, Any], strategy: str, seed: int, budget: int) -> Trace:
    """Run one strategy once; each configuration counts when it is first measured."""
    import kernel_tuner

    keys = cache["tune_params_keys"]
    entries = cache["cache"]
    knobs = {key: sorted({entry[key] for entry in entries.values()}) for key in keys}

    def recorded(p: Any) -> bool:
        return ",".join(str(p[key]) for key in keys) in entries

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002, Kernel Tuner's strategies draw from it
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cache.json"
        file.write_text(json.dumps(cache))
        results, _ = kernel_tuner.tune_kernel(
            cache["kernel_name"],
            "",
            cache["problem_size"],
            [],
            knobs,
            restrictions=recorded,
            strategy=strategy,
            strategy_options={"max_fevals": budget},
            cache=str(file),
            simulation_mode=True,
            quiet=True,
        )
    return _trace(results, keys, entries, budget)


def _trace(
    results: list[dict[str, Any]], keys: list[str], entries: dict[str, Any], budget: int
) -> Trace:
    order = {key: number for number, key in enumerate(entries)}
    seen: dict[int, dict[str, Any]] = {}
    for result in results:
        key = ",".join(str(result[name]) for name in keys)
        if key in entries:
            seen.setdefault(order[key], entries[key])
    chosen = list(seen.items())[:budget]
    times = [entry["time"] for _, entry in chosen]
    costs = [1e-3 * t if isinstance(t, int | float) else math.nan for t in times]
    spent = [
        1e-3 * sum(entry.get(key, 0.0) for key in TIMES) for _, entry in chosen
    ]
    indices = tuple(index for index, _ in chosen)
    return Trace(indices, np.array(costs), np.cumsum(spent), 0.0, "the budget is spent")
