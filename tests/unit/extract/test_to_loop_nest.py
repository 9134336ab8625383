import itertools

import numpy as np
import pytest

from autotune import te
from autotune.errors import LoweringError
from autotune.extract.access_strides import TextAnalysis
from autotune.extract.autotvm08 import AutoTVM08
from autotune.extract.nest_walk import walked_nest
from autotune.extract.to_loop_nest import LoopNestPlan, loop_nest
from autotune.ir.expr import KnobVar
from autotune.lowering.nest.lower_schedule import lower_schedule
from features import SYMBOLIC, VIRTUAL_THREAD, Scratch, candidate


def lowered(*outputs, args, steps=None):
    schedule = te.create_schedule([t.op for t in outputs])
    if steps is not None:
        steps(schedule)
    return lower_schedule(schedule, args)


def accesses(nest):
    return {access.name: access for access in nest.accesses}


# -- what is walked, and in which order -----------------------------------------------------------


def test_a_store_is_numbered_before_its_value_and_a_load_before_its_index():
    a, b = te.placeholder((8,), name="A"), te.placeholder((8,), "int32", name="B")
    c = te.compute((8,), lambda i: a[i] + a[b[i]] * a[7 - i], name="C")
    nest = loop_nest(lowered(c, args=[a, b, c]))
    assert [x.name for x in nest.accesses] == ["C_0", "A_0", "A_1", "B_0", "A_2"]
    assert [x.is_store for x in nest.accesses] == [True, False, False, False, False]
    assert accesses(nest)["A_1"].strides == (1,)  # through B's index


def test_the_initial_store_of_a_reduction_stands_in_loops_of_its_own():
    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="C")
    nest = loop_nest(lowered(c, args=[a, c], steps=lambda s: s[c].reorder(k, c.op.axis[0])))
    assert [(x.name, x.parent) for x in nest.loops] == [("i.init", -1), ("k", -1), ("i", 1)]
    assert accesses(nest)["C_0"].loops == (0,)
    assert accesses(nest)["C_1"].loops == (1, 2)


def test_only_float_arithmetic_is_counted_and_division_by_a_constant_multiplies():
    a, b = te.placeholder((8,), name="A"), te.placeholder((8,), "int32", name="B")
    c = te.compute(
        (8,),
        lambda i: (
            te.max(te.exp(a[i] - 1.0) / 3.0, a[i] / a[0]) * (b[i] * b[i] + 1).astype("float32")
        ),
        name="C",
    )
    (loop,) = loop_nest(lowered(c, args=[a, b, c])).loops
    assert (loop.add, loop.mul, loop.div) == (1, 2, 1)


def test_float_arithmetic_inside_an_index_counts_too():
    a = te.placeholder((8,), name="A")
    c = te.compute((8,), lambda i: a[(i.astype("float32") * 0.5).astype("int32")], name="C")
    (loop,) = loop_nest(lowered(c, args=[a, c])).loops
    assert (loop.add, loop.mul, loop.div) == (0, 1, 0)


def test_thread_axes_are_annotated_and_two_kernels_have_rows_of_their_own():
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((64,), lambda i: b[i] * 2.0, name="C")

    def steps(s):
        for stage, factor in ((b, 8), (c, 4)):
            outer, inner = s[stage].split(stage.op.axis[0], factor=factor)
            s[stage].bind(outer, te.thread_axis("blockIdx.x"))
            s[stage].bind(inner, te.thread_axis("vthread" if stage is b else "threadIdx.y"))

    nest = loop_nest(lowered(c, args=[a, c], steps=steps))
    found = [(x.annotation, x.length, x.depth) for x in nest.loops]
    assert found == [
        ("BLOCK_X", 8, 1), (VIRTUAL_THREAD, 8, 2), ("BLOCK_X", 16, 1), ("THREAD_Y", 4, 2),
    ]  # fmt: skip


def test_loops_of_length_one_and_none_keep_their_rows():
    a = te.placeholder((6,), name="A")
    k = te.reduce_axis((0, 0), name="k")
    c = te.compute((6,), lambda i: te.sum(a[i + k], axis=k), name="C")
    nest = loop_nest(lowered(c, args=[a, c], steps=lambda s: s[c].split(c.op.axis[0], factor=1)))
    assert [(x.name, x.length) for x in nest.loops] == [("i.outer", 6), ("i.inner", 1), ("k", 0)]
    assert accesses(nest)["A_0"].strides == (1, 0, 0)


def test_a_length_that_a_call_decides_is_symbolic():
    n = te.var("n")
    a = te.placeholder((n, 3), name="A")
    c = te.compute((n, 3), lambda i, j: a[i, j] + 1.0, name="C")
    nest = loop_nest(lowered(c, args=[a, c]))
    assert [x.length for x in nest.loops] == [SYMBOLIC, 3]
    assert accesses(nest)["A_0"].strides == (3, 1)


# -- strides --------------------------------------------------------------------------------------


def test_a_factor_met_again_is_left_for_the_next_new_variable():
    a = te.placeholder((48, 5, 16), name="A")
    c = te.compute((32, 16), lambda i, j: a[(i * 3) // 2, (i * 7) % 5, j], name="C")
    function = lowered(c, args=[a, c])
    nest = walked_nest(AutoTVM08().stmt(function.body), TextAnalysis())
    found = accesses(nest)["A_0"]
    assert found.strides == (3, 7)
    assert found.mods == (-1, -1)


def test_in_the_normal_form_every_variable_has_a_factor_of_its_own():
    a = te.placeholder((48, 5, 16), name="A")
    c = te.compute((32, 16), lambda i, j: a[(i * 3) // 2, (i * 7) % 5, j], name="C")
    found = accesses(loop_nest(lowered(c, args=[a, c])))["A_0"]
    assert found.strides == (3, 1)
    assert found.mods == (-1, -1)


def test_terms_that_a_divisor_divides_leave_the_division():
    a = te.placeholder((16, 64), name="A")
    c = te.compute((16, 4), lambda i, j: a[(i * 8 + j) // 4, (i * 12 + j) % 6], name="C")
    nest = loop_nest(lowered(c, args=[a, c]))
    assert accesses(nest)["A_0"].strides == (128, 1)  # j // 4 is 0 and j % 6 is j
    assert accesses(nest)["A_0"].mods == (-1, -1)


def test_a_quotient_of_a_quotient_is_one_quotient():
    a = te.placeholder((64,), name="A")
    c = te.compute((64,), lambda i: a[(i * 3 // 2 + 5) // 3], name="C")
    assert accesses(loop_nest(lowered(c, args=[a, c])))["A_0"].strides == (3,)


def test_what_two_parts_of_an_index_have_in_common_cancels():
    a = te.placeholder((64,), name="A")
    c = te.compute((8, 8), lambda i, j: a[(i * 8 + j) - (i * 8 + 5) % 3 + (i * 8 + 5) % 3 - i * 8])
    assert accesses(loop_nest(lowered(c, args=[a, c])))["A_0"].strides == (0, 1)


def test_the_modulus_is_that_of_the_first_place_a_variable_stands_in():
    a = te.placeholder((8,), name="A")
    c = te.compute((32,), lambda i: a[(i * 3) % 8], name="C")
    found = accesses(loop_nest(lowered(c, args=[a, c])))
    assert (found["A_0"].strides, found["A_0"].mods) == ((3,), (8,))
    assert (found["C_0"].strides, found["C_0"].mods) == ((1,), (-1,))


def test_a_knob_without_a_value_is_refused_by_name():
    function, _ = tiled_matmul()
    with pytest.raises(LoweringError, match="knob 'f"):
        loop_nest(function)


# -- all candidates at once -----------------------------------------------------------------------


def tiled_matmul(n=24):
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda x, y: te.sum(a[x, k] * b[k, y], axis=k), name="C")
    fx, fy, fk = KnobVar("fx", 1, n), KnobVar("fy", 1, n), KnobVar("fk", 1, n)

    def steps(s):
        xo, yo, xi, yi = s[c].tile(*c.op.axis, fx, fy)
        ko, ki = s[c].split(k, nparts=fk)
        s[c].reorder(xo, yo, ko, xi, ki, yi)
        s[c].parallel(xo)
        s[c].vectorize(yi)

    values = {fx: (1, 5, 8, 24), fy: (1, 3, 24), fk: (1, 7, 24)}
    return lowered(c, args=[a, b, c], steps=steps), values


def fused_broadcast_add(n=20):
    a, b = te.placeholder((n, 1), name="A"), te.placeholder((n, n), name="B")
    c = te.compute((n, n), lambda i, j: a[i, 0] + b[i, j], name="C")
    nt, nb = KnobVar("nt", 1, 64), KnobVar("nb", 1, 400)

    def steps(s):
        outer, inner = s[c].split(s[c].fuse(*c.op.axis), factor=nb * nt)
        block, thread = s[c].split(inner, factor=nt)
        s[c].reorder(block, thread, outer)
        s[c].bind(block, te.thread_axis("blockIdx.x"))
        s[c].bind(thread, te.thread_axis("threadIdx.x"))

    return lowered(c, args=[a, b, c], steps=steps), {nt: (1, 2, 7, 20, 64), nb: (1, 4, 10, 400)}


def shared_memory_matmul(n=64):
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda x, y: te.sum(a[x, k] * b[k, y], axis=k), name="C")
    threads, tile, step = KnobVar("threads", 1, 16), KnobVar("tile", 1, 8), KnobVar("step", 1, 32)
    s = te.create_schedule(c.op)
    aa, bb = s.cache_read(a, "shared", [c]), s.cache_read(b, "shared", [c])
    local = s.cache_write(c, "local")
    tx = te.thread_axis((0, threads), "threadIdx.x")
    ty = te.thread_axis((0, threads), "threadIdx.y")
    x, y = s[c].op.axis
    by, x = s[c].split(x, factor=threads * tile)
    bx, y = s[c].split(y, factor=threads * tile)
    iy, xi = s[c].split(x, nparts=threads)
    ix, yi = s[c].split(y, nparts=threads)
    s[c].reorder(by, bx, iy, ix, xi, yi)
    for axis, thread in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (iy, ty), (ix, tx)):
        s[c].bind(axis, te.thread_axis(thread) if isinstance(thread, str) else thread)
    s[local].compute_at(s[c], ix)
    ko, ki = s[local].split(s[local].op.reduce_axis[0], factor=step)
    s[local].reorder(ko, ki, *s[local].op.axis)
    for copy in (aa, bb):
        s[copy].compute_at(s[local], ko)
        outer, rest = s[copy].split(s[copy].fuse(*s[copy].op.axis), nparts=threads)
        inner, _ = s[copy].split(rest, nparts=threads)
        s[copy].bind(outer, ty)
        s[copy].bind(inner, tx)
    values = {threads: (1, 3, 4, 16), tile: (1, 2, 3, 4), step: (1, 2, 3, 8, 12)}
    return lower_schedule(s, [a, b, c]), values


def fused_convolution():
    d, f = te.placeholder((2, 3, 9, 10), name="D"), te.placeholder((4, 3, 3, 3), name="F")
    rc, ry, rx = (te.reduce_axis((0, 3), name=name) for name in ("rc", "ry", "rx"))
    o = te.compute(
        (2, 4, 7, 8),
        lambda n, c, y, x: te.sum(d[n, rc, y + ry, x + rx] * f[c, rc, ry, rx], axis=[rc, ry, rx]),
        name="O",
    )
    fo, fx = KnobVar("fo", 1, 64), KnobVar("fx", 1, 8)

    def steps(s):
        n, c, y, x = o.op.axis
        xo, xi = s[o].split(x, factor=fx)
        s[o].reorder(n, c, y, xo, rc, ry, rx, xi)
        outer, _ = s[o].split(s[o].fuse(n, c, y), factor=fo)
        s[o].parallel(outer)

    return lowered(o, args=[d, f, o], steps=steps), {fo: (1, 2, 7, 14, 28, 64), fx: (1, 3, 4, 8)}


def packed_panels(n=22):
    a = te.placeholder((n, 6), name="A")
    tile, block = KnobVar("tile", 1, 16), KnobVar("block", 1, 8)
    p = te.compute(
        (te.ceildiv(n, tile), 6, tile),
        lambda io, k, ii: a[te.min(io * tile + ii, n - 1), k],
        name="P",
    )
    c = te.compute((n, 6), lambda i, k: p[i // tile, k, i % tile] * 2.0, name="C")

    def steps(s):
        io, ii = s[c].split(c.op.axis[0], factor=tile)
        outer, inner = s[c].split(io, factor=block)
        s[c].reorder(outer, inner, c.op.axis[1], ii)
        s[p].compute_at(s[c], outer)

    return lowered(c, args=[a, c], steps=steps), {tile: (1, 2, 5, 11, 16), block: (1, 2, 3, 8)}


STRUCTURES = [
    tiled_matmul, fused_broadcast_add, shared_memory_matmul, fused_convolution, packed_panels,
]  # fmt: skip


def grid(values):
    return [dict(zip(values, row, strict=True)) for row in itertools.product(*values.values())]


def columns_of(configs):
    return {knob.name: np.array([config[knob] for config in configs]) for knob in configs[0]}


@pytest.mark.parametrize("build", STRUCTURES, ids=lambda build: build.__name__)
def test_all_candidates_at_once_are_the_candidates_one_by_one(build):
    function, values = build()
    configs = grid(values)
    nest = LoopNestPlan(function).nest(columns_of(configs))
    for row, config in enumerate(configs):
        assert candidate(nest, row) == loop_nest(function, config), config


def test_numbers_that_never_differ_are_plain_and_equal_ones_are_one_array():
    function, values = tiled_matmul()
    nest = LoopNestPlan(function).nest(columns_of(grid(values)))
    found = accesses(nest)
    assert found["A_0"].strides[1] == 0  # the outer tiles of y
    assert all(mod == -1 for mod in found["A_0"].mods)
    assert found["C_1"].strides[0] is found["C_2"].strides[0]
    lengths = {loop.name: loop.length for loop in nest.loops}
    assert lengths["y.inner"] is lengths["y.inner.init"]


def test_memory_is_used_again_for_the_next_candidates():
    function, values = tiled_matmul()
    configs, scratch = grid(values), Scratch()
    plan = LoopNestPlan(function)
    first = plan.nest(columns_of(configs[:8]), scratch).loops[0].length
    kept = first.copy()
    second = plan.nest(columns_of(configs[8:16]), scratch).loops[0].length
    assert np.shares_memory(first, second)
    assert np.array_equal(plan.nest(columns_of(configs[:8]), scratch).loops[0].length, kept)


def test_the_outline_has_arrays_where_candidates_differ():
    function, values = shared_memory_matmul()
    plan = LoopNestPlan(function)
    outline, nest = plan.outline(), plan.nest(columns_of(grid(values)))
    for one, other in zip(outline.accesses, nest.accesses, strict=True):
        for a, b in zip(one.strides, other.strides, strict=True):
            assert isinstance(a, np.ndarray) == isinstance(b, np.ndarray)


def test_a_function_without_knobs_needs_no_columns():
    a = te.placeholder((8,), name="A")
    c = te.compute((8,), lambda i: a[i] + 1.0, name="C")
    function = lowered(c, args=[a, c])
    assert LoopNestPlan(function).nest() == loop_nest(function)
