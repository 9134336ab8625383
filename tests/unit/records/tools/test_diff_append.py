"""The difference of two logs, and appending what a log does not have."""

from support.sample_records import log_of, made, made_final

from records import RecordStore, summary
from records.tools.append import Appended, append_new
from records.tools.diff import LogDiff
from records.tools.log_lines import LogFile, records_of


def diff(one, other):
    return LogDiff(
        lambda: records_of(LogFile(one).lines()), lambda: records_of(LogFile(other).lines())
    )


def test_a_log_does_not_differ_from_itself_in_another_order(tmp_path):
    one = log_of(tmp_path / "one.jsonl", made(0), made(1, 2e-3), made(0))
    other = log_of(tmp_path / "other.jsonl", made(1, 2e-3), made(0))
    found = diff(one, other)
    assert not found
    assert (found.same, found.only, found.best) == (2, (0, 0), [])


def test_the_order_of_equally_fast_records_is_a_difference_as_the_first_is_built(tmp_path):
    one = log_of(tmp_path / "one.jsonl", made(0), made(1))
    found = diff(one, log_of(tmp_path / "other.jsonl", made(1), made(0)))
    assert found
    assert (found.only, len(found.best)) == ((0, 0), 1)


def test_records_of_one_side_and_workloads_whose_best_differ_are_told(tmp_path):
    wide = {"workload": {"template": "made", "args": {"n": 128}}}
    one = log_of(tmp_path / "one.jsonl", made(0, 3e-3), made(1, 2e-3), made(9, 1e-3, **wide))
    other = log_of(tmp_path / "other.jsonl", made(0, 3e-3), made(2, 1e-3), made(9, 1e-3, **wide))
    found = diff(one, other)
    assert found
    assert (found.same, found.only) == (2, (1, 1))
    assert [[line.number for line in found.lines(side)] for side in (0, 1)] == [[2], [2]]
    (change,) = found.best
    assert (change.before.best_index, change.after.best_index) == (1, 2)
    assert change.row.args == {"n": 64}


def test_a_workload_that_only_one_side_has_is_a_change_of_its_best(tmp_path):
    one = log_of(tmp_path / "one.jsonl", made(0))
    other = log_of(tmp_path / "other.jsonl")
    (change,) = diff(one, other).best
    assert (change.row.best_index, change.after) == (0, None)


def test_only_what_is_new_is_appended(tmp_path):
    log = log_of(tmp_path / "log.jsonl", made(0), made(1))
    more = log_of(tmp_path / "more.jsonl", made(1), made(2), made(2), made(3))
    lines = lambda: records_of(LogFile(more).lines())  # noqa: E731
    assert append_new(lines(), log) == Appended(added=2, duplicates=2)
    assert append_new(lines(), log) == Appended(added=0, duplicates=4)
    assert [record.index for record in RecordStore(log).load()] == [0, 1, 2, 3]
    assert append_new(lines(), tmp_path / "new.jsonl").added == 3


def test_more_lines_than_a_block_are_all_appended(tmp_path, monkeypatch):
    monkeypatch.setattr("records.tools.append._BLOCK", 3)
    more = log_of(tmp_path / "more.jsonl", *map(made, range(10)))
    assert append_new(records_of(LogFile(more).lines()), tmp_path / "new.jsonl").added == 10
    assert (tmp_path / "new.jsonl").read_bytes() == more.read_bytes()


def test_summaries_have_a_row_for_each_device_and_count_finals():
    records = [
        made(0, 3e-3),
        made(1, 1e-3, device={"name": "another"}),
        made(2, 2e-3),
        made_final(0, 4e-3, 0),
        made_final(2, 5e-3, 1),
    ]
    here, elsewhere = summary(records)
    assert (here.device["name"], elsewhere.device["name"]) == ("Some CPU", "another")
    assert (here.trials, here.finals, here.records) == (2, 2, 4)
    assert (here.best_index, here.compared) == (0, True)
    assert (elsewhere.best_index, elsewhere.compared) == (1, False)


def test_the_best_trial_of_a_summary_has_not_failed_in_a_comparison_since():
    trials = [made(n, (n + 1) * 1e-3) for n in range(20)]
    (row,) = summary([*trials, made_final(0, None, 0), made_final(1, None, 1)])
    assert row.best_index == 2
