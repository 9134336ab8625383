"""Records that are not used: a program is told why, as the command line says it."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
from support.measured import measured

import autotune
from autotune.cli.main import main
from autotune.reuse import why_nothing
from autotune.task.task import Task
from records import RecordStore, RecordWarning

SIZES = {"m": 8, "n": 16, "k": 4}
SET = [word for name, size in SIZES.items() for word in ("--set", f"{name}={size}")]


@pytest.fixture(scope="module")
def task():
    return Task.from_reference("matmul", SIZES, "llvm")


@pytest.fixture(scope="module")
def record(task):
    return measured(task, task.default_index)


def of_sizes(record, **sizes):
    args = {**record.args, **sizes}
    return replace(record, workload={"template": record.template, "args": args})


def failed(record):
    error = {"code": "COMPILE_HOST", "stage": "compile", "message": "no"}
    return replace(record, costs_s=None, error=error)


OTHERS = {
    "workload": r"another workload: matmul\(m=9, n=16, k=4, dtype=float32\)",
    "target": "another target: llvm -threads=1",
    "template": "another template: softmax",
    "failed": "1 record of it, all of them failed",
    "none": "there are no records",
}


def others(record):
    return {
        "workload": [of_sizes(record, m=9)],
        "target": [replace(record, target="llvm -threads=1"), of_sizes(record, m=9)],
        "template": [replace(record, workload={"template": "softmax", "args": {}})],
        "failed": [failed(record), of_sizes(record, m=9)],
        "none": [],
    }


@pytest.mark.parametrize("name", OTHERS)
def test_a_program_is_told_what_the_records_are_of_if_none_can_be_used(record, name):
    said = rf"no record that can be used for matmul\(m=8.* on llvm \(.*{OTHERS[name]}\): building"
    with pytest.warns(UserWarning, match=said) as told:
        built = autotune.build("matmul", SIZES, records=others(record)[name])
    assert built.record is None
    assert len(told) == 1
    assert told[0].filename == __file__


@pytest.mark.parametrize("name", [name for name in OTHERS if name != "none"])
def test_the_command_line_says_the_same(record, tmp_path, capsys, name):
    log = tmp_path / "log.jsonl"
    RecordStore(log).append(others(record)[name])
    assert main(["best", "matmul", *SET, "--log", str(log)]) == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert why_nothing(Task.from_reference("matmul", SIZES, "llvm"), others(record)[name]) in said


def test_many_other_workloads_are_named_in_part(task, record):
    found = why_nothing(task, [of_sizes(record, m=m) for m in range(10, 19)])
    assert found.startswith("the records are of other workloads: matmul(m=10, ")
    assert found.endswith(" and 6 more")


def test_a_program_is_told_of_records_of_an_earlier_version_of_the_template(record, caplog):
    old = replace(record, fingerprints={"template": "0" * 16})
    said = r"1 record of matmul\(.*\) is measured with an earlier version of this template"
    with pytest.warns(RecordWarning, match=said) as told:
        built = autotune.build("matmul", SIZES, records=[old, record])
    assert built.record == record
    assert len(told) == 1
    assert told[0].filename == __file__
    assert len(caplog.records) == 1
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        autotune.build("matmul", SIZES, records=[old, old])
    assert len(told) == 2
    assert "(2 records of it, none of them can be used)" in str(told[1].message)


def test_a_program_is_told_of_faster_records_whose_configuration_is_no_longer_allowed(
    task, record, monkeypatch
):
    fast = [replace(record, costs_s=(1e-4,), timestamp=float(k)) for k in range(3)]
    rules = iter(["it is too wide"] * 3)
    monkeypatch.setattr(Task, "refusal", lambda *_: next(rules, ""))
    said = "3 records of matmul.* passed over: the configuration is no longer allowed: .* too wide"
    with pytest.warns(RecordWarning, match=said) as told:
        built = autotune.build("matmul", SIZES, records=[*fast, record])
    assert built.record == record
    assert len(told) == 1


def test_the_command_line_says_it_once(record, tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    RecordStore(log).append([replace(record, fingerprints={"template": "0" * 16}), record])
    with warnings.catch_warnings():
        assert main(["build", "matmul", *SET, "--log", str(log), "-o", str(tmp_path / "f.so")]) == 0
    assert capsys.readouterr().err.count("earlier version of this template") == 1
