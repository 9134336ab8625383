"""`autotune cache`: shows and deletes the cache of compiled code."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

from autotune.cli.terminal.output import print_line
from autotune.errors import UsageError


def info_command(as_json: bool) -> None:
    """Print folder, entries, size and age.

    Raises
    ------
    UsageError
        If the folder cannot be read.
    """
    from autotune.report.units import size_text
    from autotune.runtime.object_cache import DISK_BYTES, object_folder, use_of

    folder = object_folder()
    try:
        use = use_of(folder)
    except OSError as error:
        raise _unusable("read", folder, error) from error
    if as_json:
        print_line(json.dumps({"folder": str(folder), **asdict(use), "limit_bytes": DISK_BYTES}))
        return
    print_line(
        f"{folder}\n  {_objects(use.entries)}, {size_text(use.bytes)} of {size_text(DISK_BYTES)}"
    )
    if use.oldest_s is not None and use.newest_s is not None:
        print_line(f"  written {_age(use.oldest_s)} to {_age(use.newest_s)} ago")


def clear_command(as_json: bool) -> None:
    """Delete what is kept, and print how much that was.

    Raises
    ------
    UsageError
        If the folder cannot be read, or something in it not be deleted.
    """
    from autotune.report.units import size_text
    from autotune.runtime.object_cache import clear, object_folder

    folder = object_folder()
    try:
        freed = clear(folder)
    except OSError as error:
        raise _unusable("clear", folder, error) from error
    if as_json:
        freed_json = {"entries": freed.entries, "bytes": freed.bytes}
        print_line(json.dumps({"folder": str(folder), **freed_json}))
        return
    print_line(f"deleted {_objects(freed.entries)}, {size_text(freed.bytes)}, from {folder}")


def _unusable(what: str, folder: Path, error: OSError) -> UsageError:
    return UsageError(
        f"cannot {what} the cache {folder}: {error.strerror}; AUTOTUNE_CACHE_DIR names another"
    )


def _objects(entries: int) -> str:
    return "1 compiled object" if entries == 1 else f"{entries} compiled objects"


def _age(moment_s: float) -> str:
    from autotune.report.units import age_text

    return age_text(max(0.0, time.time() - moment_s))
