"""Builds that measure: a guard against slow records, and tuning where there is no record."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.measured import measured
from support.slow_cases import slow

import autotune
from autotune.cli.main import main
from autotune.task.task import Task
from autotune.tuner.run.compare_with_default import compare_with_default
from records import RecordStore, RecordWarning

TEMPLATE = '''
from autotune import te
from autotune.template import template


@template("copied", reference=lambda a: a)
def copied(cfg, n: int):
    """Copy each element as the largest of itself and some lesser ones, as many as a knob says."""
    A = te.placeholder((n,), "float32", name="A")
    copies = cfg.define_knob("copies", [1, 64])
    r = te.reduce_axis((0, copies), name="r")
    B = te.compute((n,), lambda i: te.max(A[i] - r.astype("float32"), axis=r), name="B")
    return te.create_schedule(B.op), [A, B]
'''

N = 100_000

STORM = f"{Path(__file__).parent / 'faulty_templates' / 'storm.py'}:storm"


@pytest.fixture
def reference(tmp_path):
    (tmp_path / "copied.py").write_text(TEMPLATE)
    return f"{tmp_path / 'copied.py'}:copied"


@pytest.fixture
def task(reference):
    return Task.from_reference(reference, {"n": N}, "llvm")


def of_copies(task, copies):
    return task.space.config(task.space.index_of({"copies": copies}))


def test_a_guard_builds_the_default_where_a_log_claims_that_slow_is_fast(reference, task, tmp_path):
    log = tmp_path / "log.jsonl"
    slow = of_copies(task, 64)
    RecordStore(log).append([measured(task, slow.index, 1e-5)])
    assert autotune.build(reference, {"n": N}, records=log).config.values["copies"] == 64
    with pytest.warns(RecordWarning, match="the default configuration is built instead"):
        built = autotune.build(reference, {"n": N}, records=log, guard=True)
    assert built.record is None
    assert built.config.values["copies"] == 1
    a, b = np.arange(N, dtype="f4"), np.zeros(N, "f4")
    built(a, b)
    np.testing.assert_array_equal(a, b)


def test_a_guard_says_how_much_slower_a_configuration_is(task):
    found = compare_with_default(task, of_copies(task, 64))
    assert found.over_default < 0.5
    assert not found.keeps
    assert compare_with_default(task, of_copies(task, 1)).keeps


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("wrong", "WRONG_ANSWER"),
        slow(("nan", "WRONG_ANSWER")),
        slow(("kernel_abort", "RUNTIME_DEVICE")),
        ("kernel_beyond", "RUNTIME_DEVICE|WRONG_ANSWER"),
        ("kernel_leave", "RUNTIME_DEVICE"),
        ("endless", "TIMEOUT"),
        ("segfault", "INSTANTIATION_ERROR|COMPILE_HOST"),
        slow(("loop", "TIMEOUT")),
    ],
)
def test_a_guard_gives_up_a_configuration_that_fails(fault, why):
    task = Task.from_reference(STORM, {"faults": fault, "good": 1}, "llvm")
    values = {"fault": fault, "step": 3}
    config = task.space.config(task.space.index_of(values))
    found = compare_with_default(task, config, timeout_s=2.0)
    assert not found.keeps
    assert re.search(why, found.why)


def test_a_guard_keeps_what_works_where_the_default_does_not():
    task = Task.from_reference(STORM, {"faults": "wrong,fine"}, "llvm")
    config = task.space.config(task.space.index_of({"fault": "fine", "step": 2}))
    assert compare_with_default(task, config).keeps


def test_what_a_log_claims_does_not_get_past_a_guard(task, reference, tmp_path):
    slow = of_copies(task, 64).index
    claims = measured(task, slow, 1e-4)
    final = {"comparison": "a", "rank": 0, "rounds": [1], "over_default": 9.0, "range": [8.0, 9.9]}
    hostile = [
        claims,
        replace(claims, final=final),
        replace(claims, costs_s=(1e-18,)),
        replace(claims, config={"index": slow, "values": {"copies": 10**6}}),
        replace(claims, config={"index": -1, "values": {}}),
        replace(claims, fingerprints=None),
        replace(claims, steps=[["split", "B", 0, 2]]),
    ]
    log = tmp_path / "log.jsonl"
    RecordStore(log).append(hostile)
    with pytest.warns(RecordWarning) as told:
        built = autotune.build(reference, {"n": N}, records=log, guard=True, reuse="any")
    assert (built.record, built.config.values["copies"]) == (None, 1)
    said = " ".join(str(warning.message) for warning in told)
    assert "the default configuration is built instead of the recorded one" in said
    assert "the configuration is not in today's space" in said


def test_a_build_tunes_what_has_no_record_and_the_next_one_finds_it(reference, tmp_path):
    log = tmp_path / "log.jsonl"
    built = autotune.build(reference, {"n": N}, records=log, missing="tune")
    assert (built.grade, built.config.values["copies"]) == ("exact", 1)
    size = log.stat().st_size
    again = autotune.build(reference, {"n": N}, records=log, missing="tune")
    assert again.record == built.record
    assert log.stat().st_size == size


def test_the_command_line_does_the_same(reference, task, tmp_path, capsys):
    log, out = tmp_path / "log.jsonl", tmp_path / "f.so"
    RecordStore(log).append([measured(task, of_copies(task, 64).index, 1e-5)])
    words = ["build", reference, "--set", f"n={N}", "--log", str(log), "-o", str(out)]
    assert main([*words, "--guard"]) == 0
    printed = capsys.readouterr()
    assert "the default one" in printed.out
    assert printed.err.count("the default configuration is built instead") == 1
    elsewhere = [measured(task, 0, device={"kind": "cpu", "name": "Two", "threads": 2})]
    log.unlink()
    RecordStore(log).append(elsewhere)
    out.unlink()
    assert main([*words, "--strict"]) == 3
    said = capsys.readouterr().err
    assert "1 record of copied(n=100000) is from other devices (Two, 2 threads)" in said
    assert not out.exists()
    assert main([*words, "--any-device"]) == 0
    assert "measured elsewhere: copied(n=100000) on Two, 2 threads" in capsys.readouterr().out
    assert main(["best", *words[1:6], "--reuse", "any"]) == 0
    assert "measured elsewhere" in capsys.readouterr().out


def test_a_run_counts_records_from_other_devices_only_if_asked(reference, task, tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    device = {"kind": "cpu", "name": "Two", "threads": 2}
    elsewhere = [measured(task, index, 1e-9, device=device) for index in range(2)]
    RecordStore(log).append(elsewhere)
    words = ["run", reference, "--set", f"n={N}", "--log", str(log), "--trials", "2", "--seed", "1"]
    assert main([*words, "--any-device"]) == 0
    assert [r.device for r in RecordStore(log).load() if r.is_trial] == [device] * 2
    assert main(words) == 0
    said = "".join(capsys.readouterr())
    assert "2 records of copied(n=100000) from other devices (Two, 2 threads) do not count" in said
    trials = [record for record in RecordStore(log).load() if record.is_trial]
    assert len(trials) == 4
    assert trials[-1].device != device
