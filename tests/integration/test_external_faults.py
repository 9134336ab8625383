"""Faulty kernels from elsewhere cost one labelled record each, and the others are measured."""

import os
import re
from pathlib import Path

import psutil
import pytest
from support.c_compiler import needs_cc
from support.footprint import alive

from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.result import MeasureErrorNo as No
from autotune.measure.result import MeasureInput
from autotune.measure.timing_policy import TimingPolicy
from autotune.task.task import Task

FAULTY = str(Path(__file__).parent / "faulty_templates" / "faulty_callable.py")
QUICK = TimingPolicy(repeats=2, min_repeat_ms=1)

RUN = f"{No.RUNTIME_DEVICE} run "
WRONG = f"{No.WRONG_ANSWER} check "
REFUSED = f"{No.COMPILE_HOST} compile cc: "

CALLABLE = {
    "raise": f"{RUN}ValueError: no such plan$",
    "exit": f"{RUN}SystemExit: 0",
    "leave": f"{RUN}the process exited with code 0 while making its first call",
    "segfault": f"{RUN}the process was killed by SIGSEGV while making its first call",
    "abort": f"{RUN}the process was killed by SIGABRT while making its first call",
    "wrong": rf"{WRONG}1 of 64 elements of Y are wrong .* first at \[3\]",
    "input": f"{WRONG}it changed its input X",
    "beyond": f"{WRONG}it wrote outside Y: 0 bytes past its end",
    "return": f"{RUN}doubled_in_place: the callable returns ndarray of shape .64,.; it must write",
    "return output": "ok",
    "print": "ok",
    "fork": "ok",
    "limit": f"{RUN}ValueError: no more files",
    "write": "ok",
    "spawn": "ok",
    "threads": "ok",
}

SLOW = {
    "hang": f"{No.RUN_TIMEOUT} run making its first call took longer than 2 s",
    "hang later": f"{No.RUN_TIMEOUT} run running took longer than 2 s",
}

RETURNED = {
    "shape": rf"{RUN}.* the callable returns ndarray of shape \(63,\), in place of outputs of "
    r"shape \(64,\)",
    "several": rf"{RUN}.* the callable returns \(ndarray of shape \(64,\), ndarray",
    "nothing": f"{RUN}.* the callable returns NoneType",
    "scalar": f"{RUN}.* the callable returns float",
}

IN_C = {
    "syntax": rf"{REFUSED}macros:\d:\d+: error: .*this",
    "missing": f"{REFUSED}.*undefined reference to .no_such_function",
    "segfault": f"{RUN}the process was killed by SIGSEGV while running",
    "abort": f"{RUN}the process was killed by SIGABRT while running",
    "leave": f"{RUN}the process exited with code 0 while running",
    "wrong": f"{WRONG}1 of 64 elements of Y are wrong",
    "input": f"{WRONG}it changed its input X",
    "beyond": f"{WRONG}it wrote outside Y: 0 bytes past its end",
    "print": "ok",
    "fork": "ok",
}


pytestmark = pytest.mark.usefixtures("own_cache")


def measure(template, faults, timeout_s=20.0):
    """Measure a good candidate, then one of each fault, then a good one; their results by fault."""
    args = {"faults": ",".join(["none", *faults])}
    task = Task.from_reference(f"{FAULTY}:{template}", args)
    wanted = [0, *(2 + 2 * number for number in range(len(faults))), 1]
    configs = [task.space.config(index) for index in wanted]
    assert [config.values["fault"] for config in configs[1:-1]] == list(faults)
    others = set(psutil.Process().children(recursive=True))  # of tests before
    with LocalMeasurer(f"{FAULTY}:{template}", args, "llvm", QUICK, timeout_s) as measurer:
        found = [result for _, result in measurer.measure(map(MeasureInput, configs))]
        processes = set(psutil.Process().children(recursive=True)) - others
    assert processes
    assert not any(map(alive, processes))
    assert found[0].ok, found[0].error
    assert found[-1].ok, found[-1].error
    assert not found[-1].reused
    return dict(zip(faults, map(label, found[1:-1]), strict=True))


def label(result):
    if result.error is None:
        return "ok"
    return f"{result.error.code} {result.error.stage} {result.error.message}"


def assert_labelled(found, expected):
    wrong = {fault: text for fault, text in found.items() if not re.match(expected[fault], text)}
    assert wrong == {}
    assert not any("\n" in text for text in found.values())


def test_each_faulty_callable_is_labelled_and_those_beside_are_measured(capfd):
    assert_labelled(measure("in_place", CALLABLE), CALLABLE)
    assert "many words" not in "".join(capfd.readouterr())


def test_a_process_is_new_after_a_callable_that_failed_and_after_no_other():
    assert measure("in_place", ["second"]) == {"second": "ok"}
    found = measure("in_place", ["wrong", "second"])
    assert found["second"] == f"{RUN}ValueError: the process is new"


def test_a_callable_that_hangs_is_killed_on_time_and_it_is_told_at_which_call():
    assert_labelled(measure("in_place", SLOW, timeout_s=2.0), SLOW)


def test_what_a_callable_returns_must_be_its_outputs():
    assert_labelled(measure("by_return", RETURNED), RETURNED)


@needs_cc
def test_each_faulty_kernel_in_c_is_labelled_and_those_beside_are_measured(capfd):
    assert_labelled(measure("in_c", IN_C), IN_C)
    assert "many words" not in "".join(capfd.readouterr())


@needs_cc
def test_a_kernel_in_c_that_hangs_is_killed_on_time():
    expected = {"hang": f"{No.RUN_TIMEOUT} run running took longer than 2 s"}
    assert_labelled(measure("in_c", expected, timeout_s=2.0), expected)


@needs_cc
def test_a_compiler_that_hangs_is_killed_on_time_and_leaves_no_file(tmp_path, monkeypatch):
    compiler = tmp_path / "bin" / "slow-cc"
    compiler.parent.mkdir()
    hangs = 'for word; do if [ "$word" = -o ]; then touch left; exec sleep 1000; fi; done'
    compiler.write_text(f"#!/bin/sh\n{hangs}\necho slow-cc 1.0\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{compiler.parent}{os.pathsep}{os.environ['PATH']}")
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    expected = {"slow-cc": f"{No.BUILD_TIMEOUT} build building took longer than 5 s"}
    assert_labelled(measure("compiled_by", expected, timeout_s=5.0), expected)
    assert not list(folder.iterdir())
