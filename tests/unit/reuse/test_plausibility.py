"""Times that no device reaches are doubted; those of the fastest hardware there is are not."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from support.measured import measured

from autotune.errors import UsageError
from autotune.reuse import Grade, choose
from autotune.reuse.plausibility import least_seconds
from autotune.runtime import environment
from autotune.task.task import Task

ZEN5 = {"kind": "cpu", "name": "Z", "threads": 192, "vector_bytes": 64}
ONE_CORE = {"kind": "cpu", "name": "Z", "threads": 1, "vector_bytes": 64}
ARM = {"kind": "cpu", "name": "A", "threads": 8, "vector_bytes": 16}
H100 = {"kind": "gpu", "name": "H", "arch": "sm_90", "multiprocessors": 132}
B200 = {"kind": "gpu", "name": "B", "arch": "sm_100", "multiprocessors": 148}


def matmul(n, dtype="float32"):
    return Task.from_reference("matmul", {"m": n, "n": n, "k": n, "dtype": dtype}, "llvm")


TASKS = {
    "matmul": matmul(4096),
    "half matmul": matmul(4096, "bfloat16"),
    "tiny matmul": matmul(1),
    "sum": Task.from_reference("reduce", {"m": 4096, "n": 4096}, "llvm"),
    "scan": Task.from_reference("cumsum", {"m": 4096, "n": 4096}, "llvm"),
    "transpose": Task.from_reference("transpose", {"m": 4096, "n": 4096}, "llvm"),
}
MATMUL, BYTES = 2 * 4096**3, 4 * 4096**2


@pytest.mark.parametrize(
    ("name", "device", "seconds"),
    [
        # Cores x operations per cycle x Hz, at most.
        ("matmul", ZEN5, MATMUL / (192 * 64 * 5.7e9)),
        ("half matmul", ONE_CORE, MATMUL / (2048 * 4.5e9)),  # AMX
        ("matmul", ARM, MATMUL / (4 * 2e12 + 8 * 32 * 4.5e9)),  # SME of an M4, and its vectors
        ("half matmul", H100, MATMUL / 2e15),  # half of the zeros left out
        ("half matmul", B200, MATMUL / 2e16),  # the smallest type that it has
        ("tiny matmul", ONE_CORE, 1.5e-9),
        ("tiny matmul", H100, 1e-6),
        ("sum", ONE_CORE, BYTES / (2 * 64 * 6e9)),  # all is in the nearest cache
        ("scan", ONE_CORE, BYTES / (64 * 6e9)),
        ("scan", H100, 2 * BYTES / 2e13),
        ("transpose", ZEN5, BYTES / (192 * 64 * 6e9)),
    ],
)
def test_what_hardware_does_at_best_is_believed(name, device, seconds):
    assert least_seconds(TASKS[name], device) < seconds


@pytest.mark.parametrize(
    ("name", "device", "seconds"),
    [
        ("matmul", ONE_CORE, 1e-4),  # 1.4e15 operations per second of one core
        ("half matmul", ONE_CORE, 1e-4),
        ("matmul", H100, 1e-7),
        ("tiny matmul", ONE_CORE, 5e-10),
        ("tiny matmul", H100, 5e-8),
        ("scan", ONE_CORE, 1e-6),
        ("transpose", ONE_CORE, 1e-6),
        ("transpose", {}, 1e-10),  # nothing is known of the device
    ],
)
def test_what_no_hardware_does_is_doubted(name, device, seconds):
    assert least_seconds(TASKS[name], device) > seconds


def test_a_count_of_operations_that_fails_does_not_stop_a_build(monkeypatch):
    task, failing = TASKS["sum"], UsageError("flops failed")

    def flops(_):
        raise failing

    monkeypatch.setattr(Task, "flops", property(flops))
    assert 0 < least_seconds(task, ONE_CORE) < 1e-6


# -- by whom, and of what ------------------------------------------------------------------------


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setattr(environment, "device", lambda _: dict(ONE_CORE))


def test_a_record_of_a_small_shape_is_not_held_against_the_operations_of_a_large_one(here):
    large = Task.from_reference("reduce", {"m": 4096, "n": 4096}, "llvm -mcpu=x86-64-v3")
    small = large.with_args({**large.args, "m": 64})
    for index in range(len(small.space)):
        record = measured(small, index, 1e-7)
        if not small.refusal(index) and (found := choose(large, [record], Grade.SHAPE)):
            assert found.record == record
            return
    raise AssertionError("no configuration is legal for both")


def test_a_device_that_tells_less_than_this_one_is_taken_for_it(here, caplog):
    task = Task.from_reference("transpose", {"m": 4096, "n": 4096}, "llvm")
    record = measured(task, task.default_index, 1e-6)
    silent = replace(record, device={"kind": "cpu", "name": "Z", "vector_bytes": 64})
    assert choose(task, [silent]) is None
    assert "is less than any such device needs" in caplog.text


def test_each_near_shape_is_traced_once(here, monkeypatch):
    task = Task.from_reference("reduce", {"m": 512, "n": 512}, "llvm")
    near = task.with_args({**task.args, "m": 500})
    records = [measured(near, index, 1e-4) for index in range(8)]
    old = [replace(r, fingerprints={**r.fingerprints, "template": "0" * 16}) for r in records]
    made, with_args = [], Task.with_args
    monkeypatch.setattr(Task, "with_args", lambda *a: made.append(a) or with_args(*a))
    choose(task, old, Grade.SHAPE)
    assert len(made) == 1


def test_steps_are_compared_only_with_those_of_the_same_version(here, caplog):
    caplog.set_level(logging.INFO)
    task = Task.from_reference("reduce", {"m": 64, "n": 64}, "llvm")
    record = measured(task, task.default_index)
    other = replace(record, steps=[*record.steps, ["parallel", "nowhere", 0]])
    assert choose(task, [other], Grade.ANY) is None
    assert "the schedule steps are not those of the template" in caplog.text
    old = replace(other, fingerprints={**record.fingerprints, "template": "0" * 16})
    assert choose(task, [old], Grade.ANY).grade == "any"


def test_steps_of_another_architecture_may_be_others(here):
    task = Task.from_reference("reduce", {"m": 64, "n": 64}, "llvm")
    record = measured(task, task.default_index, device=ARM)
    other = replace(
        record,
        steps=[*record.steps, ["parallel", "elsewhere", 0]],
        fingerprints={**record.fingerprints, "template": "0" * 16},
    )
    assert choose(task, [other], any_device=True).record == other
