"""Who builds and runs when: side by side, one after the other, in order, and replaced in time."""

import time
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from support.footprint import wait_for

from autotune.errors import UsageError
from autotune.measure import scheduler
from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.pool.fork_server_client import ForkServerProcess
from autotune.measure.result import MeasureInput
from autotune.measure.timing_policy import TimingPolicy
from autotune.task.task import Task

NAPPING = f"{Path(__file__).parent / 'faulty_templates' / 'faulty.py'}:napping"
QUICK = TimingPolicy(repeats=2, min_repeat_ms=1)
QUARTER_SECOND = TimingPolicy(repeats=5, min_repeat_ms=50, budget_ms=1000)


pytestmark = pytest.mark.usefixtures("own_cache")


def inputs(args, indices=None):
    task = Task.from_reference(NAPPING, args)
    return [MeasureInput(task.space.config(i)) for i in indices or range(len(task.space))]


def overlap(first, second):
    """Whether two spans of time have a common moment."""
    return first[0] < second[1] and second[0] < first[1]


def any_overlap(some, others):
    return any(overlap(a, b) for a in some for b in others if a is not b)


def spans(results):
    return [r.build_span for r in results], [r.run_span for r in results]


def pids(role):
    found = psutil.Process().children(recursive=True)
    return {p.pid for p in found if p.name() == f"autotune:{role}"}


def test_builders_work_side_by_side_and_nothing_goes_on_beside_a_run():
    args = {"naps": "0,0.3,0.05,0.2,0.01,0.1,0.02"}
    with LocalMeasurer(NAPPING, args, "llvm", QUICK, builders=2) as measurer:
        first, *asked = inputs(args)
        list(measurer.measure([first]))  # all workers are there
        found = list(measurer.measure(asked))
    assert [candidate for candidate, _ in found] == asked  # however long each took to build
    assert all(result.ok for _, result in found)
    built, ran = spans([result for _, result in found])
    assert any_overlap(built, built)
    assert not any_overlap(built, ran)
    assert all(a[1] <= b[0] for a, b in pairwise(ran))


def test_on_other_devices_candidates_are_built_while_others_run():
    args = {"naps": "0,0.01,0.2,0.21"}
    with LocalMeasurer(NAPPING, args, "llvm", QUARTER_SECOND, builders=1, overlap=True) as measurer:
        first, *asked = inputs(args)
        list(measurer.measure([first]))  # all workers are there
        found = list(measurer.measure(asked))
    assert [candidate for candidate, _ in found] == asked
    built, ran = spans([result for _, result in found])
    assert any_overlap(built, ran)
    assert all(a[1] <= b[0] for a, b in pairwise(ran))


def test_what_is_built_is_run_when_it_is_asked_for_and_not_before():
    args = {"naps": "0,0.01,0.02"}
    asked = inputs(args)
    with LocalMeasurer(NAPPING, args, "llvm", QUICK) as measurer:
        measurer.build(asked)
        measurer.await_builds()
        found = [measurer.run(asked[0]), measurer.run(asked[2])]
        asked_at = time.time()
        later = measurer.run(asked[1])
    assert not later.reused
    assert later.ok
    assert all(later.build_span[1] <= result.run_span[0] for result in found)
    assert asked_at <= later.run_span[0]


def test_a_kernel_that_is_known_is_not_measured_again_but_compared():
    args = {"naps": "0"}
    (asked,) = inputs(args)
    with LocalMeasurer(NAPPING, args, "llvm", QUICK) as measurer:
        ((_, first),) = measurer.measure([asked])
        ((_, known),) = measurer.measure([asked])
        (found,) = measurer.compare([asked.config], 0.05, 0, fresh=True, check=True)
        again = found[0]
        ((_, still),) = measurer.measure([asked])
    assert (first.reused, known.reused, again.reused, still.reused) == (False, True, False, True)
    assert known.costs_s == still.costs_s == first.costs_s
    assert again.ok
    assert again.run_span is not None
    assert again.run_span > first.run_span


def test_builders_that_are_worn_out_are_replaced_and_none_counts_as_lost(monkeypatch):
    monkeypatch.setattr(scheduler, "MAX_CANDIDATES_PER_BUILDER", 2)
    args = {"naps": "0,0.01,0.02,0.03"}
    with LocalMeasurer(NAPPING, args, "llvm", QUICK, builders=1) as measurer:
        seen = []
        for candidate in inputs(args):
            list(measurer.measure([candidate]))
            seen.append(pids("build"))
        assert seen[0] == seen[1] != seen[2] == seen[3]
        assert measurer.restarts == 0


def test_a_measurer_that_was_closed_can_be_used_again():
    args = {"naps": "0,0.01"}
    first, second = inputs(args)
    measurer = LocalMeasurer(NAPPING, args, "llvm", QUICK)
    for candidate in (first, second):
        ((_, result),) = measurer.measure([candidate])
        assert result.ok
        measurer.close()
        assert not pids("build") | pids("run") | pids("forker") | pids("superv")
    measurer.close()


def test_a_fork_server_that_was_started_before_is_used_and_ended():
    with (
        ForkServerProcess() as fork_server,
        LocalMeasurer(NAPPING, {}, "llvm", fork_server=fork_server) as own,
    ):
        assert len(list(own.measure(inputs({})))) == 1
        assert len(pids("forker")) == 1
        own.close()
        assert not pids("forker") | pids("superv")
        assert len(list(own.measure(inputs({})))) == 1  # of another one
    assert not pids("forker") | pids("superv")


def test_ceiling_and_baseline_are_measured_without_any_candidate():
    with LocalMeasurer(NAPPING, {}, "llvm", QUICK) as measurer:
        assert len(measurer.baseline()) == QUICK.repeats
        ceiling = measurer.ceiling()
        assert ceiling.copy_bytes_s > 0
        assert ceiling.peak_flops["float32"] > 0
        ((_, result),) = measurer.measure(inputs({}))
        assert result.ok


def test_parallel_loops_are_timed_on_as_many_threads_as_the_target_says():
    args, target = {"n": 256}, "llvm -threads=5"
    task = Task.from_reference("broadcast_add", args, target)
    config = task.space.config(task.default_index)
    with LocalMeasurer("broadcast_add", args, target, QUICK) as measurer:
        ((_, result),) = measurer.measure([MeasureInput(config)])
        assert result.ok
        (runner,) = pids("run")
        assert psutil.Process(runner).num_threads() >= 5  # libgomp's stay


def test_one_builder_describes_the_workload_and_another_one_if_that_is_lost():
    with LocalMeasurer(NAPPING, {}, "llvm", QUICK, builders=2) as measurer:
        measurer.start()
        builders = measurer._scheduler._builders
        assert [builder.describes for builder in builders] == [True, False]
        for builder in builders:
            builder.discard()
        measurer.start()
        assert [builder.describes for builder in builders] == [True, False]
        ((_, result),) = measurer.measure(inputs({}))
        assert result.ok


def test_there_must_be_a_builder():
    with pytest.raises(UsageError, match="at least 1 builder, not 0"):
        LocalMeasurer("matmul", {}, "llvm", builders=0)


def test_what_is_foreseen_is_built_while_others_run_and_not_again():
    args = {"naps": "0,0.01,0.1"}
    first, second, third = inputs(args)
    with LocalMeasurer(NAPPING, args, "llvm", QUARTER_SECOND, builders=1, overlap=True) as measurer:
        list(measurer.measure([first]))  # all workers are there
        measurer.prebuild([third])
        ((_, ran),) = measurer.measure([second])
        ((_, foreseen),) = measurer.measure([third])
    assert foreseen.ok
    assert foreseen.build_span[1] < ran.run_span[1]


def test_what_is_foreseen_without_such_a_device_is_built_before_anything_runs():
    args = {"naps": "0,0.2,0.5"}
    first, second, third = inputs(args)
    with LocalMeasurer(NAPPING, args, "llvm", QUICK, builders=2) as measurer:
        list(measurer.measure([first]))
        measurer.prebuild([third])
        ((_, ran),) = measurer.measure([second])
        measurer.prebuild([third])  # it is not built again
        ((_, foreseen),) = measurer.measure([third])
    assert foreseen.ok
    assert foreseen.build_span[0] < ran.build_span[1]
    assert foreseen.build_span[1] < ran.run_span[0]


def test_what_was_asked_of_a_builder_that_is_still_opening_is_begun_without_being_waited_for():
    with LocalMeasurer(NAPPING, {}, "llvm", QUICK, builders=1) as measurer:
        (candidate,) = inputs({})

        def begun():
            measurer.prebuild([candidate])
            return not measurer._scheduler._queue

        wait_for(begun)
        ((_, result),) = measurer.measure([candidate])
        assert result.ok


def test_a_device_of_its_own_goes_on_while_a_result_is_looked_at():
    args = {"naps": "0,0.01,0.02"}
    first, *asked = inputs(args)
    with LocalMeasurer(NAPPING, args, "llvm", QUARTER_SECOND, builders=1, overlap=True) as measurer:
        list(measurer.measure([first]))

        def built():
            measurer.prebuild(asked)
            return all(job.response for job in measurer._jobs.values())

        wait_for(built)
        results = measurer.measure(asked)
        next(results)
        time.sleep(0.6)
        asked_at = time.time()
        ((_, second),) = results
    assert second.ok
    assert second.run_span[0] < asked_at  # it began before anybody asked for it
