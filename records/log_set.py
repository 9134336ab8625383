"""Several logs as one: files, folders of logs, compressed logs, and the records that ship."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from records.caller_warnings import warn
from records.formats.detect import FileFormat, foreign_format, load_own, stream_any
from records.groups import RecordList, RecordSource, merged
from records.record import Record
from records.record_errors import RecordError, RecordWarning
from records.storage.append_only_log import RecordStore
from records.storage.files import path_fault

_log = logging.getLogger(__name__)

SUFFIXES = (".jsonl", ".jsonl.gz")  # Of the logs that a folder is searched for.

PRETUNED = "pretuned"  # The name by which users choose the records that ship.
_NONE_SHIPS = f"{PRETUNED}: no records ship with this version yet"

LARGE = 4 << 20  # Bytes of a log from which on it has an index.

# A path of a file or folder, or several.
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def log_files(paths: Paths) -> list[Path]:
    """Return the files of some logs, each once: a folder stands for the logs in it, by name.

    "pretuned" stands for the records that ship with this package. A file that links or other paths
    name again is the same one.

    RecordError if a folder has no log, or a path is neither a file nor a folder.
    """
    different: dict[str, Path] = {}
    for path in _listed(paths):
        for file in _files_at(path):
            different.setdefault(os.path.realpath(file), file)
    return list(different.values())


def _listed(paths: Paths) -> list[str | os.PathLike[str]]:
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not isinstance(given, Iterable):
        raise RecordError(f"logs must be a path or several, not {given!r}")
    found = list(given)
    for path in found:
        if not isinstance(path, str | os.PathLike):
            raise RecordError(f"the path of a log must be a text or a path, not {path!r}")
    return found


def _files_at(given: str | os.PathLike[str]) -> list[Path]:
    if not os.fspath(given):
        raise RecordError("the path of a log is empty: give a file or a folder of logs")
    ships = given == PRETUNED
    path = shipped_folder() if ships else Path(given)
    try:
        if not path.is_dir():
            path.stat()
            return [path]
        inside = sorted(p for p in path.iterdir() if _is_log(p))
    except FileNotFoundError as error:
        raise RecordError(f"there is no record log at {path}; check the path") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise RecordError(f"cannot read {path}: {why}") from error
    if not inside and foreign_format(path) is not None:
        return [path]  # another tool keeps its measurements in a folder
    if not inside and ships:
        raise RecordError(_NONE_SHIPS)
    if not inside:
        raise RecordError(f"{path} is a folder without logs ({' or '.join(SUFFIXES)})")
    return inside


def shipped_folder() -> Path:
    """Return the folder of the records that ship."""
    return Path(__file__).parent / PRETUNED


def _is_log(path: Path) -> bool:
    """Whether a file of a folder is a log; hidden ones are not complete yet."""
    name = path.name
    return name.endswith(SUFFIXES) and not name.startswith(".") and path.is_file()


def stream_logs(paths: Paths) -> Iterator[Record]:
    """Yield the records of several logs one by one, in any format that can be read.

    Otherwise as `log_files` and `records.formats.stream_any`.
    """
    for path in log_files(paths):
        yield from stream_any(path)


def open_logs(paths: Paths) -> RecordSource:
    """Return the records of logs of ours, compressed or not, as a source for builds.

    A large log that is not compressed gets an index beside it (`records.log_index`); the others are
    loaded. Lines of no record are passed over with a `RecordWarning`; so is "pretuned" if no
    records ship, as a build may do without.

    RecordError if a log cannot be read, or is a file of another tool.
    """
    given = _listed(paths)
    if PRETUNED in given and not any(map(_is_log, shipped_folder().glob("*"))):
        _log.warning(_NONE_SHIPS)
        warn(_NONE_SHIPS, RecordWarning)
        given = [path for path in given if path != PRETUNED]
    return merged(map(_opened, log_files(given)))


def log_to_append(path: str | os.PathLike[str]) -> RecordStore:
    """Return a log that records can be appended to; it need not exist.

    RecordError if the path is that of a folder, or of a compressed file, or "pretuned", or no path
    of a file at all.
    """
    if fault := path_fault(path):
        raise RecordError(f"{os.fspath(path)!r} cannot be a log: {fault}")
    what = None
    if path == PRETUNED:
        what = "stands for the records that ship"
    elif Path(path).is_dir():
        what = "is a folder of logs"
    elif os.fspath(path).endswith(".gz") or foreign_format(Path(path)) == FileFormat.COMPRESSED:
        what = f"is {FileFormat.COMPRESSED}"
    if what is not None:
        raise RecordError(f"{path} {what}: records are appended to a single, uncompressed log")
    return RecordStore(path)


def log_name(template: str) -> str:
    """Return the default name of the log of a template."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in template) + SUFFIXES[0]


def _opened(path: Path) -> RecordSource:
    foreign = foreign_format(path)
    if foreign == FileFormat.COMPRESSED:
        return RecordList(stream_any(path))
    if foreign is None and path.is_file() and path.stat().st_size >= LARGE:
        from records.log_index.index import open_index  # sqlite3 is slow to import

        return open_index(RecordStore(path))
    return RecordList(load_own(RecordStore(path), must_exist=True))
