"""Merging loses nothing, and a build chooses the same record before and after compacting."""

import json
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.measured import measured
from support.sample_records import log_of, made, made_final

from autotune.reuse import choose
from autotune.task.task import Task
from records import RecordStore, ranked, summary
from records.groups import group_key
from records.outline import Outline
from records.tools import keys
from records.tools.compact import Compaction
from records.tools.log_lines import LogFile, every_line, records_of
from records.tools.merge import merge
from records.tools.new_logs import new_log, write_lines

COSTS = st.sampled_from([None, 1e-3, 1e-3, 2e-3, 3e-3, 5e-3, 8e-3])


@st.composite
def any_record(draw):
    """A record of few configurations, devices and versions, so that many are alike."""
    index = draw(st.integers(0, 4))
    cost_s = draw(COSTS)
    changes = {
        "device": {"name": draw(st.sampled_from("AB"))},
        "fingerprints": draw(st.sampled_from([None, {"template": "1"}, {"template": "2"}])),
        "timestamp": float(draw(st.integers(0, 9))),
        "workload": {"template": "made", "args": {"n": draw(st.integers(1, 2))}},
    }
    if draw(st.booleans()):
        return made(index, cost_s, **changes)
    final = {"comparison": draw(st.sampled_from("xy")), "rank": draw(st.integers(0, 2))}
    return made_final(index, cost_s, 0, **{**changes, "final": final})


RECORDS = st.lists(any_record(), max_size=30)


@given(RECORDS, RECORDS)
def test_merging_keeps_every_record_once_and_marks_contradictions(one, other):
    with tempfile.TemporaryDirectory() as folder:
        paths = [log_of(Path(folder) / f"{n}.jsonl", *r) for n, r in enumerate((one, other))]
        out = Path(folder) / "out.jsonl"
        with new_log(out) as file:
            done = merge(records_of(every_line(map(LogFile, paths))), file, out.parent)
        lines = out.read_bytes().splitlines()
    found = [(json.loads(line).get("conflict"), Outline.of_line(line), line) for line in lines]
    plain = [json.dumps({k: v for k, v in json.loads(x).items() if k != "conflict"}) for x in lines]
    assert sorted(plain) == sorted({json.dumps(record.to_json()) for record in [*one, *other]})
    assert done.records + done.duplicates == len(one) + len(other)
    times = [outline.timestamp for _, outline, _ in found]
    assert times == sorted(times)
    measurements = [keys.measurement_digest(outline) for _, outline, _ in found]
    for (mark, _, _), measurement in zip(found, measurements, strict=True):
        assert (mark is not None) == (measurements.count(measurement) > 1)
    assert done.conflicts == len({mark for mark, _, _ in found} - {None})


@given(RECORDS, st.integers(1, 4))
def test_compacting_keeps_the_ranking_of_each_group_up_to_its_trials(records, most):
    with tempfile.TemporaryDirectory() as folder:
        kept = compacted(Path(folder), records, most)
    for key in {group_key(record) for record in records}:
        before = [record for record in records if group_key(record) == key]
        after = [record for record in kept if group_key(record) == key]
        assert ranked(after)[:1] == ranked(before)[:1] or not before
        assert [r for r in after if r.final] == [r for r in before if r.final]
        assert sum(r.is_trial for r in after) <= most


@given(RECORDS)
def test_a_row_of_a_summary_is_what_ranking_says(records):
    rows = summary(records)
    assert sum(row.records for row in rows) == len(records)
    for row in rows:
        members = [r for r in records if (r.args, r.device) == (row.args, row.device)]
        best = next(iter(ranked(members)), None)
        assert row.best_cost_s == (None if best is None else best.cost_s)
        assert row.best_index == (None if best is None else best.index)


def compacted(folder, records, most):
    log, out = log_of(folder / "log.jsonl", *records), folder / "small.jsonl"
    with new_log(out) as file:
        write_lines(file, Compaction(lambda: every_line([LogFile(log)]), most))
    return RecordStore(out).load()


@cache
def task():
    return Task.from_reference("matmul", {"m": 8, "n": 8, "k": 8}, "llvm")


@cache
def legal():
    """Return a few configurations that may be built."""
    near = task().space.by_distance(task().default_index)
    return [index for index, _ in zip((i for i in near if not task().refusal(i)), range(6))]  # noqa: B905


@st.composite
def measured_record(draw):
    """A record that a build may or may not use."""
    index = legal()[draw(st.integers(0, 5))]
    cost_s = draw(COSTS)
    changes = {"timestamp": float(draw(st.integers(0, 9)))}
    if draw(st.integers(0, 4)) == 0:
        changes["device"] = {"kind": "cpu", "name": "elsewhere"}
    if draw(st.integers(0, 4)) == 0:
        changes["fingerprints"] = {"template": "0" * 16}
    if draw(st.integers(0, 2)) == 0:
        comparison, rank = draw(st.sampled_from("xy")), draw(st.integers(0, 2))
        changes["final"] = {"comparison": comparison, "rank": rank}
    return measured(task(), index, cost_s, **changes)


@pytest.mark.parametrize("reuse", ["exact", "any"])
@settings(max_examples=12)
@given(records=st.lists(measured_record(), max_size=20), most=st.integers(1, 3))
def test_a_build_chooses_the_same_record_before_and_after_compacting(reuse, records, most):
    with tempfile.TemporaryDirectory() as folder:
        kept = compacted(Path(folder), records, most)
    assert chosen(records, reuse) == chosen(kept, reuse)


def chosen(records, reuse):
    found = choose(task(), records, reuse, notify=lambda _: None)
    return None if found is None else found.record
