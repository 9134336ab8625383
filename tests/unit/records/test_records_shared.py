"""A log that several workloads of a run share: read once, each told what is its own."""

import os

from support.sample_records import CPU, made

from records import Entry, Journal, RecordStore
from records.storage.shared_journal import SharedJournal

MINE, OTHER = ({"template": "made", "args": {"n": n}} for n in (64, 128))


def of_other(index):
    return made(index, workload=OTHER)


def entry(index):
    return Entry.of(made(index))


def parts(store):
    shared = SharedJournal(store)
    return [shared.part(w["template"], w["args"], "llvm") for w in (MINE, OTHER)]


def test_each_workload_is_told_its_own_records_once(store):
    store.append([made(0), of_other(1), made(2)])
    mine, other = parts(store)
    assert mine.new_records() == [made(0), made(2)]
    assert other.new_records() == [of_other(1)]
    store.append([of_other(3), of_other(4)])
    assert mine.new_records() == []
    assert other.new_records() == [of_other(3), of_other(4)]
    assert other.add(of_other(5))
    assert (mine.new_records(), other.new_records()) == ([], [])
    assert not other.add(of_other(5))


def test_the_log_is_read_once_for_all_of_them(store, monkeypatch):
    store.append([made(0), of_other(1)])
    reads, parse = [], RecordStore.parse
    monkeypatch.setattr(
        RecordStore,
        "parse",
        lambda self, lines, first=1: reads.append(1) or parse(self, lines, first),
    )
    mine, other = parts(store)
    mine.new_records()
    count = len(reads)
    other.new_records()
    mine.new_records()
    assert len(reads) == count


def test_claims_are_those_of_one_run_and_end_with_their_own_workload(store):
    mine, other = parts(store)
    elsewhere = Journal(store)
    assert mine.claim(entry(0))
    assert other.claim(entry(1))
    assert not elsewhere.claim(entry(0))
    mine.release(entry(0))
    assert elsewhere.claim(entry(0))
    assert mine.claim(entry(2))
    mine.close()
    assert elsewhere.claim(entry(2))
    assert not elsewhere.claim(entry(1))
    other.close()
    assert elsewhere.claim(entry(1))


def test_a_log_in_which_nothing_was_logged_vanishes_with_the_last_of_them(store):
    mine, other = parts(store)
    assert mine.claim(entry(0))
    mine.close()
    assert store.path.exists()
    other.close()
    assert not store.path.exists()


def test_however_many_workloads_there_are_the_log_is_open_once(store):
    store.append([made(0)])
    shared = SharedJournal(store)
    workloads = [shared.part("made", {"n": n}, "llvm") for n in range(50)]
    before = len(os.listdir("/proc/self/fd"))
    assert all(part.claim(entry(n + 1)) for n, part in enumerate(workloads))
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    for part in workloads:
        part.close()


def test_a_workload_has_one_part_and_none_begins_after_the_log_was_read(store):
    shared = SharedJournal(store)
    mine = shared.part("made", {"n": 64}, "llvm")
    assert shared.part("made", {"n": 64.0}, "llvm") is None
    assert shared.part("made", {"n": 64}, "cuda") is not None
    mine.new_records()
    assert shared.part("made", {"n": 65}, "llvm") is None


def test_in_which_machine_a_device_was_does_not_make_another_entry(store):
    there, elsewhere = (made(3, device={**CPU, "node": node}) for node in ("x", "y"))
    store.append([there])
    journal = Journal(store)
    assert journal.new_records() == [there]
    assert not journal.add(elsewhere)
    other = made(3, device={"kind": "cpu", "name": "Another", "node": "x"})
    assert journal.add(other)
