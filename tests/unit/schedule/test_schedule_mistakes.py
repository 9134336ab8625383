"""What the primitives on a stage's loops refuse, and in what words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.mistakes import Program, assert_refused, refused

from autotune import te
from autotune.errors import AutotuneError, InstantiationError, LoweringError
from autotune.lowering.finalise import analyse
from autotune.lowering.nest.lower_schedule import lower_schedule


def thread(tag: str = "threadIdx.x") -> Any:
    return te.thread_axis(tag)


def inlined(p: Program) -> Any:
    p.sB.compute_inline()
    return p.sB


def with_guest(p: Program) -> Any:
    p.sC.compute_at(p.sD, p.y)
    return p.sD


def an_axis_of_another_schedule(p: Program) -> Any:
    return te.create_schedule(p.D.op)[p.D].split(p.y, factor=2)[0]


def nested_parallel(p: Program) -> None:
    p.sD.parallel(p.y)
    p.sC.compute_at(p.sD, p.y)
    p.sC.parallel(p.x)
    p.lower()


def a_thread_axis_of_another_length(p: Program) -> None:
    p.sD.bind(p.y, te.thread_axis((0, 4), "threadIdx.x"))
    analyse(lower_schedule(p.s, [p.A, p.D]))


def bind_all(stage: Any, axis: Any, *loops: Any) -> None:
    for loop in loops:
        stage.bind(loop, axis)


WHOLE = "give a whole number of at least 1"

SPLIT = [
    refused(
        "split by a number of thousands of digits",
        lambda p: p.sD.split(p.y, factor=10**5000),
        "split on stage 'D', axis 'y': the factor is about 10^5000; give a whole number of at "
        "least 1 that fits in int64",
    ),
    refused(
        "split by zero",
        lambda p: p.sD.split(p.y, factor=0),
        f"split on stage 'D', axis 'y': the factor is 0; {WHOLE}",
    ),
    refused(
        "split into a negative number of parts",
        lambda p: p.sD.split(p.y, nparts=-2),
        f"split on stage 'D', axis 'y': the nparts is -2; {WHOLE}",
    ),
    refused(
        "split by a float",
        lambda p: p.sD.split(p.y, factor=2.0),
        f"split on stage 'D', axis 'y': the factor is 2.0; {WHOLE}",
    ),
    refused(
        "split by a text",
        lambda p: p.sD.split(p.y, factor="2"),
        f"split on stage 'D', axis 'y': the factor is '2'; {WHOLE}",
    ),
    refused(
        "split by a truth value",
        lambda p: p.sD.split(p.y, factor=True),
        f"split on stage 'D', axis 'y': the factor is True; {WHOLE}",
    ),
    refused(
        "split by a list",
        lambda p: p.sD.split(p.y, factor=[2, 4]),
        f"split on stage 'D', axis 'y': the factor is [2, 4]; {WHOLE}",
    ),
    refused(
        "split by a size of run time",
        lambda p: p.sD.split(p.y, factor=te.var("size") * 2),
        "split on stage 'D', axis 'y': the factor `(size*2)` depends on 'size', which is known "
        "only when the program runs; give a number, a knob, or te.max(1, ...)",
    ),
    refused(
        "split by another loop's variable",
        lambda p: p.sD.split(p.y, factor=p.x),
        "split on stage 'D', axis 'y': the factor `x` depends on 'x', which is a loop's variable; "
        "give a number or a knob",
    ),
    refused(
        "split with neither",
        lambda p: p.sD.split(p.y),
        "split on stage 'D', axis 'y': neither factor= and nparts= are given; give one of them",
    ),
    refused(
        "split with both",
        lambda p: p.sD.split(p.y, factor=2, nparts=2),
        "split on stage 'D', axis 'y': both factor= and nparts= are given; give one of them",
    ),
    refused(
        "split an axis of another stage",
        lambda p: p.sD.split(p.x, factor=2),
        "split on stage 'D', axis 'x': it belongs to stage 'C'; give one of the loops of 'D': y",
    ),
    refused(
        "split an axis of another schedule",
        lambda p: p.sD.split(an_axis_of_another_schedule(p), factor=2),
        "split on stage 'D', axis 'y.outer': it is not an axis of this schedule as it stands; "
        "give one of the loops of 'D': y",
    ),
    refused(
        "split a thread axis",
        lambda p: p.sD.split(thread(), factor=2),
        "split on stage 'D', axis 'threadIdx.x': it is a thread axis, which loops are bound to; "
        "give one of the loops of 'D': y",
    ),
    refused(
        "split a variable",
        lambda p: p.sD.split(p.y.var, factor=2),
        "split on stage 'D': expected an axis, got <y>; give one of the loops of 'D': y",
    ),
    refused(
        "split by position",
        lambda p: p.sD.split(0, factor=2),
        "split on stage 'D': expected an axis, got 0; give one of the loops of 'D': y",
    ),
    refused(
        "split twice",
        lambda p: [p.sD.split(p.y, factor=2), p.sD.split(p.y, factor=2)],
        "split on stage 'D', axis 'y': it was split or fused before; give one of the loops of 'D': "
        "y.outer, y.inner",
    ),
    refused(
        "split a placeholder",
        lambda p: p.sA.split(p.i, factor=2),
        "split on stage 'A', axis 'i': it belongs to stage 'B'; 'A' has no loops",
    ),
    refused(
        "split a vectorised loop",
        lambda p: [p.sD.vectorize(p.y), p.sD.split(p.y, factor=2)],
        "split on stage 'D', axis 'y': it is vectorized already; split it before",
    ),
    refused(
        "split a bound loop",
        lambda p: [p.sD.bind(p.y, thread()), p.sD.split(p.y, factor=2)],
        "split on stage 'D', axis 'y': it is bound to threadIdx.x already; split it before",
    ),
    refused(
        "split a loop with a pragma",
        lambda p: [
            p.sD.pragma(p.y, "auto_unroll_max_step", 8), p.sD.split(p.y, factor=2)
        ],
        "split on stage 'D', axis 'y': it has a pragma already; split it before",
    ),
    refused(
        "split a loop that a stage is computed at",
        lambda p: with_guest(p).split(p.y, factor=2),
        "split on stage 'D', axis 'y': stage 'C' is computed at it; split it first",
    ),
    refused(
        "split a stage without loops",
        lambda p: inlined(p).split(p.i, factor=2),
        "split on stage 'B': it is computed inline and has neither loops nor storage; use "
        "compute_root first",
    ),
    refused(
        "tile one loop with itself",
        lambda p: p.sB.tile(p.i, p.i, 2, 2),
        "tile on stage 'B', axis 'i': it is given twice; give two different loops",
    ),
    refused(
        "tile by zero",
        lambda p: p.sB.tile(p.i, p.j, 2, 0),
        f"split on stage 'B', axis 'j': the factor is 0; {WHOLE}",
    ),
]

FUSE_AND_REORDER = [
    refused(
        "fuse nothing",
        lambda p: p.sD.fuse(),
        "fuse on stage 'D': no axis is given; give one of the loops of 'D': y",
    ),
    refused(
        "fuse in the wrong order",
        lambda p: p.sB.fuse(p.j, p.i),
        "fuse on stage 'B', axis 'i': it does not follow 'j' directly, as loops to be fused do; "
        "reorder them first",
    ),
    refused(
        "fuse a loop with itself",
        lambda p: p.sB.fuse(p.i, p.i),
        "fuse on stage 'B', axis 'i': it does not follow 'i' directly, as loops to be fused do; "
        "reorder them first",
    ),
    refused(
        "fuse a spatial and a reduction axis",
        lambda p: p.sC.fuse(p.x, p.k),
        "fuse on stage 'C', axis 'k': it is a reduce axis and 'x' a spatial one; fuse axes of one "
        "kind",
    ),
    refused(
        "fuse a list",
        lambda p: p.sB.fuse(p.B.op.axis),
        "fuse on stage 'B': expected axes one by one, got (<spatial axis i>, <spatial axis j>); "
        "give one of the loops of 'B': i, j",
    ),
    refused(
        "fuse axes of two stages",
        lambda p: p.sB.fuse(p.i, p.x),
        "fuse on stage 'B', axis 'x': it belongs to stage 'C'; give one of the loops of 'B': i, j",
    ),
    refused(
        "fuse an unrolled loop",
        lambda p: [p.sB.unroll(p.j), p.sB.fuse(p.i, p.j)],
        "fuse on stage 'B', axis 'j': it is unrolled already; fuse it before",
    ),
    refused(
        "fuse a loop that a stage is computed at",
        lambda p: [p.sB.compute_at(p.sC, p.x), p.s.cache_write(p.C, "local")],
        "cache_write on stage 'C', axis 'x': stage 'B' is computed at it; cache_write it first",
    ),
    refused(
        "reorder a loop twice",
        lambda p: p.sB.reorder(p.i, p.i),
        "reorder on stage 'B', axis 'i': it is given twice; give each loop once",
    ),
    refused(
        "reorder across stages",
        lambda p: p.sB.reorder(p.i, p.k),
        "reorder on stage 'B', axis 'k': it belongs to stage 'C'; give one of the loops of 'B': "
        "i, j",
    ),
    refused(
        "reorder a list",
        lambda p: p.sB.reorder([p.i, p.j]),
        "reorder on stage 'B': expected axes one by one, got [<spatial axis i>, <spatial axis j>]; "
        "give one of the loops of 'B': i, j",
    ),
]

ANNOTATE = [
    refused(
        "vectorise a reduction",
        lambda p: p.sC.vectorize(p.k),
        "vectorize on stage 'C', axis 'k': it is a reduction axis, whose iterations depend on one "
        "another; vectorize a spatial axis, or make it one with rfactor",
    ),
    refused(
        "vectorise twice",
        lambda p: [p.sB.vectorize(p.j), p.sB.vectorize(p.j)],
        "vectorize on stage 'B', axis 'j': it is vectorized already; choose one of bind, "
        "parallel, unroll and vectorize for it",
    ),
    refused(
        "vectorise two loops",
        lambda p: [p.sB.vectorize(p.j), p.sB.vectorize(p.i), p.lower()],
        "axes 'i' and 'j' of stage 'B' are both vectorized, and vectors hold no vectors; fuse the "
        "two, or unroll one",
        LoweringError,
    ),
    refused(
        "vectorise a tensor",
        lambda p: p.sD.vectorize(p.D),
        "vectorize on stage 'D': expected an axis, got <tensor D: float32 [8]>; give one of the "
        "loops of 'D': y",
    ),
    refused(
        "share a reduction among threads",
        lambda p: p.sC.parallel(p.k),
        "parallel on stage 'C', axis 'k': it is a reduction axis, whose iterations depend on one "
        "another; parallel a spatial axis, or make it one with rfactor",
    ),
    refused(
        "parallel loops in one another",
        lambda p: [p.sB.parallel(p.i), p.sB.parallel(p.sB.split(p.j, factor=4)[1]), p.lower()],
        "axis 'j.inner' of stage 'B' is parallel inside the parallel axis 'i' of stage 'B'; make "
        "only one of them parallel, or let one directly follow the other",
        LoweringError,
    ),
    refused(
        "a parallel stage inside a parallel loop",
        nested_parallel,
        "axis 'x' of stage 'C' is parallel inside the parallel axis 'y' of stage 'D'; make only "
        "one of them parallel, or let one directly follow the other",
        LoweringError,
    ),
    refused(
        "unroll a parallel loop",
        lambda p: [p.sD.parallel(p.y), p.sD.unroll(p.y)],
        "unroll on stage 'D', axis 'y': it is parallel already; choose one of bind, "
        "parallel, unroll and vectorize for it",
    ),
    refused(
        "unroll an axis of another stage",
        lambda p: p.sD.unroll(p.i),
        "unroll on stage 'D', axis 'i': it belongs to stage 'B'; give one of the loops of 'D': y",
    ),
    refused(
        "bind to a text",
        lambda p: p.sD.bind(p.y, "threadIdx.x"),
        "bind on stage 'D', axis 'y': 'threadIdx.x' is not a thread axis; give one made by "
        "te.thread_axis",
    ),
    refused(
        "bind to a loop",
        lambda p: p.sD.bind(p.y, p.x),
        "bind on stage 'D', axis 'y': <spatial axis x> is not a thread axis; give one made by "
        "te.thread_axis",
    ),
    refused(
        "bind two loops to one thread axis",
        lambda p: [p.sB.bind(p.i, thread()), p.sB.bind(p.j, thread())],
        "bind on stage 'B', axis 'j': axis 'i' is bound to threadIdx.x already, which has one "
        "index for both; fuse the two axes, or choose another thread axis",
    ),
    refused(
        "bind two loops to one virtual thread",
        lambda p: bind_all(p.sB, te.thread_axis("vthread"), p.i, p.j),
        "bind on stage 'B', axis 'j': axis 'i' is bound to the same vthread already, which has "
        "one index for both; fuse the two axes, or choose another thread axis",
    ),
    refused(
        "bind a reduction to the thread axis of another loop",
        lambda p: [p.sC.bind(p.x, thread()), p.sC.bind(p.k, thread())],
        "bind on stage 'C', axis 'k': axis 'x' is bound to threadIdx.x already, which has one "
        "index for both; fuse the two axes, or choose another thread axis",
    ),
    refused(
        "bind twice",
        lambda p: [p.sB.bind(p.i, thread()), p.sB.bind(p.i, thread("blockIdx.x"))],
        "bind on stage 'B', axis 'i': it is bound to threadIdx.x already; choose one of bind, "
        "parallel, unroll and vectorize for it",
    ),
    refused(
        "bind a reduction to blocks",
        lambda p: p.sC.bind(p.k, thread("blockIdx.x")),
        "bind on stage 'C', axis 'k': it is a reduction axis, which only the threads of a block "
        "share; bind it to a threadIdx, not to blockIdx.x, or make it a spatial axis with rfactor",
    ),
    refused(
        "bind a loop of another length",
        a_thread_axis_of_another_length,
        "stage 'D': axis 'y' bound to threadIdx.x must have its extent; leave the thread "
        "axis' range out, or split the loop to it",
        InstantiationError,
    ),
    refused(
        "an unknown pragma",
        lambda p: p.sD.pragma(p.y, "unroll"),
        "pragma on stage 'D', axis 'y': there is no pragma 'unroll'; give one of "
        "auto_unroll_max_step, unroll_explicit, nontemporal_store, blocks_per_multiprocessor, "
        "state_in_ring, prefetch_steps, num_threads, prefetch",
    ),
    refused(
        "a pragma twice",
        lambda p: [p.sD.pragma(p.y, "unroll_explicit", b) for b in (True, False)],
        "pragma on stage 'D', axis 'y': it has the pragma 'unroll_explicit' already; give it once",
    ),
    refused(
        "a pragma without its value",
        lambda p: p.sD.pragma(p.y, "auto_unroll_max_step"),
        "pragma on stage 'D', axis 'y': the value of 'auto_unroll_max_step' is None; give a whole "
        "number of at least 0",
    ),
    refused(
        "a flag that is none",
        lambda p: p.sD.pragma(p.y, "unroll_explicit", 2),
        "pragma on stage 'D', axis 'y': the value of 'unroll_explicit' is 2; give True or False",
    ),
    refused(
        "a value for a pragma that takes none",
        lambda p: p.sD.pragma(p.y, "nontemporal_store", 1),
        "pragma on stage 'D', axis 'y': 'nontemporal_store' takes no value, got 1; leave it out",
    ),
]


@pytest.mark.parametrize(
    ("make", "error", "message"), [*SPLIT, *FUSE_AND_REORDER, *ANNOTATE]
)
def test_a_mistake_is_told_in_one_line(
    make: Callable[[Program], object], error: type[AutotuneError], message: str
) -> None:
    assert_refused(make, error, message)
