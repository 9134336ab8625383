"""Compacting keeps what builds use, pruning drops what is asked for; both say how much."""

import pytest
from support.sample_records import CPU, log_of, made, made_final

from records import RecordError, RecordStore
from records.tools.compact import Compacted, Compaction
from records.tools.line_filter import LineFilter
from records.tools.log_lines import LogFile, every_line
from records.tools.new_logs import new_log, write_lines
from records.tools.prune import Pruning


def compacted(log, most):
    out = log.with_name("out.jsonl")
    with new_log(out, replace=True) as file:
        compaction = Compaction(lambda: every_line([LogFile(log)]), most)
        write_lines(file, compaction)
    return compaction.counts, [record.index for record in RecordStore(out).load()]


def pruned(log, drops):
    out = log.with_name("out.jsonl")
    with new_log(out, replace=True) as file:
        pruning = Pruning(every_line([LogFile(log)]), drops)
        write_lines(file, pruning)
    return pruning.counts, out.read_bytes()


def test_the_fastest_trials_of_each_group_stay_in_the_order_of_the_log(tmp_path):
    costs = [5e-3, 1e-3, None, 3e-3, 2e-3]
    other = {"device": {**CPU, "threads": 8}}
    log = log_of(
        tmp_path / "a.jsonl",
        *(made(n, cost) for n, cost in enumerate(costs)),
        made(10, 9e-3, **other),
        made(11, 1e-3, fingerprints={"template": "8"}),
    )
    done, kept = compacted(log, 2)
    assert kept == [1, 4, 10, 11]
    assert done == Compacted(3, 0, 4, 2, {"RUN_TIMEOUT": 1})
    assert (done.kept, done.dropped) == (4, 3)


def test_records_of_final_comparisons_stay_failures_too(tmp_path):
    finals = [made_final(1, 2e-3, 0), made_final(0, None, 1)]
    log = log_of(tmp_path / "a.jsonl", *(made(n, (n + 1) * 1e-3) for n in range(4)), *finals)
    done, kept = compacted(log, 1)
    assert kept == [0, 1, 0]
    assert (done.finals, done.trials, done.dropped_trials) == (2, 1, 3)


def test_of_equally_fast_trials_the_earliest_stays(tmp_path):
    log = log_of(tmp_path / "a.jsonl", *(made(n, 1e-3) for n in (3, 1, 2)))
    assert compacted(log, 1)[1] == [3]


def test_more_than_there_are_are_all(tmp_path):
    log = log_of(tmp_path / "a.jsonl", *map(made, range(3)))
    assert compacted(log, 10**30)[1] == [0, 1, 2]


def test_a_log_of_no_records_is_refused_by_compacting(tmp_path):
    (tmp_path / "a.jsonl").write_text("once\nupon\n")
    with pytest.raises(RecordError, match=r"none of its lines is one .line 1"):
        compacted(tmp_path / "a.jsonl", 1)


def test_pruning_keeps_every_other_line_as_it_is(tmp_path):
    log = log_of(tmp_path / "a.jsonl", made(0), made(1, None), made(2))
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[0] + b"no record\n" + b"\n" + lines[1] + lines[2] + lines[0][:30])
    counts, left = pruned(log, LineFilter(ok=False))
    assert left == lines[0] + b"no record\n" + lines[2]  # the torn line would go at the next append
    assert counts == {"kept": 2, "dropped": 1, "none": 1}


def test_pruning_refuses_a_log_of_a_later_version(tmp_path):
    log = log_of(tmp_path / "a.jsonl", made(0))
    with log.open("a") as file:
        file.write('{"schema":99}\n')
    with pytest.raises(RecordError, match="line 2: record of schema 99"):
        pruned(log, LineFilter(ok=True))


@pytest.mark.parametrize(
    ("wanted", "indices"),
    [
        ({}, [0, 1, 2, 3]),
        ({"templates": frozenset(["made"])}, [0, 1, 2]),
        ({"targets": frozenset(["cuda"])}, [1]),
        ({"devices": ("some c",)}, [0, 1, 3]),
        ({"devices": ("M1", "Some")}, [0, 1, 2, 3]),
        ({"since": 1001.0}, [1, 2, 3]),
        ({"before": 1001.0}, [0]),
        ({"since": 1001.0, "before": 1003.0}, [1, 2]),
        ({"ok": True}, [0, 1, 3]),
        ({"ok": False}, [2]),
        ({"conflict": True}, []),
        ({"also": (lambda line: line.number == 4,)}, [3]),
        ({"ok": True, "targets": frozenset(["llvm"])}, [0, 3]),
    ],
)
def test_a_filter_wants_all_of_what_it_says(tmp_path, wanted, indices):
    log = log_of(
        tmp_path / "a.jsonl",
        made(0),
        made(1, target="cuda"),
        made(2, None, device={"name": "An M1"}),
        made(3, workload={"template": "other", "args": {}}),
    )
    lines = filter(LineFilter(**wanted), LogFile(log).lines())
    assert [line.outline.config["index"] for line in lines] == indices
