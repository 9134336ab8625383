"""Placement of stages: the loops around them, illegal nestings, storage scopes of results."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise

from autotune.errors import LoweringError
from autotune.ir.axes import IterVar
from autotune.ir.stmt import LoopKind
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Attach, Stage
from autotune.te.scan import ScanOp


def loop_path(stage: Stage) -> Iterator[tuple[Stage, IterVar]]:
    """Yield the loops around a stage's body, innermost first, including those it is attached in."""
    for axis in reversed(stage.leaf_axes):
        yield stage, axis
    if stage.attach is Attach.INIT:
        assert stage.scan is not None
        stage = stage.scan
    while (point := stage.attach_point) is not None:
        stage, at = point
        inside = True
        for axis in reversed(stage.leaf_axes):
            inside = inside and axis is not at
            if not inside:
                yield stage, axis


def refuse_repeated_axes(stage: Stage) -> None:
    """Raise an error for a loop inside another loop over the same reduction axis."""
    owners: dict[IterVar, Stage] = {}
    for owner, axis in loop_path(stage):
        other = owners.setdefault(axis, owner)
        if other is not owner:
            raise LoweringError(
                f"stages {other.name!r} and {owner.name!r} both reduce over axis {axis.name!r}, "
                f"and one is computed inside the other; make a te.reduce_axis for each"
            )


def refuse_nested_parallel(stage: Stage) -> None:
    """Raise an error for a parallel loop inside another: threads cannot be divided further.

    Only loops of one stage, each directly inside the other, may all be parallel: threads share the
    iterations of all of them.
    """
    path = list(loop_path(stage))
    parallel = [owner.loop_kinds.get(axis) is LoopKind.PARALLEL for owner, axis in path]
    places = [n for n, is_parallel in enumerate(parallel) if is_parallel]
    for place, around in pairwise(places):
        (inner, axis), (outer, over) = path[place], path[around]
        if around != place + 1 or inner is not outer:
            raise LoweringError(
                f"axis {axis.name!r} of stage {inner.name!r} is parallel inside the parallel axis "
                f"{over.name!r} of stage {outer.name!r}; make only one of them parallel, or let "
                "one directly follow the other"
            )


def refuse_nested_vectors(stage: Stage) -> None:
    """Raise an error for two vectorized loops in one stage: vectors cannot hold vectors."""
    vectors = [x for x in stage.leaf_axes if stage.loop_kinds.get(x) is LoopKind.VECTORIZED]
    if len(vectors) > 1:
        outer, inner, *_ = vectors
        raise LoweringError(
            f"axes {outer.name!r} and {inner.name!r} of stage {stage.name!r} are both vectorized, "
            "and vectors hold no vectors; fuse the two, or unroll one"
        )


def refuse_rings_of_reductions(schedule: Schedule, scan: Stage) -> None:
    """Raise an error for a ring buffer of a reduction, which is computed in place."""
    op = scan.op
    if not isinstance(op, ScanOp) or not scan.has_pragma("state_in_ring"):
        return
    for tensor in (*op.init, *op.update):
        stage = schedule[tensor]
        if stage.op.reduce_axis:
            raise LoweringError(
                f"stage {stage.name!r}: it reduces, and the steps of scan {scan.name!r} are "
                "kept in a ring, which is written once; give the reduction a stage of its "
                "own with cache_write"
            )


def storage_scope(stage: Stage) -> str:
    """Return the storage scope of a stage's result; by default it follows from its threads.

    Results of single threads (or virtual threads) are local, results of blocks are
    shared.
    """
    if stage.scope is not None:
        return stage.scope
    ranks = [_thread_rank(owner, axis) for owner, axis in _around(stage)]
    return {-1: "global", 0: "shared", 1: "local"}[max(ranks, default=-1)]


def _around(stage: Stage) -> Iterator[tuple[Stage, IterVar]]:
    """Yield the loops that a stage is attached in, innermost first."""
    own = len(stage.leaf_axes)
    return islice(loop_path(stage), own, None)


def _thread_rank(owner: Stage, axis: IterVar) -> int:
    """Return 0 for an axis bound to blocks, 1 for threads, else -1.

    Virtual threads count as threads, as in TVM.
    """
    thread = owner.bindings.get(axis)
    if thread is None:
        return -1
    return 0 if thread.thread_tag.startswith("blockIdx") else 1


_SCOPE_RANKS = {"global": 0, "shared": 1, "local": 2}


def shared_across(scope: str, owner: Stage, axis: IterVar) -> bool:
    """Whether storage of this scope is shared by the iterations of a thread-bound axis."""
    return _SCOPE_RANKS[scope] <= _thread_rank(owner, axis)


def seen_by_all(stage: Stage, level: str) -> bool:
    """Whether the blocks, threads or virtual threads around a stage ("level") see its whole result.

    Results of a block are visible in this block only, also in global storage, because blocks
    cannot wait for each other.
    """
    owner = stage if stage.attach is not Attach.INIT and stage.time is None else stage.scan
    assert owner is not None
    return level != "block" and storage_scope(owner) == "shared"
