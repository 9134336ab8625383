"""Kernels timed in turns: alike for all of them, and as if nobody else used the machine."""

import numpy as np
import pytest

from autotune.measure.timing.interleaved_timing import LAPS, polished, reallocated, time_interleaved
from autotune.measure.timing.kernel_timing import lower_quartile, lower_quartile_loop


class Nobody:
    """Threads that never wait for a processor."""

    disturbed = False


class Machine:
    """Kernels of known times on a clock of their own; a neighbour may take half of it away."""

    def __init__(self, times_s, neighbour=lambda now_s: False):
        self.times_s = times_s
        self.neighbour = neighbour
        self.now_s = 0.0
        self.course = []

    def call(self, index):
        def run():
            if not self.course or self.course[-1] != index:
                self.course.append(index)
            slower = 2.0 if self.neighbour(self.now_s) else 1.0
            self.now_s += slower * self.times_s[index]

        return run

    def turns(self, seconds, seed=0, **more):
        calls = {index: self.call(index) for index in self.times_s}
        settings = {"clock_ns": lambda: round(1e9 * self.now_s), "waiting_share": Nobody, **more}
        return time_interleaved(calls, seconds, np.random.default_rng(seed), **settings)


@pytest.mark.parametrize("scale", [1e-6, 1e-4, 1e-2, 0.3])
def test_each_kernel_costs_what_a_call_takes_whatever_that_is(scale):
    times = {3: scale, 5: 0.9 * scale, 8: 2.0 * scale}
    assert Machine(times).turns(0.3) == pytest.approx(times, rel=1e-2)


def test_turns_take_about_as_long_as_they_may_and_slow_kernels_are_called_twice():
    machine = Machine({0: 1e-4, 1: 2e-4})
    machine.turns(0.5)
    assert machine.now_s == pytest.approx(0.5, rel=0.2)
    slow = Machine({0: 1.0, 1: 1.0})
    slow.turns(0.1)
    assert slow.now_s == pytest.approx(4.0)


def test_every_kernel_has_its_turn_in_each_lap_in_an_order_that_the_seed_gives():
    orders = set()
    for seed in range(4):
        machine = Machine(dict.fromkeys(range(3), 1e-4))
        machine.turns(0.3, seed)
        turns = machine.course[3:]  # the first three are to know how long a call takes
        assert len(turns) >= 2 * LAPS  # two turns of one kernel may follow each other
        orders.add(tuple(turns))
        again = Machine(dict.fromkeys(range(3), 1e-4))
        again.turns(0.3, seed)
        assert again.course == machine.course
    assert len(orders) == 4


@pytest.mark.parametrize("period_s", [0.03, 0.1, 0.3])
def test_a_neighbour_a_third_of_the_time_moves_no_ratio(period_s):
    def busy(now_s):
        return now_s % period_s < period_s / 3

    machine = Machine({0: 1e-3, 1: 0.9e-3}, busy)
    costs = machine.turns(0.6)
    assert costs[0] / costs[1] == pytest.approx(1 / 0.9, rel=0.01)


def waiting_beside(machine):
    """Threads that wait for a processor while the neighbour has it."""

    class Waiting:
        def __init__(self):
            self.begin_s = machine.now_s

        @property
        def disturbed(self):
            return machine.neighbour(self.begin_s) or machine.neighbour(machine.now_s)

    return Waiting


def test_turns_in_which_threads_had_to_wait_do_not_count_and_are_taken_again():
    times = {3: 1e-3, 5: 0.9e-3}
    machine = Machine(times, lambda now_s: now_s % 0.3 < 0.2)
    found = machine.turns(0.6, waiting_share=waiting_beside(machine))
    assert found == pytest.approx(times, rel=1e-2)
    assert machine.now_s < 2 * 0.6 * 2


def test_a_round_that_is_shorter_than_what_a_neighbour_does_waits_until_that_is_over():
    times = dict.fromkeys(range(12), 0.0001)
    machine = Machine(times, lambda now_s: 0.02 < now_s < 0.12)
    found = machine.turns(0.048, waiting_share=waiting_beside(machine))
    assert found == pytest.approx(times, rel=1e-2)


def test_where_threads_wait_all_the_time_their_turns_count():
    machine = Machine({3: 1e-3, 5: 0.5e-3}, lambda now_s: True)
    waiting = type("Waiting", (), {"disturbed": True})
    found = machine.turns(0.1, waiting_share=waiting)
    assert found[3] / found[5] == pytest.approx(2.0)


def test_a_machine_whose_speed_wanders_from_lap_to_lap_moves_no_ratio():
    rng = np.random.default_rng(5)
    speeds = np.exp(rng.normal(0.0, 0.1, 12))
    times = {2: 1.0, 4: 0.9, 7: 1.1}
    turns = {
        index: {lap: time * speeds[lap] for lap in range(12) if (lap + index) % 3 or index == 4}
        for index, time in times.items()
    }
    turns[2][5] *= 3.0  # somebody else had the machine just then
    found = polished(turns)
    assert found[4] / found[2] == pytest.approx(0.9, rel=1e-2)
    assert found[7] / found[2] == pytest.approx(1.1, rel=1e-2)
    assert np.quantile(speeds, 0.2) < found[2] < np.quantile(speeds, 0.5)


def test_the_first_calls_of_a_turn_find_the_caches_of_another_and_do_not_count():
    machine = Machine({0: 1e-4, 1: 1e-4})
    latest = []

    def cold(index):
        run = machine.call(index)

        def call():
            run()
            if latest[-1:] != [index]:
                machine.now_s += 1e-3
                latest.append(index)

        return call

    calls = {index: cold(index) for index in (0, 1)}
    found = time_interleaved(
        calls, 0.3, np.random.default_rng(0), clock_ns=lambda: round(1e9 * machine.now_s),
        waiting_share=Nobody,
    )  # fmt: skip
    assert found == pytest.approx({0: 1e-4, 1: 1e-4})


def test_a_policy_that_flushes_empties_the_caches_before_every_call():
    machine = Machine({0: 1e-3, 1: 2e-3})
    flushed = []
    found = machine.turns(0.1, flush=lambda: flushed.append(len(machine.course)))
    assert found == pytest.approx({0: 1e-3, 1: 2e-3})
    assert len(flushed) >= 4


@pytest.mark.parametrize("call_s", [1e-6, 2e-4, 1e-2])
def test_a_calm_loop_says_what_calls_take_between_disturbances(call_s):
    machine = Machine({0: call_s}, lambda now_s: now_s % 0.03 < 0.01)
    seconds = lower_quartile_loop(machine.call(0), 100_000, lambda: round(1e9 * machine.now_s))
    assert seconds == pytest.approx(100_000 * call_s, rel=1e-2)
    alone = lower_quartile_loop(Machine({0: 1.0}).call(0), 1, iter([0, 2_000_000_000]).__next__)
    assert alone == 2.0


def test_the_lower_quartile_of_few_is_the_smallest():
    assert lower_quartile([3.0, 1.0, 2.0]) == 1.0
    assert lower_quartile([1.0, 2.0, 3.0, 4.0, 5.0]) == 2.0


def test_arrays_are_copies_of_their_own():
    arrays = [np.arange(6.0).reshape(2, 3), np.ones(5, np.int8)]
    found, _ = reallocated(arrays, np.random.default_rng(0))
    for new, old in zip(found, arrays, strict=True):
        assert (new.dtype, new.flags.c_contiguous, new.flags.owndata) == (old.dtype, True, True)
        np.testing.assert_array_equal(new, old)
        assert not np.shares_memory(new, old)


def disturbed_turns(rng, kernels, laps, share, missing):
    """Turns of equal kernels, of which the first is slowed down in some laps and misses others."""
    turns = {}
    for kernel in range(kernels):
        seconds = 72e-6 * np.exp(rng.normal(0, 0.02, laps))
        slow = rng.random(laps) < (share if kernel == 0 else 0)
        seconds[slow] *= rng.uniform(3, 9, laps)[slow]
        kept = rng.random(laps) >= (missing if kernel else 0)
        kept[rng.integers(laps)] = True
        turns[kernel] = {lap: seconds[lap] for lap in range(laps) if kept[lap]}
    return turns


@pytest.mark.parametrize("kernels", [2, 3, 8])
@pytest.mark.parametrize("laps", [8, 16, 32])
def test_a_neighbour_that_slows_one_kernel_down_in_half_of_its_turns_makes_no_winner(kernels, laps):
    rng = np.random.default_rng(kernels + 100 * laps)
    for _ in range(200):
        turns = disturbed_turns(rng, kernels, laps, share=0.5, missing=0.2)
        if sum(seconds < 80e-6 for seconds in turns[0].values()) < laps // 4 + 1:
            continue  # more than three quarters were slowed down
        found = polished(turns)
        assert 0.9 < found[0] / found[1] < 1.1
        assert 0.9 * 72e-6 < found[1] < 1.1 * 72e-6


def test_no_kernel_costs_less_than_any_of_its_turns_because_another_was_slow():
    slow, quick = 600e-6, 72e-6
    first = {0: quick, **dict.fromkeys(range(1, 8), slow)}
    turns = {0: first, 1: dict.fromkeys(range(2, 8), quick)}
    assert polished(turns)[1] == pytest.approx(quick, rel=0.02)
