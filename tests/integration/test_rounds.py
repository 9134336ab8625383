"""Rounds of a final comparison in real processes: new ones, and what becomes of who fails there."""

from pathlib import Path

import psutil
import pytest

from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.result import MeasureErrorNo as No
from autotune.measure.result import MeasureInput
from autotune.measure.timing_policy import TimingPolicy
from autotune.task.task import Task

FAULTY = str(Path(__file__).parent / "faulty_templates" / "faulty.py")
QUICK = TimingPolicy(repeats=2, min_repeat_ms=1)


pytestmark = pytest.mark.usefixtures("own_cache")


def opened(template, args, timeout_s=20.0):
    task = Task.from_reference(f"{FAULTY}:{template}", args)
    configs = [task.space.config(i) for i in range(len(task.space))]
    return configs, LocalMeasurer(f"{FAULTY}:{template}", args, "llvm", QUICK, timeout_s)


def runners():
    below = psutil.Process().children(recursive=True)
    return {process.pid for process in below if process.name() == "autotune:run"}


def test_a_fresh_round_has_a_new_process_and_others_go_on_in_it():
    configs, measurer = opened("plain", {"n": 64})
    with measurer:
        assert [r.ok for _, r in measurer.measure(map(MeasureInput, configs[:2]))] == [True] * 2
        seen = [runners()]
        for number, fresh in enumerate([True, True, False]):
            (found,) = measurer.compare(configs[:2], 0.05, number, fresh, check=number == 0)
            assert {i: len(result.costs_s) for i, result in found.items()} == {0: 1, 1: 1}
            assert all(result.cost_s > 0 and result.code_hash for result in found.values())
            seen.append(runners())
        before, first, second, third = seen
        assert all(len(pids) == 1 for pids in seen)
        assert len(before | first | second) == 3
        assert second == third
        # A trial that comes afterwards has its answer checked as ever.
        ((_, later),) = measurer.measure([MeasureInput(configs[2])])
        assert (later.ok, later.max_error, measurer.reference) == (True, 0.0, "given")


def test_answers_are_checked_where_the_process_knows_them_and_not_where_it_does_not():
    configs, measurer = opened("faulty", {"faults": "none,wrong"})
    with measurer:
        (found,) = measurer.compare(configs[::2], 0.05, 0, fresh=True, check=True)
        assert (found[0].ok, found[0].max_error) == (True, 0.0)
        assert (found[2].error.code, found[2].error.stage) == (No.WRONG_ANSWER, "check")
        (found,) = measurer.compare(configs[:1], 0.05, 0, fresh=True, check=False)
        assert (found[0].ok, found[0].max_error) == (True, None)


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        ("raise", No.INSTANTIATION_ERROR, "no such schedule"),
        ("far", No.RUNTIME_DEVICE, "was killed by SIGSEGV while running"),
        ("endless", No.RUN_TIMEOUT, "running took longer than 2 s"),
    ],
)
def test_who_fails_is_named_and_the_others_are_timed_without_it(fault, code, words):
    configs, measurer = opened("faulty", {"faults": f"none,{fault}"}, timeout_s=2.0)
    with measurer:
        (found,) = measurer.compare(configs[::2], 0.05, 0, fresh=True, check=True)
        assert found[2].error.code == code
        assert words in found[2].error.message
        (again,) = measurer.compare(configs[:2], 0.05, 1, fresh=False, check=True)
        assert (again[0].ok, again[1].ok) == (True, True)
