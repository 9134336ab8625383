"""Something to do in a thread while this one waits for others, up to a moment of its choice."""

from __future__ import annotations

import sys
from collections.abc import Callable

from autotune.system.interrupts import Aside

_SWITCH_S = 5e-4
"""How long the interpreter stays with one thread. By default it is 5 ms, which whoever hands out
work to other processes would wait for after each message."""


class Meanwhile:
    """Some work that is done in a thread, between `begin` and `wait`; a context manager.

    At its end it is waited for in any case, unless that is an interrupt: nobody goes on then.

    Parameters
    ----------
    work : callable
        What to do. It is given what tells whether it is waited for.
    """

    def __init__(self, work: Callable[[Callable[[], bool]], object]) -> None:
        self._work = work
        self._waited_for = False
        self._aside: Aside[object] | None = None
        self._interval_s = sys.getswitchinterval()

    def __enter__(self) -> Meanwhile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._waited_for = True
        if self._aside is not None and (kind is None or issubclass(kind, Exception)):
            self._aside.wait()
        sys.setswitchinterval(self._interval_s)
        if kind is None:
            self.wait()

    @property
    def goes_on(self) -> bool:
        """Whether it has begun and is not done."""
        return self._aside is not None and not self._aside.done

    def begin(self) -> None:
        """Begin, unless it was waited for before: then it is not done at all."""
        if not self._waited_for:
            sys.setswitchinterval(min(_SWITCH_S, self._interval_s))
            self._aside = Aside(lambda: self._work(lambda: self._waited_for))

    def wait(self) -> None:
        """Wait until it is done, if it has begun; raise what it raised."""
        self._waited_for = True
        if self._aside is not None:
            self._aside.result()
