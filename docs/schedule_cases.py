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
        "Cuts a loop in two: the inner one is `factor` long, or the outer one `nparts`. It is the "
        "first step of every tile, vector and task; where the length does not divide, a guard "
        "keeps the last iterations inside, and lowering moves it to where it costs least.",
        "The size must be a whole number of at least 1 (or a knob); the loop must be one of the "
        "stage's as they are now, and not vectorized, bound or hinted already, nor one that a "
        "stage is computed at.",
        "s[B].split(j, factor=0)",
    ),
    Primitive(
        "s[B].fuse(*axes)",
        add_one,
        "s[B].fuse(i, j)",
        "Makes one loop of neighbours, given outermost first. One long loop is easier to share "
        "among threads, or to cut evenly, than two short ones.",
        "The loops must follow one another directly and be of one kind: a spatial loop does not "
        "fuse with a reduction.",
        "s[B].fuse(j, i)",
    ),
    Primitive(
        "s[B].reorder(*axes)",
        add_one,
        "s[B].reorder(j, i)",
        "Puts loops in the given order, in the places that they hold together. The innermost loop "
        "decides which accesses are consecutive, and what is around a reduction decides how many "
        "accumulators there are.",
        "Each loop is given once, and all belong to this stage; loops of two stages never "
        "interleave but by compute_at.",
        "s[B].reorder(i, te.reduce_axis((0, 4), 'k'))",
    ),
    Primitive(
        "s[B].tile(x, y, x_factor, y_factor)",
        add_one,
        "yo, xo, yi, xi = s[B].tile(i, j, 2, 4)",
        "Two splits and the order that makes blocks of them. It is short for what nearly every "
        "two-dimensional schedule begins with.",
        "As split and reorder.",
        "s[B].tile(i, i, 2, 2)",
    ),
]

HOW = [
    Primitive(
        "s[B].vectorize(axis)",
        add_one,
        "s[B].vectorize(j)",
        "Carries out the iterations of a loop as lanes of vectors. Split it off at the length that "
        "the processor's registers have, or a small multiple; guards on lanes become masks, and "
        "a loop that cannot be vectorized stays serial with a note.",
        "A reduction has no independent iterations to put side by side (rfactor gives it some), "
        "and a stage has one vectorized loop.",
        "s[B].vectorize(i); s[B].vectorize(j)",
        final=True,
    ),
    Primitive(
        "s[B].unroll(axis)",
        add_one,
        "s[B].unroll(i)",
        "Writes the iterations of a loop out one after another. Small inner loops, over the "
        "accumulators of a register tile above all, then need no counter, and their indices become "
        "constants.",
        "A loop has one kind: it is not unrolled and vectorized, parallel or bound as well. Loops "
        "that would come to more than 2048 iterations, those of unrolled loops inside them "
        "counted, stay loops in compiled code, the outer ones first.",
        "s[B].parallel(i); s[B].unroll(i)",
    ),
    Primitive(
        "s[B].parallel(axis)",
        add_one,
        "s[B].parallel(i)",
        "Shares the iterations of a loop among the threads of the CPU. It pays for the outermost "
        "loop, fused from several if one alone is too short for all threads.",
        "A reduction is not shared, and no parallel loop is inside another, of the same stage or "
        "of one that it is computed in.",
        "s[B].parallel(i); s[B].parallel(j)",
    ),
    Primitive(
        "s[B].bind(axis, thread)",
        add_one,
        "s[B].bind(i, te.thread_axis('blockIdx.x'))\ns[B].bind(j, te.thread_axis('threadIdx.x'))",
        "Gives each iteration to one block, thread or virtual thread (`\"vthread\"`) of a GPU. A "
        "thread axis with a range, `te.thread_axis((0, 32), \"threadIdx.x\")`, must have the "
        "length of the loop.",
        "The threads of a block may share a reduction and combine what each has; blocks may not. "
        "A thread axis bound again inside its loop is the same index, also as another "
        "`te.thread_axis` of that name: so stages that are computed inside share the work among "
        "the same threads, into shared storage. Each `te.thread_axis(\"vthread\")` is an index of "
        "its own. Two loops of one stage need two indices.",
        "s[B].bind(i, te.thread_axis('threadIdx.x')); s[B].bind(j, te.thread_axis('threadIdx.x'))",
    ),
    Primitive(
        's[B].pragma(axis, "auto_unroll_max_step", n)',
        row_sums,
        's[C].pragma(i, "auto_unroll_max_step", 9)',
        "From this loop inwards, loops that hold no others but unrolled ones are unrolled where "
        "that makes at most `n` stores. As a knob it replaces a choice per loop; here a row takes "
        "1 + 8 stores, and all rows 54.",
        "The value must be a whole number of at least 0 (or a knob), and is given once per loop.",
        's[C].pragma(i, "auto_unroll_max_step", -1)',
        final=True,
    ),
    Primitive(
        's[B].pragma(axis, "unroll_explicit", flag)',
        row_sums,
        's[C].unroll(k)\ns[C].pragma(i, "unroll_explicit", False)',
        "Where False, loops to be unrolled, by `unroll` or by the pragma above, stay loops that "
        "tell LLVM to unroll them. The generated code is shorter, and LLVM's own passes see the "
        "loop first.",
        "The value must be True or False (or a knob of 0 and 1).",
        's[C].pragma(i, "unroll_explicit", 3)',
        final=True,
    ),
    Primitive(
        's[B].pragma(axis, "nontemporal_store")',
        add_one,
        's[B].vectorize(j)\ns[B].pragma(j, "nontemporal_store")',
        "The stage's vectors are stored past the caches. A kernel that writes more than the caches "
        "hold, in whole vectors, then runs up to twice as fast; any other is slower. On CPUs loops "
        "over vectors that are whole cache lines, where rows are, begin at the first of these.",
        "It takes no value.",
        's[B].pragma(j, "nontemporal_store", 1)',
        final=True,
    ),
    Primitive(
        's[B].pragma(axis, "blocks_per_multiprocessor", n)',
        add_one,
        "s[B].bind(i, te.thread_axis('blockIdx.x'))\ns[B].bind(j, te.thread_axis('threadIdx.x'))\n"
        's[B].pragma(i, "blocks_per_multiprocessor", 2)',
        "At least `n` blocks of the GPU kernel that the stage makes are to run side by side on a "
        "multiprocessor: the second number of CUDA's `__launch_bounds__`, by which the compiler "
        "limits registers. The loops stay as they are.",
        "The value must be a whole number of at least 0 (or a knob), 0 for the compiler's choice.",
        's[B].pragma(i, "blocks_per_multiprocessor", -1)',
    ),
]

WHERE = [
    Primitive(
        "s[B].compute_at(s[C], axis)",
        two_stages,
        "s[B].compute_at(s[C], y)",
        "Computes, inside a loop of a reader, what one iteration of that loop needs. The result is "
        "then used while it is still in the cache or in registers, and its storage shrinks to that "
        "part.",
        "Every reader must be inside that loop, a stage is not computed inside itself, and outputs "
        "stay at the root; split and fuse the reader's loops first.",
        "s[C].compute_at(s[B], i)",
    ),
    Primitive(
        "s[B].compute_root()",
        two_stages,
        "s[B].compute_root()",
        "Computes the stage whole, before what reads it, as every stage is at first. It undoes "
        "compute_at and compute_inline.",
        "A placeholder is not computed anywhere.",
        "s[A].compute_root()",
        first="s[B].compute_inline()",
    ),
    Primitive(
        "s[B].compute_inline()",
        two_stages,
        "s[B].compute_inline()",
        "Puts the expression wherever the result is read; the stage and its storage vanish. It is "
        "right for cheap element-wise stages, and wrong for what is read many times.",
        "A reduction takes loops of its own, outputs and placeholders are the caller's, and what "
        "has other stages inside keeps its loops.",
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
        "Makes a stage of partial results, one for each iteration of a reduction loop, which "
        "becomes spatial. The new stage can be vectorized or shared among threads over it; the old "
        "one combines the parts.",
        "The axis is a loop of the reduction, and the stage's other loops are as they were.",
        "s.rfactor(C, i)",
    ),
]

STORAGE = [
    Primitive(
        "s[B].set_scope(scope)",
        two_stages,
        's[B].compute_at(s[C], y)\ns[B].set_scope("local")',
        "Says in which memory the result is: global, shared by the threads of a block, or local to "
        "one thread. On CPUs all three are memory of the function, and small ones end in "
        "registers.",
        "Inputs and outputs are where the caller has them.",
        's[B].set_scope("registers")',
    ),
    Primitive(
        "s[B].transform_layout(index_map)",
        two_stages,
        "s[B].transform_layout(lambda i, j: (j // 4, i, j % 4))",
        "Stores the result by other indices, most significant first: its dimensions in another "
        "order, or cut in tiles. Loops stay as they are. What is read down a column, or tile by "
        "tile, then lies side by side, as vectors need it.",
        "Each index is a dimension, or part of one: `j // 4`, `j % 4`, `j // 4 % 2`. Every "
        "dimension is there, whole or in all its parts; indices count from where what is stored "
        "begins.",
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
        "than the factor.",
        "s[B].storage_align(i, 8, 8)",
    ),
    Primitive(
        "s[B].double_buffer(through=None)",
        two_stages,
        "s[B].compute_at(s[C], y)\ns[B].double_buffer()",
        "Keeps two copies of what is computed in a loop, and computes the next iteration's before "
        "this one's is used. Loads for the next block can then be under way while this one is "
        "worked on. With `through='registers'` a GPU's thread keeps what it loaded in registers "
        "and stores it after the use, so that it does not wait for the loads first; with 'copies' "
        "the hardware copies it to shared memory meanwhile.",
        "The loop it is computed at must be serial or unrolled, and what it reads must not be "
        "computed in the same loop.",
        "s[B].double_buffer(); lower()",
    ),
    Primitive(
        "s[B].set_store_predicate(condition)",
        two_stages,
        "tx = te.thread_axis('threadIdx.x')\ns[C].bind(x, tx)\ns[B].compute_at(s[C], x)\n"
        "s[B].set_scope('shared')\ns[B].set_store_predicate(tx.equal(0))",
        "Stores only where a condition holds, over thread axes, dimensions of the result and "
        "sizes. Of several threads that would store the same, one is enough; what nobody stores "
        "stays undefined.",
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
        "Init, update and the stages between state and update, the cell, are scheduled apart, as "
        "any stage is; those of the cell stand in the loop over the steps unless `compute_at` puts "
        "them further in. Where init and update are split alike and each iteration keeps to its "
        "own columns, their parallel loops and threads go around the steps in compiled code.",
        "The first axis of an update has no loop of its own, and a stage of the cell is not "
        "computed outside the steps.",
        "s[update].split(t, factor=2)",
    ),
    Primitive(
        "s[S].split(S.op.scan_axis, factor=)",
        column_sums,
        "outer, inner = s[S].split(S.op.scan_axis, factor=2)\ns[S].unroll(inner)",
        "Steps are split, fused again and unrolled by the scan's own axis. What does not depend on "
        "states may be computed at the outer loop, for several steps at once. In compiled code "
        "unrolled steps go into the loop over columns, where columns do not mix.",
        "Steps are taken one after another and in order.",
        "s[S].parallel(S.op.scan_axis)",
    ),
    Primitive(
        "s[S].compute_at(s[C], axis)",
        doubled_sums,
        "xo, xi = s[C].split(x, factor=4)\ns[C].reorder(xo, y, xi)\ns[S].compute_at(s[C], xo)",
        "Computes, inside a loop of a reader, all steps of the columns that one iteration needs. "
        "Where columns mix, that is all of them.",
        "Every reader must be inside that loop; a scan is not computed inline.",
        "s[S].compute_inline()",
    ),
    Primitive(
        's[S].pragma(S.op.scan_axis, "state_in_ring")',
        column_sums,
        "s[half].compute_inline()\n"
        's[S].pragma(S.op.scan_axis, "state_in_ring")',
        "The steps that later ones read are kept in a small array besides, a ring of as many steps "
        "as that takes. The result itself is then only written, for instance past the caches by "
        '"nontemporal_store". Unrolled steps carry what they leave to one another in registers.',
        "It is for the axis of a scan (or what it was split into), takes no value, and needs an "
        "update that does not reduce.",
        's[S].pragma(S.op.scan_axis, "state_in_ring", 2)',
    ),
    Primitive(
        's[S].pragma(S.op.scan_axis, "prefetch_steps", n)',
        column_sums,
        's[S].pragma(S.op.scan_axis, "prefetch_steps", 2)',
        "On CPUs, with each vector of an input that a step reads, the one that the step `n` steps "
        "later reads is fetched into the second cache. It pays where tasks are parts of rows: what "
        "processors fetch by themselves ends with each part. The loops stay as they are.",
        "It is for the axis of a scan; the value must be a whole number of at least 0 (or a knob).",
        's[update].pragma(j, "prefetch_steps", 2)',
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
