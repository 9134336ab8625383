"""Candidates that crash, hang, lie, print and leave: each costs one failed record, no more."""

import contextlib
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from support.footprint import GRACE_S, alive, patience, wait_for
from support.slow_cases import slow

from autotune.errors import AutotuneError, UsageError
from autotune.measure import scheduler
from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.pool import worker_slot
from autotune.measure.pool.worker_pool import WorkerPool
from autotune.measure.result import MeasureErrorNo as No
from autotune.measure.result import MeasureInput
from autotune.measure.timing_policy import TimingPolicy
from autotune.operators.worker_source import file_text
from autotune.task.task import Task

FAULTY = str(Path(__file__).parent / "faulty_templates" / "faulty.py")
QUICK = TimingPolicy(repeats=2, min_repeat_ms=1)


pytestmark = pytest.mark.usefixtures("own_cache")


def measure(template, args, indices=None, timeout_s=20.0):
    """Measure candidates of a template in FAULTY; (config values, result) for each."""
    task = Task.from_reference(f"{FAULTY}:{template}", args)
    configs = [task.space.config(i) for i in indices or range(len(task.space))]
    with LocalMeasurer(f"{FAULTY}:{template}", args, "llvm", QUICK, timeout_s) as measurer:
        results = [r for _, r in measurer.measure(MeasureInput(config) for config in configs)]
        processes = below()
    assert not any(map(alive, processes))  # not even for a moment
    return list(zip(configs, results, strict=True))


def below(role=""):
    """Processes of measurers below this one, those of a role or all."""
    with contextlib.suppress(psutil.NoSuchProcess):
        found = psutil.Process().children(recursive=True)
        return [process for process in found if process.name().startswith(f"autotune:{role}")]
    return below(role)  # one has just ended


def gone(processes):
    """Whether processes end soon."""
    deadline = time.monotonic() + patience(GRACE_S)
    while any(map(alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(map(alive, processes))


FAULTS = {
    fault: (code, stage, words)
    for fault, code, stage, words in [
        ("abort", No.COMPILE_HOST, "build", "killed by SIGABRT while building"),
        ("segfault", No.COMPILE_HOST, "build", "killed by SIGSEGV while building"),
        ("killed", No.COMPILE_HOST, "build", "killed by SIGKILL while building"),
        ("leave", No.COMPILE_HOST, "build", "exited with code 0 while building"),
        ("close", No.COMPILE_HOST, "build", "closed its pipes while building"),
        ("answer", No.COMPILE_HOST, "build", "sent something else instead of an answer"),
        ("kill_parent", No.COMPILE_HOST, "build", "killed by SIGKILL while building"),
        ("grow", No.INSTANTIATION_ERROR, "instantiate", "MemoryError"),
        ("exit", No.INSTANTIATION_ERROR, "instantiate", "SystemExit: 0"),
        ("raise", No.INSTANTIATION_ERROR, "instantiate", "ValueError: no such schedule"),
        ("wrong", No.WRONG_ANSWER, "check", "64 of 64 elements of B are wrong"),
        ("wrong_once", No.WRONG_ANSWER, "check", r"1 of 64 .* first at \[37\]"),
        ("far", No.RUNTIME_DEVICE, "run", "killed by SIGSEGV while running"),
    ]
}


def test_faulty_candidates_one_after_the_other_are_labelled_and_those_beside_are_measured():
    args = {"faults": ",".join(["none", *FAULTS])}
    faulty = [2 + 2 * number for number in range(len(FAULTS))]
    (_, before), *found, (_, after) = measure("faulty", args, [0, *faulty, 1])
    assert before.ok
    assert after.ok
    assert not after.reused
    assert len(found) == len(FAULTS)
    for config, bad in found:
        assert_labelled(config.values["fault"], bad)


def assert_labelled(fault, bad):
    code, stage, words = FAULTS[fault]
    assert (bad.error.code, bad.error.stage) == (code, stage)
    assert bad.cost_s is None
    assert re.search(words, bad.error.message)
    assert "\n" not in bad.error.message


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        slow(("loop", No.BUILD_TIMEOUT, "building took longer than 2 s")),
        ("sleep", No.BUILD_TIMEOUT, "building took longer than 2 s"),
        ("endless", No.RUN_TIMEOUT, "running took longer than 2 s"),
    ],
)
def test_a_hanging_candidate_is_killed_on_time_and_the_others_are_measured(fault, code, words):
    (_, before), (_, bad), (_, after) = measure(
        "faulty", {"faults": f"none,{fault}"}, [0, 2, 1], timeout_s=2.0
    )
    assert before.ok
    assert after.ok
    assert (bad.error.code, bad.error.message) == (code, words)


@pytest.mark.parametrize("fault", ["print", slow("fork"), "flee"])
def test_a_candidate_that_prints_or_forks_or_flees_is_measured_like_any_other(fault, capfd):
    # "wrong" between them: identical kernels would not be run again.
    found = measure("faulty", {"faults": f"{fault},wrong"}, [0, 2, 1])
    assert [result.ok for _, result in found] == [True, False, True]
    assert "many words" not in "".join(capfd.readouterr())
    assert not below()


def test_the_largest_error_is_recorded_of_right_and_wrong_answers():
    (_, right), (_, wrong) = measure("faulty", {"faults": "none,wrong"}, [0, 2])
    assert right.max_error == 0.0
    assert wrong.max_error == pytest.approx(1.0, abs=1e-5)


def test_identical_code_is_measured_once_and_reported_for_each():
    found = measure("faulty", {"faults": "none,print"})
    by_hash = {}
    for _, result in found:
        by_hash.setdefault(result.code_hash, []).append(result)
    assert [len(group) for group in by_hash.values()] == [2, 2]
    for first, again in by_hash.values():
        assert (first.reused, again.reused) == (False, True)
        assert first.costs_s == again.costs_s


def test_identical_code_is_not_run_again_by_the_worker_after_a_crash():
    found = measure("faulty", {"faults": "none,abort,print"}, [0, 2, 4])
    assert [r.ok for _, r in found] == [True, False, True]
    assert found[2][1].reused
    assert found[2][1].costs_s == found[0][1].costs_s


def test_a_program_without_reference_is_checked_against_itself_unscheduled():
    task = Task.from_reference(f"{FAULTY}:unchecked", {})
    with LocalMeasurer(task.template_ref, {}, "llvm", QUICK) as measurer:
        ((_, result),) = measurer.measure([MeasureInput(task.space.config(0))])
        assert measurer.reference == "unscheduled"
    assert result.ok
    assert result.max_error is not None


def test_a_reference_that_does_not_fit_is_the_users_mistake():
    with pytest.raises(UsageError, match=r"reference .* returned shape \(63,\) for output 0"):
        measure("bad_reference", {}, [0])


def test_a_reference_that_is_killed_is_tried_twice_and_no_candidate_is_blamed(caplog):
    task = Task.from_reference(f"{FAULTY}:killed_reference", {})
    with (
        LocalMeasurer(task.template_ref, {}, "llvm", QUICK) as measurer,
        pytest.raises(AutotuneError, match=r"cannot be measured: .* killed by SIGKILL\), twice$"),
    ):
        list(measurer.measure([MeasureInput(task.space.config(0))]))
    assert measurer.restarts == 2
    assert len(caplog.messages) == 1
    assert caplog.messages[0].endswith("it is tried once more")


def test_a_reference_that_writes_into_its_inputs_is_the_users_mistake():
    with pytest.raises(UsageError, match="may not change its inputs, only return new arrays") as e:
        measure("meddling_reference", {}, [0])
    assert "\n" not in str(e.value)


def test_a_reference_may_return_its_input():
    ((_, result),) = measure("copying", {}, [0])
    assert result.ok


def test_a_template_imports_the_same_modules_as_in_the_tuning_process(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "sizes_of_mine.py").write_text("N = 40\n")
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    source = tmp_path / "importing.py"
    source.write_text(
        "from autotune import te\nfrom autotune.template import template\n"
        "from sizes_of_mine import N\n\n\n"
        "@template('importing', target='llvm', reference=lambda a: a)\n"
        "def importing(cfg):\n"
        "    A = te.placeholder((N,), name='A')\n"
        "    B = te.compute((N,), lambda i: A[i], name='B')\n"
        "    return te.create_schedule(B.op), [A, B]\n"
    )
    task = Task.from_reference(f"{source}:importing", {})
    with LocalMeasurer(f"{source}:importing", {}, "llvm", QUICK) as measurer:
        ((_, result),) = measurer.measure([MeasureInput(task.space.config(0))])
    assert result.ok


PLAIN = """
from autotune import te
from autotune.template import template

@template("plain", target="llvm", reference=lambda a: a + 1)
def plain(cfg):
    step = cfg.define_knob("step", [2, 3, 4, 5])
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=step)
    return s, [A, B]
"""


@pytest.mark.parametrize("later", [PLAIN.replace("+ 1,", "+ 2,"), ")(", None])
def test_a_template_file_that_is_edited_during_a_run_is_taken_as_it_was(tmp_path, later):
    source = tmp_path / "edited.py"
    source.write_text(PLAIN)
    task = Task.from_reference(f"{source}:plain", {})
    text = file_text(task.template)
    if later is None:
        source.unlink()
    else:
        source.write_text(later)
    with LocalMeasurer(f"{source}:plain", {}, "llvm", QUICK, text=text) as measurer:
        ((_, result),) = measurer.measure([MeasureInput(task.space.config(0))])
    assert result.error is None


def test_a_template_that_nobody_finds_is_the_users_mistake():
    task = Task.from_reference(f"{FAULTY}:faulty", {})
    with (
        LocalMeasurer(f"{FAULTY}:absent", {}, "llvm", QUICK) as measurer,
        pytest.raises(UsageError, match="absent"),
    ):
        list(measurer.measure([MeasureInput(task.space.config(0))]))


def test_a_reference_that_hangs_is_told_soon_and_given_up(monkeypatch, caplog):
    monkeypatch.setattr(worker_slot, "SLOW_OPEN_S", 0.3)
    monkeypatch.setattr(scheduler, "MIN_OPEN_TIMEOUT_S", 2.0)
    left_s = iter([600.0, 0.0])  # plenty for the builder, no more for the runner
    name = f"{FAULTY}:unending_reference"
    task = Task.from_reference(name, {})
    with (
        LocalMeasurer(name, {}, "llvm", QUICK, builders=1, left_s=left_s.__next__) as measurer,
        pytest.raises(AutotuneError, match="computing its reference took longer than 2 s"),
    ):
        list(measurer.measure([MeasureInput(task.space.config(0))]))
    response = f"the reference of template {name!r} takes long; it is given up after 2 s"
    assert caplog.messages.count(response) == 1


@pytest.mark.parametrize(
    ("timeout_s", "left_s", "expected"),
    [(1.0, None, 60.0), (20.0, None, 120.0), (10.0, 30.0, 30.0), (10.0, 0.0, 10.0)],
)
def test_opening_a_workload_may_take_as_long_as_a_few_candidates_and_as_the_run(
    timeout_s, left_s, expected
):
    assert scheduler.open_timeout_s(timeout_s, left_s) == expected


def test_a_worker_that_cannot_start_says_why(monkeypatch, tmp_path):
    (tmp_path / "llvmlite.py").write_text("raise ImportError('a broken library')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    task = Task.from_reference(f"{FAULTY}:faulty", {})
    with (
        LocalMeasurer(f"{FAULTY}:faulty", {}, "llvm", QUICK) as measurer,
        pytest.raises(AutotuneError, match=r"exited with code 1: ImportError: a broken"),
    ):
        list(measurer.measure([MeasureInput(task.space.config(0))]))


@pytest.mark.parametrize(("role", "lost"), [("build", 1), ("run", 1), ("forker", 3), ("superv", 3)])
def test_a_process_killed_between_candidates_is_replaced_and_nobody_is_blamed(role, lost):
    args = {"faults": "none,wrong"}
    task = Task.from_reference(f"{FAULTY}:faulty", args)
    with LocalMeasurer(f"{FAULTY}:faulty", args, "llvm", QUICK, builders=2) as measurer:
        ((_, first),) = measurer.measure([MeasureInput(task.space.config(0))])
        victim, *_ = below(role)
        processes = [victim] if role in ("build", "run") else below()
        victim.kill()
        assert gone(processes)
        ((_, second),) = measurer.measure([MeasureInput(task.space.config(1))])
        assert first.ok
        assert second.ok

        def noticed():
            measurer.prebuild([])
            return measurer.restarts == lost

        wait_for(noticed)  # another builder may have been faster than the news


def test_closing_leaves_no_process_file_or_descriptor():
    args = {"faults": "none,abort"}
    task = Task.from_reference(f"{FAULTY}:faulty", args)
    me = psutil.Process()
    before, children = me.num_fds(), set(me.children(recursive=True))
    for _ in range(2):
        with LocalMeasurer(f"{FAULTY}:faulty", args, "llvm", QUICK, builders=2) as measurer:
            list(measurer.measure(MeasureInput(task.space.config(i)) for i in (2, 0)))
            assert len(below("run")) == len(below("forker")) == 1
            assert 1 <= len(below("build")) <= 2
            assert len(below("superv")) == len(below()) - len(below("superv"))
    assert me.num_fds() == before
    assert set(me.children(recursive=True)) <= children


def test_an_interrupted_request_does_not_answer_the_next_one(monkeypatch):
    args = {"faults": "none,sleep"}
    task = Task.from_reference(f"{FAULTY}:faulty", args)
    with LocalMeasurer(f"{FAULTY}:faulty", args, "llvm", QUICK) as measurer:
        measurer.start()
        list(measurer.measure([MeasureInput(task.space.config(0))]))
        processes = below()

        def interrupted(*_args):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(WorkerPool, "next_outcome", interrupted)
            with pytest.raises(KeyboardInterrupt):
                list(measurer.measure([MeasureInput(task.space.config(2))]))
        assert not any(map(alive, processes))
        ((_, result),) = measurer.measure([MeasureInput(task.space.config(1))])
        assert result.ok


def test_a_time_out_must_be_a_positive_number():
    with pytest.raises(UsageError, match="seconds > 0, not 0"):
        LocalMeasurer("matmul", {}, "llvm", timeout_s=0)


MEASURING = """
import sys
from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.result import MeasureInput
from autotune.task.task import Task

template, args = sys.argv[1], {"faults": "none"}
task = Task.from_reference(template, args)
with LocalMeasurer(template, args, "llvm") as measurer:
    list(measurer.measure([MeasureInput(task.space.config(0))]))
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_workers_end_when_their_parent_is_killed():
    words = [sys.executable, "-c", MEASURING, f"{FAULTY}:faulty"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        processes = psutil.Process(parent.pid).children(recursive=True)
        assert len(processes) >= 4
        parent.kill()
        assert gone(processes)
