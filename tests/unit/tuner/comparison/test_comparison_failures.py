"""Finalists, rounds and measurers that fail in the final comparison, and interrupts."""

import pytest
from support.simulated_rounds import (
    ALIKE,
    FASTER,
    LUCKY,
    TRUTH,
    Simulated,
    failing,
    failure,
    logged_finals,
    run,
)

from autotune.errors import AutotuneError
from autotune.measure.result import MeasureErrorNo
from autotune.reuse import choose
from autotune.tuner.run.events import End
from autotune.tuner.run.finalists import MIN_ROUNDS


def test_who_fails_in_a_screening_is_logged_and_the_others_go_on(task, store):
    found = run(task, store, Simulated(truth=ALIKE | {17: 0.8e-3}, spoil=failing(9)))
    assert found.best.index == 17
    assert [record.index for record in logged_finals(store) if not record.ok] == [9]


def test_who_gives_a_wrong_answer_in_a_round_is_out_and_logged(task, store, caplog):
    found = run(task, store, Simulated(spoil=failing(FASTER)))
    assert found.best.index == 0
    failed = [record for record in logged_finals(store) if not record.ok]
    assert [(r.index, r.error["code"]) for r in failed] == [(FASTER, "WRONG_ANSWER")]
    assert "configuration 2 worked before and has failed in the final comparison" in caplog.text


def test_without_its_default_a_comparison_still_has_a_winner(task, store):
    found = run(task, store, Simulated(spoil=failing(0, MeasureErrorNo.RUN_TIMEOUT)))
    assert found.best.index == FASTER
    assert found.best.final["over_default"] is None


def test_a_lucky_trial_that_fails_beside_the_default_is_not_built(task, store):
    found = run(task, store, Simulated(pace_s=10.0, spoil=failing(LUCKY)), 2)
    assert found.best.index == 0
    assert choose(task, store.load()).config.index == 0
    (failed,) = logged_finals(store)
    assert (failed.index, failed.final["rank"]) == (LUCKY, 1)
    assert found.no_finals == "too few finalists worked in the final comparison"


def test_where_all_finalists_fail_the_run_still_ends(task, store):
    measurer = Simulated(spoil=lambda number, found: dict.fromkeys(found, failure()))
    found = run(task, store, measurer)
    assert len(measurer.rounds) == 1
    failed = {record.index for record in logged_finals(store)}
    assert failed == set(measurer.rounds[0][0])
    assert found.best.is_trial
    assert found.best.index not in failed
    assert found.no_finals == "too few finalists worked in the final comparison"


def test_a_rival_that_fails_leaves_what_an_earlier_run_has_chosen(task, store):
    first = run(task, store, Simulated(), 20)

    measurer = Simulated(truth=TRUTH | {25: 0.7e-3}, spoil=failing(25))
    found = run(task, store, measurer, 29)
    assert len(measurer.rounds) == 1  # the others were compared before
    assert choose(task, store.load()).record == found.best == first.best
    assert logged_finals(store)[-1].index == 25


def test_answers_are_checked_until_a_round_was_held(task, store):
    measurer = Simulated(spoil=lambda number, found: {} if number < 3 else found)
    run(task, store, measurer)
    assert [check for _, _, check in measurer.rounds[:3]] == [True] * 3


def test_rounds_that_are_lost_through_nobodys_fault_end_the_comparison(task, store):
    measurer = Simulated(spoil=lambda number, found: {})
    found = run(task, store, measurer)
    assert len(measurer.rounds) == 3
    assert (found.best.index, logged_finals(store)) == (LUCKY, [])
    assert found.no_finals == "the final comparison was too short to decide anything"


def test_a_measurer_that_fails_leaves_what_the_trials_have_found(task, store, caplog):
    def spoil(number, found):
        raise AutotuneError("no worker starts")

    found = run(task, store, Simulated(spoil=spoil))
    assert (found.ended, found.best.index) == (End.EXHAUSTED, LUCKY)
    assert "the final comparison has failed: no worker starts" in caplog.text


@pytest.mark.parametrize("rounds", [1, MIN_ROUNDS + 1])
def test_an_interrupted_comparison_keeps_what_it_has_decided(task, store, rounds):
    def spoil(number, found):
        if number > rounds:
            raise KeyboardInterrupt
        return found

    with pytest.raises(KeyboardInterrupt):
        run(task, store, Simulated(spoil=spoil))
    chosen = choose(task, store.load())
    record, config = chosen.record, chosen.config
    decided = rounds >= MIN_ROUNDS
    assert (config.index, record.is_trial) == ((FASTER, False) if decided else (LUCKY, True))
    assert sum(record.is_trial for record in store.load()) > 0
