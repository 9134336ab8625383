"""On which cores the threads of a parallel loop run; the system and OpenMP are Python functions."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.saved_functions import scale

from autotune.runtime.cpu import llvm_compiler
from autotune.runtime.cpu.llvm_compiler import object_code
from autotune.runtime.cpu.openmp import SYMBOLS
from autotune.runtime.cpu.parallel_launch import LAUNCH, SLOW_NS, STAY, launch_source
from autotune.target import Target

BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
PARALLEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
NUMBER = ctypes.CFUNCTYPE(ctypes.c_int)
CLOCK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int64))
SELF = ctypes.CFUNCTYPE(ctypes.c_long)
MASK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_long, ctypes.c_size_t, ctypes.c_void_p)


def address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class Machine:
    """Cores, and threads that run one after another.

    Parameters
    ----------
    cores : list of int
        Where each of the team's threads wakes up.
    allowed : set of int
        The cores that the process may use.
    order : list of int, optional
        The threads in the order in which they run; the leader is thread 0.
    meanwhile : int, optional
        A thread that runs while the leader moves.
    """

    def __init__(
        self,
        cores: list[int],
        allowed: set[int],
        order: list[int] | None = None,
        meanwhile: int | None = None,
    ) -> None:
        self.cores, self.allowed = cores, allowed
        self.order, self.meanwhile = order or list(range(len(cores))), meanwhile
        self.may_use = [set(allowed) for _ in cores]
        self.thread, self.ended = 0, True
        self.chosen: list[set[int]] = []
        self.of_leader: list[set[int]] = []  # chosen for the leader while another thread runs
        self.ns = 3 * 10**9 - 1000  # of the clock
        self.move_ns = 0
        self.wakes_at_home = False
        self.parts: list[int] = []
        self._functions = {
            "sched_getcpu": NUMBER(lambda: self.cores[self.thread]),
            "clock_gettime": CLOCK(self._clock),
            "pthread_self": SELF(lambda: 100 + self.thread),
            "pthread_getaffinity_np": MASK(self._get),
            "pthread_setaffinity_np": MASK(self._set),
        }
        self._runtime = (
            PARALLEL(self._parallel),
            NUMBER(lambda: len(self.cores)),
            NUMBER(lambda: 0),
        )

    def _clock(self, _: int, to: Any) -> int:
        to[0], to[1] = divmod(self.ns, 10**9)
        return 0

    def _get(self, thread: int, size: int, to: int) -> int:
        if self.allowed and max(self.allowed) >= 8 * size:
            return errno.EINVAL  # as the system says of a set that is too small
        bits = sum(1 << cpu for cpu in self.may_use[thread - 100])
        ctypes.memmove(to, bits.to_bytes(size, "little"), size)
        return 0

    def _set(self, thread: int, size: int, where: int) -> int:
        bits = int.from_bytes(ctypes.string_at(where, size), "little")
        number, chosen = thread - 100, {cpu for cpu in range(8 * size) if bits >> cpu & 1}
        self.may_use[number] = chosen
        if self.ended or number != self.thread:
            assert number == 0
            self.of_leader.append(chosen)
        else:
            self.chosen.append(chosen)
            self.ns += self.move_ns
        if self.cores[number] not in chosen:
            self.cores[number] = min(chosen)
        if self.meanwhile is not None and self.thread == 0:
            other, self.meanwhile = self.meanwhile, None
            self._run(other)
            self.thread = 0
        return 0

    def _run(self, number: int) -> None:
        self.thread = number
        BODY(self.body)(self.context)

    def _parallel(self, body: int, context: int, threads: int, _: int) -> None:
        self.ended, self.body, self.context = False, body, context
        for number in self.order[:threads]:
            home = self.cores[number]
            self._run(number)
            if self.wakes_at_home:
                self.cores[number] = home
        self.thread, self.ended = 0, True

    def launch(self, threads: int, times: int = 1) -> None:
        """Launch a body that notes the thread that runs it."""
        addresses = {name: address(function) for name, function in self._functions.items()}
        code = object_code(launch_source("give"), Target.of("llvm"), None, None)
        keep, found = llvm_compiler._linked(code, ["give", *SYMBOLS], addresses)
        give: Callable[..., None] = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(found["give"])
        give(*map(address, self._runtime))
        body = BODY(lambda _: self.parts.append(self.thread))
        for _ in range(times):
            PARALLEL(found[LAUNCH])(address(body), None, threads, 0)
        del keep


def test_a_thread_that_wakes_on_the_core_of_another_moves_to_a_free_one() -> None:
    machine = Machine([2, 2, 5, 2], {2, 5, 7, 9, 70})
    machine.launch(4)
    assert machine.parts == [0, 1, 2, 3]
    everywhere = {2, 5, 7, 9, 70}  # what a thread may use again once it has moved
    free = [{5, 7, 9, 70}, {7, 9, 70}, {9, 70}]
    assert machine.chosen == [free[0], everywhere, free[1], everywhere, free[2], everywhere]


def test_the_leader_stays_where_it_has_begun_until_the_launch_ends_if_a_thread_moves() -> None:
    machine = Machine([2, 2, 2], {1, 2, 70})
    machine.launch(3)
    assert machine.of_leader == [{2}, {1, 2, 70}]
    assert machine.may_use == [{1, 2, 70}] * 3
    machine = Machine([2, 1, 70], {1, 2, 70})
    machine.launch(3)
    assert machine.of_leader == []


def test_a_leader_that_has_moved_is_not_sent_back() -> None:
    machine = Machine([1, 1, 2], {1, 2, 3}, order=[1, 0, 2])
    machine.launch(3)
    assert sorted(machine.cores) == [1, 2, 3]
    assert machine.may_use == [{1, 2, 3}] * 3


def test_the_leader_may_use_all_cores_afterwards_if_a_thread_runs_while_it_moves() -> None:
    machine = Machine([1, 1, 2, 2], {1, 2, 3, 4}, order=[1, 2, 0], meanwhile=3)
    machine.launch(4)
    assert len(machine.parts) == 4
    assert machine.may_use == [{1, 2, 3, 4}] * 4


def test_threads_on_different_cores_stay_where_they_are() -> None:
    machine = Machine([3, 0, 64, 1], {0, 1, 2, 3, 64})
    machine.launch(4)
    assert machine.parts == [0, 1, 2, 3]
    assert machine.chosen == []


def test_threads_share_a_core_where_there_is_no_other() -> None:
    machine = Machine([1, 1], {1})
    machine.launch(2)
    assert machine.parts == [0, 1]
    assert machine.chosen == []


@pytest.mark.parametrize("cpu", [-1, 1024, 4000])
def test_cores_with_numbers_out_of_range_are_not_claimed(cpu: int) -> None:
    machine = Machine([cpu, cpu], {0, 4000})
    machine.launch(2)
    assert machine.parts == [0, 1]
    assert machine.chosen == []


def test_threads_stay_for_a_while_after_a_move_to_a_busy_core() -> None:
    machine = Machine([1, 1], {1, 2})
    machine.move_ns = SLOW_NS
    machine.wakes_at_home = True
    machine.launch(2, times=2 * STAY)
    assert len(machine.chosen) // 2 == 2
    machine = Machine([1, 1], {1, 2})
    machine.wakes_at_home = True
    machine.launch(2, times=5)
    assert len(machine.chosen) // 2 == 5


def test_a_program_may_use_the_same_cores_after_parallel_calls() -> None:
    before = os.sched_getaffinity(0)
    function = scale("llvm -threads=5")
    a = np.ones(5000, np.float32)
    for _ in range(300):
        function(a, np.empty_like(a))
    assert os.sched_getaffinity(0) == before
