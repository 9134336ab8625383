"""Files that the user names, to be read: what is missing or no file is reported in one line."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.errors import UsageError

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
