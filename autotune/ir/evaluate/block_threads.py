"""Interpreted threads of a block: each runs to the next barrier in turn.

Each iteration of a thread loop is a generator that yields the barriers that it reaches. A whole
thread loop is also a generator, so thread loops may be nested.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from autotune.errors import IRError

Thread = Generator[str, None, None]


class ThreadBlock:
    """Runs the thread loops of one interpreted function, and knows which thread runs now."""

    def __init__(self) -> None:
        #: Number of the running outermost loop of blocks or threads; each ends before the next
        #: starts.
        self.nest = 0
        #: The running block: its index by the tag of each axis.
        self.blocks: dict[str, int] = {}
        #: The running thread: its index by the tag of each thread loop around.
        self.threads: dict[str, int] = {}
        #: Number of synchronisations so far: barriers, and ends of outermost thread loops.
        self.phase = 0

    def enter(self, tag: str, index: int) -> None:
        """Set the block that runs from here on."""
        self.blocks[tag] = index

    def leave(self, tag: str) -> None:
        """Record that all blocks along one axis have run."""
        del self.blocks[tag]

    def begin_nest(self) -> None:
        """Record that all threads so far end before the following code starts."""
        self.nest += 1

    def run(self, tag: str, thread: Callable[[int], Thread], extent: int) -> None:
        """Run the outermost thread loop of a block: thread(0), ..., thread(extent - 1).

        Raises IRError if some threads wait at a barrier that others do not reach.
        """
        self.phase += 1
        for _ in self.together(tag, thread, extent):
            self.phase += 1
        self.phase += 1

    def together(self, tag: str, thread: Callable[[int], Thread], extent: int) -> Thread:
        """Run a nested thread loop: run all threads to each barrier, then yield the barrier."""
        outer = self.threads
        threads = [thread(index) for index in range(extent)]
        while True:
            places = []
            for index, one in enumerate(threads):
                self.threads = {**outer, tag: index}
                places.append(next(one, None))
            self.threads = outer
            meeting = places[0] if places else None
            for index, place in enumerate(places):
                if place != meeting:
                    raise IRError(_divergence(tag, (0, meeting), (index, place)))
            if meeting is None:
                return
            yield meeting


def _divergence(tag: str, one: tuple[int, str | None], other: tuple[int, str | None]) -> str:
    if one[1] is None:
        one, other = other, one
    elsewhere = "has ended" if other[1] is None else f"is at {other[1]}"
    return (
        f"threads diverge: {tag} = {one[0]} waits at {one[1]}, {tag} = {other[0]} {elsewhere}; "
        "all threads of a block come to a barrier, or none"
    )


@dataclass(frozen=True, slots=True)
class _Access:
    """One access to an element: its thread and its time."""

    nest: int
    block: dict[str, int]
    phase: int
    thread: dict[str, int]

    def races_with(self, other: _Access) -> bool:
        """Whether another access may come before or after this one."""
        if self.nest != other.nest:
            return False
        if self.block != other.block:
            return True
        common = self.thread.keys() & other.thread.keys()
        return self.phase == other.phase and any(
            self.thread[tag] != other.thread[tag] for tag in common
        )

    def __str__(self) -> str:
        who = {**self.block, **self.thread}
        return " ".join(f"{tag}={index}" for tag, index in who.items()) or "the block"


class RaceCheckedList(list[Any]):
    """A list of a buffer's elements that raises an error at a data race.

    Two accesses race if they are by different threads, at least one of them writes, and both
    threads reach no barrier in between.

    `name`: name of the buffer, for messages.
    `block`: knows which thread runs.
    """

    def __init__(self, values: list[Any], name: str, block: ThreadBlock) -> None:
        super().__init__(values)
        self._name = name
        self._block = block
        self._written: dict[int, _Access] = {}
        self._read: dict[int, dict[str, _Access]] = {}

    def __getitem__(self, index: Any) -> Any:
        now = self._now()
        self._check(index, self._written.get(index), "written", now, "read")
        self._read.setdefault(index, {})[str(now)] = now
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        now = self._now()
        self._check(index, self._written.get(index), "written", now, "written")
        for reader in self._read.pop(index, {}).values():
            self._check(index, reader, "read", now, "written")
        self._written[index] = now
        super().__setitem__(index, value)

    def _now(self) -> _Access:
        block = self._block
        return _Access(block.nest, dict(block.blocks), block.phase, block.threads)

    def _check(
        self, index: int, before: _Access | None, how: str, now: _Access, now_how: str
    ) -> None:
        if before is not None and now.races_with(before):
            raise IRError(
                f"data race: {self._name}[{index}] is {how} by {before} and {now_how} by {now} "
                "with no barrier between"
            )
