"""How a kernel is timed: loops, budgets, cold caches, races and disturbed repeats."""

import gc

import pytest

from autotune.measure.timing.kernel_timing import (
    HOPELESS,
    RETRIES,
    TimedRepeats,
    Timing,
    retry_if_disturbed,
    time_kernel,
)
from autotune.measure.timing_policy import TimingPolicy


class Kernel:
    """A kernel and a clock that agree on how long calls take; the last time given goes on."""

    def __init__(self, *seconds: float) -> None:
        self.seconds = list(seconds)
        self.now_ns = 0
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        last = len(self.seconds) == 1
        self.now_ns += round(1e9 * (self.seconds[0] if last else self.seconds.pop(0)))

    def clock(self) -> int:
        return self.now_ns


def timed(kernel, incumbent_s=None, **settings):
    return time_kernel(kernel, TimingPolicy(**settings), incumbent_s, None, kernel.clock)


def test_a_fast_kernel_is_called_until_a_repeat_is_long_enough():
    kernel = Kernel(1e-5)
    assert timed(kernel, repeats=3, min_repeat_ms=8).costs_s == pytest.approx([1e-5] * 3)
    assert 3 * 800 <= kernel.calls < 3 * 1000 + 300


def test_one_very_fast_call_does_not_make_the_loop_endless():
    kernel = Kernel(1e-9, 1e-3)
    assert timed(kernel, repeats=2, min_repeat_ms=8).costs_s == pytest.approx([1e-3] * 2)
    assert kernel.calls < 1000


def test_a_slow_kernel_is_repeated_only_within_the_budget():
    assert timed(Kernel(0.1), repeats=9, budget_ms=250).costs_s == (0.1,) * 3
    assert len(timed(Kernel(1.0), repeats=9, budget_ms=0).costs_s) == 1


def test_warm_up_calls_beyond_the_checked_one_are_not_timed():
    assert timed(Kernel(5.0, 5.0, 0.1), warmup=3, repeats=1).costs_s == pytest.approx((0.1,))


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_not_collected_meanwhile_and_then_as_before(enabled):
    seen = []

    class Watching(Kernel):
        def __call__(self):
            seen.append(gc.isenabled())
            super().__call__()

    try:
        (gc.enable if enabled else gc.disable)()
        timed(Watching(0.1), repeats=2)
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
    assert set(seen) == {False}


def test_between_flushes_there_is_one_call_and_the_flush_is_not_timed():
    kernel = Kernel(1e-5)
    flushed_at = []

    def flush():
        flushed_at.append(kernel.calls)
        kernel.now_ns += 10**9

    policy = TimingPolicy(repeats=4, flush="repeats")
    found = time_kernel(kernel, policy, None, flush, kernel.clock)
    assert found.costs_s == pytest.approx([1e-5] * 4)
    assert flushed_at == [0, 1, 2, 3]


def test_caches_are_not_flushed_unless_the_policy_says_so():
    kernel = Kernel(0.1)
    assert time_kernel(kernel, TimingPolicy(), None, lambda: 1 / 0, kernel.clock).costs_s


def test_a_kernel_that_even_at_its_fastest_is_clearly_slower_gets_two_repeats():
    kernel = Kernel(0.05, 0.02)
    found = timed(kernel, incumbent_s=0.01, race=1.9)
    assert found == TimedRepeats((0.05, 0.02), raced=True)
    assert kernel.calls == 2


@pytest.mark.parametrize(
    ("incumbent_s", "race"),
    [(0.01, 2.1), (0.011, 1.9), (0.01, 0.0), (None, 1.5)],
    ids=["not slower than the race allows", "a faster incumbent", "no racing", "no incumbent"],
)
def test_other_kernels_finish(incumbent_s, race):
    found = timed(Kernel(0.05, 0.02), incumbent_s, race=race)
    assert found == TimedRepeats((0.05, *[0.02] * 4))


def test_one_slow_repeat_loses_no_race():
    found = timed(Kernel(0.9, 0.01), incumbent_s=0.01, race=1.5, budget_ms=5000)
    assert found == TimedRepeats((0.9, *[0.01] * 4))


def test_who_finished_anyway_was_not_stopped_by_the_race():
    assert timed(
        Kernel(0.9), incumbent_s=0.01, race=1.5, repeats=2, budget_ms=5000
    ) == TimedRepeats((0.9, 0.9))
    assert timed(Kernel(0.9), incumbent_s=0.01, race=1.5, budget_ms=0) == TimedRepeats((0.9,))


def test_repeats_that_differ_are_taken_anew_where_the_best_is_at_stake():
    kernel = Kernel(*[0.010, 0.020, 0.030, 0.010, 0.020], 0.013)
    found = timed(kernel, incumbent_s=0.012)
    assert found.costs_s == pytest.approx([0.013] * 5)
    assert kernel.calls == 10


def test_of_all_tries_the_steadiest_counts_and_there_are_three_at_most():
    tries = [[0.01, 0.02, 0.03, 0.02, 0.01], [0.01, 0.013, 0.016, 0.013, 0.01], [0.01, 0.02] * 3]
    kernel = Kernel(*tries[0], *tries[1], *tries[2])
    found = timed(kernel, incumbent_s=0.012)
    assert found.costs_s == pytest.approx(tries[1])
    assert kernel.calls == 15


@pytest.mark.parametrize(
    ("incumbent_s", "times"),
    [
        (0.009, [0.01, 0.02, 0.03, 0.02, 0.01]),
        (None, [0.01, 0.02, 0.03, 0.02, 0.01]),
        (0.012, [0.01, 0.0104, 0.01, 0.0104, 0.02]),
        (0.012, [0.01]),
    ],
    ids=["too slow to matter", "nothing to compare with", "one outlier", "steady"],
)
def test_other_repeats_are_taken_once(incumbent_s, times):
    kernel = Kernel(*times)
    assert len(timed(kernel, incumbent_s).costs_s) == 5
    assert kernel.calls == 5


def test_a_single_repeat_is_never_taken_for_disturbed():
    kernel = Kernel(0.01, 0.02)
    assert timed(kernel, 0.02, repeats=1) == TimedRepeats((0.01,))
    assert kernel.calls == 1


class Monitor:
    """What the reference kernel says, one answer after the other; at first that all is quiet."""

    def __init__(self, *quiet, noisy=False):
        self.quiet = list(quiet)
        self.noisy = noisy

    def is_quiet_now(self):
        return self.quiet.pop(0) if self.quiet else True


def undisturbed(costs_s, monitor, incumbent_s, waits=()):
    """Return the cost that counts, how many tries there were, and whether each was a calm one."""
    costs, waits, told, slept = list(costs_s), list(waits), [], []

    def timed(noisy):
        told.append(noisy)
        return TimedRepeats((costs.pop(0),))

    class Waiting:
        def __init__(self):
            self.disturbed = waits.pop(0) if waits else False

    found = retry_if_disturbed(timed, monitor, incumbent_s, slept.append, Waiting)
    assert len(slept) == len(told) - 1
    return found.costs_s[0], told


def test_a_candidate_whose_threads_had_to_wait_is_timed_again():
    found = undisturbed([5.0, 0.9, 0.8], Monitor(), 1.0, waits=[True, False])
    assert found == (0.9, [False, True])


def test_a_candidate_beside_a_slow_reference_kernel_is_timed_again():
    assert undisturbed([1.9, 1.1], Monitor(False, True, True), 1.0) == (1.1, [False, True])


def test_of_tries_that_were_all_disturbed_the_fastest_counts():
    waits = [True] * (1 + RETRIES)
    assert undisturbed([3.0, 2.0, 4.0], Monitor(), 1.0, waits) == (2.0, [False, True, True])


@pytest.mark.parametrize("cost_s", [0.9, 1.1 * HOPELESS])
def test_a_new_best_and_a_hopeless_candidate_are_not_timed_again(cost_s):
    assert undisturbed([cost_s], Monitor(False), 1.0, waits=[True]) == (cost_s, [False])


def test_on_a_noisy_machine_the_reference_kernel_is_timed_before_a_candidate_too():
    found = undisturbed([1.5, 1.4], Monitor(False, True, True, noisy=True), 1.0)
    assert found == (1.4, [True, True])


def test_a_timing_is_the_median_and_the_quartiles_of_the_repeats():
    timing = Timing.of([5e-6, 1e-6, 3e-6, 2e-6, 4e-6])
    found = (timing.seconds, timing.low, timing.high)
    assert found == pytest.approx((3e-6, 2e-6, 4e-6))
    assert repr(timing) == "<3.00 us, quartiles 2.00 us to 4.00 us, 5 repeats>"
    assert Timing.of([0.25]) == Timing(0.25, 0.25, 0.25, 1)
