"""Threads as a knob: work too short for a launch stays serial, and values suit every machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.rules.threads import LAUNCH, likely_threads, serial_seconds, share
from autotune.target import MAX_THREADS, Target


class _Choosing:
    """Defines knobs and chooses given values, or the defaults."""

    def __init__(self, target: str = "llvm", **chosen: Any) -> None:
        self.target = Target(target)
        self.chosen = chosen
        self.values: dict[str, list[Any]] = {}

    def define_knob(self, name: str, values: Sequence[Any], default: Any = None) -> Any:
        self.values[name] = list(values)
        return self.chosen.get(name, values[0] if default is None else default)

    def add_constraint(self, condition: Any, message: str) -> None:
        raise AssertionError("there is nothing to constrain")


def doubled(n: int, cfg: _Choosing, seconds: float) -> tuple[te.Schedule, list[te.Tensor]]:
    X = te.placeholder((n,), "int32", name="X")
    Y = te.compute((n,), lambda i: X[i] * 2, name="Y")
    s = te.create_schedule(Y.op)
    share(cfg, s[Y], Y.op.axis[0], n, seconds)
    return s, [X, Y]


@pytest.mark.parametrize("threads", [1, 2, 128, 1024])
@pytest.mark.parametrize("n", [2, 1000, 1021])
def test_all_iterations_run_on_any_number_of_threads(n: int, threads: int) -> None:
    s, tensors = doubled(n, _Choosing(threads=threads), seconds=1.0)
    x, y = np.arange(n, dtype="int32"), np.zeros(n, dtype="int32")
    autotune.build(s, tensors)(x, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_one_thread_needs_no_parallel_loop() -> None:
    s, tensors = doubled(1000, _Choosing(threads=1), seconds=1.0)
    assert "parallel" not in str(autotune.lower(s, tensors))
    s, tensors = doubled(1000, _Choosing(threads=2), seconds=1.0)
    assert "parallel" in str(autotune.lower(s, tensors))


def test_work_shorter_than_a_launch_has_no_choice() -> None:
    cfg = _Choosing()
    s, tensors = doubled(1000, cfg, seconds=LAUNCH / 2)
    assert not cfg.values
    assert "parallel" not in str(autotune.lower(s, tensors))


@pytest.mark.parametrize("seconds", [LAUNCH, 10 * LAUNCH, 1.0])
def test_values_begin_with_one_and_do_not_depend_on_the_machine(seconds: float) -> None:
    spaces = []
    for target in ("llvm -threads=1", "llvm -threads=64"):
        cfg = _Choosing(target)
        doubled(1000, cfg, seconds)
        spaces.append(cfg.values)
    assert spaces[0] == spaces[1]
    counts = spaces[0]["threads"]
    assert counts[0] == 1
    assert list(counts) == sorted(counts)
    assert counts[-1] <= MAX_THREADS


def test_default_is_serial_on_one_core_and_for_short_work_and_else_takes_all_cores() -> None:
    assert likely_threads(Target("llvm -threads=1"), 1.0) == 1
    assert likely_threads(Target("llvm -threads=2"), 1.5 * LAUNCH) == 1
    assert likely_threads(Target("llvm -threads=8"), 1.0) >= 8


def test_more_work_takes_longer_and_functions_take_longer_than_sums() -> None:
    X = te.placeholder((1000, 1000), "float32", name="X")
    few = te.compute((10, 1000), lambda i, j: X[i, j] + 1.0)
    many = te.compute((1000, 1000), lambda i, j: X[i, j] + 1.0)
    exp = te.compute((1000, 1000), lambda i, j: te.exp(te.exp(te.exp(X[i, j]))))
    times = [serial_seconds(Target("llvm"), [t]) for t in (few, many, exp)]
    assert times == sorted(times)
