"""Damaged measurements: wrong types, numbers and lengths at every key, and damaged bytes.

`Damage` makes them of good ones; `Readers` gives them to all that reads logs. Whatever is damaged,
an error is one that users are told in a line.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from autotune import dataset
from autotune.cli.record_commands.records_list import ascii_json, line_text
from autotune.cli.record_commands.records_summary import log_summary_text
from autotune.cli.record_commands.records_tables import RECORD_COLUMNS, record_row
from autotune.errors import AutotuneError
from autotune.measure.recorded_measurer import recordings
from autotune.reuse import choose
from autotune.reuse.grades import device_text
from autotune.task.task import Task
from autotune.tuner.factory import make_tuner
from autotune.tuner.model.transfer import TransferPrior
from autotune.tuner.replay.replay_tuner import replay
from records import Journal, Record, RecordError, RecordStore, RecordWarning, summary
from records.formats import read_any, stream_any
from records.groups import group_key
from records.record_errors import NewerSchemaError
from records.tools.append import append_new
from records.tools.best_lines import BestLines, best_first
from records.tools.compact import Compaction
from records.tools.diff import LogDiff
from records.tools.line_filter import LineFilter
from records.tools.log_lines import LogFile, LogLine, every_line, records_of
from records.tools.merge import merge
from records.tools.new_logs import new_log, write_lines
from records.tools.prune import Pruning
from search_spaces import SpaceError
from support.fake_measurer import FakeMeasurer, run


def use_tools(paths: Sequence[Path], folder: Path) -> int:
    """Do with logs what the tools do; return the number of their records.

    RecordError if they are refused.
    """
    logs = [LogFile(path) for path in paths]
    lines = list(records_of(every_line(logs)))
    _print(lines)
    merged = folder / "merged.jsonl"
    with new_log(merged, replace=True) as file:
        done = merge(lines, file, folder)
    assert done.records + done.duplicates == len(lines)
    (folder / "appended.jsonl").unlink(missing_ok=True)
    assert append_new(lines, folder / "appended.jsonl").added == done.records
    again = LogFile(merged)
    assert len(list(records_of(again.lines()))) == done.records
    difference = LogDiff(lambda: lines, lambda: records_of(again.lines()))
    assert difference.only == (0, 0)
    with new_log(folder / "small.jsonl", replace=True) as file:
        compaction = Compaction(again.lines, 2)
        write_lines(file, compaction)
        write_lines(file, Pruning(every_line(logs), LineFilter(ok=False)))
    assert compaction.counts.kept + compaction.counts.dropped == done.records
    return len(lines)


def _print(lines: Sequence[LogLine]) -> None:
    best = BestLines[LogLine](2, partial(group_key, any_version=True))
    for line in lines:
        best.add(line.outline, line)
        assert "\n" not in line_text(line)
        Record.from_line(ascii_json(line.data).encode())
        json.loads(ascii_json(line.data))
        assert len(record_row(line)) == len(RECORD_COLUMNS)
    for group in best.each():
        best_first(group, 2)


TOLD = (AutotuneError, RecordError, SpaceError)
"""What the command line tells in one line; anything else is a leak."""


class Raw(str):
    """A piece of JSON as it is written."""


class Pairs(list[Any]):
    """An object whose keys may come twice."""


def nested(levels: int, opening: str = "[", closing: str = "]") -> Raw:
    return Raw(opening * levels + "0" + closing * levels)


ODD = [
    *(Raw(f"{sign}1{'0' * digits}") for sign in ("", "-") for digits in (19, 200, 400, 5000)),
    *map(Raw, ("1e400", "-1e400", "1e308", "-1e308", "5e-324", "1e-300", "-0.0", "0", "-1", "3.5")),
    *map(Raw, ("NaN", "Infinity", "-Infinity", "9223372036854775808", "18446744073709551616")),
    *map(Raw, ("true", "false", "null", "[]", "{}", '""', "[NaN]", "[1e308,1e308]", "[null]")),
    *map(Raw, ('"\\ud800"', '"\\udcff\\u0000"', '"\\u001b[31mred\\u001b[0m\\u0007"', '"\\u202ex"')),
    *map(Raw, ('"nan"', '"inf"', '"-inf"', '"1e-3"', '"0x10"', '"../no.py:f"', '"a\\nb\\rc\\td"')),
    *map(Raw, ('"llvm -mcpu=nothing"', '"cuda -arch=sm_90"', '"matmul"', '{"":{"":0}}', "[1,[2]]")),
    *(nested(levels) for levels in (3, 70, 900, 100_000)),
    *(nested(levels, '{"a":', "}") for levels in (3, 70, 900, 100_000)),
    Raw(json.dumps("x" * 5000)),
    Raw(json.dumps(list(range(300)))),
]


BYTES = [b"\0", b"\x1b[2J", b"\xff\xfe", b"\n", b"\r\n", b'"', b"1" + b"0" * 400, b"NaN", b"{"]


def text_of(node: Any) -> str:
    """Return a tree with raw pieces and keys that come twice as JSON."""
    if isinstance(node, Raw):
        return str(node)
    if isinstance(node, Pairs):
        return "{" + ",".join(f"{json.dumps(k)}:{text_of(v)}" for k, v in node) + "}"
    if isinstance(node, list):
        return f"[{','.join(map(text_of, node))}]"
    return json.dumps(node)


def tree_of(data: Any) -> Any:
    if isinstance(data, dict):
        return Pairs([k, tree_of(v)] for k, v in data.items())
    return [tree_of(item) for item in data] if isinstance(data, list) else data


class Damage:
    """Damages plain data at random, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self, data: Any) -> str:
        """Return some data as JSON with one to three things wrong."""
        tree = tree_of(copy.deepcopy(data))
        for _ in range(self._random.choice((1, 1, 2, 3))):
            self._damage(tree)
        return text_of(tree)

    def bytes(self, text: str, other: str = "") -> bytes:
        """Return a text with some of its bytes wrong; `other` may be joined to it."""
        data, draw = text.encode(), self._random
        start = draw.randrange(len(data) + 1)
        end = min(len(data), start + draw.choice((1, 2, 10, 1000)))
        changes: list[Callable[[], bytes]] = [
            lambda: data[:start],
            lambda: data[start:],
            lambda: data[:start] + data[end:],
            lambda: data[:end] + data[start:],
            lambda: data[:start] + bytes([draw.randrange(256)]) + data[end:],
            lambda: data[:start] + draw.choice(BYTES),
            lambda: data[:start] + draw.choice(BYTES) + data[end:],
            lambda: data + other.encode(),
            lambda: data + data,
            lambda: b"\xef\xbb\xbf" + data,
            lambda: text.encode("utf-16"),
            lambda: data.replace(b"\n", b"\r\n") + bytes(20),
        ]
        return draw.choice(changes)()

    def file(self, text: str, other: str = "") -> bytes:
        """Return a text as the bytes of a file, mostly undamaged, at times compressed."""
        draw = self._random
        data = self.bytes(text, other) if draw.random() < 0.25 else text.encode()
        if draw.random() < 0.1:
            data = gzip.compress(data, 1)
            if draw.random() < 0.5:
                at = draw.randrange(len(data))
                data = data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
            if draw.random() < 0.3:
                data = data[: draw.randrange(1, len(data) + 1)]
        return data

    def _damage(self, tree: Any) -> None:
        """Change one place of a tree."""
        draw = self._random
        places = list(_places(tree))
        if not places:
            return
        parent, key = draw.choice(places)
        entry = parent[key]
        pairs = isinstance(parent, Pairs)
        kind = draw.randrange(10)
        if kind < 5:
            _set(parent, key, draw.choice(ODD))
        elif kind == 5:
            del parent[key]
        elif kind == 6:
            again = [entry[0], draw.choice(ODD)] if pairs else draw.choice(ODD)
            parent.insert(draw.randrange(len(parent) + 1), again)
        elif kind == 7 and pairs:
            entry[0] = draw.choice(["", "\x1b[31m", "\ud800", "\0", "schema", "a" * 300, "x y"])
        elif kind == 8:
            other, at = draw.choice(places)
            value = other[at][1] if isinstance(other, Pairs) else other[at]
            _set(parent, key, copy.deepcopy(value))
        else:
            _set(parent, key, [entry[1] if pairs else entry])


def _places(node: Any) -> Any:
    """Yield (list, position) of all that a tree holds."""
    if isinstance(node, list) and not isinstance(node, Raw):
        for number, entry in enumerate(node):
            yield node, number
            yield from _places(entry[1] if isinstance(node, Pairs) else entry)


def _set(parent: Any, key: int, value: Any) -> None:
    if isinstance(parent, Pairs):
        parent[key] = [parent[key][0], value]
    else:
        parent[key] = value


class Readers:
    """Gives damaged logs to all readers of logs, and counts the outcomes.

    Parameters
    ----------
    task : Task
        Whose records are looked for.
    folder : Path
        Of files.
    """

    def __init__(self, task: Task, folder: Path) -> None:
        self._task = task
        self._folder = folder
        self._round = 0
        self.outcomes: Counter[str] = Counter()

    def told(self, name: str, use: Callable[[], Any]) -> Any:
        """Return what a reader returns; None if it ends in an error that users are told."""
        found, said = None, ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RecordWarning)
                found = use()
        except TOLD as error:
            said = str(error)
        assert "\n" not in said, f"{name}: {said}"
        self.outcomes[f"{name} refused" if said else name] += 1
        return found

    def line(self, line: bytes) -> bool:
        """Return whether a line may stand among others: it is of no newer schema."""
        found, newer = [], False
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RecordWarning)
                found = RecordStore("log").parse([line], first=2)
        except RecordError as error:
            if not isinstance(error.__cause__, NewerSchemaError):
                raise
            newer = True
        self.outcomes["newer" if newer else "record" if found else "no record"] += 1
        return not newer

    def log(self, data: bytes) -> None:
        """Give a log of ours to all that reads such."""
        path = self._folder / "log.jsonl"
        path.write_bytes(data)
        store = RecordStore(path)
        records = self.told("load", store.load)
        streamed = self.told("stream", lambda: list(store.stream()))
        assert list(map(str, streamed)) == list(map(str, records))  # NaN is not itself
        self.told("read_any", lambda: read_any(path))
        self._use_tools(records, [path])
        self.told("news", lambda: Journal(store).new_records())
        self.told("best", lambda: choose(self._task, records or []))
        self.told("resume", self._resume)
        self._use(records or [], [path])

    def foreign(self, files: Sequence[Mapping[str, bytes]]) -> None:
        """Give files of other tools, each alone or as a database, to all that reads such."""
        paths, records = [], []
        for number, parts in enumerate(files):
            folder = self._folder / f"foreign-{number}"
            folder.mkdir(exist_ok=True)
            for name, data in parts.items():
                (folder / name).write_bytes(data)
            path = folder if len(parts) > 1 else folder / next(iter(parts))
            data = b"".join(parts.values())
            found = self.told("read", lambda path=path: read_any(path))
            streamed = self.told("stream", lambda path=path: list(stream_any(path)))
            assert (found is None) == (streamed is None) or not data  # an empty log has no records
            if found:
                paths.append(path)
                records += found
        self._use_tools(records, paths)
        self._use(records, paths)

    def _use_tools(self, records: list[Record] | None, paths: Sequence[Path]) -> None:
        found = self.told("tools", lambda: use_tools(paths, self._folder))
        assert found == (None if records is None else len(records))

    def _resume(self) -> None:
        task = self._task
        tuner = make_tuner("model", task.space, 0)
        run(task, RecordStore(self._folder / "log.jsonl"), 1, FakeMeasurer(), tuner)

    def _use(self, records: list[Record], paths: Sequence[Path]) -> None:
        """Do with records what commands do with them."""
        self._round += 1
        self.told("summary", lambda: _summary(records))
        self.told("transfer", lambda: self._transfer(records))
        self.told("replay", lambda: _replay(records))
        out = self._folder / f"data{('.csv', '.npz', '.parquet')[self._round % 3]}"
        layouts = (("knob",), ("itervar", "knob"), ("curve",), ("autotvm08", "knob"))
        exported = self.told(
            "export",
            lambda: dataset.export(paths, out, layouts[self._round % 4], self._round % 2 == 0),
        )
        if exported is not None:
            self.told("data set", lambda: dataset.load(out))

    def _transfer(self, records: list[Record]) -> None:
        prior = TransferPrior.of(records, self._task.space)
        assert np.isfinite(prior.at(self._task.space.sample(64, np.random.default_rng(0)))).all()


def _summary(records: list[Record]) -> None:
    for row in summary(records):
        log_summary_text(row, device_text(row.device), 80)
        json.dumps(asdict(row), allow_nan=False)


def _replay(records: list[Record]) -> None:
    found: Any = []
    try:
        found = recordings(records, "name")
    except TOLD:
        workloads: dict[str, list[Record]] = {}
        for record in records:
            workloads.setdefault(str(sorted(record.config["values"])), []).append(record)
        largest = max(workloads.values(), key=len, default=[])
        found = recordings(largest, "name")
    for recording in found[:2]:
        replay(recording, make_tuner("random", recording.space, 0), 8)
