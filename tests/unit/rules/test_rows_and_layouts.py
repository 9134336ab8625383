"""Which loops rules give to rows, columns and layouts that disagree, and that these are right."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support import bare_computations
from support.legal_configurations import assert_right, drawn, small_integers
from support.slow_cases import slow, slow_if

import autotune
from autotune import te
from autotune.rules import streamed_stores
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.system import host
from autotune.target import Target
from autotune.task.task import Task

Made = tuple[list[te.Tensor], list[te.Tensor]]
Array = npt.NDArray[Any]


HERE = Target("llvm")

# Elements of a row that is shorter than a vector of this machine.
SHORT = HERE.vector_bytes // 4 - 1


def transposed(m: int, n: int, dtype: str = "float32") -> Made:
    X = te.placeholder((m, n), dtype, name="X")
    return [X], [te.compute((n, m), lambda i, j: X[j, i], name="Y")]


def softmax(m: int, n: int) -> Made:
    X = te.placeholder((m, n), "float32", name="X")
    r, q = te.reduce_axis((0, n), name="r"), te.reduce_axis((0, n), name="q")
    most = te.compute((m,), lambda i: te.max(X[i, r], axis=r), name="most")
    E = te.compute((m, n), lambda i, j: te.exp(X[i, j] - most[i]), name="E")
    total = te.compute((m,), lambda i: te.sum(E[i, q], axis=q), name="total")
    return [X], [te.compute((m, n), lambda i, j: E[i, j] / total[i], name="Y")]


def with_transposed(n: int) -> Made:
    X = te.placeholder((n, n), "float32", name="X")
    return [X], [te.compute((n, n), lambda i, j: X[i, j] + X[j, i] * 2.0, name="Y")]


def row_sums(m: int, n: int) -> Made:
    X = te.placeholder((m, n), "float32", name="X")
    r = te.reduce_axis((0, n), name="r")
    return [X], [te.compute((m,), lambda i: te.sum(X[i, r], axis=r), name="S")]


def plane_sums(n: int, h: int, w: int) -> Made:
    """Sums over the last two axes, which are one in memory."""
    X = te.placeholder((n, h, w), "float32", name="X")
    r, q = te.reduce_axis((0, h), name="r"), te.reduce_axis((0, w), name="q")
    return [X], [te.compute((n,), lambda i: te.sum(X[i, r, q], axis=[r, q]), name="S")]


def row_extremes(m: int, n: int) -> Made:
    X = te.placeholder((m, n), "float32", name="X")
    r, q = te.reduce_axis((0, n), name="r"), te.reduce_axis((0, n), name="q")
    most = te.compute((m,), lambda i: te.max(X[i, r], axis=r), name="most")
    least = te.compute((m,), lambda i: te.min(X[i, q], axis=q), name="least")
    return [X], [most, least]


def column_maxima(m: int, n: int) -> Made:
    X = te.placeholder((m, n), "float32", name="X")
    r = te.reduce_axis((0, m), name="r")
    return [X], [te.compute((n,), lambda j: te.max(X[r, j], axis=r), name="M")]


def windows(h: int, w: int) -> Made:
    """Maxima of 3 x 3 windows two apart, with a margin of one."""
    X = te.placeholder((8, h, w), "float32", name="X")
    low = te.min_value("float32")

    def inside(c: Any, y: Any, x: Any) -> Any:
        within = te.all(y >= 1, y <= h, x >= 1, x <= w)
        return te.if_then_else(within, X[c, y - 1, x - 1], low)

    P = te.compute((8, h + 2, w + 2), inside, name="P")
    ry, rx = te.reduce_axis((0, 3), name="ry"), te.reduce_axis((0, 3), name="rx")
    shape = (8, (h - 1) // 2 + 1, (w - 1) // 2 + 1)
    maxima = te.compute(
        shape,
        lambda c, y, x: te.max(P[c, 2 * y + ry, 2 * x + rx], axis=[ry, rx]),
        name="W",
    )
    return [X], [maxima]


def inner_windows(h: int, w: int) -> Made:
    """Maxima of 3 x 3 windows two apart, without a margin."""
    X = te.placeholder((8, h, w), "float32", name="X")
    ry, rx = te.reduce_axis((0, 3), name="ry"), te.reduce_axis((0, 3), name="rx")
    maxima = te.compute(
        (8, (h - 3) // 2 + 1, (w - 3) // 2 + 1),
        lambda c, y, x: te.max(X[c, 2 * y + ry, 2 * x + rx], axis=[ry, rx]),
        name="W",
    )
    return [X], [maxima]


def halved(h: int, w: int) -> Made:
    """Means of 2 x 2 windows side by side."""
    X = te.placeholder((8, h, w), "float32", name="X")
    ry, rx = te.reduce_axis((0, 2), name="ry"), te.reduce_axis((0, 2), name="rx")
    shape = 8, h // 2, w // 2
    T = te.compute(
        shape, lambda c, y, x: te.sum(X[c, 2 * y + ry, 2 * x + rx], axis=[ry, rx]), name="T"
    )
    return [X], [te.compute(shape, lambda *i: T[i] * 0.25, name="M")]


def row_means(m: int, n: int) -> Made:
    """Means of rows whose length is a power of two."""
    (X,), (S,) = row_sums(m, n)
    return [X], [te.compute((m,), lambda i: S[i] * (1 / n), name="M")]


def sigmoids(n: int) -> Made:
    X = te.placeholder((300, n), "float32", name="X")
    return [X], [te.compute(X.shape, lambda *i: te.sigmoid(X[i]), name="Y")]


def padded_windows(x: Array) -> Array:
    least = np.finfo(x.dtype).min
    return maxima_of_windows(np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=least))


def maxima_of_windows(wide: Array) -> Array:
    every = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2))  # type: ignore[call-overload]
    return np.asarray(every[:, ::2, ::2].max(axis=(3, 4)))


CASES: list[tuple[Callable[..., Made], tuple[Any, ...], Callable[[Array], Any], str]] = [
    (transposed, (64, 64), np.transpose, "tile_rows"),
    (transposed, (37, 101), np.transpose, "tile_rows"),
    (transposed, (70, 45, "float64"), np.transpose, "tile_rows"),
    (transposed, (99, 67, "int8"), np.transpose, "tile_rows"),
    (transposed, (100, 3), np.transpose, "lanes"),
    (transposed, (3, 100), np.transpose, "tile_rows"),
    (transposed, (10, 37, "float64"), np.transpose, "tile_rows"),
    (with_transposed, (53,), lambda x: x + 2 * x.T, "tile_rows"),
    (row_sums, (1, 300_007), lambda x: x.sum(axis=1), "parts"),
    (row_sums, (3, 70_001), lambda x: x.sum(axis=1), "parts"),
    (row_sums, (600, 200), lambda x: x.sum(axis=1), "partial_vectors"),
    (row_sums, (9, 107), lambda x: x.sum(axis=1), "partial_vectors"),
    (row_sums, (1000, SHORT), lambda x: x.sum(axis=1), ""),  # any knob
    (plane_sums, (600, 7, 7), lambda x: x.sum(axis=(1, 2)), "partial_vectors"),
    (plane_sums, (1, 300, 1001), lambda x: x.sum(axis=(1, 2)), "parts"),
    (column_maxima, (1001, 70), lambda x: x.max(axis=0), "block_columns"),
    (column_maxima, (7, 5001), lambda x: x.max(axis=0), "block_columns"),
    (row_means, (300, 16), lambda x: x.mean(axis=1), ""),  # any knob
    (row_means, (99, 128), lambda x: x.mean(axis=1), "partial_vectors"),
    (halved, (20, 46), lambda x: x.reshape(8, 10, 2, 23, 2).mean(axis=(2, 4)), "lanes"),
    (halved, (4, 300), lambda x: x.reshape(8, 2, 2, 150, 2).mean(axis=(2, 4)), "lanes"),
    (windows, (20, 45), padded_windows, "lanes"),
    (windows, (7, 130), padded_windows, "rows_at_once"),
    (inner_windows, (23, 47), maxima_of_windows, "rows_at_once"),
    (inner_windows, (31, 150), maxima_of_windows, "rows_at_once"),
]


def task_of(made: Callable[..., Made], args: tuple[Any, ...], target: Target = HERE) -> Task:
    return bare_computations.task_of(partial(made, *args), target)


@pytest.mark.parametrize(
    ("made", "args", "reference", "knob"), slow_if(lambda case: "int8" in case[1], CASES)
)
def test_every_configuration_is_right_and_has_the_rules_knob(
    made: Callable[..., Made], args: tuple[Any, ...], reference: Callable[[Array], Any], knob: str
) -> None:
    task = task_of(made, args)
    assert not task.untraceable
    assert any(name.startswith(knob) for name in task.space.column_names)
    (x,) = small_integers(made(*args)[0])
    assert_right(task, drawn(task), [x], reference(x))


@pytest.mark.parametrize(
    ("made", "args", "knob"),
    [
        (row_sums, (600, 200), "parts"),
        (column_maxima, (7, 200), "parts"),
        (row_sums, (600, 200), "tile_rows"),
    ],
)
def test_rules_do_not_fire_where_they_bring_nothing(
    made: Callable[..., Made], args: tuple[Any, ...], knob: str
) -> None:
    assert not any(name.startswith(knob) for name in task_of(made, args).space.column_names)


@pytest.mark.parametrize(
    ("made", "width", "rows"),
    [(windows, 45, 4), (windows, 300, 4), (inner_windows, SHORT, 1), (inner_windows, 999, 4)],
)
def test_windows_are_read_from_registers_or_after_some_rows(
    made: Callable[..., Made], width: int, rows: int
) -> None:
    task = task_of(made, (40, width))
    values = task.space.config(task.default_index).values
    assert [v for k, v in values.items() if k.startswith("rows_at_once")] == [rows]


@pytest.mark.parametrize(
    ("threads", "launches"), [slow((1, 0)), (2, 1), (4, 1), (5, 4), slow((64, 4))]
)
def test_few_long_rows_are_computed_row_by_row_if_each_thread_has_two(
    threads: int, launches: int
) -> None:
    target = Target.of(f"llvm -threads={threads}")
    task = Task.from_reference("softmax", {"m": 8, "n": 100_000}, target)
    assert str(task.final_of({})).count("parallel (") == launches
    assert {"parts", "parts_3"} <= set(task.space.column_names)


@pytest.mark.parametrize("place", [0, 17, 63, 99])
def test_a_nan_anywhere_in_a_row_is_its_maximum(place: int) -> None:
    x = np.linspace(-1, 1, 200, dtype="float32").reshape(2, 100)
    x[1, place] = np.nan
    task = task_of(row_extremes, (2, 100))
    extremes = ([x[0].max(), np.nan], [x[0].min(), np.nan])
    assert_right(task, drawn(task), [x], tuple(np.array(e, "float32") for e in extremes))


def test_a_transposed_tile_is_loaded_in_whole_rows() -> None:
    task = task_of(transposed, (256, 256))
    structure = task.concrete_structure(task.default_index)
    source = autotune.build(structure.schedule, list(structure.tensors)).source
    assert "shufflevector" in source
    assert "load float," not in source


def test_windows_apart_are_reduced_along_columns_without_a_copy_of_the_margin() -> None:
    task = task_of(windows, (20, 45))
    structure = task.concrete_structure(task.default_index)
    stages = [stage.op.name for stage in structure.schedule.stages if stage.op.input_tensors]
    assert stages == ["W_columns", "W"]


def test_rows_that_begin_within_cache_lines_are_transposed_in_lower_tiles() -> None:
    whole, within = (task_of(transposed, (64, n)) for n in (256, 257))
    tall, low = (t.space.config(t.default_index).values["tile_rows"] for t in (whole, within))
    assert low == tall // 2


@pytest.mark.parametrize(
    ("cache_bytes", "long", "short"),
    [(1 << 30, "block_columns", "block_rows"), (1 << 20, "block_rows", "block_columns")],
    ids=["what is written", "what is read where stores pass the caches"],
)
def test_blocks_of_a_transpose_go_on_for_long_along(
    monkeypatch: pytest.MonkeyPatch, cache_bytes: int, long: str, short: str
) -> None:
    monkeypatch.setattr(host, "cache_bytes", lambda: cache_bytes)
    monkeypatch.setattr(streamed_stores, "available_cpus", lambda: 1 << 10)
    task = task_of(transposed, (2048, 2048))
    values = task.space.config(task.default_index).values
    assert values[long] == 16 * values[short]
    task = task_of(transposed, (64, 64))  # there are few blocks
    values = task.space.config(task.default_index).values
    assert values["block_columns"] == values["block_rows"]


@pytest.mark.parametrize("rows", [1, 3])
def test_a_result_is_stored_past_caches_that_it_does_not_fit_into_with_as_much_again(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(host, "cache_bytes", lambda: 1 << 25)
    monkeypatch.setattr(streamed_stores, "available_cpus", lambda: 1 << 10)
    target = Target.parse("llvm")
    for size, streamed in (((1 << 22) - 1, False), (1 << 22, True)):
        x = te.placeholder((size,), "float32")
        y = te.compute((size,), lambda i, x=x: x[i])
        assert streamed_stores.outlasts_caches(target, y, [y] * rows, 1e9) is streamed


def loops_of_default(made: Callable[..., Made], *args: Any) -> str:
    task = task_of(made, args)
    structure = task.concrete_structure(task.default_index)
    return str(autotune.build(structure.schedule, list(structure.tensors)).function)


def test_rows_shorter_than_a_vector_are_computed_in_vectors() -> None:
    loops = loops_of_default(softmax, 1000, SHORT)
    calls = re.findall(r"exp2?\((.*)", loops)
    assert len(calls) == 1
    assert re.match(r"(min)?\(*X\[ramp\(", calls[0])


def test_reduced_axes_that_are_one_in_memory_have_one_loop() -> None:
    loops = loops_of_default(plane_sums, 64, 7, 8)
    assert loops.count("X[") == loops.count("X[ramp(") > 0
    assert loops.count("for (") <= 2  # planes, and vectors of one


def test_reduced_axes_that_a_condition_names_stay_apart() -> None:
    def some(*sizes: int) -> Made:
        X = te.placeholder(sizes, name="X")
        r, q = te.reduce_axis((0, sizes[1]), "r"), te.reduce_axis((0, sizes[2]), "q")
        S = te.compute(sizes[:1], lambda i: te.sum(X[i, r, q], axis=[r, q], where=q < 30), name="S")
        return [X], [S]

    assert "floormod(" not in loops_of_default(some, 64, 6, 40)


def test_axes_that_are_too_long_together_are_reduced_apart() -> None:
    task = task_of(plane_sums, (1, 50_000, 50_000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as that of a computation that cannot be traced
        assert len(task.space) > 1


def test_what_follows_windows_has_ends_of_rows_apart() -> None:
    loops = loops_of_default(halved, 56, 58)
    assert "X[ramp(" in loops
    assert "likely(" not in loops  # no element is guarded
    assert "floormod(" not in loops  # rows and vectors have loops of their own


def test_what_follows_sums_of_rows_is_computed_a_row_at_a_time() -> None:
    loops = loops_of_default(row_means, 1000, 128)
    assert "allocate S_lanes[float32 * 1 * " in loops
    assert "likely(" not in loops


def test_functions_are_computed_for_several_vectors_at_a_time() -> None:
    lanes = HERE.vector_bytes // 4
    cases: list[tuple[Callable[..., Made], tuple[int, ...], int]] = [
        (sigmoids, (1000,), 4),
        (sigmoids, (3 * lanes,), 2),
        (halved, (300, 58), 1),
    ]
    for made, args, vectors in cases:
        task = task_of(made, args)
        values = task.space.config(task.default_index).values
        assert {v for name, v in values.items() if name.startswith("lanes")} == {vectors * lanes}


@pytest.mark.parametrize(("threads", "way"), [slow((1, "rows")), (2, "rows"), (64, "whole")])
def test_few_long_rows_are_shared_as_long_as_threads_have_several(threads: int, way: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more threads than this machine has
        target = Target(f"llvm -threads={threads}")
    task = task_of(softmax, (5, 50_001), target)
    values = task.space.config(task.default_index).values
    assert {v for name, v in values.items() if name.startswith("at")} == {way}


@pytest.mark.parametrize("n", [1024, 1003])
def test_the_sum_of_a_softmax_is_in_the_loop_of_its_exponentials(n: int) -> None:
    lines = loops_of_default(softmax, 1000, n).splitlines()
    for place in [number for number, line in enumerate(lines) if "exp(" in line]:
        assert "total_lanes[" in lines[place + 1]


def test_the_next_row_is_prefetched_once_while_the_exponentials_of_a_row_are_computed() -> None:
    task = task_of(softmax, (20, 256))
    knobs = task.space.config(task.default_index).values
    name = next(name for name in knobs if name.startswith("prefetch_rows"))
    for ahead in (0, 1):
        built = compile_function(task.prepared_of({**knobs, name: ahead}).main, task.target)
        code = built.source.split("define ")
        loops = [part for text in code for part in re.split(r"^loop", text, flags=re.MULTILINE)]
        fetching = [loop for loop in loops if "call void @llvm.prefetch.p0" in loop]
        assert len(fetching) == ahead
        assert all("@at.exp" in loop for loop in fetching)
        x = np.random.default_rng(1).random((20, 256), np.float32)
        y = np.empty_like(x)
        built(x, y)
        want = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(y, want / want.sum(1, keepdims=True), rtol=1e-5)


def test_the_rows_of_an_input_are_prefetched_if_any_of_its_readers_wants_it() -> None:
    def twice(m: int, n: int) -> Made:
        (X,), (Y,) = softmax(m, n)
        return [X], [Y, *_normed(X)]

    task = task_of(twice, (20, 256))
    knobs = task.space.config(task.default_index).values
    names = [name for name in knobs if name.startswith("prefetch_rows")]
    assert len(names) == 2
    for first, second in ((0, 0), (0, 1), (1, 0)):
        chosen = {**knobs, names[0]: first, names[1]: second}
        prefetches = task.prepared_of(chosen).main.info.prefetches
        assert str(prefetches["X"].distance) == str(256 * max(first, second))


def _normed(X: te.Tensor) -> list[te.Tensor]:
    """Rows of X, each divided by its norm."""
    n, r = X.shape[1], te.reduce_axis((0, X.shape[1]), name="s")
    squares = te.compute(X.shape[:1], lambda i: te.sum(X[i, r] * X[i, r], axis=r), name="squares")
    return [te.compute((*X.shape[:1], n), lambda i, j: X[i, j] / te.sqrt(squares[i]), name="N")]


@pytest.mark.parametrize(("made", "columns"), [(row_sums, 256), (softmax, 127)])
def test_a_row_that_is_read_once_or_short_is_not_prefetched(
    made: Callable[..., Made], columns: int
) -> None:
    task = task_of(made, (20, columns))
    assert not any("prefetch" in name for name in task.space.config(task.default_index).values)
