"""Runs command lines of autotune as processes, with pipes or in a pseudo-terminal of their own."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from support.footprint import patience

ROOT = Path(__file__).parents[2]

SMALL = ["--set", "m=16", "--set", "n=16", "--set", "k=16"]
"""Arguments of a matrix product that takes a microsecond."""

QUICK = ["--repeats", "2", "--min-repeat-ms", "1"]
"""Options of a run whose timings need not be exact."""

PIPE, CLOSED = "pipe", "closed"
"""Where a stream leads; else the path of a file."""


class Ended(NamedTuple):
    """How a command ended, and what it wrote; in a terminal, `out` has it all."""

    code: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    """Environment of a process that finds this source tree from any folder."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}


class _Streams:
    """The ends of a command's standard streams: what it gets, and what is read here."""

    def __init__(self, columns: int, out: str, err: str, stdin: str) -> None:
        self.given: dict[int, int] = {}
        self.read: dict[int, bytearray] = {}
        self._names: dict[int, int] = {}
        if columns:
            ours, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            self.given = dict.fromkeys((0, 1, 2), theirs)
            self._keep(ours, 1)
            return
        if stdin != CLOSED:
            self.given[0] = os.open(stdin, os.O_RDONLY)
        for number, where in ((1, out), (2, err)):
            if where == PIPE:
                ours, self.given[number] = os.pipe()
                self._keep(ours, number)
            elif where != CLOSED:
                self.given[number] = os.open(where, os.O_WRONLY)

    def _keep(self, fd: int, number: int) -> None:
        os.set_blocking(fd, False)
        self.read[fd] = bytearray()
        self._names[number] = fd

    def close_given(self) -> None:
        for fd in set(self.given.values()):
            os.close(fd)

    def take(self) -> None:
        """Read what is there."""
        for fd, text in self.read.items():
            try:
                while part := os.read(fd, 1 << 16):
                    text += part
            except OSError:  # nothing more for now, or the terminal is closed
                continue

    def text(self, number: int) -> str:
        fd = self._names.get(number)
        return "" if fd is None else self.read[fd].decode(errors="surrogateescape")

    def close(self) -> None:
        for fd in self.read:
            os.close(fd)


class Running:
    """A command that was started; `ended` waits for it."""

    def __init__(self, streams: _Streams, reply: int, words: Sequence[str]) -> None:
        self._streams, self._reply, self._words = streams, reply, words

    def ended(self, timeout_s: float = 120.0) -> Ended:
        """Wait for the end and return it; a command that takes longer is killed."""
        heard = b""
        end = time.monotonic() + patience(timeout_s)
        while part := self._hear(end - time.monotonic(), heard):
            heard += part
        os.close(self._reply)
        self._streams.take()
        self._streams.close()
        _, code = heard.split()
        return Ended(int(code), self._streams.text(1), self._streams.text(2))

    def _hear(self, seconds: float, heard: bytes) -> bytes:
        """Return what is told next of the process, b"" after its end."""
        begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            ready, _, _ = select.select([self._reply, *self._streams.read], [], [], 0.2)
            self._streams.take()
            if self._reply in ready:
                return os.read(self._reply, 256)
        os.killpg(int(heard.split()[0]), signal.SIGKILL)
        raise TimeoutError(f"{self._words} did not end: {self._streams.read}")


class CommandServer:
    """Starts commands by forking a process that has imported everything; a context manager."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests/support/command_server.py"), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=environment(),
        )
        theirs.close()

    def __enter__(self) -> CommandServer:
        assert self._socket.recv(16) == b"ready"
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.wait(10)

    def start(
        self,
        words: Sequence[str],
        folder: Path,
        *,
        terminal: bool = False,
        columns: int = 80,
        setup: str = "",
        variables: Mapping[str, str] | None = None,
        unprivileged: bool = False,
        streams: tuple[str, str, str] = (os.devnull, PIPE, PIPE),
    ) -> Running:
        """Start a command in a folder.

        Parameters
        ----------
        words : sequence of str
        folder : Path
        terminal : bool
            Whether its streams are a terminal.
        columns : int
            The width of that.
        setup : str
            Python that it runs first.
        variables : mapping, optional
            More variables of the environment.
        unprivileged : bool
            Whether it is nobody's if ours is root's, who may read and write all.
        streams : tuple of str
            Where input, output and errors lead without a terminal.
        """
        ends = _Streams(columns * terminal, streams[1], streams[2], streams[0])
        reply, told = os.pipe()
        request = {
            "words": [os.fsencode(word).decode("latin-1") for word in words],
            "folder": str(folder),
            "environment": environment(**{"TERM": "xterm", **(variables or {})}),
            "terminal": terminal,
            "setup": setup,
            "unprivileged": unprivileged,
            "streams": list(ends.given),
        }
        fds = [told, *ends.given.values()]
        socket.send_fds(self._socket, [json.dumps(request).encode()], fds)
        os.close(told)
        ends.close_given()
        return Running(ends, reply, words)

    def start_fork_server(self, ends: tuple[int, int], log: IO[bytes]) -> Supervisor:
        """Start a fork server of a measurer with its ends of the lifeline and of the socket."""
        reply, told = os.pipe()
        request = {"fork server": True, "folder": os.getcwd(), "environment": environment()}
        fds = [told, *ends, log.fileno()]
        socket.send_fds(self._socket, [json.dumps(request).encode()], fds)
        os.close(told)
        return Supervisor(reply)


class Supervisor:
    """A process that the command server has started; what is used of `subprocess.Popen`."""

    def __init__(self, reply: int) -> None:
        self._reply = reply
        self._pid = int(os.read(reply, 64))
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self._code is None:
            if not select.select([self._reply], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a fork server", timeout or 0.0)
            self._code = int(os.read(self._reply, 64))
            os.close(self._reply)
        return self._code

    def send_signal(self, number: int) -> None:
        if self._code is None:
            os.kill(self._pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def run_process(
    words: Sequence[str],
    folder: Path,
    *,
    terminal: bool = False,
    variables: Mapping[str, str] | None = None,
    streams: tuple[str, str, str] = (os.devnull, PIPE, PIPE),
) -> Ended:
    """Run a command as a process of its own, as a user does, and return how it ended."""
    ends = _Streams(80 * terminal, streams[1], streams[2], streams[0])

    def attach() -> None:
        os.setsid()
        for number in (0, 1, 2):
            if number in ends.given:
                os.dup2(ends.given[number], number)
            else:
                os.close(number)
        if terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "autotune", *words],
        preexec_fn=attach,
        cwd=folder,
        env=environment(**{"TERM": "xterm", **(variables or {})}),
    )
    ends.close_given()
    end = time.monotonic() + patience(120.0)
    while process.poll() is None and time.monotonic() < end:
        ends.take()
        time.sleep(0.005)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    ends.take()
    ends.close()
    return Ended(process.returncode, ends.text(1), ends.text(2))
