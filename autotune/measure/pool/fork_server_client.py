"""Starts the processes above the workers, and speaks with them (see `fork_server`)."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from autotune.errors import AutotuneError
from autotune.system.child_environment import own_environment
from autotune.system.interrupts import undisturbed

START_TIMEOUT_S = 120.0
"""The nursery only imports our own modules before it reports; slow disks are given their time."""

_DYING_S = 10.0
_LARGEST_REPORT = 4096


class NurseryProcess:
    """A keeper with a nursery below, started at once and without waiting; a context manager."""

    def __init__(self) -> None:
        lifeline, self._lifeline = os.pipe()
        self._control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)  # the few orders that there can be always fit
        # A file without a name: nothing is left behind, nor of the search for a folder for it.
        self._log = undisturbed(tempfile.TemporaryFile)  # closed by _close_files()
        self._ready = self._closed = False
        self._start_by = time.monotonic() + START_TIMEOUT_S
        ends = (lifeline, control.detach())
        try:
            self._keeper = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "autotune.measure.pool.fork_server"),
                    *(str(number) for number in ends),
                ],
                pass_fds=ends,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._log,
                start_new_session=True,
                env=own_environment(),
            )
        except BaseException:
            self._close_files()
            raise
        finally:
            for end in ends:
                os.close(end)

    def __enter__(self) -> NurseryProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the file descriptor that reports come by."""
        return self._control.fileno()

    @property
    def deadline(self) -> float:
        """When it must have reported at the latest, by `time.monotonic`."""
        return math.inf if self._ready else self._start_by

    def order(self, order: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Give an order, with file descriptors; if nobody takes it, `reports` tells."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._control, [json.dumps(order).encode()], fds)

    def reports(self) -> list[dict[str, Any]] | None:
        """Return what has been reported of workers, without waiting; None if it has ended.

        Raises
        ------
        AutotuneError
            If it cannot start.
        """
        found: list[dict[str, Any]] = []
        while True:
            try:
                text = self._control.recv(_LARGEST_REPORT)
            except BlockingIOError:
                if time.monotonic() >= self.deadline:
                    raise self._not_started(f"took longer than {START_TIMEOUT_S:g} s") from None
                return found
            except OSError:
                text = b""
            if not text:
                self._check_end()
                return None
            report = json.loads(text)
            if "ready" in report:
                self._ready = True
            else:
                found.append(report)

    def _check_end(self) -> None:
        """Raise AutotuneError if it has ended by itself before it began."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._keeper.wait(_DYING_S)
            if code >= 0 and not self._ready:
                raise self._not_started(f"exited with code {code}{self._last_words()}")

    def _not_started(self, how: str) -> AutotuneError:
        return AutotuneError(f"the processes that measure candidates do not start: the first {how}")

    def _last_words(self) -> str:
        """Return the last line of what it said."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {last}" if last else ""

    def close(self) -> None:
        """End it and all below; return when they are gone. No harm if that was done before."""
        if self._closed:
            return
        self._closed = True
        self._keeper.terminate()  # it ends the others first
        try:
            self._keeper.wait(_DYING_S)
        except subprocess.TimeoutExpired:
            self._keeper.send_signal(signal.SIGKILL)  # then the nursery does
            self._keeper.wait()
        self._close_files()

    def _close_files(self) -> None:
        os.close(self._lifeline)
        self._control.close()
        self._log.close()
