"""`autotune cache`: shows and deletes the cache of compiled code."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

from autotune.cli.options.multi_value_options import Command
from autotune.cli.options.shared_options import Json, command_app
from autotune.cli.terminal.output import print_line
from autotune.errors import UsageError
from autotune.report.units import age_text, size_text
from autotune.runtime.object_cache import DISK_BYTES, clear, object_folder, use_of
from autotune.system.words import counted

app = command_app()


@app.command(cls=Command)
def info(as_json: Json = False) -> None:
    """Print where compiled code is kept, how much there is and how old it is."""
    folder = object_folder()
    try:
        use = use_of(folder)
    except OSError as error:
        raise _unusable("read", folder, error) from error
    if as_json:
        print_line(json.dumps({"folder": str(folder), **asdict(use), "limit_bytes": DISK_BYTES}))
        return
    entries = counted(use.entries, "compiled object")
    print_line(f"{folder}\n  {entries}, {size_text(use.bytes)} of {size_text(DISK_BYTES)}")
    if use.oldest_s is not None and use.newest_s is not None:
        print_line(f"  written {_age(use.oldest_s)} to {_age(use.newest_s)} ago")


@app.command("clear", cls=Command)
def clear_cache(as_json: Json = False) -> None:
    """Delete all compiled code that is kept; runs that go on meanwhile lose nothing."""
    folder = object_folder()
    try:
        freed = clear(folder)
    except OSError as error:
        raise _unusable("clear", folder, error) from error
    if as_json:
        freed_json = {"entries": freed.entries, "bytes": freed.bytes}
        print_line(json.dumps({"folder": str(folder), **freed_json}))
        return
    entries = counted(freed.entries, "compiled object")
    print_line(f"deleted {entries}, {size_text(freed.bytes)}, from {folder}")


def _unusable(what: str, folder: Path, error: OSError) -> UsageError:
    return UsageError(
        f"cannot {what} the cache {folder}: {error.strerror}; AUTOTUNE_CACHE_DIR names another"
    )


def _age(moment_s: float) -> str:
    return age_text(max(0.0, time.time() - moment_s))
