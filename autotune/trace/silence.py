"""Silence around code that is not ours: whatever it prints, in whatever way, goes nowhere.

Python's streams are replaced, and so are the file descriptors that C code and children write to.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator

_STREAMS = (1, 2)


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Discard all that this process writes to its standard output and error meanwhile.

    It holds for all threads. A stream that is closed stays so.
    """
    _flush()
    with open(os.devnull, "w") as nowhere, contextlib.ExitStack() as undo:
        for stream in _STREAMS:
            try:
                kept = os.dup(stream)
            except OSError:  # it is closed
                continue
            undo.callback(os.close, kept)
            undo.callback(os.dup2, kept, stream)
            os.dup2(nowhere.fileno(), stream)
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            try:
                yield
            finally:
                _flush()


def _flush() -> None:
    """Write out what is buffered, C's buffers included."""
    for stream in (sys.stdout, sys.stderr):
        # One that is missing, closed or without a reader has nothing to lose.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    ctypes.CDLL(None).fflush(None)
