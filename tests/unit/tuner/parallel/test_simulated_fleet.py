"""Simulated devices: what they answer, in which order, and when."""

import time

import pytest
from support.parallel_runs import fleet, recording

from autotune.errors import AutotuneError
from autotune.measure.measurer import SupportsParallelRuns
from autotune.measure.result import MeasureInput
from benchmarks.simulated_fleet import Clock, SimulatedAnswers, SimulatedFleet, VirtualClock


def submit(measurer, recorded, *indices):
    for index in indices:
        measurer.submit(MeasureInput(recorded.space.config(index)))


def take(measurer, count):
    return [measurer.next_result()[0].config.index for _ in range(count)]


def test_candidates_end_by_their_seconds_and_queued_ones_begin_when_a_device_is_free():
    clock, recorded = VirtualClock(), recording(seconds=lambda index: 1.0 + index)
    measurer = fleet(recorded, 2, clock)
    assert isinstance(measurer, SupportsParallelRuns)
    submit(measurer, recorded, 4, 0, 1, 3)  # 5 s, 1 s, then 2 s from 1 on, 4 s from 3 on
    assert clock() == 0.0
    assert take(measurer, 3) == [0, 1, 4]
    assert clock() == 5.0
    assert take(measurer, 1) == [3]
    assert (clock(), measurer.busy_s) == (7.0, 12.0)


def test_devices_go_on_while_the_caller_does_something_else():
    clock, recorded = VirtualClock(), recording()
    measurer = fleet(recorded, 1, clock)
    submit(measurer, recorded, 1, 2, 3)
    clock.sleep(10.0)
    assert take(measurer, 3) == [1, 2, 3]
    assert clock() == 10.0


def test_answers_are_those_recorded_with_the_device_in_their_machine():
    recorded = recording(failing=(2,))
    measurer = fleet(recorded, 2, VirtualClock())
    submit(measurer, recorded, 17, 2)
    (_, best), (_, failed) = measurer.next_result(), measurer.next_result()
    assert (best.cost_s, failed.error.code) == (1.0, "RUNTIME_DEVICE")
    assert [r.device["node"] for r in (best, failed)] == ["node 0", "node 1"]
    assert {**best.device, "node": ""} == {**measurer.device, "node": ""}


def test_only_what_is_queued_is_taken_back():
    recorded = recording()
    measurer = fleet(recorded, 2, VirtualClock())
    submit(measurer, recorded, 0, 1, 2, 3)
    assert [c.config.index for c in measurer.withdraw()] == [2, 3]
    assert sorted(take(measurer, 2)) == [0, 1]
    assert measurer.withdraw() == []


def test_a_lost_device_is_no_longer_counted_and_its_candidate_begins_anew():
    clock, recorded = VirtualClock(), recording(seconds=lambda index: 4.0)
    measurer = fleet(recorded, 2, clock, lost_s={0: 3.0})
    submit(measurer, recorded, 0, 1, 2)
    assert measurer.width == 2
    assert take(measurer, 1) == [1]  # the other was lost at 3 s
    assert measurer.width == 1
    assert take(measurer, 2) == [0, 2]
    assert clock() == 12.0
    assert measurer.busy_s == 12.0


def test_an_idle_device_may_be_lost_too_and_without_any_there_is_no_result():
    clock, recorded = VirtualClock(), recording()
    measurer = fleet(recorded, 2, clock, lost_s={0: 1.0, 1: 2.5})
    clock.sleep(2.0)
    assert measurer.width == 1
    submit(measurer, recorded, 0)
    with pytest.raises(AutotuneError, match="no device is left"):
        measurer.next_result()
    assert measurer.width == 0


def test_recorded_seconds_are_scaled_to_the_mean_that_is_asked_for():
    recorded = recording(4, seconds=lambda index: 1.0 + index)
    answers = SimulatedAnswers.of(recorded, 0.3)
    inputs = [MeasureInput(recorded.space.config(index)) for index in range(4)]
    assert [answers.seconds(one) for one in inputs] == pytest.approx([0.12, 0.24, 0.36, 0.48])
    none_known = recording(4, seconds=lambda index: 0.0)
    answers = SimulatedAnswers.of(none_known, 0.3)
    assert {answers.seconds(one) for one in inputs} == {0.3}


def test_by_the_clock_of_the_machine_a_result_comes_when_its_time_has_passed():
    recorded = recording(seconds=lambda index: 0.02)
    measurer = SimulatedFleet(3, SimulatedAnswers.of(recorded, 0.02), Clock())
    begin = time.monotonic()
    submit(measurer, recorded, *range(6))
    assert sorted(take(measurer, 6)) == list(range(6))
    assert 0.04 <= time.monotonic() - begin < 2.0
    assert measurer.run(MeasureInput(recorded.space.config(7))).ok
