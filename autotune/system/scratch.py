"""Temporary files of processes that may be killed: whoever outlives them removes the folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_token = ""  # Names the folder that this process shares with those that it has forked; "" for none.


def share_scratch() -> None:
    """Let this process and those that it forks have one folder, which `remove_scratch` removes."""
    global _token
    _token = os.urandom(8).hex()


def remove_scratch() -> None:
    """Remove the shared folder, if it was made, with all that killed processes left there."""
    import shutil

    if _token:
        shutil.rmtree(_shared(), ignore_errors=True)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder of this user alone, for a while."""
    import tempfile

    within = None
    if _token:
        within = _shared()
        os.makedirs(within, mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=within, prefix="autotune-") as folder:
        yield Path(folder)


def _shared() -> str:
    import tempfile

    return os.path.join(tempfile.gettempdir(), f"autotune-{_token}")
