"""Threads of which one runs at a time, each until it waits: what they share needs no locks."""

from __future__ import annotations

import _thread
import contextlib
import math
import threading
from collections.abc import Callable, Collection, Hashable, Sequence

# Waits until one of some tickets is ready, at most so many seconds; returns those that are. Without
# tickets it sleeps.
Wait = Callable[[Sequence[Hashable], float], Collection[Hashable]]


class _EndedFromOutside(BaseException):
    """Ends a function whose threads are given up."""


class _CooperativeThread:
    """A function, and what it waits for."""

    def __init__(self, do: Callable[[], object]) -> None:
        self.do = do
        self.tickets: Sequence[Hashable] = ()
        self.until_s = -math.inf  # It has not begun: nothing is waited for.
        self.ready: list[Hashable] = []
        self.lost: Exception | None = None  # Why its tickets will never be ready.
        self.is_over = False
        self.error: BaseException | None = None  # By which it has ended.
        self.goes = threading.Lock()
        self.goes.acquire()


class CooperativeThreads:
    """Runs functions concurrently, only one at a time: each goes on until it waits.

    Shared state needs no locks between two waits, as if one thread ran all of them. The thread that
    calls `run` may be interrupted at any moment: then the functions are ended where they wait.

    wait_any: waits for all of them together, in the thread that calls `run`.
    clock: returns the monotonic seconds that `wait_any` waits by.
    """

    def __init__(self, wait_any: Wait, clock: Callable[[], float]) -> None:
        self._wait_any = wait_any
        self._clock = clock
        self._threads: list[_CooperativeThread] = []
        # Whose turn it is; None: that of `run`. Only this says so: a lock only wakes its thread,
        # and may be released once too often, because `run` may be interrupted in between.
        self._turn: _CooperativeThread | None = None
        self._returns = threading.Lock()
        self._returns.acquire()
        self._is_ending = False

    def run(self, functions: Sequence[Callable[[], object]]) -> None:
        """Call functions until all have returned; the first exception ends the others."""
        self._threads = [_CooperativeThread(do) for do in functions]
        for thread in self._threads:
            _thread.start_new_thread(self._begin, (thread,))
        try:
            while waiting := [thread for thread in self._threads if not thread.is_over]:
                for thread in self._due(waiting):
                    self._let_go_on(thread)
                    if thread.error is not None:
                        raise thread.error
        finally:
            self._end_all()

    def wait(self, tickets: Sequence[Hashable], seconds: float) -> Collection[Hashable]:
        """Wait as `wait_any` does, while the other functions go on; called by one of them."""
        own = self._turn
        assert own is not None
        if not self._is_ending:
            own.tickets, own.until_s, own.ready = tickets, self._clock() + seconds, []
            self._give_back()
            self._await_turn(own)
        if self._is_ending:
            raise _EndedFromOutside
        lost, own.lost = own.lost, None
        if lost is not None:
            raise lost
        return own.ready

    def _due(self, waiting: Sequence[_CooperativeThread]) -> list[_CooperativeThread]:
        """Wait until some functions can go on; return them."""
        tickets = [ticket for thread in waiting for ticket in thread.tickets]
        seconds = max(0.0, min(thread.until_s for thread in waiting) - self._clock())
        try:
            ready = set(self._wait_any(tickets, seconds))
        except Exception as error:
            for thread in waiting:
                thread.lost = error
            return [*waiting]
        now = self._clock()
        for thread in waiting:
            thread.ready = [ticket for ticket in thread.tickets if ticket in ready]
        return [thread for thread in waiting if thread.ready or thread.until_s <= now]

    # -- whose turn it is ----------------------------------------------------------------------

    def _begin(self, thread: _CooperativeThread) -> None:
        """Run a function in its thread, from its first turn on."""
        self._await_turn(thread)
        try:
            if not self._is_ending:
                thread.do()
        except BaseException as error:
            thread.error = error
        finally:
            thread.is_over = True
            self._give_back()

    def _let_go_on(self, thread: _CooperativeThread) -> None:
        """Let a function go on until it waits or ends."""
        self._turn = thread
        _wake(thread.goes)
        while self._turn is thread:
            self._returns.acquire()

    def _await_turn(self, thread: _CooperativeThread) -> None:
        while self._turn is not thread:
            thread.goes.acquire()

    def _give_back(self) -> None:
        self._turn = None
        _wake(self._returns)

    def _end_all(self) -> None:
        """End the functions that wait; first the one that still runs, after an interrupt."""
        self._is_ending = True
        running = [] if self._turn is None else [self._turn]
        for thread in [*running, *self._threads]:
            while not thread.is_over:
                self._let_go_on(thread)


def _wake(lock: threading.Lock) -> None:
    """Let the thread go on that waits for a lock, or will."""
    with contextlib.suppress(RuntimeError):  # it has been told already
        lock.release()
