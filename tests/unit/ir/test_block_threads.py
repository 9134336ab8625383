"""Threads of a block in the interpreter: shared memory, barriers, divergence and data races."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.thread_kernels import (
    BLOCKS,
    KERNELS,
    THREADS,
    A,
    Kernel,
    N,
    O,
    added,
    allocated,
    block,
    blocks,
    copied,
    function,
    here,
    local,
    serial,
    shared,
    thread,
    threads,
)
from support.verify import verify

from autotune.errors import IRError
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import Buffer, Const, Var
from autotune.ir.stmt import Allocate, Arrive, Barrier, CopyAhead, If, Stmt, seq

ONE = Const(1.0, "float32")


@pytest.mark.parametrize("races", [False, True])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_threads_share_memory_and_meet_at_barriers(kernel: Kernel, races: bool) -> None:
    program, values, expected = kernel()
    result = np.zeros(N, np.float32)
    interpret(verify(program), [values, result], races=races)
    np.testing.assert_array_equal(result, expected)


def refusal(body: Stmt, races: bool = False) -> str:
    with pytest.raises(IRError) as error:
        interpret(function(body), [np.zeros(N, np.float32)] * 2, races=races)
    return str(error.value)


def test_each_block_has_shared_memory_of_its_own_that_starts_undefined() -> None:
    S = shared()
    fill = If(block < 1, copied(S, thread, A, here))
    body = blocks(threads(Allocate(S, seq(fill, Barrier(), copied(O, here, S, thread)))))
    result = np.zeros(N, np.float32)
    interpret(function(body), [np.ones(N, np.float32), result])
    assert (result[:THREADS] == 1).all()
    assert np.isnan(result[THREADS:]).all()


def test_what_a_copy_ahead_brings_is_undefined_until_it_arrives() -> None:
    S = shared()
    fill = copied(S, thread, A, here)
    for ways, defined in (((CopyAhead,), False), ((CopyAhead, Arrive), True)):
        body = seq(*(way(fill) for way in ways), Barrier(), copied(O, here, S, thread))
        result = np.zeros(N, np.float32)
        program = verify(function(blocks(threads(Allocate(S, body)))))
        interpret(program, [np.ones(N, np.float32), result], races=True)
        assert np.isnan(result).all() != defined


def test_a_copy_ahead_races_with_readers_where_it_starts_and_where_it_arrives() -> None:
    S = shared()
    fill = copied(S, thread, A, here)
    other = copied(O, here, S, (thread + 1) % 4)
    for body in (
        seq(fill, Barrier(), other, CopyAhead(fill), Barrier(), Arrive(fill)),
        seq(CopyAhead(fill), Barrier(), Arrive(fill), other),
    ):
        assert "with no barrier between" in refusal(blocks(threads(Allocate(S, body))), races=True)


def test_a_barrier_that_some_threads_do_not_come_to_is_named() -> None:
    k = Var("k")
    body = seq(Barrier(), serial(k, 2, If(thread < 3, seq(Barrier(), copied(O, here, A, here)))))
    assert refusal(blocks(threads(body))) == (
        "threads diverge: threadIdx.x = 0 waits at barrier 2 in loop 'k', threadIdx.x = 3 has "
        "ended; all threads of a block come to a barrier, or none"
    )


def test_threads_at_different_barriers_diverge() -> None:
    body = If(thread < 3, Barrier(), Barrier())
    assert "threadIdx.x = 0 waits at barrier 1, threadIdx.x = 3 is at barrier 2" in refusal(
        threads(body)
    )


def test_a_loop_of_which_threads_do_different_numbers_of_rounds_diverges() -> None:
    body = serial(Var("k"), 8 - thread, Barrier())
    assert "threadIdx.x = 0 waits at barrier 1 in loop 'k', threadIdx.x = 7 has ended" in refusal(
        threads(body)
    )


def test_a_row_of_threads_that_does_not_come_is_told_of() -> None:
    y, x = Var("threadIdx.y"), Var("threadIdx.x")
    body = threads(threads(If(y < 1, Barrier()), x, 2), y, 2)
    assert "threadIdx.y = 0 waits at barrier 1, threadIdx.y = 1 has ended" in refusal(body)


def test_a_barrier_outside_thread_loops_waits_for_nobody() -> None:
    S = shared()
    nests = seq(
        threads(copied(S, thread, A, here)), Barrier(), threads(copied(O, here, S, thread))
    )
    values, result = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    interpret(function(blocks(Allocate(S, nests))), [values, result], races=True)
    np.testing.assert_array_equal(result, values)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            copied(O, here, O, here + 1 - thread % 2),
            "data race: O[1] is read by blockIdx.x=0 threadIdx.x=0 "
            "and written by blockIdx.x=0 threadIdx.x=1",
        ),
        (
            copied(O, block, A, here),
            "data race: O[0] is written by blockIdx.x=0 threadIdx.x=0 "
            "and written by blockIdx.x=0 threadIdx.x=1",
        ),
        (
            If(thread < 1, seq(Barrier(), added(O, 0, ONE)), Barrier()),
            "threads diverge",
        ),
        (
            seq(Barrier(), If(thread < 1, added(O, 0, ONE))),
            "data race: O[0] is written by blockIdx.x=0 threadIdx.x=0 "
            "and read by blockIdx.x=1 threadIdx.x=0",
        ),
    ],
)
def test_races_are_found_where_they_are_looked_for(body: Stmt, message: str) -> None:
    assert message in refusal(blocks(threads(body)), races=True)


def test_a_race_in_shared_memory_is_found_across_rounds() -> None:
    """A barrier between write and read is there, one between read and the next write is not."""
    S, k = shared(), Var("k")
    once = seq(
        copied(S, thread, A, here), Barrier(), copied(O, here, S, (thread + 1) % THREADS)
    )
    body = blocks(threads(Allocate(S, serial(k, 2, once))))
    assert re.match(
        r"data race: S\[\d\] is (written|read) by blockIdx.x=0 threadIdx.x=\d and "
        r"(written|read) by blockIdx.x=0 threadIdx.x=\d with no barrier between",
        refusal(body, races=True),
    )


def test_two_threads_of_one_loop_race_in_another_one_beside_it() -> None:
    """Threads that end a loop inside a block's outermost one have not met."""
    S, y, x = shared("S", 4), Var("threadIdx.y"), Var("threadIdx.x")
    write = threads(copied(S, y * 2 + x, A, x), x, 2)
    read = threads(copied(O, y * 2 + x, S, y * 2 + 1 - x), x, 2)
    assert "data race: S" in refusal(threads(Allocate(S, seq(write, read)), y, 2), races=True)


def test_local_memory_is_each_threads_own() -> None:
    mine = local("mine")
    body = seq(copied(mine, 0, A, here), Barrier(), copied(O, here, mine, 0))
    values, result = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    interpret(function(blocks(threads(allocated(body, mine)))), [values, result], races=True)
    np.testing.assert_array_equal(result, values)


def test_shared_memory_has_one_size_for_all_threads() -> None:
    S = Buffer("S", "float32", (thread + 1,), "shared")
    body = threads(Allocate(S, copied(O, here, A, here)))
    assert "the size of shared buffer 'S' differs from thread to thread" in refusal(
        blocks(body, extent=BLOCKS)
    )
