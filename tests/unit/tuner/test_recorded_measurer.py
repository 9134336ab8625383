"""Recorded measurements as a space, a measurer, and scores of tuners."""

import itertools
import json
import math

import numpy as np
import pytest

from autotune.errors import UsageError
from autotune.measure.recorded_measurer import Recording, ReplayMeasurer, recordings
from autotune.measure.result import MeasureInput
from autotune.report.replay_scores import (
    comparison_json,
    curve_over_seconds,
    mean_score,
    score,
    shares,
)
from autotune.tuner.base import Observation, Tuner
from autotune.tuner.factory import make_tuner
from autotune.tuner.replay.compare_tuners import ReplayJob, distinct, run_jobs
from autotune.tuner.replay.replay_tuner import Trace, replay
from autotune.tuner.run.limits import Patience
from records import Record
from search_spaces import ChoiceKnob, Constraint, ListedSpace, Space, SpaceError


def record(x: int, y: int, cost_s: float | None, template: str = "add") -> Record:
    outcome = (
        {"costs_s": (cost_s,)}
        if cost_s is not None
        else {"error": {"code": "RUNTIME_DEVICE", "stage": "run", "message": "launch"}}
    )
    return Record(
        workload={"template": template, "args": {}},
        target="recorded",
        config={"index": 0, "values": {"x": x, "y": y}},
        seed=0,
        build_s=2.0,
        run_s=1.0,
        **outcome,
    )


def bowl(failing: bool = False) -> Recording:
    """Return 48 of the 8 x 8 combinations; the fastest is x = 4, y = 2."""
    sizes = [1, 2, 4, 8, 16, 32, 64, 128]
    records = []
    for a, b in itertools.product(range(8), range(8)):
        if (a + b) % 4:
            cost = 1e-3 * (1 + 0.1 * (a - 2) ** 2 + 0.2 * (b - 1) ** 2)
            broken = failing or a > 6
            records.append(record(sizes[a], sizes[b], None if broken else cost))
    return Recording.of(records, "bowl")


def test_the_space_is_the_configurations_of_the_file():
    recording = bowl()
    feasible = recording.space.feasible_indices()
    assert len(feasible) == len(recording.results) == 48
    assert len(recording.space) == 64
    assert recording.optimum_s == pytest.approx(1e-3)
    assert recording.space.feasible(recording.space.neighbors(int(feasible[0]))).all()


def test_answers_are_those_recorded_failures_and_seconds_included():
    recording = bowl()
    measurer = ReplayMeasurer(recording)
    configs = [recording.space.config(int(i)) for i in recording.space.feasible_indices()]
    results = [result for _, result in measurer.measure(map(MeasureInput, configs))]
    by_values = {(c["x"], c["y"]): r for c, r in zip(configs, results, strict=True)}
    assert by_values[4, 2].cost_s == pytest.approx(1e-3)
    assert by_values[4, 2].build_s == 2.0
    assert by_values[128, 1].error is not None
    other = recording.space.config(0)
    with pytest.raises(UsageError, match="has no record of"):
        list(measurer.measure([MeasureInput(other)]))


def test_of_several_records_of_a_configuration_the_fastest_counts():
    records = [record(1, 1, None), record(1, 1, 3.0), record(1, 1, 2.0), record(2, 1, None)]
    recording = Recording.of(records, "twice")
    assert recording.optimum_s == 2.0
    assert sum(r.ok for r in recording.results.values()) == 1


def test_every_workload_of_a_file_is_a_recording_of_its_own():
    records = [record(1, 1, 1.0, "a"), record(1, 1, 1.0, "b"), record(2, 1, 1.0, "b")]
    found = recordings(records, "log")
    assert [r.name for r in found] == ["log:b", "log:a"]
    assert [r.name for r in recordings(records[:1], "log")] == ["log"]


def test_configurations_with_different_knobs_are_refused():
    other = Record.from_json({**record(1, 1, 1.0).to_json(), "config": {"index": 0, "values": {}}})
    with pytest.raises(UsageError, match="different knobs"):
        Recording.of([record(1, 1, 1.0), other], "mixed")
    with pytest.raises(UsageError, match="no measurements"):
        Recording.of([], "empty")


def test_a_listed_space_may_be_a_needle_in_a_haystack_of_combinations():
    knobs = [ChoiceKnob(f"k{i}", list(range(100))) for i in range(8)]
    rows = [[1] * 8, [2] * 8, [99] * 8]
    space = ListedSpace(knobs, [*rows, rows[0]])
    assert len(space) == 10**16
    assert space.positions(space.feasible_indices()).tolist() == rows
    drawn = space.sample(5, np.random.default_rng(0), exclude=[int(space.feasible_indices()[0])])
    assert sorted(drawn.tolist()) == space.feasible_indices()[1:].tolist()
    assert {rule.name: rule.first for rule in space.tally().rules} == {"listed": 10**16 - 3}
    with pytest.raises(SpaceError, match="exclusive"):
        ListedSpace(knobs, [[100] * 8])


def test_a_space_without_knobs_lists_its_one_configuration():
    space = ListedSpace([], [[]])
    assert space.feasible_indices().tolist() == [0]


def test_a_replay_takes_the_time_that_was_recorded():
    recording = bowl()
    trace = replay(recording, make_tuner("random", recording.space, 1), budget=10, batch=4)
    assert len(trace.indices) == len(set(trace.indices)) == 10
    assert trace.seconds.tolist() == [3.0 * k for k in range(1, 11)]
    assert trace.ended == "the budget of 10 is spent"
    again = replay(recording, make_tuner("random", recording.space, 1), budget=10, batch=4)
    assert again.indices == trace.indices


def test_a_replay_ends_with_the_space():
    recording = bowl()
    trace = replay(recording, make_tuner("grid", recording.space, 0), budget=1000)
    assert len(trace.indices) == 48
    assert trace.ended == "the space is exhausted"
    assert trace.best_s[-1] == recording.optimum_s


@pytest.mark.parametrize("tuner", ["model", "genetic", "local", "optuna:tpe"])
def test_a_space_in_which_everything_fails_is_searched_to_the_end(tuner):
    recording = bowl(failing=True)
    trace = replay(recording, make_tuner(tuner, recording.space, 0), budget=60, batch=16)
    assert len(trace.indices) == 48
    assert np.isnan(trace.costs_s).all()
    assert math.isinf(trace.best_s[-1])


def trace_of(costs: list[float], seconds: float = 1.0) -> Trace:
    array = np.array(costs)
    return Trace(tuple(range(len(costs))), array, seconds * np.arange(1, len(costs) + 1), 0.0, "")


def test_the_share_of_the_optimum_is_0_before_something_works_and_never_falls():
    share = shares(trace_of([math.nan, 4.0, 2.0, 8.0]), optimum_s=1.0, budget=6)
    assert share.tolist() == [0.0, 0.25, 0.5, 0.5, 0.5, 0.5]


def test_scores_count_measurements_to_within_five_percent():
    far, near = [2.0] * 30, [2.0] * 3 + [1.04] + [1.0] * 26
    result = score([trace_of(far), trace_of(near), trace_of(near)], 1.0, budget=30)
    assert result.share[25] == pytest.approx((0.5 + 1 + 1) / 3)
    assert result.share[50] is None
    assert result.within == pytest.approx(2 / 3)
    assert result.to_near == 4.0
    never = score([trace_of(far)], 1.0, budget=30)
    assert never.to_near == 30.0
    assert mean_score([result, never]).to_near == pytest.approx(math.sqrt(120))


def test_the_comparison_has_the_documented_form():
    one = score([trace_of([1.0] * 200)], 1.0, budget=200)
    data = comparison_json({"random": {"bowl": one}})
    expected = {
        "share": {"25": 1.0, "50": 1.0, "100": 1.0, "200": 1.0},
        "within_5_percent": 1.0,
        "median_to_5_percent": 1.0,
    }
    assert data == {"tuners": {"random": {**expected, "per_space": {"bowl": expected}}}}
    json.dumps(data, allow_nan=False)


def test_curves_over_seconds_know_what_was_found_when():
    curve = curve_over_seconds([(trace_of([4.0, 1.0], seconds=10.0), 1.0)], points=3)
    assert curve is not None
    assert curve.x.tolist() == pytest.approx([10.0, math.sqrt(200.0), 20.0])
    assert curve.mean.tolist() == [0.25, 0.25, 1.0]
    assert curve_over_seconds([(trace_of([4.0], seconds=0.0), 1.0)]) is None


def test_files_with_the_same_measurements_count_once():
    kept, repeated = distinct([("a.json", bowl()), ("b.json", bowl()), ("c.json", bowl(True))])
    assert kept == [("a.json", "bowl"), ("c.json", "bowl")]
    assert repeated == ["b.json: the same measurements as bowl"]


def test_patience_stops_a_search_that_has_nothing_left_to_gain():
    recording = bowl()
    tuner = make_tuner("model", recording.space, 0)
    trace = replay(recording, tuner, budget=48, patience=0.05)
    assert 8 <= len(trace.indices) < 40
    assert "are expected to gain" in trace.ended
    assert trace.best_s[-1] == recording.optimum_s


def test_patience_is_a_share_and_needs_a_tuner_that_estimates():
    space = bowl().space
    with pytest.raises(UsageError, match="between 0 and 1"):
        Patience(make_tuner("model", space, 0), 2.0)
    with pytest.raises(UsageError, match="use the tuner model"):
        Patience(make_tuner("random", space, 0), 0.1)


def test_processes_change_nothing(tmp_path):
    log = tmp_path / "bowl.jsonl"
    lines = [record(2**a, 2**b, 1e-3 * (1 + a * b % 5)) for a in range(5) for b in range(5)]
    log.write_text("".join(f"{r.to_json_line()}\n" for r in lines))
    jobs = [ReplayJob(str(log), "bowl", name, 12, 2, 0) for name in ("model", "random")]
    one, two = ([[t.indices for t in ts] for ts in run_jobs(jobs, n)] for n in (1, 2))
    assert one == two


def test_a_large_space_is_judged_in_part():
    knobs = [ChoiceKnob(f"k{i}", list(range(1, 11))) for i in range(9)]
    space = Space(knobs, [Constraint("even", lambda c: c["k0"] % 2 == 0)])
    tuner = make_tuner("model", space, 3)

    def cost(index: int) -> float:
        return float(1 + np.abs(space.positions([index])[0] - 6).sum())

    while len(tuner.observations) < 32:
        tuner.tell([Observation(index, cost(index)) for index in tuner.ask(8)])
    assert tuner.best is not None
    # Of 300 random candidates the best costs about 12.
    assert cost(tuner.best.index) <= 11.0


def test_patience_waits_until_the_estimate_has_stayed_low():
    class Sure(Tuner):
        """Says that it can tell."""

        estimates_gain = True

        def _propose(self, n: int) -> list[int]:
            return self._sample(n, self._generator())

    tuner = Sure(bowl().space, 0)
    rule = Patience(tuner, 0.02)
    said = []
    for gain in [None, 0.5, 0.01, 0.03, 0.01, 0.01, 0.001]:
        said.append(rule.reason_to_stop(gain))
        tuner.tell(Observation(index, 1.0) for index in tuner.ask(4))
    assert said[:6] == [None] * 6
    assert said[6] == "further measurements are expected to gain 0.1 %, less than the 2 % asked for"
