"""Writes a data set: reads the logs, computes features by workload, writes row by row."""

from __future__ import annotations

import contextlib
import itertools
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from autotune.dataset.data_card import (
    ExportStatistics,
    card_path,
    card_text,
    missing_text,
    schema_path,
    schema_text,
)
from autotune.dataset.dataset_columns import (
    Row,
    device_splits,
    feature_field,
    fixed_columns,
    split_of,
)
from autotune.dataset.scan_logs import Group, LogIndex, device_of
from autotune.dataset.spill_files import GroupFeatureStore
from autotune.errors import UsageError
from autotune.extract.structure_features import LOOP_LAYOUTS, FloatMatrix
from autotune.reuse.task_finder import TaskFinder
from features import FEATURE_LAYOUTS, KnobLayout, versioned
from records import Record
from records.log_set import log_files
from records.tables.table import Field, Values, as_text, check_table, new_table

_log = logging.getLogger(__name__)

_Entry = tuple[Path, Record, Group]

# Largest number of values in memory at a time, which limits the rows of a batch.
_BATCH_NUMBERS = 1 << 23

_MIN_ROWS = 64  # Rows at a time where they are very wide.


class NothingToExportError(UsageError):
    """Logs without a single record."""


@dataclass(frozen=True)
class Exported:
    """The written files and counts."""

    data: Path
    schema: Path
    card: Path
    rows: int
    workloads: int  # They count once per target.
    features: int
    missing: str  # One line on rows without features; empty if all have them.


def export(
    logs: Sequence[str | PathLike[str]],
    out: str | PathLike[str],
    layouts: Sequence[str] = ("itervar",),
    programs: bool = False,
    templates: Sequence[str] = (),
) -> Exported:
    """Write the records of logs as a table with features, and a schema and a card beside it.

    Every record is a row, in the order of the logs. The memory depends little on their length;
    large data is spilled to the folder of `out`.

    Parameters
    ----------
    logs : sequence of path
        Our logs, folders of them, AutoTVM logs, Kernel Tuner caches, T4 results.
    out : path
        .parquet (needs pyarrow), .csv or .npz.
    layouts : sequence of str
        Of "itervar", "autotvm08", "curve", "knob".
    programs : bool
        Add loops, steps, the hash of the source and all repeats; takes some 10 ms per record.
    templates : sequence of str
        Templates without a name of their own, as ``path/to/file.py:function`` or
        ``path/to/file.tile``.

    Raises
    ------
    UsageError
        If an argument is not what it should be; NothingToExportError for empty logs.
    RecordError
        If a log cannot be read, or the table cannot be written as asked.
    """
    data = Path(out)
    sources = log_files(logs)
    _check(data, sources, layouts)
    finder = TaskFinder(templates)
    log_index = LogIndex(sources)
    if not len(log_index):
        raise NothingToExportError(f"{', '.join(map(str, sources))}: there is no record to export")
    with _folder_beside(data) as folder:
        stores = []
        for group in log_index.groups:
            stores.append(GroupFeatureStore(group, finder, layouts, programs, folder))
            group.free()
        table = _Table(log_index, stores, layouts, programs)
        schema, card = schema_path(data), card_path(data)
        with new_table(data, table.fields) as writer:
            for columns in table.batches():
                writer.write(columns)
            texts = {
                schema: schema_text(data, table.fields, layouts, len(log_index)),
                card: card_text(data, log_index, table.fields, layouts, table.statistics),
            }
            for path, text in texts.items():
                # Invalid Unicode in paths and workloads is escaped as in JSON.
                (folder / path.name).write_text(text, encoding="utf-8", errors="backslashreplace")
        for path in texts:
            (folder / path.name).replace(path)
    missing = missing_text(table.statistics, len(log_index))
    if missing:
        _log.warning("%s; see %s", missing, card)
    width = sum(field.role == "feature" for field in table.fields)
    return Exported(data, schema, card, len(log_index), len(log_index.workloads()), width, missing)


def _check(data: Path, logs: Sequence[Path], layouts: Sequence[str]) -> None:
    check_table(data)
    if not data.parent.is_dir():
        raise UsageError(f"{data}: there is no folder {data.parent}; make it first")
    for path in (data, schema_path(data), card_path(data)):
        if path.is_dir():
            raise UsageError(f"{path} is a folder: choose another file")
    if data.exists() and any(log.exists() and log.samefile(data) for log in logs):
        raise UsageError(f"{data} is one of the logs: choose another file")
    for layout in layouts:
        if layout not in FEATURE_LAYOUTS:
            known = ", ".join(FEATURE_LAYOUTS)
            raise UsageError(f"unknown layout {layout!r}: expected one of {known}")
    if len(set(layouts)) < len(layouts):
        raise UsageError("a layout is asked for twice: name each once")


@contextlib.contextmanager
def _folder_beside(data: Path) -> Iterator[Path]:
    """Make a temporary folder beside a data set; UsageError if that fails.

    A full disk during writing is a UsageError, too; the system does not say which file it was.
    """
    try:
        folder = tempfile.TemporaryDirectory(dir=data.parent, prefix=f".{data.stem}.")
    except OSError as error:
        raise UsageError(
            f"{data}: nothing can be written in {data.parent}: {error.strerror}"
        ) from error
    try:
        with folder as name:
            yield Path(name)
    except OSError as error:
        if error.filename is not None:
            raise
        raise UsageError(f"cannot write {data}: {error.strerror}") from error


class _Table:
    """The rows of a data set, in batches."""

    def __init__(
        self,
        log_index: LogIndex,
        stores: Sequence[GroupFeatureStore],
        layouts: Sequence[str],
        programs: bool,
    ) -> None:
        self._log_index = log_index
        self._stores = stores
        self._device_splits = device_splits(name for name in log_index.devices if name is not None)
        self._columns = fixed_columns(bool(self._device_splits), programs)
        self._loops = any(layout in LOOP_LAYOUTS for layout in layouts)
        known = dict.fromkeys(name for store in stores for name in store.names)
        self._knobs: KnobLayout | None = None
        names: list[str] = []
        for layout in layouts:
            if layout == "knob":
                self._knobs = log_index.knobs.layout()
                names += _knob_names(self._knobs)
            else:
                names += [name for name in known if name.startswith(versioned(layout, ""))]
        self._places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        self.fields: list[Field] = [column.field for column in self._columns]
        self.fields += map(feature_field, self._places)
        self.statistics = ExportStatistics()

    def batches(self) -> Iterator[list[Values]]:
        """Yield the values of all fields for some rows at a time."""
        size = min(8192, max(_MIN_ROWS, _BATCH_NUMBERS // len(self.fields)))
        entries = self._log_index.reread()
        while batch := list(itertools.islice(entries, size)):
            rows, matrix = self._rows(batch)
            values: list[Values] = [column.values(rows) for column in self._columns]
            values += list(np.asfortranarray(matrix).T)
            yield values

    def _rows(self, batch: list[_Entry]) -> tuple[list[Row], FloatMatrix]:
        matrix = np.zeros((len(batch), len(self._places)), np.float32)
        found: list[Row | None] = [None] * len(batch)
        numbers = np.array([group.number for _, _, group in batch])
        for number in np.unique(numbers):
            rows = np.flatnonzero(numbers == number)
            store = self._stores[number]
            part = store.next_block(len(rows))
            if self._loops:
                loops = np.array([self._places[name] for name in store.names], np.intp)
                if part.features is not None:
                    matrix[np.ix_(rows, loops)] = part.features
                matrix[rows[[reason is not None for reason in part.reasons]]] = np.nan
            for row, missing, program in zip(rows, part.reasons, part.programs, strict=True):
                log, record, group = batch[row]
                found[row] = Row(
                    record=record,
                    log=str(log),
                    group=group,
                    split=split_of(group.workload.fingerprint),
                    device_split=self._device_splits.get(device_of(record) or ""),
                    flops=store.flops,
                    missing=missing,
                    program=program,
                )
        rows_in_order = [row for row in found if row is not None]
        if self._knobs is not None:
            knobs = [self._places[name] for name in _knob_names(self._knobs)]
            matrix[:, knobs] = self._knobs.matrix([r.config["values"] for _, r, _ in batch])
        self._count(rows_in_order)
        return rows_in_order, matrix

    def _count(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if row.missing is not None:
                self.statistics.missing[row.missing, row.record.template] += 1
            self.statistics.splits[row.split] += 1
            self.statistics.workloads.setdefault(row.split, set()).add(
                row.group.workload.fingerprint
            )
            if row.device_split is not None:
                self.statistics.device_splits[row.device_split] += 1


def _knob_names(layout: KnobLayout) -> list[str]:
    """Return the columns of knobs; bytes of foreign names that are no Unicode are escaped."""
    return [as_text(versioned("knob", name)) or "" for name in layout.names]
