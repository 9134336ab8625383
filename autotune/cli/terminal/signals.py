"""Treats signals that end a run like Ctrl-C, so that the run ends in order.

No such signal is lost, wherever in the program it comes.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from autotune.system.interrupts import keep_interrupt, raise_interrupt, raise_kept

_ENDING = (signal.SIGTERM, signal.SIGHUP)

_SOON_S = 1e-3  # Seconds after which an interrupt that Python has dropped is raised again.


class EndedBySignal(KeyboardInterrupt):
    """The process was asked to end by a signal other than SIGINT (Ctrl-C)."""

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
        raise_interrupt(EndedBySignal(number))

    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def redeliver_interrupts() -> None:
    """Raise interrupts again that Python drops, from here on to the end of the process.

    An interrupt is an exception that is raised wherever the main thread happens to be. In what is
    called as an object dies, or at the end of an import, nobody can catch it: Python prints it and
    goes on. And one of Ctrl-C waits, as those of other signals do, while things are put in order.
    """
    sys.unraisablehook = _Redelivery(sys.unraisablehook)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: raise_interrupt(KeyboardInterrupt()))


class _Redelivery:
    """The hook that Python calls for exceptions that cannot be caught.

    others: is given all but interrupts.
    """

    def __init__(self, others: Callable[[sys.UnraisableHookArgs], object]) -> None:
        self._others = others
        self._at_it = False

    def __call__(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Set an alarm for an interrupt, because exceptions raised here are dropped, too."""
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            self._others(unraisable)
            return
        self._at_it = True
        try:
            keep_interrupt(unraisable.exc_value)
            signal.signal(signal.SIGALRM, self._raise)
            signal.setitimer(signal.ITIMER_REAL, _SOON_S, _SOON_S)
        finally:
            self._at_it = False

    def _raise(self, number: int, _: FrameType | None) -> None:
        if self._at_it:  # on a slow machine; the next alarm will do
            return
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        raise_kept()
