"""How `benchmarks/corpus.py` times contenders beside each other, and the figures of its report."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Return what imports a module of the benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


# -- timing ------------------------------------------------------------------------------------


def test_the_first_third_of_a_block_is_not_counted(
    module: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    timing = module("corpus_timing")
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(timing, "time", SimpleNamespace(sleep=sleep, perf_counter=lambda: now[0]))
    begins = []

    class Contenders:
        sample_s = 0.0

        def clock(self, call: Callable[[], object], number: int) -> float:
            begin = now[0]
            call()
            return now[0] - begin

        def is_slow(self) -> bool:
            return False

    def waking() -> None:
        """Take 9 ms in the first 50 ms after a pause, then 1 ms."""
        if not begins or now[0] - begins[-1][1] > 0.04:
            begins.append([now[0], now[0]])
        sleep(0.009 if now[0] - begins[-1][0] < 0.05 else 0.001)
        begins[-1][1] = now[0]

    found = timing.timed({"a": waking, "b": lambda: sleep(0.002)}, Contenders(), 5)
    assert found == {"a": pytest.approx([0.001] * 5), "b": pytest.approx([0.002] * 5)}


def test_a_block_is_repeated_when_a_slow_machine_is_fast_again(
    module: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    timing = module("corpus_timing")
    monkeypatch.setattr(timing, "PATIENCE_S", 100.0)
    # Seconds from when on the machine is slow or not.
    spells = iter([(0.0, False), (15.0, True), (45.0, False), (75.0, True), (1e9, True)])
    now, ahead, slow = [0.0], [next(spells)], [False]
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    class Contenders:
        sample_s = 0.0

        def clock(self, call: Callable[[], object], number: int) -> float:
            return 1.0

        def is_slow(self) -> bool:
            now[0] += 1.0
            while ahead[0][0] <= now[0]:
                slow[0] = ahead[0][1]
                ahead[0] = next(spells)
            return slow[0]

    def block(*_: object) -> float:
        now[0] += 10.0
        return now[0]

    monkeypatch.setattr(timing, "_block", block)
    found = timing.timed({"a": lambda: None}, Contenders(), 4)
    # The blocks that end at 11 and 55 s count; that of 22 s is repeated, and the last ones, at the
    # end of all patience, do not count beside those.
    assert found["a"] == [11.0, pytest.approx(55.0, abs=2), pytest.approx(66.0, abs=2)]


@pytest.mark.parametrize(
    ("slow", "counted"),
    [
        # Before the first block and after each: b has no undisturbed block, so all count.
        ([False, False, True, True, True], {"a": [0.0, 3.0], "b": [1.0, 2.0]}),
        # Both have undisturbed blocks, which alone count.
        ([True, False, False, False, False], {"a": [3.0], "b": [1.0, 2.0]}),
    ],
)
def test_contenders_are_compared_in_one_state_of_the_machine(
    module: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
    slow: list[bool],
    counted: dict[str, list[float]],
) -> None:
    timing = module("corpus_timing")
    monkeypatch.setattr(timing, "PATIENCE_S", 0.0)
    states, blocks = iter(slow), itertools.count()

    class Contenders:
        sample_s = 0.0

        def clock(self, call: Callable[[], object], number: int) -> float:
            return 1.0

        def is_slow(self) -> bool:
            return next(states)

    monkeypatch.setattr(timing, "_block", lambda *_: float(next(blocks)))
    calls = {"a": lambda: None, "b": lambda: None}
    assert timing.timed(calls, Contenders(), 2) == counted  # blocks of a, b, b, a


def test_results_may_differ_by_rounding_only(module: Callable[[str], Any]) -> None:
    difference = module("corpus_timing").difference
    right = np.array([1.0, -1000.0, 0.0], np.float32)
    assert not difference(right * np.float32(1 + 1e-5), right)
    assert not difference(right + np.float32(1e-3), right)
    assert "1 of 3 elements, such as -1010 for -1000" in difference(
        np.array([1, -1010, 0], np.float32), right
    )
    assert "nan" in difference(np.array([1, -1000, np.nan], np.float32), right)
    assert difference(np.array([1, 2]), np.array([1, 3]))
    assert "shape" in difference(right, right[:2])


# -- report ------------------------------------------------------------------------------------


def result(name: str, tuned_s: float, ceiling_s: float, **others: float) -> dict[str, Any]:
    seconds = {"tuned": tuned_s, "default": 2 * tuned_s, **others}
    known = {"number": 0, "name": name, "seconds": seconds, "ceiling_s": ceiling_s}
    return {**known, "tuning_s": 10.0, "first_build_s": 1.5, "structures": 65}


def test_ratios_are_taken_within_rounds(module: Callable[[str], Any]) -> None:
    over = module("corpus_report").over
    rounds_s = {
        "tuned": [1.0, 1.0, 2.0, 2.0, 2.0],
        "NumPy": [3.0, 3.0, 6.0, 6.0, 3.0],
        "default": [3.0, 3.0, 6.0, 6.0],  # one did not count: then the medians are compared
        "ceiling": [0.25, 0.25, 0.5, 0.5, 0.5],  # in other units: 1.0 in the median
    }
    known = {**result("x", 2.0, 1.0, NumPy=3.0), "facts": {"rounds": 5}, "rounds_s": rounds_s}
    assert over(known, "NumPy", "tuned") == 3.0
    assert over(known, "default", "tuned") == 2.0
    assert over(known, "ceiling", "tuned") == 0.5


def test_figures_are_ratios_and_the_summary_has_means_and_aims(
    module: Callable[[str], Any], tmp_path: Path
) -> None:
    report = module("corpus_report")
    results = [
        result("large", 1e-3, 4e-4, NumPy=8e-3, other=2e-3),
        result("small", 1e-5, 1e-6, NumPy=5e-6),
        result("alone", 1e-3, 9e-4),
        {"number": 3, "name": "bad", "error": "it $broke$", "tuning_s": 40.0},
    ]
    rows = {row.name: row for row in report.rows_of(results)}
    large, small = (rows[f"corpus.{name}.over_library"] for name in ("large", "small"))
    assert (large.value, large.met, small.value, small.met) == (2.0, True, 0.5, False)
    assert "corpus.alone.over_library" not in rows
    assert [rows[f"corpus.{name}.of_ceiling"].met for name in ("large", "small", "alone")] == [
        False, None, True
    ]  # fmt: skip
    assert rows["corpus.large.default_over_tuned"].value == 0.5
    bad = rows["corpus.bad.over_library"]
    assert (bad.value, bad.met) == (None, False)
    totals = {
        row.name.removeprefix("corpus."): (row.value, row.met) for row in report.summary(results)
    }
    assert totals == {
        "over_library.geometric_mean": (1.0, False),
        "over_library.least": (0.5, False),
        "of_ceiling.geometric_mean": (0.6, False),
        "of_ceiling.least": (0.4, False),
        "default_over_tuned.geometric_mean": (0.5, False),
        "default_over_tuned.least": (0.5, True),
        "tuning_s.median": (10.0, True),
        "first_build_s.most": (1.5, True),
        "structures.most": (65, False),
        "workloads": (4, None),
        "failed": (1, False),
    }
    table = report.table(results).splitlines()
    assert "2.00" in table[1]
    assert "0.500*" in table[2]
    assert table[4].endswith("failed: it $broke$")
    pytest.importorskip("matplotlib")
    report.draw(results, "title", tmp_path / "picture.svg")
    picture = (tmp_path / "picture.svg").read_text()
    assert all(one["name"] in picture for one in results)
