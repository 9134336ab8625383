"""A background task: work in a thread while this thread waits for other processes."""

from __future__ import annotations

import sys
from collections.abc import Callable

from autotune.system.interrupts import ThreadedCall

# How long the interpreter stays with one thread. By default it is 5 ms, which whoever hands out
# work to other processes would wait for after each message.
_SWITCH_S = 5e-4


class BackgroundTask:
    """Work that a thread does between `start` and `wait`; a context manager.

    Leaving the context waits for the thread, except at an interrupt, which ends the program.

    work: the work. Its argument is a function that returns whether the caller waits for it.
    """

    def __init__(self, work: Callable[[Callable[[], bool]], object]) -> None:
        self._work = work
        self._waited_for = False
        self._call: ThreadedCall[object] | None = None
        self._interval_s = sys.getswitchinterval()

    def __enter__(self) -> BackgroundTask:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._waited_for = True
        if self._call is not None and (kind is None or issubclass(kind, Exception)):
            self._call.wait()
        sys.setswitchinterval(self._interval_s)
        if kind is None:
            self.wait()

    @property
    def is_running(self) -> bool:
        """Whether it has started and is not done."""
        return self._call is not None and not self._call.done

    def start(self) -> None:
        """Start the thread, unless `wait` was called before: then nothing is done."""
        if not self._waited_for:
            sys.setswitchinterval(min(_SWITCH_S, self._interval_s))
            self._call = ThreadedCall(lambda: self._work(lambda: self._waited_for))

    def wait(self) -> None:
        """Wait until it is done, if it has started; raise its exception."""
        self._waited_for = True
        if self._call is not None:
            self._call.result()
