"""Files that the user names, to be read, and the log that a run appends to.

What is missing or no file is reported in one line, before anything else is done.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.errors import UsageError
from records import RecordStore
from records.formats import load_own
from records.log_set import PRETUNED, log_files

if TYPE_CHECKING:
    from autotune.runtime.argument_checks import Array


def check_readable(path: str | os.PathLike[str], what: str = "") -> Path:
    """Return the path of a regular file that can be read.

    A device or a pipe is none: reading it may never end.

    what: what the message begins with, such as the option that names the file.

    UsageError if there is no such file, it is something else, or may not be read.
    """
    found, label = Path(path), f"{what} {path}".strip()
    if not str(path):
        raise UsageError(f"{what or 'the name of a file'} is empty: give the path of a file")
    try:
        mode = found.stat().st_mode
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read {label}: {why}; check the path") from error
    if stat.S_ISDIR(mode):
        raise UsageError(f"{label} is a folder: give the path of a file")
    if not stat.S_ISREG(mode):
        raise UsageError(f"{label} is a device or a pipe: it must be a regular file")
    if not os.access(found, os.R_OK):
        raise UsageError(f"cannot read {label}: Permission denied; let this user read it")
    return found


def check_logs(paths: Sequence[str], what: str = "") -> list[Path]:
    """Return the files of logs that can be read; a folder stands for the logs in it.

    what: what messages begin with, such as the option that names the logs.

    UsageError or RecordError if one is not there or cannot be read.
    """
    for path in paths:
        if path != PRETUNED and not (path and os.path.isdir(path)):
            check_readable(path, what)
    return [check_readable(path, what) for path in log_files(paths)]


def read_array(path: str | os.PathLike[str], what: str = "") -> Array:
    """Return the array of a file of NumPy (.npy).

    UsageError as `check_readable`, or if it is no such file.
    """
    from numpy.lib.format import read_array as read

    found, label = check_readable(path, what), f"{what} {path}".strip()
    try:
        with found.open("rb") as file:
            return read(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"cannot read {label}: it is not an array as .npy: {reason}") from error


MAX_BYTES = 1 << 20  # The largest file of options that is read: a larger one is something else.


def read_text(path: str | os.PathLike[str], what: str = "") -> str:
    """Return the text of a file of options, without the mark that some editors begin it with.

    UsageError as `check_readable`, or if it is not UTF-8, or larger than `MAX_BYTES`.
    """
    found, label = check_readable(path, what), f"{what} {path}".strip()
    try:
        if (size := found.stat().st_size) > MAX_BYTES:
            raise UsageError(
                f"cannot read {label}: it has {size} bytes, more than any file of options "
                f"({MAX_BYTES} at most); check the path"
            )
        return found.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"cannot read {label}: it is not text in UTF-8 (byte {error.start}: {error.reason})"
        ) from error
    except OSError as error:
        raise UsageError(f"cannot read {label}: {error.strerror}") from error


def check_log(name: str) -> Path:
    """Return the path of a log, which is a regular file or may become one.

    UsageError if it is something else, its folder is missing, or it is where the output goes.
    """
    if not name:
        raise UsageError("--log is empty: give the name of a file, such as --log matmul.jsonl")
    if "\0" in name:
        raise UsageError(f"--log {name}: no name of a file has a NUL in it: choose another log")
    path = Path(name)
    if name == PRETUNED:
        raise UsageError(
            f"--log {name} stands for the records that ship, which nothing is appended to: "
            f"choose another log (a file of that name is ./{name})"
        )
    if name.endswith(".gz"):
        raise UsageError(f"--log {name}: what is appended to a log is not compressed: omit .gz")
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
