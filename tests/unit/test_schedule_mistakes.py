"""What schedules and lowering refuse, and in what words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mistakes import Mistakes, Program, assert_refused, lower_schedule_of

import autotune
from autotune import te
from autotune.errors import AutotuneError, InstantiationError, IRError, LoweringError, ScheduleError
from autotune.lowering.finalise import analyse
from autotune.lowering.nest import lower_schedule

mistake = Mistakes()


@mistake(IRError, "compute 'X': the function must return an expression, got 'a'")
def compute_str(p: Program) -> None:
    te.compute((4,), lambda i: "a", name="X")


@mistake(IRError, "cannot use a slice (slice(None, None, None)) in an expression")
def index_slice(p: Program) -> None:
    te.compute((4,), lambda i: p.A[i, :], name="X")


@mistake(IRError, "cannot use a str ('x') in an expression")
def eq_axis(p: Program) -> None:
    te.compute((4,), lambda i: te.select(i.equal(2), p.A[i, 0], "x"), name="X")


@mistake(
    IRError,
    "unknown thread axis None: expected one of blockIdx.x, blockIdx.y, blockIdx.z, "
    "threadIdx.x, threadIdx.y, threadIdx.z, vthread",
)
def thread_none(p: Program) -> None:
    te.thread_axis((0, 4))


@mistake(
    ScheduleError,
    "create_schedule takes operations to compute, as in create_schedule(C.op), got "
    "<PlaceholderOp A>",
)
def schedule_placeholder(p: Program) -> None:
    te.create_schedule(p.A.op)


@mistake(
    ScheduleError,
    "create_schedule takes operations to compute, as in create_schedule(C.op), got "
    "<tensor D: float32 [8]>",
)
def schedule_tensor(p: Program) -> None:
    te.create_schedule(p.D)


@mistake(ScheduleError, "create_schedule takes at least one operation to compute")
def schedule_none(p: Program) -> None:
    te.create_schedule([])


@mistake(ScheduleError, "'Z' is not a stage of this schedule; it has: A, B, C, D")
def not_a_stage(p: Program) -> None:
    p.s[te.placeholder((3,), name="Z")]


@mistake(
    ScheduleError,
    "split on stage 'D': axis 'x' is not an axis of this stage; its loops are: y",
)
def split_other_axis(p: Program) -> None:
    p.s[p.D].split(p.C.op.axis[0], factor=2)


@mistake(ScheduleError, "split on stage 'D': expected an axis, got <y>")
def split_var(p: Program) -> None:
    p.s[p.D].split(p.D.op.axis[0].var, factor=2)


@mistake(ScheduleError, "split on stage 'D': expected an axis, got 0")
def split_position(p: Program) -> None:
    p.s[p.D].split(0, factor=2)


@mistake(
    ScheduleError,
    "split on stage 'D': factor must be known before the program runs, got `size`",
)
def split_by_a_run_time_size(p: Program) -> None:
    p.s[p.D].split(p.D.op.axis[0], factor=te.var("size"))


@mistake(ScheduleError, "split on stage 'D': factor must be at least 1, got 0")
def split_zero(p: Program) -> None:
    p.s[p.D].split(p.D.op.axis[0], factor=0)


@mistake(ScheduleError, "split on stage 'D': factor must be an integer, got 2.0")
def split_float(p: Program) -> None:
    p.s[p.D].split(p.D.op.axis[0], factor=2.0)


@mistake(ScheduleError, "split on stage 'D': factor must be an integer, got '2'")
def split_str(p: Program) -> None:
    p.s[p.D].split(p.D.op.axis[0], factor="2")


@mistake(ScheduleError, "split on stage 'D': factor must be an integer, got True")
def split_bool(p: Program) -> None:
    p.s[p.D].split(p.D.op.axis[0], factor=True)


@mistake(ScheduleError, "split on stage 'D': axis 'y' needs either factor= or nparts=, got neither")
def split_neither(p: Program) -> None:
    p.s[p.D].split(p.D.op.axis[0])


@mistake(ScheduleError, "split on stage 'D': axis 'y' needs either factor= or nparts=, got both")
def split_both(p: Program) -> None:
    p.s[p.D].split(p.D.op.axis[0], factor=2, nparts=2)


@mistake(ScheduleError, "split on stage 'D': factor must not depend on a loop, got `x`")
def split_loopvar(p: Program) -> None:
    p.s[p.D].split(p.D.op.axis[0], factor=p.C.op.axis[0])


@mistake(
    ScheduleError,
    "split on stage 'D': axis 'y' was already split or fused; its loops are: y.outer, y.inner",
)
def split_twice(p: Program) -> None:
    (y,) = p.D.op.axis
    p.s[p.D].split(y, factor=2)
    p.s[p.D].split(y, factor=2)


@mistake(ScheduleError, "split on stage 'A': expected an axis, got 0")
def split_placeholder(p: Program) -> None:
    p.s[p.A].split(0, factor=2)


@mistake(ScheduleError, "split on stage 'D': axis 'y' is vectorized already; split it before")
def split_vectorized(p: Program) -> None:
    p.s[p.D].vectorize(p.D.op.axis[0])
    p.s[p.D].split(p.D.op.axis[0], factor=2)


@mistake(ScheduleError, "split on stage 'D': axis 'y' is bound to threadIdx.x; split it before")
def split_bound(p: Program) -> None:
    p.s[p.D].bind(p.D.op.axis[0], te.thread_axis("threadIdx.x"))
    p.s[p.D].split(p.D.op.axis[0], factor=2)


@mistake(ScheduleError, "fuse on stage 'D': at least one axis is needed")
def fuse_none(p: Program) -> None:
    p.s[p.D].fuse()


@mistake(
    ScheduleError,
    "fuse on stage 'B': axis 'i' does not follow 'j' directly; reorder them first",
)
def fuse_apart(p: Program) -> None:
    p.s[p.B].fuse(p.B.op.axis[1], p.B.op.axis[0])


@mistake(
    ScheduleError,
    "fuse on stage 'C': cannot fuse the spatial axis 'x' with the reduce axis 'k'",
)
def fuse_mixed(p: Program) -> None:
    p.s[p.C].fuse(p.C.op.axis[0], p.k)


@mistake(
    ScheduleError,
    "fuse on stage 'B': expected an axis, got (<spatial axis i>, <spatial axis j>)",
)
def fuse_list(p: Program) -> None:
    p.s[p.B].fuse(p.B.op.axis)


@mistake(
    ScheduleError,
    "fuse on stage 'B': axis 'i' does not follow 'i' directly; reorder them first",
)
def fuse_same(p: Program) -> None:
    p.s[p.B].fuse(p.B.op.axis[0], p.B.op.axis[0])


@mistake(ScheduleError, "reorder on stage 'B': an axis is given twice")
def reorder_twice(p: Program) -> None:
    p.s[p.B].reorder(p.B.op.axis[0], p.B.op.axis[0])


@mistake(
    ScheduleError,
    "reorder on stage 'B': axis 'k' is not an axis of this stage; its loops are: i, j",
)
def reorder_foreign(p: Program) -> None:
    p.s[p.B].reorder(p.B.op.axis[0], p.k)


@mistake(
    ScheduleError,
    "reorder on stage 'B': expected an axis, got [<spatial axis i>, <spatial axis j>]",
)
def reorder_list(p: Program) -> None:
    p.s[p.B].reorder([p.B.op.axis[0], p.B.op.axis[1]])


@mistake(
    ScheduleError,
    "split on stage 'B': axis 'i' was already split or fused; its loops are: i.outer, i.inner, j",
)
def tile_same(p: Program) -> None:
    p.s[p.B].tile(p.B.op.axis[0], p.B.op.axis[0], 2, 2)


@mistake(
    ScheduleError,
    "vectorize on stage 'C': 'k' is a reduction axis, whose iterations depend on one "
    "another; reorder and use a spatial axis",
)
def vectorize_reduce(p: Program) -> None:
    p.s[p.C].vectorize(p.k)


@mistake(
    ScheduleError,
    "parallel on stage 'C': 'k' is a reduction axis, whose iterations depend on one "
    "another; reorder and use a spatial axis",
)
def parallel_reduce(p: Program) -> None:
    p.s[p.C].parallel(p.k)


@mistake(ScheduleError, "unroll on stage 'D': axis 'y' is parallel already; unroll it before")
def parallel_twice(p: Program) -> None:
    p.s[p.D].parallel(p.D.op.axis[0])
    p.s[p.D].unroll(p.D.op.axis[0])


@mistake(
    ScheduleError,
    "bind on stage 'D': expected an axis made by te.thread_axis, got 'threadIdx.x'",
)
def bind_string(p: Program) -> None:
    p.s[p.D].bind(p.D.op.axis[0], "threadIdx.x")


@mistake(
    ScheduleError,
    "bind on stage 'B': axis 'i' is bound to threadIdx.x already; fuse the two axes "
    "or choose another thread axis",
)
def bind_twice(p: Program) -> None:
    t = te.thread_axis("threadIdx.x")
    p.s[p.B].bind(p.B.op.axis[0], t)
    p.s[p.B].bind(p.B.op.axis[1], t)


@mistake(
    ScheduleError,
    "bind on stage 'C': 'k' is a reduction axis, whose iterations depend on one "
    "another; bind a spatial axis",
)
def bind_reduce(p: Program) -> None:
    p.s[p.C].bind(p.k, te.thread_axis("threadIdx.x"))


@mistake(ScheduleError, "compute_at on stage 'C': a stage cannot be computed inside itself")
def compute_at_self(p: Program) -> None:
    p.s[p.C].compute_at(p.s[p.C], p.C.op.axis[0])


@mistake(
    ScheduleError,
    "compute_at on stage 'D': an output of the schedule must stay at the root",
)
def compute_at_output(p: Program) -> None:
    p.s[p.D].compute_at(p.s[p.C], p.C.op.axis[0])


@mistake(
    ScheduleError,
    "compute_at on stage 'C': expected a stage first, as in s[B], got <tensor D: float32 [8]>",
)
def compute_at_tensor(p: Program) -> None:
    p.s[p.C].compute_at(p.D, p.D.op.axis[0])


@mistake(
    ScheduleError,
    "compute_at on stage 'D': axis 'x' is not an axis of this stage; its loops are: y",
)
def compute_at_axis(p: Program) -> None:
    p.s[p.C].compute_at(p.s[p.D], p.C.op.axis[0])


@mistake(
    ScheduleError,
    "compute_at on stage 'A': a placeholder is given by the caller and not computed",
)
def compute_at_placeholder(p: Program) -> None:
    p.s[p.A].compute_at(p.s[p.B], p.B.op.axis[0])


@mistake(
    LoweringError,
    "stage 'B' is computed at axis 'y' of stage 'D', but its reader 'C' is not inside"
    " that loop; move the reader there too, or compute 'B' further out",
)
def compute_at_wrong_reader(p: Program) -> None:
    p.s[p.B].compute_at(p.s[p.D], p.D.op.axis[0])
    lower_schedule_of(p.s, p.A, p.D)


@mistake(
    LoweringError,
    "stage 'C' is computed at axis 'y' of stage 'D', which was split or fused "
    "afterwards; do that first",
)
def compute_at_then_split(p: Program) -> None:
    p.s[p.C].compute_at(p.s[p.D], p.D.op.axis[0])
    p.s[p.D].split(p.D.op.axis[0], factor=2)
    lower_schedule_of(p.s, p.A, p.D)


@mistake(LoweringError, "stage 'C' is computed inside itself")
def compute_at_cycle(p: Program) -> None:
    p.s[p.C].compute_at(p.s[p.B], p.B.op.axis[0])
    p.s[p.B].compute_at(p.s[p.C], p.C.op.axis[0])
    lower_schedule_of(p.s, p.A, p.D)


@mistake(
    LoweringError,
    "stage 'D' is computed at axis 'i' of stage 'X', but its reader 'Y' is not inside"
    " that loop; move the reader there too, or compute 'D' further out",
)
def compute_at_inlined(p: Program) -> None:
    X = te.compute((8,), lambda i: p.D[i] + 1, name="X")
    Y = te.compute((8,), lambda i: X[i] + 1, name="Y")
    t = te.create_schedule(Y.op)
    t[p.D].compute_at(t[X], X.op.axis[0])
    t[X].compute_inline()
    lower_schedule_of(t, p.A, Y)


@mistake(
    ScheduleError,
    "compute_inline on stage 'C': a reduction cannot be inlined; use compute_at",
)
def inline_reduction(p: Program) -> None:
    p.s[p.C].compute_inline()


@mistake(
    ScheduleError,
    "compute_inline on stage 'D': an output of the schedule must stay at the root",
)
def inline_output(p: Program) -> None:
    p.s[p.D].compute_inline()


@mistake(
    ScheduleError,
    "compute_inline on stage 'A': a placeholder is given by the caller and not computed",
)
def inline_placeholder(p: Program) -> None:
    p.s[p.A].compute_inline()


@mistake(
    ScheduleError,
    "set_scope on stage 'C': unknown scope 'register'; expected one of global, shared, local",
)
def scope_unknown(p: Program) -> None:
    p.s[p.C].set_scope("register")


@mistake(ScheduleError, "set_scope on stage 'D': an output of the schedule must stay at the root")
def scope_output(p: Program) -> None:
    p.s[p.D].set_scope("local")


@mistake(ScheduleError, "cache_read: unknown scope 'l1'; expected one of global, shared, local")
def cache_read_scope(p: Program) -> None:
    p.s.cache_read(p.A, "l1", [p.B])


@mistake(ScheduleError, "cache_read on stage 'D': it does not read 'A'")
def cache_read_not_reader(p: Program) -> None:
    p.s.cache_read(p.A, "local", [p.D])


@mistake(ScheduleError, "cache_read on stage 'A': at least one reader is needed")
def cache_read_none(p: Program) -> None:
    p.s.cache_read(p.A, "local", [])


@mistake(ScheduleError, "'Z' is not a stage of this schedule; it has: A, B, C, D")
def cache_read_foreign(p: Program) -> None:
    p.s.cache_read(te.placeholder((3,), name="Z"), "local", [p.B])


@mistake(ScheduleError, "cache_read: expected a tensor first, got <PlaceholderOp A>")
def cache_read_op(p: Program) -> None:
    p.s.cache_read(p.A.op, "local", [p.B])


@mistake(ScheduleError, "cache_read: expected a tensor first, got 'A'")
def cache_read_str(p: Program) -> None:
    p.s.cache_read("A", "local", [p.B])


@mistake(ScheduleError, "'B' is not a stage of this schedule; it has: A, B, C, D")
def cache_read_stage(p: Program) -> None:
    p.s.cache_read(p.A, "local", [p.s[p.B]])


@mistake(
    ScheduleError,
    "cache_write on stage 'A': a placeholder is given by the caller and not computed",
)
def cache_write_placeholder(p: Program) -> None:
    p.s.cache_write(p.A, "local")


@mistake(
    ScheduleError,
    "cache_write on stage 'C': it must come before the stage's loops are changed",
)
def cache_write_late(p: Program) -> None:
    p.s[p.C].split(p.k, factor=2)
    p.s.cache_write(p.C, "local")


@mistake(ScheduleError, "cache_write: unknown scope 'L1'; expected one of global, shared, local")
def cache_write_scope(p: Program) -> None:
    p.s.cache_write(p.C, "L1")


@mistake(
    ScheduleError,
    "'[<tensor C: float32 [8]>]' is not a stage of this schedule; it has: A, B, C, D",
)
def cache_write_list(p: Program) -> None:
    p.s.cache_write([p.C], "local")


@mistake(
    ScheduleError,
    "cache_write on stage 'B': it must come before the stage's loops are changed",
)
def cache_write_reordered(p: Program) -> None:
    p.s[p.B].reorder(p.B.op.axis[1], p.B.op.axis[0])
    p.s.cache_write(p.B, "local")


@mistake(
    ScheduleError,
    "split on stage 'C': axis 'k' is not an axis of this stage; its loops are: x",
)
def cache_write_then_old_axis(p: Program) -> None:
    p.s.cache_write(p.C, "local")
    p.s[p.C].split(p.k, factor=2)


@mistake(
    LoweringError,
    "stage 'B' is computed at axis 'x' of stage 'C', but its reader 'C.local' is not "
    "inside that loop; move the reader there too, or compute 'B' further out",
)
def cache_write_attached(p: Program) -> None:
    p.s[p.C].compute_at(p.s[p.D], p.D.op.axis[0])
    p.s[p.B].compute_at(p.s[p.C], p.C.op.axis[0])
    p.s.cache_write(p.C, "local")
    lower_schedule_of(p.s, p.A, p.D)


@mistake(LoweringError, "placeholder 'A' is read but missing from the list of tensors")
def lower_missing_input(p: Program) -> None:
    lower_schedule_of(p.s, p.D)


@mistake(LoweringError, "output 'D' of the schedule is missing from the list of tensors")
def lower_missing_output(p: Program) -> None:
    lower_schedule_of(p.s, p.A)


@mistake(LoweringError, "tensor 'A' is listed twice as a parameter")
def lower_twice(p: Program) -> None:
    lower_schedule_of(p.s, p.A, p.A, p.D)


@mistake(
    LoweringError,
    "tensor 'C' is an intermediate result; give its operation to create_schedule too "
    "if it shall be returned",
)
def lower_intermediate(p: Program) -> None:
    lower_schedule_of(p.s, p.A, p.C, p.D)


@mistake(ScheduleError, "'X' is not a stage of this schedule; it has: A, B, C, D")
def lower_foreign(p: Program) -> None:
    X = te.compute((3,), lambda i: p.A[i, 0], name="X")
    lower_schedule_of(p.s, p.A, X, p.D)


@mistake(
    LoweringError,
    "expected the list of tensors, inputs then outputs, got [<tensor A: float32 [8, "
    "6]>, <ComputeOp D>]",
)
def lower_not_tensor(p: Program) -> None:
    lower_schedule_of(p.s, p.A, p.D.op)


@mistake(
    LoweringError,
    "expected the list of tensors, inputs then outputs, got <tensor D: float32 [8]>",
)
def lower_single(p: Program) -> None:
    lower_schedule(p.s, p.D)


@mistake(LoweringError, "expected a schedule first, got <tensor D: float32 [8]>")
def lower_not_schedule(p: Program) -> None:
    autotune.lower(p.D, [p.A, p.D])


@mistake(
    InstantiationError,
    "stage 'D': axis 'y' bound to threadIdx.x must have the thread axis' extent",
)
def local_outside_thread(p: Program) -> None:
    p.s[p.D].bind(p.D.op.axis[0], te.thread_axis((0, 4), "threadIdx.x"))
    analyse(lower_schedule(p.s, [p.A, p.D]))


@mistake(ScheduleError, "vectorize on stage 'D': expected an axis, got <tensor D: float32 [8]>")
def vector_len(p: Program) -> None:
    p.s[p.D].vectorize(p.D)


@pytest.mark.parametrize(("make", "error", "message"), mistake.table)
def test_a_mistake_is_told_in_one_line(
    make: Callable[[Program], None], error: type[AutotuneError], message: str
) -> None:
    assert_refused(make, error, message)
