"""Which record a build uses: device and version of the record, against what the policy admits.

The table of docs/reuse.md is read here, so what it says is what is tested.
"""

from __future__ import annotations

import itertools
import json
import logging
import re
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.measured import measured

import autotune
from autotune import builder
from autotune.cli.commands import best
from autotune.cli.main import main
from autotune.errors import NoRecordError, UsageError
from autotune.reuse import Grade, choose
from autotune.reuse.policy import DEVICES as DEVICES_GIVEN
from autotune.reuse.policy import MISSING, ReusePolicy
from autotune.runtime import environment
from autotune.target import Target
from autotune.task.task import Task
from autotune.tuner.run import compare_with_default, tuning_job
from autotune.tuner.run.compare_with_default import GuardResult
from records import RecordStore
from records.groups import RecordList

SIZES = {"m": 64, "n": 64, "k": 64}
NEAR = {"m": 64, "n": 64, "k": 96}

HERE = {"kind": "cpu", "name": "One", "cores": 4, "threads": 4, "vector_bytes": 32}
DEVICES = {
    "same machine": HERE,
    "other threads": HERE | {"threads": 2},
    "other model": HERE | {"name": "Two"},
    "other architecture": HERE | {"name": "Three", "vector_bytes": 16, "model": "8/1"},
}
WORKLOADS = ("same shape", "near shape", "other template version", "deleted template")

DOCS = Path(__file__).parents[3] / "docs" / "reuse.md"


def table_of_docs(first):
    """Return the head and the rows of the table that begins with a cell."""
    text = DOCS.read_text()
    lines = text[text.index(f"| {first} |") :].split("\n\n")[0].splitlines()
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return head, rows


def cells_of_docs():
    """Return the cells of the table of devices and workloads by row and column."""
    (_, *columns), rows = table_of_docs("measured on")
    return {
        (row[0], name): cell for row in rows for name, cell in zip(columns, row[1:], strict=True)
    }


CELLS = cells_of_docs()
# The grade by which a record is found, and so the least policy that admits it; None for never.
TABLE = {place: None if cell == "never" else cell.strip("*") for place, cell in CELLS.items()}
# What `devices="any"` admits.
ANY_DEVICE = {place for place, cell in CELLS.items() if cell.startswith("**")}


def test_the_table_is_of_all_devices_and_workloads():
    assert list(CELLS) == list(itertools.product(DEVICES, WORKLOADS))


@pytest.fixture(autouse=True)
def this_machine(monkeypatch):
    monkeypatch.setattr(environment, "device", lambda _: dict(HERE))


@pytest.fixture(scope="module")
def task():
    return Task.from_reference("matmul", SIZES, "llvm -mcpu=x86-64-v3")


def config_of_both(task, other):
    """Return a configuration, no default, that two tasks have."""
    for index in task.space.feasible_indices()[:: max(1, len(task.space) // 500)].tolist():
        values = task.space.config(index).values
        try:
            there = other.space.index_of(values)
        except ValueError:
            continue
        if index != task.default_index and not other.refusal(there) and not task.refusal(index):
            return index, there
    raise AssertionError("the two have nothing in common")


@pytest.fixture(scope="module")
def near(task):
    return task.with_args(NEAR)


@pytest.fixture(scope="module")
def both(task, near):
    return config_of_both(task, near)


def record_of(task, near, both, device, workload):
    one, other = both
    if workload == "near shape":
        return measured(near, other, device=DEVICES[device])
    record = measured(task, one, device=DEVICES[device])
    if workload == "other template version":
        return replace(record, fingerprints={**record.fingerprints, "template": "0" * 16})
    if workload == "deleted template":
        return replace(record, workload={**record.workload, "template": "former"})
    return record


@pytest.mark.parametrize("reuse", list(Grade))
@pytest.mark.parametrize(("device", "workload"), TABLE)
def test_a_record_is_used_from_the_grade_of_the_table_on(task, near, both, device, workload, reuse):
    record = record_of(task, near, both, device, workload)
    found = choose(task, [record], reuse)
    grade = TABLE[device, workload]
    if grade is None or Grade(grade).rank > reuse.rank:
        assert found is None
    else:
        assert found is not None
        assert found.record == record
        assert found.grade == grade
        assert found.config.values == task.space.config(both[0]).values


@pytest.mark.parametrize(("device", "workload"), TABLE)
def test_any_device_admits_what_is_bold_in_the_table(task, near, both, device, workload):
    record = record_of(task, near, both, device, workload)
    found = choose(task, [record], Grade.EXACT, any_device=True)
    assert (found is not None) == ((device, workload) in ANY_DEVICE)


@pytest.mark.parametrize("device", [name for name in DEVICES if name != "same machine"])
def test_records_from_other_devices_are_counted_and_named(task, near, both, device, caplog):
    records = [record_of(task, near, both, device, "same shape")] * 3
    assert choose(task, records) is None
    (message,) = caplog.messages
    name, threads = DEVICES[device]["name"], DEVICES[device]["threads"]
    assert message == (
        f"3 records of {task.workload} are from other devices ({name}, {threads} threads) and not "
        f"used: reuse '{TABLE[device, 'same shape']}' admits such devices"
    )


def test_the_closest_grade_wins_even_if_it_is_slower(task, near, both):
    exact = measured(task, both[0], 2e-3, device=HERE)
    others = [
        replace(record_of(task, near, both, device, workload), costs_s=(1e-3,))
        for device in DEVICES
        for workload in WORKLOADS
        if (device, workload) != ("same machine", "same shape")
    ]
    for reuse in Grade:
        assert choose(task, [*others, exact], reuse).record == exact


def test_of_several_shapes_the_nearest_is_used(task, both):
    tasks = [task.with_args({**SIZES, "k": k}) for k in (512, 80, 256)]
    records = []
    for own in tasks:
        try:
            index = own.space.index_of(task.space.config(both[0]).values)
        except ValueError:
            continue
        records.append(measured(own, index, 1e-6 * own.args["k"], device=HERE))
    found = choose(task, records, Grade.SHAPE)
    assert found is not None
    assert found.record.args["k"] == min(r.args["k"] for r in records)
    assert "of the nearest shape: matmul(m=64, n=64, k=80" in found.text


def test_other_data_types_and_flags_are_no_near_shapes(task, both):
    other = Task.from_reference("matmul", {**SIZES, "dtype": "float64"}, task.target)
    index = other.space.index_of(other.space.config(other.default_index).values)
    assert choose(task, [measured(other, index, device=HERE)], Grade.ANY) is None


def test_a_target_with_other_threads_is_of_this_kind_and_one_with_other_options_is_not(task, both):
    record = measured(task, both[0], device=HERE)
    threads = replace(record, target="llvm -mcpu=x86-64-v3 -threads=2")
    assert choose(task, [threads], Grade.KIND).grade == "kind"
    processor = replace(record, target="llvm -mcpu=x86-64-v4")
    assert choose(task, [processor], Grade.SHAPE) is None
    assert choose(task, [processor], Grade.ANY).grade == "any"
    assert choose(task, [replace(record, target="cuda -arch=sm_90")], Grade.ANY) is None
    assert choose(task, [replace(record, target="\U0001f600 ?")], Grade.ANY) is None


def test_what_earlier_versions_did_not_record_does_not_count(task, both, monkeypatch):
    monkeypatch.setattr(environment, "device", lambda _: {**HERE, "model": "6/1", "max_mhz": 3000})
    record = measured(task, both[0], device=HERE)
    assert choose(task, [record]).grade == "exact"
    slower = replace(record, device={**HERE, "model": "6/1", "max_mhz": 2000})
    assert choose(task, [slower]) is None
    assert choose(task, [slower], Grade.KIND).grade == "kind"
    assert choose(task, [replace(record, device={**HERE, "model": "6/2"})], Grade.SHAPE) is None


# -- what a record claims is doubted -------------------------------------------------------------


def doubtful(task, both):
    record = measured(task, both[0], device=HERE)
    knob, value = next((k, v) for k, v in record.config["values"].items() if isinstance(v, int))
    steps = [*record.steps[:-1], ["parallel", "nowhere", 0]]
    return {
        "is less than any such device needs": replace(record, costs_s=(1e-12,)),
        "the configuration is not in today's space": replace(
            record, config={"index": 0, "values": {**record.config["values"], knob: value + 1009}}
        ),
        "the schedule steps are not those of the template": replace(record, steps=steps),
        "without the version of its template": replace(record, fingerprints=None),
        "from other devices (an unknown device)": replace(record, device={}),
    }


@pytest.mark.parametrize("why", range(5))
def test_a_doubtful_record_is_passed_over_counted_and_explained(task, both, why, caplog):
    said, record = list(doubtful(task, both).items())[why]
    honest = measured(task, both[0], 5e-3, device=HERE)
    assert choose(task, [record, honest]).record == honest
    (message,) = caplog.messages
    assert said in message
    assert message.startswith("1 record of matmul(")


# -- what a build does ---------------------------------------------------------------------------


POLICIES = [
    ReusePolicy(reuse=reuse, devices=devices, missing=missing)
    for reuse in map(str, Grade)
    for devices in DEVICES_GIVEN
    for missing in MISSING
]


@pytest.fixture
def nothing_compiled(near, monkeypatch):
    """Let builds end with the choice that they have made."""
    monkeypatch.setattr(Task, "with_args", lambda *_: near)  # it is traced once
    monkeypatch.setattr(Task, "prepared_of", lambda *_: None)
    monkeypatch.setattr(builder, "BuiltFunction", lambda *a, **k: SimpleNamespace(choice=a[4]))


def is_admitted(device, workload, policy):
    """Whether a policy admits the record of a cell."""
    needed = TABLE[device, workload]
    return needed is not None and (
        Grade(needed).rank <= Grade(policy.reuse).rank
        or (policy.any_device and (device, workload) in ANY_DEVICE)
        or policy.missing == "nearest"
    )


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize(("device", "workload"), TABLE)
def test_each_policy_builds_what_the_table_says(
    task, near, both, device, workload, monkeypatch, tmp_path
):
    record = record_of(task, near, both, device, workload)
    tuned = measured(task, both[0], device=HERE)
    monkeypatch.setattr(
        tuning_job, "tune_requests", lambda requests: requests[0].store.append([tuned])
    )
    needed = TABLE[device, workload]
    for number, policy in enumerate(POLICIES):
        admitted = is_admitted(device, workload, policy)
        store = RecordStore(tmp_path / f"{number}.jsonl")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            if not admitted and policy.missing == "error":
                with pytest.raises(NoRecordError):
                    builder.build_task(task, [record], policy=policy)
                continue
            choice = builder.build_task(task, [record], policy=policy, store=store).choice
        assert store.path.exists() == (policy.missing == "tune" and not admitted)
        if admitted:
            assert (choice.record, choice.grade) == (record, needed)
            assert not told
        elif policy.missing == "tune":
            assert (choice.record, choice.grade) == (tuned, "exact")
        else:
            assert choice is None
            assert "building the default configuration" in str(told[-1].message)


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("over_default", [2.0, 0.5])
@pytest.mark.parametrize(("device", "workload"), TABLE)
def test_a_guard_times_whatever_record_is_used(
    task, near, both, device, workload, over_default, monkeypatch
):
    record = record_of(task, near, both, device, workload)
    timed = []
    monkeypatch.setattr(
        compare_with_default,
        "compare_with_default",
        lambda _, config: timed.append(config) or GuardResult(over_default),
    )
    for reuse in Grade:
        timed.clear()
        policy = ReusePolicy(reuse=reuse, guard=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            choice = builder.build_task(task, [record], policy=policy).choice
        admitted = is_admitted(device, workload, policy)
        assert timed == [task.space.config(both[0])] * admitted
        assert (choice is not None) == (admitted and over_default > 1)


SAID = dict(table_of_docs("record")[1])


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize(("device", "workload"), [c for c in TABLE if TABLE[c] != "exact"])
def test_by_default_a_build_says_of_a_record_that_is_not_used_what_the_table_says(
    task, near, both, device, workload
):
    record = record_of(task, near, both, device, workload)
    row = workload
    if device != "same machine" and workload in ("same shape", "other template version"):
        row = "from another device"
    said = re.sub("[A-Z]+", ".+", re.escape(SAID[row].strip("`")))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert builder.build_task(task, [record]).choice is None
    assert re.search(said, str(told[0].message))
    assert "building the default configuration" in str(told[-1].message)


@pytest.mark.parametrize(("device", "workload"), TABLE)
def test_best_says_on_the_command_line_what_the_table_says(
    task, near, both, device, workload, tmp_path, capsys, monkeypatch
):
    record = record_of(task, near, both, device, workload)
    log = tmp_path / "log.jsonl"
    RecordStore(log).append([record])
    monkeypatch.setattr(Task, "with_args", lambda *_: near)
    monkeypatch.setattr(best, "make_task", lambda *_, **__: task)
    words = ["best", "matmul", "--log", str(log), "--json"]
    needed = TABLE[device, workload]
    for reuse in Grade:
        done = main([*words, "--reuse", reuse])
        printed = capsys.readouterr()
        if needed is None or Grade(needed).rank > reuse.rank:
            assert (done, printed.out) == (3, "")
            assert "holds no valid record of matmul(" in printed.err
        else:
            assert done == 0
            found = json.loads(printed.out)
            assert (found["grade"], found["record"]) == (needed, record.to_json())
    assert (main([*words, "--any-device"]) == 0) == ((device, workload) in ANY_DEVICE)
    capsys.readouterr()


def test_a_build_names_the_grade_of_its_record(task, near, both):
    record = record_of(task, near, both, "other threads", "same shape")
    target = str(task.target)
    built = autotune.build("matmul", SIZES, target, records=[record], reuse="kind")
    assert (built.grade, built.record) == ("kind", record)
    with pytest.warns(UserWarning, match="no record that can be used"):
        default = autotune.build("matmul", SIZES, target, records=[])
    assert (default.grade, default.record) == (None, None)


def test_without_a_record_a_build_fails_or_takes_the_nearest_as_asked(task, near, both):
    record = record_of(task, near, both, "other model", "near shape")
    target = str(task.target)
    with pytest.raises(NoRecordError, match="no record that can be used for matmul"):
        autotune.build("matmul", SIZES, target, records=[record], missing="error")
    with pytest.raises(NoRecordError, match="no records given for matmul"):
        autotune.build("matmul", SIZES, target, missing="error")
    built = autotune.build("matmul", SIZES, target, records=[record], missing="nearest")
    assert (built.grade, built.record) == ("any", record)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"reuse": "close"}, "reuse is 'close': expected one of exact, kind, shape, any"),
        ({"missing": "errors"}, "missing is 'errors': did you mean 'error'?"),
        ({"devices": 3}, "devices is 3"),
        ({"guard": "no"}, "guard is 'no': expected True or False"),
        ({"guard": 1}, "guard is 1: expected True or False"),
        ({"missing": "tune"}, "missing='tune' appends its measurements to a log"),
    ],
)
def test_a_policy_that_there_is_not_is_one_clear_line(given, said):
    with pytest.raises(UsageError, match=said):
        autotune.build("matmul", SIZES, **given)


def test_a_log_counts_its_groups_as_a_list_in_memory_does(task, near, both, tmp_path):
    records = [record_of(task, near, both, d, w) for d in DEVICES for w in WORKLOADS]
    store = RecordStore(tmp_path / "log.jsonl")
    store.append(records)
    assert RecordList(store.load()).groups() == RecordList(records).groups()
    assert len(RecordList(records).groups()) == len(records)


def test_nothing_is_said_of_records_for_another_target(task, both, caplog):
    caplog.set_level(logging.INFO)
    honest = measured(task, both[0], device=HERE)
    other = replace(honest, target="llvm -mcpu=x86-64-v3 -threads=1")
    assert choose(task, [other, honest]).record == honest
    assert not caplog.messages
    assert Target.parse(other.target).threads == 1


def test_a_device_of_the_same_name_is_named_with_what_differs(task, both, monkeypatch, caplog):
    known = {**HERE, "model": "6/85", "max_mhz": 3000}
    monkeypatch.setattr(environment, "device", lambda _: known)
    other = {**known, "model": "6/143"}
    assert choose(task, [measured(task, both[0], device=other)]) is None
    assert "from other devices (One, 4 threads, model 6/143) and not used" in caplog.text


def test_what_is_said_of_records_that_are_used_though_they_are_old_or_near(task, near, both):
    old = record_of(task, near, both, "same machine", "other template version")
    found = choose(task, [old], Grade.ANY)
    assert found.text == "measured with an earlier version of this template: on One, 4 threads"
    unmarked = replace(old, fingerprints=None)
    found = choose(task, [unmarked], Grade.ANY)
    assert found.text == "without the version of its template: on One, 4 threads"
    elsewhere = record_of(task, near, both, "other model", "same shape")
    assert choose(task, [elsewhere], Grade.ANY).text.startswith("measured elsewhere: matmul(")


def test_old_records_of_a_near_shape_are_said_to_be_of_one(task, near, both, caplog):
    record = record_of(task, near, both, "same machine", "near shape")
    old = replace(record, fingerprints={**record.fingerprints, "template": "0" * 16})
    assert choose(task, [old, old], Grade.SHAPE) is None
    (message,) = caplog.messages
    assert message == (
        f"2 records of shapes near {task.workload} passed over: measured with an earlier version "
        "of this template"
    )


def test_sizes_that_the_template_refuses_are_counted(task, both, caplog):
    record = measured(task, both[0], device=HERE)
    huge = {"template": "matmul", "args": {**record.args, "k": 2**70}}
    assert choose(task, [replace(record, workload=huge)], Grade.SHAPE) is None
    assert "passed over: today's template refuses such sizes" in caplog.text
