"""The log that a run appends to: it is checked before anything else is done."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from autotune.errors import UsageError
from records import RecordStore
from records.formats import load_own


def check_log(name: str) -> Path:
    """Return the path of a log, which is a regular file or may become one.

    UsageError if it is something else, its folder is missing, or it is where the output goes.
    """
    if not name:
        raise UsageError("--log is empty: give the name of a file, such as --log matmul.jsonl")
    if "\0" in name:
        raise UsageError(f"--log {name}: no name of a file has a NUL in it: choose another log")
    path = Path(name)
    try:
        folder = Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent
        if path.exists():
            _check_file(path)
        elif not folder.exists():
            raise UsageError(
                f"--log {name}: there is no folder {folder}; make it, or choose another log"
            )
    except (OSError, ValueError) as error:
        raise UsageError(_cannot("use", path, error)) from error
    return path


def _check_file(path: Path) -> None:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "a device or a pipe"
        raise UsageError(f"--log {path} is {what}: a log must be a regular file")
    for stream in (1, 2):
        try:
            taken = os.path.samestat(found, os.fstat(stream))
        except OSError:  # it is closed
            continue
        if taken:
            raise UsageError(f"--log {path} is where the output goes: choose another log")


def open_log(path: Path, left_s: Callable[[], float | None] = lambda: None) -> RecordStore:
    """Return a log that was checked, known to be readable and writable.

    left_s: returns the seconds there are to wait while another process has locked it; None for any.

    UsageError or RecordError if it is not.
    """
    store = RecordStore(path, left_s)
    load_own(store)
    try:
        if path.exists():
            path.open("ab").close()
        else:
            tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise UsageError(_cannot("write", path, error)) from error
    return store


def _cannot(what: str, path: Path, error: Exception) -> str:
    why = getattr(error, "strerror", None) or error
    return f"cannot {what} the log {path}: {why}; choose another by --log"
