"""Starts the fork server, and exchanges messages with it (see `fork_server`)."""

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
from typing import IO, Any

from autotune.errors import AutotuneError
from autotune.system.environment_variables import own_environment
from autotune.system.interrupts import defer_interrupts

# The fork server only imports our own modules before it reports; a slow disk may take long.
START_TIMEOUT_S = 120.0

_EXIT_GRACE_S = 10.0
_LARGEST_REPORT = 4096


def _start_supervisor(ends: tuple[int, int], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the process of `fork_server.main` with its ends of the lifeline and of the socket."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "autotune.measure.pool.fork_server", *map(str, ends)],
        pass_fds=ends,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=log,
        start_new_session=True,
        env=own_environment(),
    )


class ForkServerProcess:
    """A supervisor and its fork server, started at once without waiting; a context manager."""

    def __init__(self) -> None:
        lifeline, self._lifeline = os.pipe()
        self._control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)  # the few orders that there can be always fit
        # A file without a name: nothing is left behind, nor of the search for a folder for it.
        self._log = defer_interrupts(tempfile.TemporaryFile)  # closed by _close_files()
        self._ready = self._closed = False
        self._start_by = time.monotonic() + START_TIMEOUT_S
        ends = (lifeline, control.detach())
        try:
            self._supervisor = _start_supervisor(ends, self._log)
        except BaseException:
            self._close_files()
            raise
        finally:
            for end in ends:
                os.close(end)

    def __enter__(self) -> ForkServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the file descriptor that reports come by."""
        return self._control.fileno()

    @property
    def deadline(self) -> float:
        """Time by `time.monotonic` by which it must have reported."""
        return math.inf if self._ready else self._start_by

    def send_order(self, order: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Send an order with file descriptors; if it cannot be sent, `reports` returns None."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._control, [json.dumps(order).encode()], fds)

    def reports(self) -> list[dict[str, Any]] | None:
        """Return the reports that have come, without waiting; None if it has ended.

        AutotuneError if it cannot start.
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
        """Raise AutotuneError if it has ended by itself before it was ready."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._supervisor.wait(_EXIT_GRACE_S)
            if code >= 0 and not self._ready:
                raise self._not_started(f"exited with code {code}{self._last_error_line()}")

    def _not_started(self, how: str) -> AutotuneError:
        return AutotuneError(f"the processes that measure candidates do not start: the first {how}")

    def _last_error_line(self) -> str:
        """Return the last line of its output."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {last}" if last else ""

    def close(self) -> None:
        """End it and all its children; return when they have ended. It may be called again."""
        if self._closed:
            return
        self._closed = True
        self._supervisor.terminate()  # it ends the others first
        try:
            self._supervisor.wait(_EXIT_GRACE_S)
        except subprocess.TimeoutExpired:
            self._supervisor.send_signal(signal.SIGKILL)  # then the fork server does
            self._supervisor.wait()
        self._close_files()

    def _close_files(self) -> None:
        os.close(self._lifeline)
        self._control.close()
        self._log.close()
