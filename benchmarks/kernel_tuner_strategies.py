"""Kernel Tuner's strategies on recorded measurements, in its simulation mode: published baselines.

They run their own loop, so they are no tuners that can be asked. Kernel Tuner is used only where it
is installed.
"""

from __future__ import annotations

import importlib.util
import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotune.measure.result import MeasureResult
from autotune.tuner.replay.compare_tuners import find_recording
from autotune.tuner.replay.replay_tuner import Trace, trace_of
from search_spaces import Config, Knob

BASELINES = ("genetic_algorithm", "adaptive_tabu_greywolf", "hybrid_vndx", "pso")
"""The strategies that tuners are compared with."""


def installed() -> bool:
    """Whether Kernel Tuner is there."""
    return importlib.util.find_spec("kernel_tuner") is not None


def simulate(path: str, name: str, strategy: str, seed: int, budget: int) -> Trace:
    """Run a strategy once on a recording; a configuration counts when it is first measured."""
    import kernel_tuner

    recording = find_recording(path, name)
    knobs = recording.space.knobs
    numbers = {index: _numbers(knobs, recording.space.config(index)) for index in recording.results}
    by_key = {_key(row): index for index, row in numbers.items()}
    names = [knob.name for knob in knobs]

    def recorded(p: Any) -> bool:
        return _key([p[name] for name in names]) in by_key

    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002, its strategies draw from this generator
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cache.json"
        file.write_text(json.dumps(_cache(names, numbers, recording.results)))
        results, _ = kernel_tuner.tune_kernel(
            "recorded",
            "",
            1,
            [],
            {name: sorted({row[n] for row in numbers.values()}) for n, name in enumerate(names)},
            restrictions=recorded,
            strategy=strategy,
            strategy_options={"max_fevals": budget},
            cache=str(file),
            simulation_mode=True,
            quiet=True,
        )
    keys = (_key([result[name] for name in names]) for result in results if result)
    order = list(dict.fromkeys(by_key[key] for key in keys if key in by_key))[:budget]
    return trace_of(order, [recording.results[index] for index in order], 0.0, "it ended by itself")


def _numbers(knobs: Sequence[Knob], config: Config) -> list[int | float]:
    """Return a configuration as numbers, which is all that every strategy takes."""
    row: list[int | float] = []
    for knob in knobs:
        value = config[knob.name]
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        row.append(value if plain else knob.index_of(value))  # type: ignore[arg-type]
    return row


def _key(row: Sequence[object]) -> str:
    return ",".join(map(str, row))


def _cache(
    names: Sequence[str],
    numbers: Mapping[int, Sequence[int | float]],
    results: Mapping[int, MeasureResult],
) -> dict[str, Any]:
    """Return a recording as the content of one of Kernel Tuner's cache files."""
    entries = {}
    for index, row in numbers.items():
        result = results[index]
        failed = "RuntimeFailedConfig"
        entries[_key(row)] = {
            **dict(zip(names, row, strict=True)),
            "time": failed if result.cost_s is None else 1e3 * result.cost_s,
            "compile_time": 1e3 * (result.build_s or 0.0),
            "verification_time": 0.0,
            "benchmark_time": 1e3 * (result.run_s or 0.0),
        }
    return {
        "device_name": "recorded",
        "kernel_name": "recorded",
        "problem_size": 1,
        "tune_params_keys": list(names),
        "tune_params": {n: sorted({e[n] for e in entries.values()}) for n in names},
        "objective": "time",
        "cache": entries,
    }
