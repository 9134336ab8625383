"""The end of a run: finalists are compared within their time, and what that says is the result."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from support.simulated_rounds import ALIKE, FASTER, LUCKY, TRUTH, Simulated, logged_finals, run

from autotune.builder import build_task
from autotune.measure.result import MeasureResult
from autotune.measure.timing_policy import TimingPolicy
from autotune.reuse import choose
from autotune.tuner.run.events import Compared, End
from autotune.tuner.run.final_comparison import SHARE, earlier_rounds
from autotune.tuner.run.finalists import ENOUGH_ROUNDS, FEW, MAX_ROUNDS
from autotune.tuner.run.limits import Goal
from autotune.tuner.run.trials import Trials
from records import RecordStore, best, summary


def test_rounds_and_not_the_luckiest_trial_decide(task, store):
    found = run(task, store, Simulated())
    assert (found.best.index, found.best.cost_s) == (FASTER, 0.8e-3)
    assert found.best.final["over_default"] == pytest.approx(1.25)
    assert found.default_costs_s == (1.0e-3,) * len(found.best.costs_s)
    assert len(found.best.costs_s) >= ENOUGH_ROUNDS
    assert found.no_finals == ""


def test_best_build_and_the_summary_of_a_log_go_by_the_same_record(task, store):
    found = run(task, store, Simulated())
    records = store.load()
    assert choose(task, records).record == best(records) == found.best
    assert build_task(task, records).record == found.best
    (row,) = summary(records)
    assert (row.best_index, row.best_cost_s, row.compared) == (FASTER, 0.8e-3, True)
    assert row.trials == found.trials == len(records) - len(logged_finals(store))


def test_final_records_hold_a_cost_for_each_round_and_their_rank(task, store):
    run(task, store, Simulated())
    finals = logged_finals(store)
    assert [record.final["rank"] for record in finals] == list(range(len(finals)))
    assert len({record.final["comparison"] for record in finals}) == 1
    chosen, default = finals[0], next(r for r in finals if r.index == 0)
    assert len(chosen.costs_s) == len(default.costs_s)
    assert chosen.final["range"] == pytest.approx([1.25, 1.25])
    assert default.final["over_default"] is None
    line = json.loads(chosen.to_json_line())
    assert (line["schema"], line["final"]["rank"]) == (1, 0)
    assert type(chosen).from_json(line) == chosen


def test_a_default_that_nobody_beats_is_the_result(task, store):
    slower = {0: 1.0e-3, LUCKY: 1.2e-3, FASTER: 0.995e-3}  # nearer than a tie
    found = run(task, store, Simulated(truth=slower))
    assert found.best.index == task.default_index == 0
    assert not found.best.is_trial
    assert choose(task, store.load()).config.index == 0


def test_many_are_screened_first_and_few_take_part_in_rounds(task, store):
    events, measurer = [], Simulated(truth=ALIKE | {17: 0.8e-3})
    found = run(task, store, measurer, events=events)
    screenings, rounds = measurer.rounds[:2], measurer.rounds[2:]
    many, fewer = (indices for indices, _, _ in screenings)
    assert len(many) > 2 * len(fewer) > 2 * FEW
    assert [(fresh, check) for _, fresh, check in screenings] == [(True, True), (False, False)]
    assert {0, 17} <= set(rounds[0][0]) < set(fewer)
    assert all(len(indices) <= FEW + 1 for indices, _, _ in rounds)
    assert (found.best.index, len(found.best.costs_s)) == (17, len(rounds))
    assert [event.round.number for event in events if isinstance(event, Compared)] == [
        *range(1, 1 + len(rounds))
    ]
    assert {record.index for record in logged_finals(store)} == set(rounds[0][0])
    assert measurer.compared_s <= SHARE * measurer.now


def test_a_screening_leaves_the_time_that_rounds_need(task, store):
    class Slowly(Simulated):
        def compare(self, configs, seconds, seed, fresh, check):
            self.now += 0.012 * len(configs) if fresh else 0.0  # longer than was assumed
            return super().compare(configs, seconds, seed, fresh, check)

    measurer = Slowly(0.05, truth=ALIKE | {17: 0.8e-3}, pace_s=0.15)
    found = run(task, store, measurer)
    assert len(measurer.rounds[0][0]) > 4 * FEW
    assert len(measurer.rounds[1][0]) == FEW + 1  # one pass only
    assert not found.best.is_trial
    assert found.best.index == 17


def test_laying_out_constants_for_finalists_counts_as_time(task, store):
    class LayingOut(Simulated):
        entered = frozenset()

        def compare(self, configs, seconds, seed, fresh, check):
            indices = frozenset(config.index for config in configs)
            self.entered = frozenset() if fresh else self.entered
            self.now += 0.2 * (len(indices - self.entered) + len(indices))
            self.entered |= indices
            return super().compare(configs, seconds, seed, fresh, check)

    large = task.with_args({"n": 1 << 25}).with_constant((0,))  # 128 MiB
    measurer = LayingOut(truth=ALIKE | {0: 1.25e-3})
    found = run(large, store, measurer)
    assert found.no_finals == ""
    assert not found.best.is_trial
    assert measurer.now * SHARE >= measurer.now - 40.0  # trials take 40 s


@pytest.mark.parametrize("trials", [10, 20, 30])
@pytest.mark.parametrize("opening_s", [0.0, 0.2, 0.6])
def test_a_comparison_takes_at_most_its_share_of_the_run(task, store, trials, opening_s):
    measurer = Simulated(opening_s)
    run(task, store, measurer, trials)
    assert measurer.compared_s <= SHARE * measurer.now


@pytest.mark.parametrize("seconds", [4, 10, 20])
def test_the_comparison_lies_inside_the_time(task, store, seconds):
    measurer = Simulated(pace_s=0.2)
    found = run(task, store, measurer, None, seconds=float(seconds))
    assert found.ended in (End.TIME, End.EXHAUSTED)
    assert measurer.now <= seconds
    assert measurer.rounds


def test_a_run_that_is_too_short_says_that_its_times_are_of_trials(task, store):
    measurer = Simulated(opening_s=5.0)
    found = run(task, store, measurer, 4)
    assert measurer.rounds == []
    assert found.no_finals == "too little time for a final comparison"
    assert (found.best.index, found.best.is_trial) == (LUCKY, True)
    assert choose(task, store.load()).record == found.best


def test_a_single_trial_has_nobody_to_be_compared_with(task, store):
    measurer = Simulated()
    found = run(task, store, measurer, 1)
    assert (measurer.rounds, found.best.index, found.no_finals) == ([], 0, "")


def test_the_first_round_is_in_a_new_process_that_checks_answers(task, store):
    measurer = Simulated()
    run(task, store, measurer)
    (_, fresh, check), *_ = measurer.rounds
    assert (fresh, check) == (True, True)


def test_later_rounds_are_in_new_processes_where_only_the_first_one_builds_and_checks(task, store):
    measurer = Simulated(opening_s=0.8, build_s=0.1)
    run(task, store, measurer)
    later = [(fresh, check) for indices, fresh, check in measurer.rounds if len(indices) <= FEW + 1]
    assert len(later) >= ENOUGH_ROUNDS
    assert set(later[1:]) == {(True, False)}
    assert measurer.compared_s <= SHARE * measurer.now


def test_what_is_built_already_leaves_time_for_more_finalists(task, tmp_path):
    counts = []
    for built in ((), range(len(task.space))):
        truth = dict.fromkeys(range(len(task.space)), 1e-3)
        measurer = Simulated(opening_s=0.02, truth=truth, build_s=0.2)
        measurer.built = built
        run(task, RecordStore(tmp_path / f"{len(built)}.jsonl"), measurer)
        counts.append(len(measurer.rounds[0][0]))
    assert counts[0] < counts[1]


def test_a_wide_range_has_more_rounds_while_there_is_time(task, store):
    rng = np.random.default_rng(0)

    def spoil(number, found):
        return {
            i: replace(result, costs_s=(result.cost_s * np.exp(rng.normal(0, 0.1)),))
            for i, result in found.items()
        }

    events, measurer = [], Simulated(opening_s=0.02, pace_s=8.0, spoil=spoil)
    found = run(task, store, measurer, events=events)
    assert found.best.index == FASTER
    assert sum(isinstance(event, Compared) for event in events) == MAX_ROUNDS
    assert measurer.compared_s <= SHARE * measurer.now


def test_a_screening_takes_at_most_half_of_the_time(task, store):
    measurer = Simulated(0.1, truth=ALIKE, pace_s=0.3)
    begun = []
    measurer.spoil = lambda number, found: begun.append((len(found), measurer.now)) or found
    run(task, store, measurer)
    screened_at = max(now for count, now in begun if count > FEW + 1)
    assert begun[0][0] > FEW + 1
    assert screened_at - (measurer.now - measurer.compared_s) < 0.6 * measurer.compared_s


def test_each_round_is_told(task, store):
    events = []
    measurer = Simulated()
    run(task, store, measurer, events=events)
    told = [event.round for event in events if isinstance(event, Compared)]
    assert [found.number for found in told] == list(range(1, len(measurer.rounds) + 1))
    assert told[0].costs_s[FASTER] == 0.8e-3
    assert set(told[-1].remaining) <= set(told[0].remaining)


def test_a_goal_that_only_a_lucky_trial_has_reached_is_not_called_reached(task, store):
    found = run(task, store, Simulated(pace_s=20.0), goal=Goal.parse("0.75 ms"), batch=2)
    assert found.ended is End.GOAL
    assert found.best.cost_s > 0.75e-3
    assert found.why == "a trial has reached the goal 0.75 ms; the final comparison has not"


# -- runs that go on ------------------------------------------------------------------------------


def test_the_same_run_again_measures_and_compares_nothing(task, store):
    first = run(task, store, Simulated(), 20)
    measurer = Simulated()
    again = run(task, store, measurer, 20)
    assert (measurer.asked, measurer.rounds) == ([], [])
    assert (again.best, again.default_costs_s) == (first.best, first.default_costs_s)
    assert again.no_finals == ""


def test_a_run_that_goes_on_remembers_earlier_rounds(task, store):
    first = run(task, store, Simulated(), 20)
    measurer = Simulated(truth=TRUTH | {25: 0.7e-3})
    found = run(task, store, measurer, 29)
    assert found.best.index == 25
    rounds = {index for indices, _, _ in measurer.rounds for index in indices}
    assert {0, FASTER, 25} <= rounds  # the default, and the champion so far
    assert LUCKY not in rounds  # it has lost already
    assert choose(task, store.load()).record == found.best != first.best


def test_a_run_that_goes_on_knows_in_which_rounds_each_finalist_was_timed(task, store):
    def spoil(number, found):  # both seem far behind at first, and one of them comes back
        slow = {1: {LUCKY: 3e-3, FASTER: 3e-3}, 2: {LUCKY: 9e-3}}.get(number, {})
        return found | {i: MeasureResult(costs_s=(s,)) for i, s in slow.items() if i in found}

    events = []
    run(task, store, Simulated(spoil=spoil), 20, events=events)
    told = [dict(event.round.costs_s) for event in events if isinstance(event, Compared)]
    assert any(FASTER in later and FASTER not in costs for costs, later in pairwise(told))
    trials = Trials(task, store, TimingPolicy(), 0)
    trials.new_records()
    assert earlier_rounds(trials) == told


def test_a_short_run_that_goes_on_does_not_undo_what_was_found(task, store):
    first = run(task, store, Simulated(), 20)
    found = run(task, store, Simulated(opening_s=5.0), 21)
    assert found.best == first.best


def test_records_of_another_machine_are_no_earlier_rounds(task, store):
    run(task, store, Simulated(), 20)
    records = [
        type(r).from_json(r.to_json() | {"device": {"kind": "cpu", "name": "other"}})
        for r in store.load()
    ]
    store.path.unlink()
    store.append(records)
    measurer = Simulated()
    run(task, store, measurer, 29)
    assert len(measurer.rounds) >= ENOUGH_ROUNDS
