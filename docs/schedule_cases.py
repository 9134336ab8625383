"""What docs/schedule.md shows: for each primitive a program, what is done to it, and a mistake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autotune import te

Names = dict[str, Any]


def add_one() -> Names:
    """B = A + 1."""
    A = te.placeholder((6, 8), name="A")
    B = te.compute((6, 8), lambda i, j: A[i, j] + 1, name="B")
    i, j = B.op.axis
    return {"A": A, "B": B, "i": i, "j": j, "args": [A, B]}


def row_sums() -> Names:
    """C = the sums of A's rows."""
    A = te.placeholder((6, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    C = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="C")
    return {"A": A, "C": C, "i": C.op.axis[0], "k": k, "args": [A, C]}


def two_stages() -> Names:
    """C = 2 (A + 1), by way of B = A + 1."""
    A = te.placeholder((6, 8), name="A")
    B = te.compute((6, 8), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((6, 8), lambda y, x: B[y, x] * 2, name="C")
    i, j = B.op.axis
    y, x = C.op.axis
    return {"A": A, "B": B, "C": C, "i": i, "j": j, "y": y, "x": x, "args": [A, C]}


def column_sums() -> Names:
    """S = the sums of A's columns down to each row: a scan with a cell of two stages."""
    A = te.placeholder((6, 8), name="A")
    state = te.placeholder((6, 8), name="state")
    init = te.compute((1, 8), lambda _, j: A[0, j], name="init")
    half = te.compute((6, 8), lambda t, j: A[t, j] / 2 + state[t - 1, j], name="half")
    update = te.compute((6, 8), lambda t, j: half[t, j] * 2, name="update")
    S = te.scan(init, update, state, inputs=[A], name="S")
    parts = {"init": init, "half": half, "update": update, "S": S}
    return {"A": A, **parts, "t": update.op.axis[0], "j": update.op.axis[1], "args": [A, S]}


def doubled_sums() -> Names:
    """C = 2 S, by way of S, the sums of A's columns down to each row."""
    A = te.placeholder((6, 8), name="A")
    state = te.placeholder((6, 8), name="state")
    init = te.compute((1, 8), lambda _, j: A[0, j], name="init")
    update = te.compute((6, 8), lambda t, j: A[t, j] + state[t - 1, j], name="update")
    S = te.scan(init, update, state, inputs=[A], name="S")
    C = te.compute((6, 8), lambda y, x: S[y, x] * 2, name="C")
    return {"A": A, "S": S, "C": C, "y": C.op.axis[0], "x": C.op.axis[1], "args": [A, C]}


@dataclass(frozen=True)
class Primitive:
    """A section of the page.

    Attributes
    ----------
    call : str
        Its heading.
    program : callable
        Makes the tensors and axes that the code below names.
    code : str
        What is done to the schedule `s`.
    purpose, rules : str
        What it is for, and what is refused.
    mistake : str
        Code that is refused.
    final : bool
        Show the final form, in which backends get the loops.
    first : str
        What is done before the loops shown first.
    """

    call: str
    program: Callable[[], Names]
    code: str
    purpose: str
    rules: str
    mistake: str
    final: bool = False
    first: str = ""


LOOPS = [
    Primitive(
        "s[B].split(axis, factor=) or s[B].split(axis, nparts=)",
        add_one,
        "outer, inner = s[B].split(j, factor=3)",
        "Cuts a loop in two: the inner one is `factor` long, or the outer one `nparts`. It is "
        "the first step of every tile, vector and task. If the factor does not divide the "
        "length, a guard excludes the extra iterations, and lowering moves it to where it costs "
        "least. With `offset=`, a number over other axes below `factor`, the first part begins so "
        "many iterations before the loop, as in `s[B].split(j, factor=4, offset=i.var * 7 % 4)` "
        "for rows of 7 elements in vectors that begin at multiples of 4.",
        "The size must be a whole number of at least 1 (or a knob); the loop must be a present "
        "loop of the stage that is not vectorized, bound or hinted yet, and no stage may be "
        "computed at it.",
        "s[B].split(j, factor=0)",
    ),
    Primitive(
        "s[B].fuse(*axes)",
        add_one,
        "s[B].fuse(i, j)",
        "Fuses adjacent loops, given outermost first. One long loop is easier to divide among "
        "threads, or to split evenly, than two short ones.",
        "The loops must be directly nested and of one kind: a spatial loop does not fuse with a "
        "reduction.",
        "s[B].fuse(j, i)",
    ),
    Primitive(
        "s[B].reorder(*axes)",
        add_one,
        "s[B].reorder(j, i)",
        "Puts loops in the given order; other loops keep their places. The innermost loop "
        "decides which accesses are consecutive, and the loops inside a reduction decide the "
        "number of accumulators.",
        "Each loop is given once, and all belong to this stage; only compute_at interleaves "
        "loops of two stages.",
        "s[B].reorder(i, te.reduce_axis((0, 4), 'k'))",
    ),
    Primitive(
        "s[B].tile(x, y, x_factor, y_factor)",
        add_one,
        "yo, xo, yi, xi = s[B].tile(i, j, 2, 4)",
        "Combines two splits and a reorder into tiles. Nearly every two-dimensional schedule "
        "begins with it.",
        "As split and reorder.",
        "s[B].tile(i, i, 2, 2)",
    ),
]

HOW = [
    Primitive(
        "s[B].vectorize(axis)",
        add_one,
        "s[B].vectorize(j)",
        "Executes the iterations of a loop as lanes of vectors. Split the loop to the length of "
        "the processor's registers, or a small multiple; guards on lanes become masks, and a "
        "loop that cannot be vectorized stays serial with a note.",
        "A reduction has no independent iterations (rfactor gives it some), and a stage has at "
        "most one vectorized loop.",
        "s[B].vectorize(i); s[B].vectorize(j)",
        final=True,
    ),
    Primitive(
        "s[B].unroll(axis)",
        add_one,
        "s[B].unroll(i)",
        "Unrolls a loop. Small inner loops, above all those over the accumulators of a register "
        "tile, then need no counter, and their indices become constants.",
        "A loop has one kind: an unrolled loop cannot also be vectorized, parallel or bound. If "
        "unrolled loops have more than 2048 iterations together with their inner unrolled loops, "
        "the outer ones stay loops in compiled code.",
        "s[B].parallel(i); s[B].unroll(i)",
    ),
    Primitive(
        "s[B].parallel(axis)",
        add_one,
        "s[B].parallel(i)",
        "Divides the iterations of a loop among the threads of the CPU. Use it for the outermost "
        "loop. If that is too short for all threads, fuse it with the next one, or make the next "
        "one parallel too: threads then share the iterations of both, whose lengths may be known "
        "at the call only.",
        "An inner loop stays serial where its length depends on the outer one, or where another "
        "stage is computed between the two. A reduction cannot be parallel. Inside a parallel loop "
        "only one of the same stage can be parallel, which follows it directly.",
        "jo, ji = s[B].split(j, factor=4); s[B].parallel(i); s[B].parallel(ji)",
    ),
    Primitive(
        "s[B].bind(axis, thread)",
        add_one,
        "s[B].bind(i, te.thread_axis('blockIdx.x'))\ns[B].bind(j, te.thread_axis('threadIdx.x'))",
        "Gives each iteration to one block, thread or virtual thread (`\"vthread\"`) of a GPU. A "
        "thread axis with a range, `te.thread_axis((0, 32), \"threadIdx.x\")`, must have the "
        "length of the loop.",
        "The threads of a block may divide a reduction and combine their results; blocks may "
        "not. A thread axis bound again inside its loop is the same index, also as another "
        "`te.thread_axis` of that name: so inner stages divide their work among the same threads "
        "and store to shared storage. Each `te.thread_axis(\"vthread\")` is an index of its own. "
        "Two loops of one stage need two indices.",
        "s[B].bind(i, te.thread_axis('threadIdx.x')); s[B].bind(j, te.thread_axis('threadIdx.x'))",
    ),
    Primitive(
        's[B].pragma(axis, "auto_unroll_max_step", n)',
        row_sums,
        's[C].pragma(i, "auto_unroll_max_step", 9)',
        "From this loop inwards, a loop whose inner loops are all unrolled is unrolled if that "
        "gives at most `n` stores. As a knob it replaces a choice per loop; here a row takes 1 + "
        "8 stores, and all rows 54.",
        "The value must be a whole number of at least 0 (or a knob), and is given once per loop.",
        's[C].pragma(i, "auto_unroll_max_step", -1)',
        final=True,
    ),
    Primitive(
        's[B].pragma(axis, "unroll_explicit", flag)',
        row_sums,
        's[C].unroll(k)\ns[C].pragma(i, "unroll_explicit", False)',
        "If False, loops that `unroll` or the pragma above unrolls stay loops with a hint to "
        "LLVM. The generated code is shorter, and LLVM's own passes see the loop first.",
        "The value must be True or False (or a knob of 0 and 1).",
        's[C].pragma(i, "unroll_explicit", 3)',
        final=True,
    ),
    Primitive(
        's[B].pragma(axis, "nontemporal_store")',
        add_one,
        's[B].vectorize(j)\ns[B].pragma(j, "nontemporal_store")',
        "The stage's vectors are stored past the caches. A kernel that writes more than the "
        "caches hold, in whole vectors, is then up to twice as fast; other kernels are slower. "
        "On CPUs, loops over vectors begin at a cache line, wherever their rows begin.",
        "It takes no value.",
        's[B].pragma(j, "nontemporal_store", 1)',
        final=True,
    ),
    Primitive(
        's[B].pragma(axis, "blocks_per_multiprocessor", n)',
        add_one,
        "s[B].bind(i, te.thread_axis('blockIdx.x'))\ns[B].bind(j, te.thread_axis('threadIdx.x'))\n"
        's[B].pragma(i, "blocks_per_multiprocessor", 2)',
        "At least `n` blocks of the stage's GPU kernel should run at once on a multiprocessor: "
        "the second number of CUDA's `__launch_bounds__`, by which the compiler limits "
        "registers. The loops do not change.",
        "The value must be a whole number of at least 0 (or a knob), 0 for the compiler's choice.",
        's[B].pragma(i, "blocks_per_multiprocessor", -1)',
    ),
]

WHERE = [
    Primitive(
        "s[B].compute_at(s[C], axis)",
        two_stages,
        "s[B].compute_at(s[C], y)",
        "Computes, inside a loop of a reader, the part that one iteration of that loop needs. "
        "The result is then used while it is in the cache or in registers, and its storage "
        "shrinks to that part.",
        "Every reader must be inside that loop, a stage is not computed inside itself, and outputs "
        "stay at the root; split and fuse the reader's loops first.",
        "s[C].compute_at(s[B], i)",
    ),
    Primitive(
        "s[B].compute_root()",
        two_stages,
        "s[B].compute_root()",
        "Computes the whole stage before its readers, as every stage is computed at first. It "
        "undoes compute_at and compute_inline.",
        "A placeholder is not computed anywhere.",
        "s[A].compute_root()",
        first="s[B].compute_inline()",
    ),
    Primitive(
        "s[B].compute_inline()",
        two_stages,
        "s[B].compute_inline()",
        "Inlines the expression into all readers; the stage and its storage vanish. Use it for "
        "cheap element-wise stages, but not for results that are read many times.",
        "A reduction needs its own loops, outputs and placeholders belong to the caller, and a "
        "stage with other stages inside keeps its loops.",
        "s[C].compute_inline()",
    ),
]

STAGES = [
    Primitive(
        "s.cache_read(tensor, scope, readers)",
        add_one,
        'copy = s.cache_read(A, "local", [B])\ns[copy].compute_at(s[B], i)',
        "Adds a stage that copies a tensor, for some of its readers. The copy can be laid out, "
        "vectorized and placed like any stage: panels of a matrix product, tiles in shared memory.",
        "Each reader must read the tensor; the scope is global, shared or local.",
        's.cache_read(B, "local", [B])',
    ),
    Primitive(
        "s.cache_write(tensor, scope)",
        row_sums,
        'acc = s.cache_write(C, "local")\ns[acc].compute_at(s[C], i)',
        "Adds a stage that computes the tensor elsewhere; its own stage then only copies. "
        "Accumulators live in registers that way, and the result is written once.",
        "It must come before the stage's loops are changed, since they go to the new stage.",
        's[C].split(k, factor=4); s.cache_write(C, "local")',
    ),
    Primitive(
        "s.rfactor(tensor, axis, factor_axis=0)",
        row_sums,
        "ko, ki = s[C].split(k, factor=4)\npartial = s.rfactor(C, ki)",
        "Adds a stage of partial results, one for each iteration of a reduction loop, which "
        "becomes spatial. The new stage can be vectorized or parallel over this loop; the old "
        "one combines the partial results.",
        "The axis must be a loop of the reduction, and the stage's spatial loops must be "
        "unchanged.",
        "s.rfactor(C, i)",
    ),
]

STORAGE = [
    Primitive(
        "s[B].set_scope(scope)",
        two_stages,
        's[B].compute_at(s[C], y)\ns[B].set_scope("local")',
        "Says in which memory the result is: global, shared by the threads of a block, or local "
        "to one thread. On CPUs all three are memory of the function, and small arrays become "
        "registers.",
        "Inputs and outputs are where the caller has them.",
        's[B].set_scope("registers")',
    ),
    Primitive(
        "s[B].transform_layout(index_map)",
        two_stages,
        "s[B].transform_layout(lambda i, j: (j // 4, i, j % 4))",
        "Stores the result by other indices, most significant first: its dimensions in another "
        "order, or cut in tiles. Loops do not change. Elements that are read down a column, or "
        "tile by tile, are then adjacent, as vectors need them.",
        "Each index is a dimension, or part of one: `j // 4`, `j % 4`, `j // 4 % 2`. Every "
        "dimension must occur, as a whole or in all its parts; indices count from the beginning "
        "of the stored region.",
        "s[B].transform_layout(lambda i, j: (i, j // 4))",
    ),
    Primitive(
        "s[B].storage_align(axis, factor, offset=0)",
        two_stages,
        "s[B].storage_align(i, 8, 1)",
        "Pads the rows of the result, so that the stride of a dimension is `offset` modulo "
        "`factor`. Rows then start at vector boundaries, or (with an offset) in different banks of "
        "shared memory.",
        "The axis is a dimension of the result and not a loop made by split; the offset is less "
        "than the factor. If a layout stores the axis in parts, the first part is aligned.",
        "s[B].storage_align(i, 8, 8)",
    ),
    Primitive(
        "s[B].double_buffer(through=None)",
        two_stages,
        "s[B].compute_at(s[C], y)\ns[B].double_buffer()",
        "Keeps two copies of a result that is computed in a loop, and computes the next "
        "iteration's copy before the present one is used. Loads for the next block then overlap "
        "the work on this one. With `through='registers'` a GPU's thread loads elements into "
        "registers and stores them after the use, so that it does not wait for the loads first; "
        "with 'copies' the hardware copies them to shared memory asynchronously.",
        "The loop it is computed at must be serial or unrolled, and its inputs must not be "
        "computed in the same loop.",
        "s[B].double_buffer(); lower()",
    ),
    Primitive(
        "s[B].set_store_predicate(condition)",
        two_stages,
        "tx = te.thread_axis('threadIdx.x')\ns[C].bind(x, tx)\ns[B].compute_at(s[C], x)\n"
        "s[B].set_scope('shared')\ns[B].set_store_predicate(tx.equal(0))",
        "Stores only where a condition holds, over thread axes, dimensions of the result and "
        "sizes. Use it if several threads would store the same value; elements that no thread "
        "stores are undefined.",
        "The condition is integer arithmetic, and thread axes in it are bound to loops around the "
        "stage.",
        "s[B].set_store_predicate(te.thread_axis('threadIdx.x').equal(0))",
    ),
]

SCANS = [
    Primitive(
        "s[update].split(...), s[half].compute_at(s[update], axis), ...",
        column_sums,
        "jo, ji = s[update].split(j, factor=4)\ns[half].compute_at(s[update], jo)\n"
        "s[init].vectorize(init.op.axis[1])",
        "Init, update and the stages between state and update, the cell, are scheduled "
        "separately, like any stage; those of the cell are in the loop over the steps unless "
        "`compute_at` puts them further in. If init and update are split in the same way and "
        "each iteration uses only its own columns, their parallel loops and threads enclose the "
        "steps in compiled code.",
        "The first axis of an update has no loop of its own, and a stage of the cell is not "
        "computed outside the steps.",
        "s[update].split(t, factor=2)",
    ),
    Primitive(
        "s[S].split(S.op.scan_axis, factor=)",
        column_sums,
        "outer, inner = s[S].split(S.op.scan_axis, factor=2)\ns[S].unroll(inner)",
        "Steps are split, fused again and unrolled by the scan's own axis. Stages that do not "
        "depend on states may be computed at the outer loop, for several steps at once. In "
        "compiled code unrolled steps move into the loop over columns if columns are independent.",
        "Steps are computed one after another and in order.",
        "s[S].parallel(S.op.scan_axis)",
    ),
    Primitive(
        "s[S].compute_at(s[C], axis)",
        doubled_sums,
        "xo, xi = s[C].split(x, factor=4)\ns[C].reorder(xo, y, xi)\ns[S].compute_at(s[C], xo)",
        "Computes, inside a loop of a reader, all steps of the columns that one iteration needs. "
        "If columns depend on one another, these are all columns.",
        "Every reader must be inside that loop; a scan is not computed inline.",
        "s[S].compute_inline()",
    ),
    Primitive(
        's[S].pragma(S.op.scan_axis, "state_in_ring")',
        column_sums,
        "s[half].compute_inline()\n"
        's[S].pragma(S.op.scan_axis, "state_in_ring")',
        "The steps that later steps read are also kept in a small ring buffer. The result itself "
        "is then only written, for instance past the caches by \"nontemporal_store\". Unrolled "
        "steps pass their values in registers.",
        "It is for the axis of a scan (or what it was split into), takes no value, and needs an "
        "update that does not reduce.",
        's[S].pragma(S.op.scan_axis, "state_in_ring", 2)',
    ),
    Primitive(
        's[S].pragma(S.op.scan_axis, "prefetch_steps", n)',
        column_sums,
        's[S].pragma(S.op.scan_axis, "prefetch_steps", 2)',
        "On CPUs, with each vector of an input, the vector that is read `n` steps later is "
        "prefetched into the L2 cache. This helps if tasks are parts of rows, because the "
        "processor's own prefetching ends with each part. The loops do not change.",
        "It is for the axis of a scan; the value must be a whole number of at least 0 (or a knob).",
        's[update].pragma(j, "prefetch_steps", 2)',
    ),
    Primitive(
        's[B].pragma(axis, "prefetch", n)',
        add_one,
        's[B].pragma(i, "prefetch", 1)',
        "On CPUs, with each vector of an input that the stage reads, the vector that is read `n` "
        "iterations later is prefetched into the nearest cache; of the statements that load it, "
        "those do so that compute most. The loops do not change.",
        "It is for an axis of the computation that is neither split nor fused; the value must be a "
        "whole number of at least 0 (or a knob).",
        's[B].pragma(s[B].split(j, factor=4)[1], "prefetch", 1)',
    ),
    Primitive(
        's[B].pragma(axis, "num_threads", n)',
        add_one,
        's[B].parallel(i)\ns[B].pragma(i, "num_threads", 2)',
        "At most `n` threads share the iterations of a parallel loop, also if they share those of "
        "other loops with it; 0 and 1 leave it serial. The loops do not change.",
        "The loop is parallel already; the value must be a whole number of at least 0, a knob, or "
        "depend on sizes that only calls know.",
        's[B].pragma(j, "num_threads", 2)',
    ),
]

SECTIONS = {
    "Loops of a stage": LOOPS,
    "How a loop runs": HOW,
    "Where a stage is computed": WHERE,
    "New stages": STAGES,
    "How a result is stored": STORAGE,
    "Scans": SCANS,
}
