"""Messages between the tuning process and a worker: length-prefixed JSON over two pipes.

JSON, because a worker runs code that nobody has run before: reading its answer executes nothing.
"""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Callable
from typing import Any

from autotune.processes import readable

_HEADER = struct.Struct("<I")
_LARGEST = 1 << 26
_POLL_S = 0.2


class ChannelClosedError(Exception):
    """The other side is gone."""


class ChannelTimeoutError(Exception):
    """No whole message came before the deadline."""


class GarbledMessageError(Exception):
    """What came is no message."""


class Channel:
    """One side of a conversation.

    Parameters
    ----------
    read_fd, write_fd : int
        Pipe ends, which the channel owns from now on.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        self._open = True

    def send(self, message: dict[str, Any]) -> None:
        """Send a JSON object; ChannelClosedError if nobody reads any more."""
        self._check_open()
        body = json.dumps(message, separators=(",", ":")).encode()
        rest = memoryview(_HEADER.pack(len(body)) + body)
        try:
            while rest:
                rest = rest[os.write(self.write_fd, rest) :]
        except BrokenPipeError as error:
            raise ChannelClosedError from error

    def receive(
        self, deadline: float | None = None, alive: Callable[[], bool] | None = None
    ) -> dict[str, Any]:
        """Return the next message.

        Parameters
        ----------
        deadline : float, optional
            Latest time by `time.monotonic`.
        alive : callable, optional
            Asked now and then whether an answer can still come: a process that died may have left
            children that hold its end of the pipe open.

        Raises
        ------
        ChannelClosedError, ChannelTimeoutError, GarbledMessageError
        """
        self._check_open()
        (length,) = _HEADER.unpack(self._exactly(_HEADER.size, deadline, alive))
        if length > _LARGEST:
            raise GarbledMessageError(f"a message of {length} bytes")
        body = self._exactly(length, deadline, alive)
        try:
            message = json.loads(body)
        except ValueError as error:
            raise GarbledMessageError(str(error)) from error
        if not isinstance(message, dict):
            raise GarbledMessageError("not an object")
        return message

    def _exactly(
        self, count: int, deadline: float | None, alive: Callable[[], bool] | None
    ) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            self._wait(deadline, alive)
            part = os.read(self.read_fd, count - len(parts))
            if not part:
                raise ChannelClosedError
            parts += part
        return bytes(parts)

    def _wait(self, deadline: float | None, alive: Callable[[], bool] | None) -> None:
        """Return once there is something to read, or the end."""
        if deadline is None and alive is None:
            return  # reading blocks
        while True:
            left = _POLL_S if deadline is None else min(_POLL_S, deadline - time.monotonic())
            # Whether it lives is asked first, so that what it said before it died is still read.
            living = alive is None or alive()
            if readable(self.read_fd, max(left, 0.0)):
                return
            if not living:
                raise ChannelClosedError
            if left <= 0.0:
                raise ChannelTimeoutError

    def _check_open(self) -> None:
        """Refuse to use closed descriptors, whose numbers may stand for other files by now."""
        if not self._open:
            raise ChannelClosedError

    def close(self) -> None:
        """Close both ends."""
        if self._open:
            self._open = False
            os.close(self.read_fd)
            os.close(self.write_fd)
