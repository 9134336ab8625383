"""Who wins a final comparison, on simulated machines: quiet, drifting, and with bursts of noise."""

import math

import numpy as np
import pytest

from autotune.tuner.run.finalists import (
    CONFIDENCE,
    ENOUGH_ROUNDS,
    FEW,
    MAX_ROUNDS,
    MIN_ROUNDS,
    ConfidenceInterval,
    FinalistComparison,
    Tried,
    choose_finalists,
    screened,
    screening_sizes,
)

RUNS = 200


def quiet(rng, _):
    return rng.normal(0.0, 0.01)


def restless(rng, _):
    return rng.normal(0.0, 0.03)


def bursts(rng, _):
    """One time in ten somebody else takes away up to half of the machine."""
    return rng.normal(0.0, 0.01) + (rng.random() < 0.1) * rng.exponential(0.3)


def drift(rng, number):
    """The machine becomes slower from round to round, all finalists alike."""
    return 0.2 * number + rng.normal(0.0, 0.01)


MACHINES = [quiet, restless, bursts, drift]


def compared(times, machine, rng, default=0, rounds=MAX_ROUNDS):
    """Return the comparison of configurations that really take these times."""
    comparison = FinalistComparison(list(range(len(times))), default)
    for number in range(rounds):
        if comparison.settled or len(comparison.remaining) < 2:
            break
        comparison.rounds.append(
            {i: times[i] * np.exp(machine(rng, number)) for i in comparison.remaining}
        )
    return comparison


def winners(times, machine, rounds=MAX_ROUNDS):
    rng = np.random.default_rng(7)
    return [compared(times, machine, rng, rounds=rounds).winner for _ in range(RUNS)]


def of(rounds, default=0):
    """A comparison of these rounds, each with the times of 0, 1, 2, ..."""
    return FinalistComparison(
        list(range(len(rounds[0]))), default, [dict(enumerate(r)) for r in rounds]
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_one_that_is_a_tenth_faster_wins_in_19_of_20_runs(machine):
    assert winners([1.0, 1.0, 1.0, 0.9, 1.0], machine).count(3) >= 0.95 * RUNS


@pytest.mark.parametrize("machine", MACHINES)
def test_one_that_is_slower_than_the_default_never_wins(machine):
    assert winners([1.0, 1.05, 1.06, 1.05, 1.07], machine).count(0) >= 0.99 * RUNS


def test_where_all_are_alike_the_default_wins():
    assert winners([1.0, 1.0, 1.0, 1.0], quiet).count(0) >= 0.85 * RUNS
    assert winners([1.0, 0.995, 1.0], quiet).count(0) >= 0.75 * RUNS  # nearer than a tie


def test_on_a_quiet_machine_few_rounds_are_enough_and_the_range_is_narrow():
    rng = np.random.default_rng(3)
    runs = [compared([1.0, 0.9, 1.2], quiet, rng) for _ in range(RUNS)]
    assert np.median([len(run.rounds) for run in runs]) == ENOUGH_ROUNDS
    ranges = [run.over_default(1) for run in runs]
    assert all(found.high <= 1.05 * found.low for found in ranges)
    assert np.mean([found.low <= 1 / 0.9 <= found.high for found in ranges]) >= CONFIDENCE


def test_of_two_that_are_level_the_lower_index_wins():
    assert of([[1.0, 0.802, 0.8]] * 5).winner == 1
    assert of([[1.0, 0.85, 0.8]] * 5).winner == 2


def test_without_a_default_the_fastest_wins_and_nothing_has_a_ratio():
    comparison = of([[1.0, 1.004, 0.9], [1.0, 1.004, 0.9], [1.0, 1.004, 0.9]], default=None)
    assert comparison.winner == 2
    assert comparison.over_default(2) is None
    assert of([[1.0, 1.004, 1.2]] * 3, default=None).ranking == [0, 1, 2]


def test_too_few_rounds_decide_nothing():
    comparison = of([[1.0, 0.5]] * (MIN_ROUNDS - 1))
    assert (comparison.decided, comparison.winner) == (False, 0)
    comparison.rounds.append({0: 1.0, 1: 0.5})
    assert (comparison.decided, comparison.winner) == (True, 1)


def test_a_gain_that_the_place_of_the_arrays_explains_is_a_tie():
    assert of([[1.015, 1.0]] * ENOUGH_ROUNDS).winner == 0
    assert of([[1.03, 1.0]] * ENOUGH_ROUNDS).winner == 1


def test_who_is_clearly_slower_is_timed_no_more_and_the_default_always():
    comparison = of([[1.5, 1.0, 1.3, 2.5]])
    assert comparison.remaining == [0, 1, 2]  # one round may have been disturbed
    comparison.rounds += [{0: 1.25, 1: 1.0, 2: 1.3}] * 2
    assert comparison.remaining == [0, 1]
    assert comparison.ranking == [1, 0, 2, 3]


def test_after_enough_rounds_only_the_default_and_the_two_fastest_are_timed():
    noisy = [[1.3, 1.0, 1.01, 1.03], [1.3, 1.05, 1.02, 1.01]]
    comparison = of((noisy * ENOUGH_ROUNDS)[: ENOUGH_ROUNDS - 1])
    assert comparison.remaining == [0, 1, 2, 3]
    comparison.rounds.append(dict(enumerate(noisy[0])))
    assert comparison.remaining == [0, 1, 2]


def test_a_screening_keeps_a_quarter_each_time_until_few_are_left():
    assert screening_sizes(48) == [48, 12]
    assert screening_sizes(12) == [12]
    assert screening_sizes(FEW + 1) == []


def test_a_screening_keeps_the_fastest_of_all_passes_and_who_is_always_kept():
    first = {0: 9.0, 1: 1.0, 2: 1.3, 3: 1.1, 4: 1.2}
    assert screened([first], [0], 3) == [0, 1, 3]
    second = {0: 9.0, 1: 1.3, 3: 1.0, 4: 1.1}
    assert screened([first, second], [0], 3) == [0, 1, 3]  # 1.3, 1.1 and 1.32: not the last alone
    assert screened([first, second], [], 2) == [1, 3]


def test_a_default_that_seems_twice_as_fast_has_still_somebody_to_be_compared_with():
    comparison = of([[1.0, 2.5, 3.0]])
    assert comparison.remaining == [0, 1]
    assert not comparison.decided
    comparison.rounds += [{0: 1.0, 1: 0.5}] * 6
    assert comparison.winner == 1


def test_who_fails_is_out_and_a_default_that_fails_is_no_default():
    comparison = of([[1.0, 0.5, 0.8]] * 3)
    comparison.fail(1)
    assert comparison.winner == 2
    comparison.fail(0)
    assert (comparison.winner, comparison.default) == (2, None)


def test_a_disturbed_round_of_seven_changes_neither_winner_nor_range():
    clean = [[1.0, 0.9]] * 6
    comparison = of([*clean, [1.0, 3.0]])
    ratio = comparison.over_default(1)
    assert comparison.winner == 1
    assert (ratio.low, ratio.high) == pytest.approx((1 / 0.9, 1 / 0.9))


@pytest.mark.parametrize("rounds", range(5, MAX_ROUNDS + 1))
def test_a_range_holds_the_median_as_often_as_is_said(rounds):
    below = np.arange(rounds + 1)  # how many of the rounds are below the true median
    chance = np.array([math.comb(rounds, number) for number in below]) / 2.0**rounds
    places = np.arange(rounds, dtype=float) + 1.0
    found = ConfidenceInterval.of(list(places))
    left_out = int(found.low) - 1
    assert found.high == rounds - left_out
    inside = chance[(below > left_out) & (below < rounds - left_out)].sum()
    assert inside >= CONFIDENCE
    fewer = chance[(below > left_out + 1) & (below < rounds - left_out - 1)].sum()
    assert fewer < CONFIDENCE


def test_the_order_of_rounds_and_a_slower_machine_change_nothing():
    rng = np.random.default_rng(1)
    rounds = [list(rng.uniform(0.8, 1.2, 4)) for _ in range(9)]
    found = of(rounds)
    same = of([[3.0 * cost for cost in costs] for costs in reversed(rounds)])
    assert (found.ranking, found.settled) == (same.ranking, same.settled)
    assert found.over_default(1) == pytest.approx(same.over_default(1))


def test_finalists_are_the_default_the_champion_and_those_with_the_fastest_repeat():
    trials = [
        Tried(0, [2.0, 2.1]), Tried(1, [1.0, 9.0, 9.0]), Tried(2, [1.1]), Tried(3, [1.2]),
        Tried(4, [1.15]), Tried(5, [8.1]),
    ]  # fmt: skip
    assert choose_finalists(trials, 0, 5, 5) == [0, 5, 1, 2, 4]
    assert choose_finalists(trials, 0, None, 9) == [0, 1, 2, 4, 3]  # 5 is too slow
    assert choose_finalists(trials, 0, None, 3, beaten=[1]) == [0, 2, 4]
    assert choose_finalists(trials, 7, 8, 2) == [1, 2]  # neither is known
    assert choose_finalists([], None, None, 5) == []


def test_a_trial_that_another_program_has_disturbed_can_still_be_a_finalist():
    disturbed = Tried(2, [4.82, 9.62, 5.96, 8.99, 4.56])  # it takes 0.9 when nobody disturbs it
    trials = [Tried(0, [1.5, 1.6]), Tried(1, [1.0, 1.1]), disturbed]
    assert 2 in choose_finalists(trials, 0, None, 9)


def test_one_and_the_same_kernel_is_one_finalist():
    codes = [(3, 1.0, "a"), (1, 1.0, "a"), (0, 1.2, "b"), (2, 1.1, "b")]
    trials = [Tried(index, [cost_s], code) for index, cost_s, code in codes]
    assert choose_finalists(trials, 0, None, 5) == [0, 1]
