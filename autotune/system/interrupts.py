"""Interrupts: defers them while state is restored, and loses none.

An interrupt is an exception of a signal handler, raised at any place of the main thread.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Interrupts(threading.local):
    """Interrupts of the main thread; other threads have none."""

    # Number of sections that defer interrupts. Adding to it is not a call, so no interrupt can
    # occur in between.
    held = 0
    waiting: KeyboardInterrupt | None = None  # an interrupt that came and was deferred

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
    """Raise the kept interrupt, if there is one, unless interrupts are deferred."""
    _interrupts.raise_waiting()


def defer_interrupts(do: Callable[[], T]) -> T:
    """Call a function while interrupts are deferred; it must be short."""
    _interrupts.held += 1
    try:
        return do()
    finally:
        _interrupts.held -= 1
        _interrupts.raise_waiting()


def restoring(restore: Callable[[], object], do: Callable[[], T]) -> T:
    """Call a function, and always call `restore` afterwards with interrupts deferred.

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
    """A function that runs in a new thread, starting at once.

    A waiting thread may be interrupted at any moment. `concurrent.futures` does not support this: a
    lock that it holds then stays locked, and both threads wait forever.
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
        """Whether it has ended."""
        return not self._over.locked()

    def wait(self) -> None:
        """Wait until it has ended."""
        with self._over:
            pass

    def result(self) -> T:
        """Wait until it has ended; return its result or raise its exception."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._found[0]
