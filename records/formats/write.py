"""Writes records in the format of another tool; a file appears when it is complete."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from records.formats import autotvm, kernel_tuner, metaschedule, one_workload, t4
from records.formats.outcomes import FAILED
from records.record import Record, canonical, without_node, workload_key
from records.record_errors import RecordError
from records.storage.files import replacing, sync_folder

EXPORT_FORMATS = ("autotune", "autotvm", "metaschedule", "kernel-tuner", "t4")

_WhyNot = Callable[[Record], str | None]


@dataclass(frozen=True)
class Written:
    """What became of records that were to be written.

    `count`: how many were written.
    `left_out`: how many the format cannot hold, by reason.
    """

    count: int
    left_out: Counter[str] = field(default_factory=Counter)


def write_records(
    records: Iterable[Record], format_name: str, path: str | os.PathLike[str]
) -> Written:
    """Write records to a file, which is replaced if there is one; gzip if its name ends in .gz.

    Parameters
    ----------
    records : iterable of Record
        Those of a log ("autotune") or of AutoTVM are written one by one and need not fit into
        memory. Of formats with one workload for a file ("kernel-tuner", "t4") the workload, target
        and device with the most records is written.
    format_name : str
        One of `EXPORT_FORMATS`.
    path : str or path
        A file; for "metaschedule" a folder, which is made if needed.

    Raises
    ------
    RecordError
        If the format is unknown, none of the records can be written, or the file cannot be.
    """
    if format_name not in EXPORT_FORMATS:
        known = ", ".join(EXPORT_FORMATS)
        raise RecordError(f"records can be written as {known}, not as {format_name!r}")
    path = Path(path)
    left_out: Counter[str] = Counter()
    kept = _without(records, _REASONS[format_name], left_out)
    try:
        if format_name == "metaschedule":
            count = _write_database(kept, path, left_out)
        else:
            with replacing(path) as partial:
                with _opened(partial, path) as file:
                    count = _WRITERS[format_name](kept, file, left_out)
                _check(count, left_out, format_name)
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror or error}") from error
    return Written(count, left_out)


def _without(
    records: Iterable[Record], why_not: _WhyNot, left_out: Counter[str]
) -> Iterator[Record]:
    """Yield the records that a format can hold, and count the others."""
    for record in records:
        reason = why_not(record)
        if reason is None:
            yield record
        else:
            left_out[reason] += 1


def _check(count: int, left_out: Counter[str], format_name: str) -> None:
    """Refuse to write nothing."""
    if not count:
        reasons = "; ".join(f"{reason} ({n})" for reason, n in left_out.most_common(3))
        raise RecordError(
            f"no record to be written as {format_name}{': ' * bool(reasons)}{reasons}"
        )


@contextlib.contextmanager
def _opened(partial: Path, path: Path) -> Iterator[IO[str]]:
    if path.suffix != ".gz":
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    # Without a time and a name the same records make the same bytes.
    with (
        partial.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as text,
    ):
        yield text


def _write_lines(line_of: Callable[[Record], str]) -> Callable[..., int]:
    def write(records: Iterable[Record], file: IO[str], _: Counter[str]) -> int:
        count = 0
        for record in records:
            file.write(f"{line_of(record)}\n")
            count += 1
        return count

    return write


def _write_document(document_of: Callable[[list[Record]], Any], once: bool) -> Callable[..., int]:
    """Return a function that writes records of one workload as one document.

    `once`: whether it can hold only one record per configuration; then the fastest is kept.
    """

    def write(records: Iterable[Record], file: IO[str], left_out: Counter[str]) -> int:
        listed = _largest_group(records, left_out)
        if once:
            listed = _fastest_of_each(listed, left_out)
        if listed:
            json.dump(document_of(listed), file, allow_nan=False, separators=(",", ":"))
            file.write("\n")
        return len(listed)

    return write


def _largest_group(records: Iterable[Record], left_out: Counter[str]) -> list[Record]:
    """Return the records of the workload, target and device that have the most."""
    groups: dict[object, list[Record]] = {}
    for record in records:
        shape = frozenset(one_workload.shape_of(record.config["values"]) or ())
        key = workload_key(record), canonical(without_node(record.device)), shape
        groups.setdefault(key, []).append(record)
    largest = max(groups.values(), key=len, default=[])
    others = sum(map(len, groups.values())) - len(largest)
    if others:
        reason = "another workload, target, device or set of knobs: there is one in a file"
        left_out[reason] += others
    return largest


def _fastest_of_each(records: list[Record], left_out: Counter[str]) -> list[Record]:
    """Return one record for each entry of a cache: the fastest, a failure if there is no other."""
    found: dict[str, Record] = {}
    for record in records:
        key = kernel_tuner.key_of(record)
        other = found.get(key)
        if other is None or (record.ok and (not other.ok or record.cost_s < other.cost_s)):
            found[key] = record
    if again := len(records) - len(found):
        left_out["a configuration that was measured again: there is one entry for each"] += again
    return list(found.values())


def _write_database(records: Iterable[Record], folder: Path, left_out: Counter[str]) -> int:
    """Write the two files of a MetaSchedule database.

    Those that are there stay until both are complete. A crash while they are replaced leaves one
    file, which readers refuse, and never records beside workloads that are not theirs.
    """
    if folder.is_file():
        raise RecordError(f"{folder} is a file; MetaSchedule writes a folder")
    made = not folder.exists()
    folder.mkdir(exist_ok=True)
    count = 0
    try:
        with (
            replacing(folder / metaschedule.RECORDS) as partial_records,
            replacing(folder / metaschedule.WORKLOADS) as partial_workloads,
        ):
            with (
                partial_workloads.open("w", encoding="utf-8") as workloads,
                partial_records.open("w", encoding="utf-8") as lines,
            ):
                for workload, line in metaschedule.lines_of(records):
                    count += 1
                    if workload is not None:
                        workloads.write(f"{workload}\n")
                    lines.write(f"{line}\n")
                for file in (workloads, lines):
                    file.flush()
                    os.fsync(file.fileno())
            _check(count, left_out, "metaschedule")
            (folder / metaschedule.RECORDS).unlink(missing_ok=True)
            sync_folder(folder)
            # At the end of the block the workloads are replaced first, then come the records.
    except BaseException:
        if made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    return count


def _any_trial(record: Record) -> str | None:
    return None if record.is_trial else "times of a final comparison"


def _trials(why_not: _WhyNot, failed_s: float = FAILED / 1e3) -> _WhyNot:
    """Return why a format cannot hold a record.

    `failed_s`: the time from which on the format takes a measurement for a failure.
    """

    def too_long(record: Record) -> str | None:
        if all(cost_s < failed_s for cost_s in record.costs_s or ()):
            return None
        return f"times of {failed_s:g} s and more, which are failures there"

    return lambda record: _any_trial(record) or why_not(record) or too_long(record)


_REASONS: dict[str, _WhyNot] = {
    "autotune": lambda record: None,
    "autotvm": _trials(autotvm.why_not, autotvm.FAILED_S),
    "metaschedule": _trials(metaschedule.why_not, metaschedule.FAILED_S),
    "kernel-tuner": _trials(kernel_tuner.why_not),
    "t4": _trials(lambda record: None),
}
_WRITERS: dict[str, Callable[..., int]] = {
    "autotune": _write_lines(Record.to_json_line),
    "autotvm": _write_lines(autotvm.line_of),
    "kernel-tuner": _write_document(kernel_tuner.document_of, once=True),
    "t4": _write_document(t4.document_of, once=False),
}
