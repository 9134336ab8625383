"""Signals that ask a run to end are treated like Ctrl-C, so that it ends in good order."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class EndedBySignal(KeyboardInterrupt):
    """The process was asked to end by a signal other than that of Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Return 128 plus the number of the signal, as shells do: 130 for Ctrl-C."""
    number = interrupt.number if isinstance(interrupt, EndedBySignal) else signal.SIGINT
    return 128 + number


@contextlib.contextmanager
def ending_signals() -> Iterator[None]:
    """Raise `EndedBySignal` at the first SIGTERM or SIGHUP; a second one ends the process.

    A signal that is ignored already (`nohup`) stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, _: FrameType | None) -> None:
        for other in taken:
            signal.signal(other, signal.SIG_DFL)
        raise EndedBySignal(number)

    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
