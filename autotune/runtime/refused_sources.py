"""Keeps sources that a compiler refused in files, to find the reason."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

from autotune.system.environment_variables import cache_folder

KEPT = 100  # Files that are kept; the oldest go.


def refused_folder() -> Path:
    """Folder of the refused sources, in the user's cache folder."""
    return cache_folder() / "refused"


def keep_source(source: str, log: str, suffix: str = ".cu") -> Path | None:
    """Save a source, with the compiler's log below it; return where, None if nowhere.

    Lines of the file are those that the log counts. The same text is saved once. Where the cache
    folder cannot be written, it goes to the system's folder of temporary files.
    """
    text = f"{source}\n\n/*\n{log.replace('*/', '* /')}\n*/\n"
    folder = refused_folder()
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}{suffix}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(text, encoding="utf-8")
        _drop_oldest(folder)
        return path
    except OSError:
        return _elsewhere(text, suffix)


def _elsewhere(text: str, suffix: str) -> Path | None:
    try:
        handle, name = tempfile.mkstemp(prefix="refused-", suffix=suffix)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return None
    return Path(name)


def _drop_oldest(folder: Path) -> None:
    files = []
    for path in folder.glob("*.c*"):
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            files.append((path.stat().st_mtime, path))
    for _, path in sorted(files)[:-KEPT]:
        path.unlink(missing_ok=True)
