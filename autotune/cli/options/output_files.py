"""Files that commands write, checked before long work is done."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from autotune.errors import UsageError
from records.log_set import PRETUNED

Out = Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="What to write.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if there is one.")]


def check_output(
    name: str,
    force: bool,
    inputs: Sequence[Path] = (),
    option: str = "--out",
    remedy: str = "",
    appends: bool = False,
) -> Path:
    """Return the path of a file to be written, which may be there only with `force`.

    `inputs`: files that are read; none of them can be written.
    `remedy`: what to do if it is one of them.
    `appends`: whether a file that is there is appended to, and not replaced.

    UsageError if it cannot be written.
    """
    if not name or "\0" in name:
        raise UsageError(f"{option} {name or 'is empty'}: give the name of a file to write")
    path = Path(name)
    try:
        found = path.stat() if os.path.lexists(path) else None
        if found is None and not path.parent.is_dir():
            path.parent.stat()
            raise UsageError(f"{option} {name}: {path.parent} is no folder")
    except FileNotFoundError as error:
        if os.path.lexists(path):
            raise UsageError(f"{option} {name} is a link that leads nowhere") from error
        raise UsageError(
            f"{option} {name}: there is no folder {path.parent}; make it first"
        ) from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot write {option} {name}: {why}") from error
    if name == PRETUNED:
        raise UsageError(
            f"{option} {name} stands for the records that ship where logs are read: choose another "
            f"name (or ./{name})"
        )
    if found is not None:
        _check_present(path, found, f"{option} {name}", force, inputs, remedy)
    what, where, needs = f"written in {path.parent}", path.parent, os.W_OK | os.X_OK
    if appends and found is not None:
        what, where, needs = "appended to it", path, os.R_OK | os.W_OK
    if not os.access(where, needs):
        read_only = os.statvfs(where).f_flag & os.ST_RDONLY
        why = os.strerror(errno.EROFS if read_only else errno.EACCES)
        raise UsageError(f"{option} {name}: nothing can be {what}: {why}")
    return path


def _check_present(
    path: Path, found: os.stat_result, label: str, force: bool, inputs: Sequence[Path], remedy: str
) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise UsageError(f"{label} is a folder: give the name of a file")
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{label} is a device or a pipe: it must be a regular file")
    if any(os.path.samefile(path, read) for read in inputs):
        raise UsageError(f"{label} is one of the files to read: {remedy or 'choose another name'}")
    if not force:
        raise UsageError(f"{label} is there already: choose another name, or --force replaces it")
