"""Messages between the tuning process and a worker: JSON and raw bytes over a socket.

JSON, because a worker runs unknown code, and reading JSON executes nothing. The bytes are pickled
machine code, which only workers load, and execute anyway.
"""

from __future__ import annotations

import json
import select
import socket
import struct
from typing import Any, NamedTuple

BYTES_AS_TEXT = "latin-1"  # How a few bytes are written in JSON, each as a character.

_HEADER = struct.Struct("<II")  # bytes of the JSON, bytes after it
_TIMEVAL = struct.Struct("@ll")  # seconds, microseconds
_LARGEST = 1 << 28
_PART = 1 << 16


class ChannelClosedError(Exception):
    """The other process has closed its end."""


class GarbledMessageError(Exception):
    """The bytes that came are no message."""


class Message(NamedTuple):
    """One message."""

    body: dict[str, Any]  # A JSON object.
    payload: bytes = b""  # Whatever else there is.


class Channel:
    """One end of a connection between two processes.

    end: one of a pair of stream sockets, which the channel owns from now on.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._come = bytearray()

    def fileno(self) -> int:
        """Return the file descriptor; -1 if closed."""
        return self._end.fileno()

    def send(
        self, body: dict[str, Any], payload: bytes = b"", timeout_s: float | None = None
    ) -> None:
        """Send a message; raise ChannelClosedError if it is not read in time."""
        text = json.dumps(body, separators=(",", ":")).encode()
        try:
            if timeout_s is not None:  # a process that was stopped does not read either
                seconds, rest = divmod(max(timeout_s, 1e-3), 1.0)
                timeval = _TIMEVAL.pack(int(seconds), int(rest * 1e6))
                self._end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)
            self._end.sendall(_HEADER.pack(len(text), len(payload)) + text + payload)
        except OSError as error:
            raise ChannelClosedError from error

    def receive(self) -> Message:
        """Wait for the next message; it may raise the errors of `poll`."""
        while (message := self.poll()) is None:
            poller = select.poll()
            poller.register(self._end, select.POLLIN)
            poller.poll()
        return message

    @property
    def begun(self) -> bool:
        """Whether a message has been received in part."""
        return bool(self._come)

    def poll(self) -> Message | None:
        """Return the next message if it has come completely; never wait.

        It may raise ChannelClosedError or GarbledMessageError.
        """
        while (message := self._cut()) is None:
            try:
                part = self._end.recv(_PART, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            except OSError as error:
                raise ChannelClosedError from error
            if not part:
                raise ChannelClosedError
            self._come += part
        return message

    def _cut(self) -> Message | None:
        """Remove the first message from the received bytes, if it has come completely."""
        if len(self._come) < _HEADER.size:
            return None
        sizes = _HEADER.unpack_from(self._come)
        if max(sizes) > _LARGEST:
            raise GarbledMessageError(f"a message of {max(sizes)} bytes")
        begin = _HEADER.size + sizes[0]
        end = begin + sizes[1]
        if len(self._come) < end:
            return None
        text, payload = bytes(self._come[_HEADER.size : begin]), bytes(self._come[begin:end])
        del self._come[:end]
        try:
            body = json.loads(text)
        except ValueError as error:
            raise GarbledMessageError(str(error)) from error
        if not isinstance(body, dict):
            raise GarbledMessageError("not an object")
        return Message(body, payload)

    def close(self) -> None:
        """Close this end."""
        self._end.close()


def channels() -> tuple[Channel, socket.socket]:
    """Return one end of a new connection, and the socket of the other end."""
    ours, theirs = socket.socketpair()
    return Channel(ours), theirs
