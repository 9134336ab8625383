"""Calls of Kernel Tuner in its simulation mode, which caches answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune.compat.kernel_tuner import tune_kernel
from autotune.compat.kernel_tuner.util import CompilationFailedConfig
from autotune.errors import UsageError
from records import RecordWarning


def simulated(path: Path, **changed: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    given = {
        "kernel_name": "f", "kernel_source": "float f(float *x);", "problem_size": (4,),
        "arguments": [np.zeros(4, "float32")], "tune_params": {"a": [1, 2, 3, 4], "kind": ["x"]},
        "cache": path, "simulation_mode": True, "quiet": True,
    }  # fmt: skip
    return tune_kernel(**{**given, **changed})


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Return a cache as Kernel Tuner writes it, of another device; a = 3 is the fastest in it."""
    spent = {"compile_time": 100, "verification_time": 0, "benchmark_time": 50}
    times: dict[int, Any] = {1: 3.0, 2: "CompilationFailedConfig", 3: 1.0, 4: 2.0}
    entries = {
        f"{a},x": {"a": a, "kind": "x", "time": time, **spent, "GFLOP/s": 1}
        for a, time in times.items()
    }
    document = {
        "device_name": "Another", "kernel_name": "f", "problem_size": 4,
        "tune_params_keys": ["a", "kind"], "tune_params": {"a": [1, 2, 3, 4], "kind": ["x"]},
        "cache": entries,
    }  # fmt: skip
    (tmp_path / "foreign.json").write_text(json.dumps(document))
    return tmp_path / "foreign.json"


@pytest.mark.parametrize("time", [-1, 0, "fast"])
def test_an_entry_with_an_impossible_time_is_passed_over(foreign: Path, time: Any) -> None:
    document = json.loads(foreign.read_text())
    document["cache"]["3,x"]["time"] = time
    foreign.write_text(json.dumps(document))
    with pytest.warns(RecordWarning, match=r"skipped 1 of 4"):
        results, env = simulated(foreign, restrictions=["a != 3"])
    assert sorted(r["a"] for r in results) == [1, 2, 4]
    assert env["best_config"]["a"] == 4


def test_a_cache_answers_without_a_device_or_a_compiler(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("autotune.compat.kernel_tuner.runners.measuring.tune", None)
    before = foreign.read_bytes()
    results, env = simulated(
        foreign, restrictions=["a != 4"], metrics={"twice": "2 * time"}, objective="twice",
        objective_higher_is_better=False,
    )  # fmt: skip
    assert [(r["a"], r["time"]) for r in results] == [
        (1, 3.0), (2, CompilationFailedConfig()), (3, 1.0),
    ]  # fmt: skip
    assert isinstance(results[1]["time"], CompilationFailedConfig)
    assert (env["best_config"]["a"], env["best_config"]["twice"]) == (3, 2.0)
    assert (env["device_name"], env["simulation"]) == ("Another", True)
    assert env["simulated_time"] == env["total_compile_time"] + env["total_benchmark_time"] == 450
    assert foreign.read_bytes() == before


@pytest.mark.parametrize("strategy", ["random_sample", "genetic_algorithm", "mls", "bayes_opt"])
def test_a_strategy_takes_its_steps_in_a_cache(foreign: Path, strategy: str) -> None:
    options = {"max_fevals": 3, "x0": [4, "x"]}
    runs = [simulated(foreign, strategy=strategy, strategy_options=options, seed=1)[0]] * 2
    found = [r["a"] for r in runs[0]]
    assert (found[0], len(found), len(set(found))) == (4, 3, 3)
    assert runs[0] == runs[1]


def test_a_simulation_ends_when_measuring_would_have(foreign: Path) -> None:
    results, env = simulated(foreign, strategy_options={"time_limit": 0.25})
    assert (len(results), env["simulated_time"]) == (2, 300)


def test_what_a_cache_cannot_answer_is_told(foreign: Path) -> None:
    with pytest.warns(UserWarning, match="1 legal configurations are not in .*foreign.json"):
        results, _ = simulated(foreign, tune_params={"a": [1, 5], "kind": ["x"]})
    assert [r["a"] for r in results] == [1]
    with pytest.raises(UsageError, match="has no configuration of this call"):
        simulated(foreign, tune_params={"a": [5], "kind": ["x"]})
    with pytest.raises(UsageError, match="x0 is not in the cache, or a restriction refuses it"):
        simulated(foreign, restrictions=["a < 4"], strategy_options={"x0": [4, "x"]})
    with pytest.raises(UsageError, match="has the kernel_name 'f', not 'g'"):
        simulated(foreign, kernel_name="g")
    with pytest.raises(UsageError, match="metric 'x' fails: ZeroDivisionError"):
        simulated(foreign, metrics={"x": "1 / (a - 3)"})


@pytest.mark.parametrize(
    ("name", "said", "message"),
    [
        ("kernel_name", None, "foreign.json does not say its kernel_name"),
        ("device_name", None, "foreign.json does not say its device_name"),
        ("tune_params_keys", None, "foreign.json does not say its tune_params_keys"),
        ("schema_version", "2.0.0", "is a Kernel Tuner cache of schema_version '2.0.0'"),
        ("schema_version", 1, "is a Kernel Tuner cache of schema_version 1; this version"),
    ],
)
def test_a_cache_that_does_not_say_what_it_is_of_is_refused(
    foreign: Path, name: str, said: Any, message: str
) -> None:
    document = {**json.loads(foreign.read_text()), name: said}
    foreign.write_text(json.dumps({n: v for n, v in document.items() if v is not None}))
    with pytest.raises(UsageError, match=message):
        simulated(foreign)


@pytest.mark.parametrize("left_out", ["problem_size", "tune_params"])
def test_a_cache_may_leave_out_what_older_ones_do(foreign: Path, left_out: str) -> None:
    document = {**json.loads(foreign.read_text()), "schema_version": "1.0.0"}
    del document[left_out]
    foreign.write_text(json.dumps(document))
    assert len(simulated(foreign)[0]) == 4
