"""Rules for sizes that only calls know: what they choose by likely sizes is right for all."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from support.legal_configurations import default_and_drawn
from support.slow_cases import slow

import autotune
from autotune import te
from autotune.errors import UsageError
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Const
from autotune.ir.stmt import Allocate, For, If, LoopKind
from autotune.ir.visitor import walk
from autotune.operators.template_lookup import find_template
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.target import Target
from autotune.task.task import Task

# Likely sizes of a product, beside flags of `matmul`.
LIKELY = [
    ((512, 512, 512), {}),
    ((7, 1000, 2048), {}),
    slow(((64, 768, 768), {})),
    ((33, 100, 30), {"transpose_a": True}),
    ((100, 40, 300), {"transpose_b": True}),
    slow(((2, 4096, 1024), {"dtype": "float16"})),
    ((48, 64, 80), {"dtype": "int8", "out_dtype": "int32"}),
]
SIZES = [(1, 1, 1), (5, 3, 2), (33, 65, 17), (64, 64, 64), (1, 200, 40), (130, 1, 9), (8, 31, 129)]


def product_of(task, index):
    return compile_function(task.prepared_of(task.space.config(index).values).main)


def check_product(built, m, n, k, flags):
    rng = np.random.default_rng(m + n + k)
    dtype, out = flags.get("dtype", "float32"), flags.get("out_dtype", "")
    a = rng.integers(-4, 5, (k, m) if flags.get("transpose_a") else (m, k)).astype(dtype)
    b = rng.integers(-4, 5, (n, k) if flags.get("transpose_b") else (k, n)).astype(dtype)
    c = np.full((m, n), 7, out or dtype)
    built(a, b, c)
    left = a.T if flags.get("transpose_a") else a
    right = b.T if flags.get("transpose_b") else b
    np.testing.assert_array_equal(c, left.astype("f8") @ right.astype("f8"))


@pytest.mark.parametrize(("likely", "flags"), LIKELY)
def test_products_are_right_whatever_the_sizes_turn_out_to_be(likely, flags):
    sizes = {name: [size] for name, size in zip("mnk", likely, strict=True)}
    task = Task(find_template("matmul", "llvm"), {**sizes, **flags}, "llvm")
    for index in default_and_drawn(task, 1):
        built = product_of(task, index)
        for sizes in SIZES:
            check_product(built, *sizes, flags)


def default_of(sizes, target):
    task = Task(find_template("matmul", "llvm"), sizes, target)
    return task.prepared_of(task.space.config(task.default_index).values).main


def parts_of(function):
    """Return the constant lengths of parallel loops: numbers of parts of sums."""
    loops = [s for s in walk(function.body) if isinstance(s, For) and s.kind is LoopKind.PARALLEL]
    return {int(s.extent.value) for s in loops if isinstance(s.extent, Const)}


def test_long_sums_of_few_results_have_parts_of_any_length():
    target = "llvm -mcpu=x86-64-v3 -threads=2"
    function = default_of({"m": 1, "n": [256], "k": [1024]}, target)
    assert parts_of(function) == {2}
    built = compile_function(function, Target.of(target))
    for n in (1, 8, 300):
        for k in (1, 2, 3, 31, 700):
            check_product(built, 1, n, k, {})


@pytest.mark.parametrize(("threads", "tasks"), [(2, 2), (4, 4)])
def test_tasks_read_whole_rows_where_a_sum_has_enough_parts_for_threads(threads, tasks):
    sizes = {"m": 1, "n": [256], "k": [1024]}
    task = Task(find_template("matmul", "llvm"), sizes, f"llvm -mcpu=x86-64-v3 -threads={threads}")
    values = task.space.config(task.default_index).values
    wide = {**values, "stream": True, "stream_vectors": 32}
    config = task.space.config(task.nearest_legal(task.space.index_of(wide))).values
    assert config["stream"]
    function = task.prepared_of(config).main
    called = Simplifier({size: 2 * ({"n": 256, "k": 1024}[size.name],) for size in function.sizes})
    loops = [s for s in walk(called.stmt(function.body)) if isinstance(s, For)]
    lengths = [s.extent for s in loops if s.kind is LoopKind.PARALLEL]
    assert all(isinstance(n, Const) for n in lengths)
    assert math.prod(int(n.value) for n in lengths) == tasks


@pytest.mark.parametrize("likely", [64, 256, 4096])
@pytest.mark.parametrize(("columns", "vectors"), [(256, 32), (4096, 512), (5000, 314)])
def test_a_row_is_read_as_a_whole_or_in_equal_parts_whatever_was_likely(likely, columns, vectors):
    sizes = {"m": 1, "n": [likely], "k": [2048]}
    function = default_of(sizes, "llvm -mcpu=x86-64-v3 -threads=2")
    called = Simplifier({s: 2 * ({"n": columns, "k": 2048}[s.name],) for s in function.sizes})
    loops = [s for s in walk(called.stmt(function.body)) if isinstance(s, For)]
    tasks = next(s for s in loops if s.kind is LoopKind.PARALLEL)
    inside = [s for s in walk(tasks.body) if isinstance(s, For) and not s.var.name.startswith("k")]
    assert max(int(s.extent.value) for s in inside if isinstance(s.extent, Const)) == vectors


@pytest.mark.parametrize("likely", [1000, 20_000, 300_000])
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize(("level", "lanes"), [("v3", 8), ("v4", 16)])
def test_sums_of_rows_of_any_length_stay_in_the_cache_however_long_is_likely(
    level, lanes, rows, likely
):
    sizes = {"m": rows, "n": [likely], "k": 1024}
    task = Task(find_template("matmul", "llvm"), sizes, f"llvm -mcpu=x86-64-{level} -threads=2")
    values = task.space.config(task.default_index).values
    assert values["stream"]
    assert values["stream_vectors"] * lanes <= 4096


@pytest.mark.parametrize(
    ("level", "rows", "columns", "steps"),
    [("v3", 1, [4096], 5), ("v3", [8], [4096], 5), ("v4", 1, [4096], 5), ("v3", [8], 4096, 8)],
)
def test_few_steps_read_whole_rows_that_may_share_a_set_of_the_cache(level, rows, columns, steps):
    target, sizes = f"llvm -mcpu=x86-64-{level} -threads=2", {"m": rows, "n": columns, "k": [1024]}
    task = Task(find_template("matmul", "llvm"), sizes, target)
    values = task.space.config(task.default_index).values
    assert values["stream"]
    assert values["unroll"] == steps


def test_rows_of_single_bytes_are_read_by_more_steps():
    sizes = {"m": 1, "n": [4096], "k": [1024], "dtype": "int8", "out_dtype": "int32"}
    task = Task(find_template("matmul", "llvm"), sizes, "llvm -mcpu=x86-64-v3 -threads=2")
    values = task.space.config(task.default_index).values
    assert values["stream"]
    assert values["unroll"] == 8


@pytest.mark.parametrize("columns", [256, 1000])
def test_batches_of_few_rows_sum_in_the_cache_without_long_vectors(columns):
    sizes, target = {"b": 12, "m": 8, "n": columns, "k": 1000}, "llvm -mcpu=x86-64-v3 -threads=2"
    task = Task(find_template("batch_matmul", "llvm"), sizes, target)
    assert task.space.config(task.default_index).values["stream"]


def test_calls_may_have_no_columns_and_no_steps():
    built = compile_function(default_of({"m": 1, "n": [256], "k": [1024]}, "llvm"))
    check_product(built, 1, 0, 1024, {})
    check_product(built, 1, 300, 0, {})


def test_parts_take_little_memory_whatever_the_sizes_turn_out_to_be():
    target = "llvm -mcpu=x86-64-v3 -threads=2"
    assert not parts_of(default_of({"m": [2], "n": [64], "k": [20000]}, target))
    assert not parts_of(default_of({"m": [2], "n": [64], "k": 20480}, target))
    assert max(parts_of(default_of({"m": 1, "n": [64], "k": [20000]}, target))) <= 8
    assert parts_of(default_of({"m": 4, "n": [4096], "k": 4096}, target))
    assert not parts_of(default_of({"m": 64, "n": [4096], "k": 4096}, target))


def test_threads_are_launched_only_where_a_call_has_work_for_them():
    open_sizes = {name: [512] for name in "mnk"}
    task = Task(find_template("matmul", "llvm"), open_sizes, "llvm -mcpu=x86-64-v3 -threads=2")
    function = task.prepared_of(task.space.config(task.default_index).values).main
    loops = [s for s in walk(function.body) if isinstance(s, For) and s.kind is LoopKind.PARALLEL]
    assert loops

    def threads(size: int) -> list[int]:
        called = Simplifier(dict.fromkeys(function.sizes, (size, size)))
        return [int(called.expr(function.info.num_threads[loop.var]).value) for loop in loops]

    assert max(threads(40)) <= 1
    assert min(threads(512)) >= 2


@pytest.mark.parametrize("narrow", [(1024, 32, 512), (16, 2048, 512)])
def test_threads_share_all_blocks_of_a_result_however_few_of_them_lie_along_one_axis(narrow):
    open_sizes = {name: [512] for name in "mnk"}
    task = Task(find_template("matmul", "llvm"), open_sizes, "llvm -mcpu=x86-64-v3 -threads=2")
    for order in ("rows", "columns"):
        knobs = {**task.space.config(task.default_index).values, "order": order}
        function = task.prepared_of(knobs).main
        sizes = {size: narrow["mnk".index(size.name)] for size in function.sizes}
        called = Simplifier({size: (value, value) for size, value in sizes.items()})
        loops = [s for s in walk(function.body) if isinstance(s, For)]
        shared = [int(called.expr(s.extent).value) for s in loops if s.kind is LoopKind.PARALLEL]
        assert math.prod(shared) >= 8


def test_threads_share_all_loops_over_a_panel_though_guards_depend_on_the_outer_one():
    likely = {"m": 300, "n": [512], "k": [512], "transpose_b": True}
    task = Task(find_template("matmul", "llvm"), likely, "llvm -mcpu=x86-64-v3 -threads=2")
    function = task.prepared_of(task.space.config(task.default_index).values).main
    loops = [s for s in walk(function.body) if isinstance(s, For) and s.kind is LoopKind.PARALLEL]
    panel, *_ = loops
    inside = [s for s in walk(panel.body) if any(s is loop for loop in loops)]
    assert inside == [panel.body]


def test_full_tiles_have_no_guards_though_only_calls_know_the_sizes():
    open_sizes = {name: [64] for name in "mnk"}
    task = Task(find_template("matmul", "llvm"), open_sizes, "llvm -mcpu=x86-64-v3 -threads=1")
    function = task.prepared_of(task.space.config(task.default_index).values).main
    first = next(s for s in walk(function.body) if isinstance(s, For) and s.var.name == "k.outer")
    assert not re.search(r"if|min\(", str(first))


#: Sums in registers: the rows of a tile are equal parts of those of a call.
TILED = {"vector": "axis1", "pack": False, "stream": False, "tile_vectors": 2, "unroll": 4}


def tiled_product(mcpu, **knobs):
    open_sizes = {name: [128] for name in "mnk"}
    task = Task(find_template("matmul", "llvm"), open_sizes, f"llvm -mcpu={mcpu} -threads=2")
    values = {**task.space.config(task.default_index).values, **TILED, **knobs}
    config = task.space.config(task.nearest_legal(task.space.index_of(values))).values
    assert all(config[name] == value for name, value in knobs.items())
    return task.prepared_of(config).main


@pytest.mark.parametrize(
    "knobs",
    [
        {"tile_rows": 6, "block_rows": 1, "order": "rows"},
        slow({"tile_rows": 5, "block_rows": 4, "order": "columns"}),
        slow({"tile_rows": 4, "tile_vectors": 3, "pack": True, "block_columns": 2}),
    ],
)
def test_products_of_any_number_of_rows_are_right(knobs):
    built = compile_function(tiled_product("x86-64-v3", **knobs))
    for m in range(1, 41):
        for n in (7, 33, 41):
            check_product(built, m, n, 13, {})


def lengths_of(function, name):
    """Return the constant lengths of the loops of a name."""
    loops = (s for s in walk(function.body) if isinstance(s, For) and s.var.name == name)
    return {int(s.extent.value) for s in loops if isinstance(s.extent, Const)}


def test_each_number_of_rows_that_a_tile_may_have_has_a_copy():
    function = tiled_product("x86-64-v3", tile_rows=6, block_rows=1)
    loops = [stmt for stmt in walk(function.body) if isinstance(stmt, For)]
    assert sum(loop.var.name == "i1.outer.outer" for loop in loops) == 6
    assert lengths_of(function, "i2.init") == {2, 3, 4, 5, 6}  # a loop of one row is none
    assert all(isinstance(n, Const) for s in walk(function.body) if isinstance(s, Allocate)
               for n in s.buffer.shape)  # fmt: skip


@pytest.mark.parametrize(("m", "rows"), [(12, 6), (49, 7), (33, 7), (8, 8), (3, 3), (1, 1)])
def test_rows_of_a_call_are_shared_out_evenly_among_its_tiles(m, rows):
    function = tiled_product("x86-64-v3", tile_rows=8, tile_vectors=1, block_rows=1)
    sizes = {size: (m if size.name == "m" else 64) for size in function.sizes}
    called = Simplifier({size: (value, value) for size, value in sizes.items()})
    body = called.stmt(function.body)
    assert lengths_of(function.with_body(body), "i2.init") == ({rows} if rows > 1 else set())


def test_calls_of_few_tiles_have_small_blocks_so_that_threads_have_equal_parts():
    function = tiled_product("x86-64-v3", tile_rows=4, block_rows=4, order="rows")

    def blocks(m: int, n: int) -> int:
        sizes = {size: {"m": m, "n": n, "k": 64}[size.name] for size in function.sizes}
        called = Simplifier({size: (value, value) for size, value in sizes.items()})
        loops = [s for s in walk(called.stmt(function.body)) if isinstance(s, For)]
        return math.prod(int(s.extent.value) for s in loops if s.kind is LoopKind.PARALLEL)

    assert blocks(20, 32) >= 5
    assert blocks(400, 64) <= 60


@pytest.mark.parametrize(("n", "tasks"), [(96, 6), (64, 4), (130, 9), (512, 16), (600, 19)])
def test_calls_of_few_columns_have_blocks_of_one_tile_where_tasks_pack(n, tasks):
    function = tiled_product("x86-64-v3", tile_rows=6, pack=True, block_columns=1, order="columns")
    sizes = {size: {"m": 60, "n": n, "k": 64}[size.name] for size in function.sizes}
    called = Simplifier({size: (value, value) for size, value in sizes.items()})
    loops = [s for s in walk(called.stmt(function.body)) if isinstance(s, For)]
    shared = [s for s in loops if s.kind is LoopKind.PARALLEL]
    panels = [s for loop in shared for s in walk(loop.body) if isinstance(s, Allocate)]
    assert {str(s.buffer.name) for s in panels} == {"C_B1", "C_tile"}
    assert int(shared[0].extent.value) == tasks


@pytest.mark.parametrize(("m", "blocks", "tiles"), [(160, 2, 20), (200, 2, 25), (96, 1, 24)])
def test_blocks_of_rows_are_equal_where_tasks_pack(m, blocks, tiles):
    function = tiled_product(
        "x86-64-v3", tile_rows=4, pack=True, block_columns=1, block_rows=32, order="rows"
    )
    sizes = {size: {"m": m, "n": 512, "k": 64}[size.name] for size in function.sizes}
    called = Simplifier({size: (value, value) for size, value in sizes.items()})
    loops = [s for s in walk(called.stmt(function.body)) if isinstance(s, For)]
    assert next(s for s in loops if s.kind is LoopKind.PARALLEL).extent.value == blocks
    assert tiles in {s.extent.value for s in loops if isinstance(s.extent, Const)}


def test_few_sums_of_open_sizes_keep_guards():
    function = tiled_product("x86-64-v3", tile_rows=5, tile_vectors=2, pack=True, unroll=4)
    loops = [s for s in walk(function.body) if isinstance(s, For) and s.kind is LoopKind.SERIAL]
    innermost = [
        loop
        for loop in loops
        if not any(isinstance(s, For) and s.kind is LoopKind.SERIAL for s in walk(loop.body))
    ]
    guarded = [loop for loop in innermost if any(isinstance(s, If) for s in walk(loop.body))]
    assert len(guarded) < len(innermost) / 4


#: Sums in the cache: rows and columns of a tile are chosen by a call.
STREAMED = {"vector": "axis1", "pack": False, "stream": True, "tile_rows": 4, "unroll": 4}


def streamed_product(likely):
    sizes = {name: [size] for name, size in zip("mnk", likely, strict=True)}
    task = Task(find_template("matmul", "llvm"), sizes, "llvm -mcpu=x86-64-v3 -threads=2")
    values = {**task.space.config(task.default_index).values, **STREAMED, "stream_vectors": 64}
    index = task.nearest_legal(task.space.index_of({"order": "columns", **values}))
    config = task.space.config(index).values
    assert config["stream"]
    return task.prepared_of(config).main


def test_few_rows_are_right_for_any_number_of_rows_and_columns():
    built = compile_function(streamed_product((4, 1024, 1024)))
    for m in (1, 2, 3, 4, 5, 9):
        for n in (1, 8, 31, 500, 1100, 2600):
            check_product(built, m, n, 23, {})


def test_sums_in_the_cache_have_constant_strides_and_rows_that_calls_choose():
    function = streamed_product((4, 1024, 1024))
    sums = [s.buffer for s in walk(function.body) if isinstance(s, Allocate)]
    assert len(sums) == 4  # one for each number of rows
    assert all(isinstance(size, Const) for buffer in sums for size in buffer.shape)


def test_each_task_has_its_share_of_the_columns_of_a_call():
    function = streamed_product((4, 1024, 1024))
    loops = [s for s in walk(function.body) if isinstance(s, For) and s.kind is LoopKind.PARALLEL]
    for n, tasks in ((640, 2), (1024, 2), (2048, 4)):
        sizes = {size: (n if size.name != "m" else 4) for size in function.sizes}
        called = Simplifier({size: (value, value) for size, value in sizes.items()})
        assert {int(called.expr(loop.extent).value) for loop in loops} >= {tasks}


def test_some_sizes_may_be_open_and_others_not():
    args = {"m": [40], "n": 70, "k": 50}
    task = Task(find_template("matmul", "llvm"), args, "llvm")
    built = product_of(task, task.default_index)
    for m in (1, 6, 40, 77):
        check_product(built, m, 70, 50, {})


def test_batches_of_products_may_be_of_any_size():
    args = {"b": [12], "m": [20], "n": [30], "k": [40]}
    task = Task(find_template("batch_matmul", "llvm"), args, "llvm")
    built = product_of(task, task.default_index)
    for b, m, n, k in ((1, 5, 7, 9), (13, 33, 18, 21)):
        rng = np.random.default_rng(b)
        x = rng.integers(-4, 5, (b, m, k)).astype("f4")
        y = rng.integers(-4, 5, (b, k, n)).astype("f4")
        z = np.zeros((b, m, n), "f4")
        built(x, y, z)
        np.testing.assert_array_equal(z, x @ y)


def test_what_follows_a_product_is_computed_with_it():
    args = {"m": [40], "n": [70], "k": [50], "activation": "relu"}
    task = Task(find_template("dense", "llvm"), args, "llvm")
    built = product_of(task, task.default_index)
    rng = np.random.default_rng(0)
    for m, n, k in ((3, 17, 5), (50, 64, 20)):
        x, w = rng.integers(-4, 5, (m, k)).astype("f4"), rng.integers(-4, 5, (k, n)).astype("f4")
        bias, y = rng.integers(-4, 5, n).astype("f4"), np.zeros((m, n), "f4")
        built(x, w, bias, y)
        np.testing.assert_array_equal(y, np.maximum(x @ w + bias, 0))


def test_elements_of_any_number_are_computed():
    task = Task(find_template("bias_gelu", "llvm"), {"m": [9], "n": [33]}, "llvm")
    fixed = Task(find_template("bias_gelu", "llvm"), {"m": 5, "n": 70}, "llvm")
    rng = np.random.default_rng(0)
    x, bias = rng.standard_normal((5, 70)).astype("f4"), rng.standard_normal(70).astype("f4")
    found, right = np.zeros((5, 70), "f4"), np.zeros((5, 70), "f4")
    product_of(task, task.default_index)(x, bias, found)
    product_of(fixed, fixed.default_index)(x, bias, right)
    np.testing.assert_allclose(found, right, rtol=1e-6)


def test_other_reductions_of_open_sizes_are_refused():
    task = Task(find_template("softmax", "llvm"), {"m": [40], "n": 70}, "llvm")
    with pytest.raises(UsageError, match=r"open sizes .*only products"):
        _ = task.space


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"m": [], "n": 4, "k": 4}, "argument m holds sizes of at least 1"),
        ({"m": [4, 0], "n": 4, "k": 4}, "argument m holds sizes of at least 1"),
        ({"m": [4, 2.5], "n": 4, "k": 4}, "argument m must be"),
        ({"m": [4, 1 << 31], "n": 4, "k": 4}, "m holds 2147483648, which does not fit in int32"),
        ({"m": [10**400], "n": 4, "k": 4}, "argument m holds about 10\\^400"),
        ({"m": [4, 8], "n": [4], "k": 4}, "same length; m has 2, n has 1"),
        ({"m": 4, "n": 4, "k": 4, "dtype": ["float32"]}, "argument dtype must be"),
    ],
)
def test_an_open_size_is_a_list_of_sizes(args, said):
    with pytest.raises(UsageError, match=said):
        Task(find_template("matmul", "llvm"), args, "llvm")


def product_of_any_size(n: int):
    m, k = te.var("m", likely=64), te.var("k", likely=100)
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="r")
    return te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")


@pytest.mark.filterwarnings("ignore:no records given")
def test_a_function_may_say_what_is_likely_of_a_size():
    built = autotune.build(product_of_any_size, {"n": 48})
    a, b, c = np.ones((3, 50), "f4"), np.ones((50, 48), "f4"), np.zeros((3, 48), "f4")
    built(a, b, c)
    assert (c == 50).all()


@pytest.mark.parametrize("likely", [0, -3, 2.5, True])
def test_what_is_likely_of_a_size_is_a_positive_number(likely):
    with pytest.raises(autotune.errors.IRError, match="likely must be a whole number"):
        te.var("n", likely=likely)


@pytest.mark.parametrize(
    ("likely", "dtype"), [(1 << 31, "int32"), pytest.param(10**400, "int64", id="10^400")]
)
def test_what_is_likely_of_a_size_fits_in_its_dtype(likely, dtype):
    with pytest.raises(autotune.errors.IRError, match=rf"'n': .* does not fit in {dtype}"):
        te.var("n", dtype, likely=likely)
