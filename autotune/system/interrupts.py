"""Interrupts: they are deferred while state is restored, and none of them is lost.

An interrupt is an exception of a signal's handler: it is raised wherever the main thread is.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Interrupts(threading.local):
    """Interrupts of the main thread; others have none.

    Attributes
    ----------
    held : int
        Number of sections that defer interrupts. Adding to it is no call, so nothing can come
        between.
    waiting : KeyboardInterrupt or None
        An interrupt that came and was deferred.
    """

    held = 0
    waiting: KeyboardInterrupt | None = None

    def raise_waiting(self) -> None:
        """Raise the deferred interrupt, if there is one, unless interrupts are still deferred."""
        if not self.held and self.waiting is not None:
            waiting, self.waiting = self.waiting, None
            raise waiting.with_traceback(None)


_interrupts = _Interrupts()


def raise_interrupt(interrupt: KeyboardInterrupt) -> None:
    """Raise an interrupt as soon as interrupts are not deferred; for signal handlers."""
    keep_interrupt(interrupt)
    _interrupts.raise_waiting()


def keep_interrupt(interrupt: KeyboardInterrupt) -> None:
    """Keep an interrupt that could not be raised, until `raise_kept`."""
    _interrupts.waiting = _interrupts.waiting or interrupt


def raise_kept() -> None:
    """Raise the interrupt that is kept, if there is one, unless somebody holds it back."""
    _interrupts.raise_waiting()


def defer_interrupts(do: Callable[[], T]) -> T:
    """Do something while interrupts wait; it should not take long."""
    _interrupts.held += 1
    try:
        return do()
    finally:
        _interrupts.held -= 1
        _interrupts.raise_waiting()


def restoring(restore: Callable[[], object], do: Callable[[], T]) -> T:
    """Do something, and restore in any case what it changed; interrupts are deferred.

    A context manager could be interrupted as its block ends, before it has restored anything.
    """
    try:
        return do()
    finally:
        _interrupts.held += 1  # here, as an interrupt could come as `defer_interrupts` begins
        try:
            restore()
        finally:
            _interrupts.held -= 1
            _interrupts.raise_waiting()


class ThreadedCall(Generic[T]):
    """Something that is done in a thread of its own, from now on.

    Whoever waits for it may be interrupted at any moment. `concurrent.futures` is not made for
    that: what it has just locked then stays locked, and both sides wait for one another.

    Parameters
    ----------
    do : callable
    """

    def __init__(self, do: Callable[[], T]) -> None:
        self._found: list[T] = []
        self._error: BaseException | None = None
        self._over = threading.Lock()
        self._over.acquire()
        _thread.start_new_thread(self._run, (do,))

    def _run(self, do: Callable[[], T]) -> None:
        try:
            self._found.append(do())
        except BaseException as error:
            self._error = error
        finally:
            self._over.release()

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return not self._over.locked()

    def wait(self) -> None:
        """Wait until it is over."""
        with self._over:
            pass

    def result(self) -> T:
        """Wait until it is over; return what came of it, or raise what it raised."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._found[0]
