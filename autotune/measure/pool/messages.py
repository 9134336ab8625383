"""Messages between the tuning process and a worker: JSON and raw bytes over a socket.

JSON, because a worker runs code that nobody has run before: reading its answer executes nothing.
The bytes are machine code, which only workers load.
"""

from __future__ import annotations

import json
import select
import socket
import struct
from typing import Any, NamedTuple

BYTES_AS_TEXT = "latin-1"
"""How a few bytes are written in JSON, each as a character."""

_HEADER = struct.Struct("<II")  # bytes of the JSON, bytes after it
_TIMEVAL = struct.Struct("@ll")  # seconds, microseconds
_LARGEST = 1 << 28
_PART = 1 << 16


class ChannelClosedError(Exception):
    """The other side is gone."""


class GarbledMessageError(Exception):
    """What came is no message."""


class Message(NamedTuple):
    """What one side tells the other.

    Attributes
    ----------
    body : dict
        A JSON object.
    payload : bytes
        Whatever else there is.
    """

    body: dict[str, Any]
    payload: bytes = b""


class Channel:
    """One side of a conversation.

    Parameters
    ----------
    end : socket
        One of a pair of stream sockets, which the channel owns from now on.
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
        """Send a message; ChannelClosedError if nobody reads any more, or goes on in time."""
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
        """Wait for the next message.

        Raises
        ------
        ChannelClosedError, GarbledMessageError
        """
        while (message := self.look()) is None:
            poller = select.poll()
            poller.register(self._end, select.POLLIN)
            poller.poll()
        return message

    @property
    def begun(self) -> bool:
        """Whether a part of a message has come, and not all of it."""
        return bool(self._come)

    def look(self) -> Message | None:
        """Return the next message if the whole of it has come; never wait.

        Raises
        ------
        ChannelClosedError, GarbledMessageError
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
        """Take a message off what has come, if the whole of it has."""
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
    """Return one side of a new conversation, and the socket that the other is made of."""
    ours, theirs = socket.socketpair()
    return Channel(ours), theirs
