"""A log that several runs write at once: each sees the others' records and repeats none."""

import multiprocessing
from pathlib import Path

import pytest
from support.sample_records import made

from records import Entry, Journal, RecordStore, RecordWarning


def make(index, template="aa", cost=1e-3):
    workload = {"template": "matmul", "args": {"n": 64}}
    return made(index, cost, workload=workload, fingerprints={"template": template})


def test_news_is_told_once_and_without_what_was_added_here(store):
    store.append([make(0), make(1)])
    journal = Journal(store)
    assert journal.new_records() == [make(0), make(1)]
    assert journal.add(make(2))
    store.append([make(3)])
    assert journal.new_records() == [make(3)]
    assert journal.new_records() == []


def test_a_configuration_that_another_run_has_added_is_not_added_again(store):
    mine, other = Journal(store), Journal(store)
    assert other.add(make(0, cost=2e-3))
    assert not mine.add(make(0))
    assert mine.new_records() == store.load() == [make(0, cost=2e-3)]


def test_a_configuration_is_added_again_for_an_edited_template(store):
    journal = Journal(store)
    assert journal.add(make(0, "aa"))
    assert journal.add(make(0, "bb"))
    assert not journal.add(make(0, "bb"))


def test_what_does_not_count_is_added_again_once_by_one_of_several_runs(store):
    store.append([make(0, cost=1e-12), make(1)])
    mine, other = Journal(store), Journal(store)
    for journal in (mine, other):
        (absurd, _) = journal.new_records()
        assert not journal.claim(Entry.of(absurd))
        journal.free([Entry.of(absurd)])
    assert mine.claim(Entry.of(absurd))
    assert mine.add(make(0))
    for journal in (mine, other):
        assert not journal.claim(Entry.of(absurd))
        assert not journal.add(make(0))
    assert other.new_records() == [make(0)]
    for journal in (mine, other):
        journal.close()


def test_no_log_has_no_news_and_is_not_made(store):
    assert Journal(store).new_records() == []
    assert not store.path.exists()


def test_a_line_without_newline_is_told_once_and_a_torn_one_not(store):
    store.path.write_text(make(0).to_json_line())
    journal = Journal(store)
    assert journal.new_records() == [make(0)]
    assert journal.add(make(1))
    with store.path.open("a") as file:
        file.write('{"schema":1,"torn')
    with pytest.warns(RecordWarning, match="line 3 is torn"):
        assert journal.new_records() == []
    assert journal.add(make(2))
    assert journal.new_records() == []
    assert store.load() == [make(0), make(1), make(2)]


def test_a_replaced_log_is_read_anew_and_known_records_are_no_news(store):
    store.append([make(0)])
    journal = Journal(store)
    journal.new_records()
    store.path.rename(store.path.with_name("old"))
    store.append([make(0), make(1)])
    assert journal.new_records() == [make(1)]
    assert not journal.add(make(1))


def move(path):
    path.rename(path.with_name("old"))


def cut(path):
    path.write_text("")


@pytest.mark.parametrize("harm", [Path.unlink, move, cut])
def test_a_log_that_is_harmed_is_warned_of_once_and_goes_on(store, harm):
    journal = Journal(store)
    assert all(journal.add(make(index)) for index in range(3))
    harm(store.path)
    with pytest.warns(RecordWarning, match="deleted, replaced or cut during this run"):
        assert journal.add(make(3))
    assert journal.add(make(4))
    assert not journal.add(make(0))  # it was measured, although the log has lost it
    assert journal.new_records() == []
    assert store.load() == [make(3), make(4)]
    with pytest.warns(RecordWarning, match="holds 2 records now"):
        journal.close()


def test_a_log_that_is_gone_at_the_end_is_told_then(store):
    journal = Journal(store)
    journal.add(make(0))
    store.path.unlink()
    with pytest.warns(RecordWarning, match="holds 0 records now"):
        journal.close()


def test_a_log_that_is_none_at_the_end_is_warned_of_and_no_error(store):
    journal = Journal(store)
    journal.add(make(0))
    store.path.write_text("something else\n")
    with pytest.warns(RecordWarning, match="is not known: .* not a log of records"):
        journal.close()


def other_log(count):
    """Return the bytes of a log of another workload."""
    lines = [f"{make(1000 + index).to_json_line()}\n" for index in range(count)]
    return "".join(lines).replace("matmul", "softmax").encode()


def added(store):
    return [record.index for record in store.load() if record.template == "matmul"]


@pytest.mark.parametrize("size", [3, 50])
def test_what_another_file_is_written_over_during_a_run_is_added_again(store, size):
    store.append([make(100)])
    journal = Journal(store)
    journal.new_records()
    for index in range(5):
        assert journal.add(make(index))
    store.path.write_bytes(other_log(size))  # as `cat other > log` does, into the same file
    said = "written over it, during this run: 5 records of this run .*, 1 record .* gone"
    with pytest.warns(RecordWarning, match=said) as told:
        assert journal.add(make(5))
    assert len(told) == 1
    assert added(store) == [0, 1, 2, 3, 4, 5]
    assert not journal.add(make(3))
    with pytest.warns(RecordWarning, match=f"holds {size + 6} records now"):
        journal.close()


@pytest.mark.filterwarnings("ignore:.*(is torn|skipped 1 line)")
def test_what_is_written_over_after_the_last_measurement_is_noticed_at_the_end(store):
    journal = Journal(store)
    for index in range(5):
        journal.add(make(index))
    before = store.path.stat()
    data = other_log(20)[: before.st_size]
    store.path.write_bytes(data + b"\n" * (before.st_size - len(data)))  # not even the size differs
    with pytest.warns(RecordWarning, match="5 records of this run will be added to it again"):
        journal.close()
    assert added(store) == [0, 1, 2, 3, 4]


@pytest.mark.filterwarnings("ignore:.*(is torn|skipped 1 line)")
def test_what_is_written_over_while_another_file_is_being_copied_is_added_again(store):
    journal, data = Journal(store), other_log(50)
    for index in range(5):
        journal.add(make(index))
    with store.path.open("wb") as copy:  # which appends nothing, but goes on where it is
        with pytest.warns(RecordWarning, match="deleted, replaced or cut"):
            assert journal.add(make(5))
        copy.write(data[:300])
        copy.flush()
        with pytest.warns(RecordWarning):
            assert journal.add(make(6))
        copy.write(data[300:])
    with pytest.warns(RecordWarning, match="7 records of this run will be added to it again"):
        assert journal.add(make(7))
    assert sorted(added(store)) == [0, 1, 2, 3, 4, 5, 6, 7]
    journal.close()


def test_a_log_that_was_only_copied_over_by_a_longer_copy_of_itself_has_lost_nothing(store):
    journal = Journal(store)
    journal.add(make(0))
    store.path.write_bytes(store.path.read_bytes() + other_log(3))
    assert journal.add(make(1))
    journal.close()
    assert added(store) == [0, 1]


def test_a_lost_record_that_comes_back_is_no_longer_lost(store):
    journal = Journal(store)
    journal.add(make(0))
    store.path.unlink()
    with pytest.warns(RecordWarning, match="deleted"):
        journal.add(make(1))
    store.append([make(0)])
    assert journal.new_records() == []
    journal.close()


def test_only_what_is_new_is_read(store, monkeypatch):
    journal, other = Journal(store), Journal(RecordStore(store.path))
    parsed = []
    parse = store.parse

    def counting(lines, first=1):
        lines = list(lines)
        parsed.extend(lines)
        return parse(lines, first)

    monkeypatch.setattr(store, "parse", counting)
    for index in range(20):
        journal.add(make(index))
    assert parsed == []
    other.add(make(20))
    assert journal.new_records() == [make(20)]
    assert len(parsed) == 1


def add_all(path, count):
    journal = Journal(RecordStore(path))
    for index in range(count):
        journal.add(make(index))


def test_concurrent_runs_add_every_configuration_once(store):
    context = multiprocessing.get_context("spawn")
    runs = [context.Process(target=add_all, args=(str(store.path), 40)) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert [run.exitcode for run in runs] == [0, 0]
    assert [record.index for record in store.load()] == list(range(40))
