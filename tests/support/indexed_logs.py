"""Logs with an index beside them, and all that both can be asked."""

import random
from pathlib import Path

from records import Record, RecordStore
from records.groups import RecordList
from records.log_index import index
from records.log_index.index import open_index

ERROR = {"code": "RUN_TIMEOUT", "stage": "run", "message": "too slow"}


def make(
    number,
    cost_s=1e-3,
    template="matmul",
    n=64,
    device="Intel",
    final=None,
    target="llvm",
    print_="a",
):
    return Record(
        workload={"template": template, "args": {"n": n, "dtype": "float32"}},
        target="llvm",
        config={"index": number, "values": {"tile": number}},
        costs_s=None if cost_s is None else [cost_s],
        error=ERROR if cost_s is None else None,
        device={"kind": "cpu", "name": device} if device else {},
        seed=0,
        timestamp=float(number),
        fingerprints=None if print_ is None else {"template": print_},
        final=final,
        steps=[["split", "C", number]],
    )


def some(random_, count):
    """Records of several groups: trials with equal costs, failures, duplicates, comparisons."""
    found = []
    for _ in range(count):
        record = make(
            random_.randrange(40),
            random_.choice([None, 0.1, 0.2, 0.2, 0.3, random_.random() + 1e-3]),
            random_.choice(["matmul", "conv"]),
            random_.choice([64, 128]),
            random_.choice(["Intel", "AMD", ""]),
            random_.choice([None] * 9 + [{"comparison": random_.choice("xy"), "rank": 1}]),
            print_=random_.choice(["a", "b", None]),
        )
        found += [record] * random_.choice([1, 1, 1, 2])
    return found


def contents(source):
    """All that a source can be asked."""
    groups = list(source.groups())
    one, none = source.groups("conv"), source.groups("conv", {"n": 64.0, "dtype": "no"})
    both = source.groups("matmul", {"n": 64.0, "dtype": "float32"})
    assert both or not source.groups("matmul", {"dtype": "float32", "n": 64})
    keys = [[group.key for group in some] for some in (one, none, both)]
    best = [source.records_of(group, most) for group in groups for most in (64, 100, 5000)]
    return groups, best, keys


def looked_up(source, n=64):
    """What a build asks a source: the records of its own arguments, and of no others."""
    groups = source.groups("matmul", {"n": n, "dtype": "float32"})
    return groups, [source.records_of(group) for group in groups]


def check(path):
    """The index of a log gives what the whole log gives."""
    assert contents(open_index(RecordStore(path))) == contents(RecordList(RecordStore(path).load()))


def beside(path):
    return Path(f"{path}.index.sqlite")


def bytes_read(monkeypatch):
    """Count the bytes of the log that are read to make or grow an index."""
    read = []
    original = index.read_members

    def counting(log, start, *more):
        read.append(log.end - start)
        return original(log, start, *more)

    monkeypatch.setattr(index, "read_members", counting)
    return read


def indexed(path):
    """Make a log with an index beside it."""
    store = RecordStore(path)
    store.append(some(random.Random(1), 300))
    open_index(store)
    assert beside(store.path).is_file()
    return store
