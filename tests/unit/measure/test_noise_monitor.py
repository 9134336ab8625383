"""What the reference kernel's times say of the machine."""

import random

import pytest

from autotune.measure.timing.noise_monitor import (
    CALLS,
    INTERVAL_S,
    LOOPS,
    NOISY,
    SAMPLES,
    WAITING,
    NoiseMonitor,
    WaitingShare,
    run_queue_wait_s,
)


class Machine:
    """A clock, and a reference kernel whose times a function of time gives."""

    def __init__(self, seconds_at):
        self.seconds_at = seconds_at
        self.now = 100.0
        self.calls = 0

    def clock(self):
        return self.now

    def call(self):
        self.calls += 1
        self.now += self.seconds_at(self.now)

    def watch(self, looks):
        monitor = NoiseMonitor(self.call, self.clock)
        for _ in range(looks):
            monitor.sample()
            self.now += INTERVAL_S
        return monitor


def test_nothing_is_known_before_the_first_look():
    monitor = NoiseMonitor(lambda: 1 / 0)
    assert monitor.noise is None
    assert not monitor.noisy


def test_a_look_is_not_taken_too_soon_after_another():
    machine = Machine(lambda now: 2e-3)
    monitor = NoiseMonitor(machine.call, machine.clock)
    monitor.sample()
    assert machine.calls == LOOPS * CALLS + 1
    machine.now += INTERVAL_S * 0.9
    monitor.sample()
    assert machine.calls == LOOPS * CALLS + 1
    machine.now += INTERVAL_S * 0.2
    monitor.sample()
    assert machine.calls == 2 * (LOOPS * CALLS + 1)


def test_a_quiet_machine_with_a_slow_call_in_a_while_has_little_noise():
    rng = random.Random(0)
    quiet = Machine(lambda now: 2e-3 * (1 + rng.gauss(0, 0.01)) * (4 if rng.random() < 0.02 else 1))
    for looks in (1, SAMPLES, 50):
        monitor = quiet.watch(looks)
        assert monitor.noise < 0.05
        assert not monitor.noisy


@pytest.mark.parametrize("share", [0.2, 0.5, 0.7])
def test_a_neighbour_who_takes_turns_is_noise_however_steadily(share):
    rng = random.Random(1)
    monitor = Machine(lambda now: 8e-3 if rng.random() < share else 2e-3).watch(SAMPLES)
    assert monitor.noise > NOISY
    assert monitor.noisy
    turns = Machine(lambda now: 2e-3 if int(now * 1e4) % 4 == 0 else 6e-3)
    assert turns.watch(SAMPLES).noise > NOISY


def test_a_machine_that_becomes_slower_is_noisy_until_the_new_speed_is_the_usual_one():
    machine = Machine(lambda now: 2e-3 if now < 100 + SAMPLES * INTERVAL_S else 2.6e-3)
    monitor = machine.watch(SAMPLES)
    noises = []
    while len(noises) < 2 * SAMPLES:
        monitor.sample()
        noises.append(monitor.noise)
        machine.now += INTERVAL_S
    assert max(noises) > NOISY
    assert noises[-1] == pytest.approx(0.0)


@pytest.mark.parametrize(("waited_s", "disturbed"), [(0.0, False), (0.5, False), (1.5, True)])
def test_threads_that_wait_for_a_large_share_of_the_time_are_disturbed(waited_s, disturbed):
    times, waits = iter([10.0, 11.0]), iter([3.0, 3.0 + WAITING * waited_s])
    share = WaitingShare(lambda: next(waits), lambda: next(times))
    assert share.disturbed is disturbed


def test_where_nothing_is_known_of_waiting_nobody_is_called_disturbed():
    assert not WaitingShare(lambda: None, lambda: 0.0).disturbed


def test_the_time_that_threads_have_waited_is_some_seconds_or_not_known():
    waited_s = run_queue_wait_s()
    assert waited_s is None or waited_s >= 0.0
