"""The tuning process's end of one worker: starts it, asks it, buries it, tells how it died."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

from autotune.measure.protocol import (
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    GarbledMessageError,
)

START_TIMEOUT_S = 120.0
"""A worker only imports our own modules before it reports; slow disks are given their time."""

_DYING_S = 2.0


class WorkerDiedError(Exception):
    """The process ended before it answered.

    Attributes
    ----------
    signal : signal.Signals or None
        What killed it, if it was a signal.
    """

    def __init__(self, how: str, killed_by: signal.Signals | None = None) -> None:
        super().__init__(how)
        self.signal = killed_by


class WorkerTimeoutError(Exception):
    """The process did not answer in time and was killed."""


class WorkerHandle:
    """One worker process, started at once; `wait_ready` tells when it can be asked."""

    def __init__(self) -> None:
        worker_reads, we_write = os.pipe()
        we_read, worker_writes = os.pipe()
        self._channel = Channel(we_read, we_write)
        # A file without a name: nothing is left behind.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115, closed by kill()
        self._ready = False
        self._dead = False
        ends = (worker_reads, worker_writes)
        try:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "autotune.measure.worker"),
                    *(str(number) for number in (*ends, os.getpid())),
                ],
                pass_fds=ends,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._log,
                start_new_session=True,
                env=_environment(),
            )
        except BaseException:
            self._channel.close()
            self._log.close()
            raise
        finally:
            for end in ends:
                os.close(end)

    @property
    def pid(self) -> int:
        """Process id, which is also that of its process group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return not self._dead and self._process.poll() is None

    def wait_ready(self) -> None:
        """Return once the worker has imported what it needs.

        Raises
        ------
        WorkerDiedError, WorkerTimeoutError
            If it does not get that far.
        """
        if not self._ready:
            self._receive(START_TIMEOUT_S)
            self._ready = True

    def request(self, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Ask and wait for the answer.

        Raises
        ------
        WorkerDiedError
            If the process ended instead.
        WorkerTimeoutError
            If there was no answer in time; the process and all it started were killed.
        """
        self.wait_ready()
        try:
            self._channel.send(message)
        except ChannelClosedError:
            raise self._bury() from None
        return self._receive(timeout_s)

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        try:
            return self._channel.receive(time.monotonic() + timeout_s, lambda: self.alive)
        except ChannelClosedError:
            raise self._bury() from None
        except ChannelTimeoutError:
            self.kill()
            raise WorkerTimeoutError(f"no answer within {timeout_s:g} s") from None
        except GarbledMessageError as error:
            self.kill()
            raise WorkerDiedError(f"sent {error} instead of an answer") from error
        except BaseException:  # Ctrl-C: its late answer must not be taken for the next one
            self.kill()
            raise

    def _bury(self) -> WorkerDiedError:
        """Return how the process ended; it has closed its pipe, so that has happened or will."""
        try:
            status = self._process.wait(_DYING_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return WorkerDiedError("closed its pipes")
        words = self._last_words()
        self.kill()
        if status >= 0:
            return WorkerDiedError(f"exited with code {status}{words}")
        killed_by = signal.Signals(-status)
        return WorkerDiedError(f"was killed by {killed_by.name}{words}", killed_by)

    def _last_words(self) -> str:
        """Return the last line of what it said before it was ready; later its words go nowhere."""
        if self._ready:
            return ""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {last}" if last else ""

    def kill(self) -> None:
        """End the process and all it started, and free what it held; no harm if it is dead."""
        if self._dead:
            return
        self._dead = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._channel.close()
        self._log.close()


def _environment() -> dict[str, str]:
    """Return the worker's environment: it finds this very package, installed or not."""
    environment = dict(os.environ)
    root = Path(__file__).resolve().parents[2]
    paths = sysconfig.get_paths()
    if root not in (Path(paths["purelib"]).resolve(), Path(paths["platlib"]).resolve()):
        inherited = [path for path in [environment.get("PYTHONPATH")] if path]
        environment["PYTHONPATH"] = os.pathsep.join([str(root), *inherited])
    return environment
