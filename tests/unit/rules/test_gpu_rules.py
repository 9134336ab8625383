"""What the rules promise of any computation on GPUs: right answers in every configuration."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from support import bare_computations
from support.legal_configurations import assert_right, drawn, small_integers
from support.slow_cases import slow

from autotune import te
from autotune.codegen.cuda.cuda_source import emit
from autotune.ir.expr import Call, Const, Expr, Load
from autotune.ir.stmt import Allocate, For, If, LoopKind, Stmt, Store
from autotune.ir.visitor import child_stmts, walk, walk_expr, written
from autotune.lowering.gpu.finalise_kernels import split_kernels
from autotune.rules.gpu.thread_loops import ENOUGH_BLOCKS
from autotune.target import Target
from autotune.task.task import Task

Made = tuple[list[te.Tensor], list[te.Tensor]]
TARGET = Target.of("cuda -arch=sm_90 -on=cpu")
GPU = Target.of("cuda -arch=sm_90")


def task_of(made: Callable[..., Made], *args: Any, target: Target = TARGET) -> Task:
    """Return the task of a computation, scheduled by rules."""
    return bare_computations.task_of(partial(made, *args), target)


def text_of(made: Callable[..., Made], *args: Any) -> str:
    """Return the source of the default configuration."""
    return emit(task_of(made, *args, target=GPU).final_of({})).text


def check(made: Callable[..., Made], expected: Callable[..., Any], *args: Any) -> None:
    """Compare the default configuration and random ones with exact results."""
    task, inputs = task_of(made, *args), small_integers(made(*args)[0])
    indices = drawn(task)
    assert not any(map(task.refusal, indices))
    assert_right(task, indices, inputs, expected(*inputs), tolerance=1e-5)
    assert task.untraceable == ""


def given(*shape: int, name: str = "X") -> te.Tensor:
    tensor: te.Tensor = te.placeholder(shape, "float32", name=name)
    return tensor


def transposed(m: int = 37, n: int = 50) -> Made:
    X = given(m, n)
    return [X], [te.compute((n, m), lambda i, j: X[j, i] * 2.0, name="Y")]


def batch_transposed(b: int = 3, m: int = 36, n: int = 40) -> Made:
    """Y[b, i, j] = X[j, b, i] + Z[b, j, i], through an inlined stage."""
    X, Z = given(n, b, m), given(b, n, m, name="Z")
    T = te.compute((n, b, m), lambda j, k, i: X[j, k, i] * 2.0, name="T")
    return [X, Z], [te.compute((b, m, n), lambda k, i, j: T[j, k, i] + Z[k, j, i], name="Y")]


def shifted_sums(m: int = 6, n: int = 40) -> Made:
    """Running sums down columns of differences from the largest element of a row, doubled."""
    X = given(m, n)
    r = te.reduce_axis((0, n), name="r")
    M = te.compute((m,), lambda i: te.max(X[i, r], axis=r), name="M")
    D = te.compute((m, n), lambda i, j: X[i, j] - M[i], name="D")
    state = given(m, n, name="state")
    init = te.compute((1, n), lambda t, j: D[t, j], name="init")
    update = te.compute((m, n), lambda t, j: state[t - 1, j] + D[t, j], name="update")
    S = te.scan(init, update, state, name="S")
    return [X], [te.compute((m, n), lambda i, j: S[i, j] * 2.0, name="Y")]


def doubled_states(steps: int = 4, batch: int = 3, units: int = 5) -> Made:
    """H[t] = X[t] + H[t - 1] @ U, with a product in every step."""
    X, U = given(steps, batch, units), given(units, units, name="U")
    H = given(steps, batch, units, name="H")
    k = te.reduce_axis((0, units), name="k")
    shape = (steps, batch, units)
    init = te.compute((1, batch, units), lambda t, i, j: X[t, i, j], name="init")
    sums = te.compute(shape, lambda t, i, j: te.sum(H[t - 1, i, k] * U[k, j], axis=k), name="sums")
    update = te.compute(shape, lambda t, i, j: X[t, i, j] + sums[t, i, j], name="update")
    return [X, U], [te.scan(init, update, H, name="S")]


def running_rows(steps: int = 4, rows: int = 5, n: int = 6) -> Made:
    """Largest element so far of each row, and sums of blocks below it, as attention has them."""
    X = given(steps, rows, n)
    M, L = given(steps, rows, name="M"), given(steps, rows, name="L")
    r, q = te.reduce_axis((0, n), name="r"), te.reduce_axis((0, n), name="q")
    zero = te.const(0, "float32")
    inits = [te.compute((1, rows), lambda t, i: zero, name=name) for name in ("m0", "l0")]
    largest = te.compute((steps, rows), lambda t, i: te.max(X[t, i, r], axis=r), name="largest")
    m = te.compute((steps, rows), lambda t, i: te.max(M[t - 1, i], largest[t, i]), name="m")
    below = te.compute((steps, rows, n), lambda t, i, j: m[t, i] - X[t, i, j], name="below")
    part = te.compute((steps, rows), lambda t, i: te.sum(below[t, i, q], axis=q), name="part")
    sums = te.compute((steps, rows), lambda t, i: L[t - 1, i] + part[t, i], name="sums")
    return [X], list(te.scan(inits, [m, sums], [M, L], name="S"))


def running_expected(x: Any) -> Any:
    largest, total = np.zeros(x.shape[:2], "f4"), np.zeros(x.shape[:2], "f4")
    for t in range(1, len(x)):
        largest[t] = np.maximum(largest[t - 1], x[t].max(axis=1))
        total[t] = total[t - 1] + (largest[t][:, None] - x[t]).sum(axis=1)
    return largest, total


def states_expected(x: Any, u: Any) -> Any:
    states = [x[0]]
    for step in x[1:]:
        states.append(step + states[-1] @ u)
    return np.array(states)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (transposed, lambda x: 2 * x.T),
        (batch_transposed, lambda x, z: 2 * x.transpose(1, 2, 0) + z.transpose(0, 2, 1)),
        (shifted_sums, lambda x: 2 * np.cumsum(x - x.max(axis=1, keepdims=True), axis=0)),
        (doubled_states, states_expected),
        (running_rows, running_expected),
    ],
    ids=lambda f: f.__name__,
)
def test_every_configuration_computes_the_right_answer(
    made: Callable[..., Made], expected: Callable[..., Any]
) -> None:
    check(made, expected)


def softmax_of(m: int, n: int) -> Made:
    X = given(m, n)
    r, q = te.reduce_axis((0, n), name="r"), te.reduce_axis((0, n), name="q")
    M = te.compute((m,), lambda i: te.max(X[i, r], axis=r), name="M")
    E = te.compute((m, n), lambda i, j: te.exp(X[i, j] - M[i]), name="E")
    S = te.compute((m,), lambda i: te.sum(E[i, q], axis=q), name="S")
    return [X], [te.compute((m, n), lambda i, j: E[i, j] / S[i], name="Y")]


def softmax_expected(x: Any) -> Any:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def times(stmt: Stmt, what: Callable[[Expr], bool]) -> int:
    """Return how often a thread evaluates some expressions, on the longest path."""
    if isinstance(stmt, For):
        assert isinstance(stmt.extent, Const)
        own = 1 if stmt.kind is LoopKind.THREAD else int(stmt.extent.value)
        return own * times(stmt.body, what)
    if isinstance(stmt, If):
        sides = [stmt.then] if stmt.orelse is None else [stmt.then, stmt.orelse]
        return max(times(side, what) for side in sides)
    if isinstance(stmt, Store):
        return stmt.index.lanes * any(map(what, walk_expr(stmt.value)))
    return sum(times(child, what) for child in child_stmts(stmt))


@pytest.mark.parametrize(
    "shape",
    [(7, 300), (40, 8), (5, 1023), *(slow((shape,)) for shape in ((5, 61), (3, 1024)))],
)
def test_softmax_loads_rows_once_and_computes_powers_once(shape: tuple[int, int]) -> None:
    check(softmax_of, softmax_expected, *shape)
    task = task_of(softmax_of, *shape, target=GPU)
    final = task.final_of({})
    text = emit(final).text
    kept = {b.name: b for s in walk(final.body) for b in written(s)}["X.own"]
    elements = math.prod(int(n.value) for n in kept.shape if isinstance(n, Const))
    assert times(final.body, lambda e: isinstance(e, Call) and e.name == "exp") == elements
    assert times(final.body, lambda e: isinstance(e, Load) and e.buffer.name == "X") == elements
    assert "__shared__" not in text
    assert "__syncthreads" not in text


def test_tiles_of_a_transpose_change_places_by_exclusive_or_and_move_in_vectors() -> None:
    text = text_of(transposed, 16, 1 << 22)
    assert "bitwise_xor<int>(" in text
    assert text.count("pack<4>(&") >= 3  # to the tile, from the input, to the result
    assert "blockIdx.y" not in text  # there may be only 65,535


def column_sums(m: int, n: int) -> Made:
    X = given(m, n)
    k = te.reduce_axis((0, m), name="k")
    S = te.compute((n,), lambda j: te.sum(X[k, j], axis=k), name="S")
    return [X], [te.compute((n,), lambda j: S[j] * 2.0, name="Y")]


def all_of(m: int, n: int) -> Made:
    X = given(m, n)
    k, r = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, n), name="r")
    return [X], [te.compute((1,), lambda j: te.max(X[k, r], axis=[k, r]), name="Y")]


def row_sums(m: int, n: int) -> Made:
    X = given(m, n)
    k = te.reduce_axis((0, n), name="k")
    return [X], [te.compute((m,), lambda i: te.sum(X[i, k], axis=k), name="Y")]


def product_of(m: int, n: int, k: int) -> Made:
    A, B = given(m, k, name="A"), given(k, n, name="B")
    r = te.reduce_axis((0, k), name="r")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return [A, B], [te.compute((m, n), lambda i, j: te.max(C[i, j], 0.0), name="Y")]


def windows(channels: int, filters: int, side: int) -> Made:
    """A convolution in the order NHWC, with a border of zeros."""
    X, F = given(side, side, channels), given(3, 3, channels, filters, name="F")
    c, a, b = (
        te.reduce_axis((0, n), name=name) for n, name in ((channels, "c"), (3, "a"), (3, "b"))
    )

    def padded(i: Any, j: Any, k: Any) -> Any:
        inside = te.all(i >= 1, i <= side, j >= 1, j <= side)
        return te.if_then_else(inside, X[i - 1, j - 1, k], te.const(0, "float32"))

    P = te.compute((side + 2, side + 2, channels), padded, name="P")
    Y = te.compute(
        (side, side, filters),
        lambda i, j, o: te.sum(P[i + a, j + b, c] * F[a, b, c, o], axis=[a, b, c]),
        name="Y",
    )
    return [X, F], [Y]


def windows_expected(x: Any, f: Any) -> Any:
    view = np.lib.stride_tricks.sliding_window_view(
        np.pad(x, ((1, 1), (1, 1), (0, 0))), (3, 3), axis=(0, 1)
    )
    return np.einsum("ijcab,abco->ijo", view, f)


@pytest.mark.parametrize(
    ("made", "expected", "shape"),
    [
        (column_sums, lambda x: 2 * x.sum(axis=0), (1000, 3)),
        (column_sums, lambda x: 2 * x.sum(axis=0), (40, 1200)),
        (row_sums, lambda x: x.sum(axis=1), (3, 9001)),
        (row_sums, lambda x: x.sum(axis=1), (70, 132)),
        (all_of, lambda x: x.max().reshape(1), (30, 301)),
        slow((product_of, lambda a, b: np.maximum(a @ b, 0), (17, 9, 600))),
        (product_of, lambda a, b: np.maximum(a @ b, 0), (17, 9, 601)),
        (windows, windows_expected, (64, 12, 5)),
        slow((windows, windows_expected, (61, 12, 5))),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_sums_whose_results_are_few_are_split(
    made: Callable[..., Made], expected: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    check(made, expected, *shape)


@pytest.mark.parametrize(
    ("made", "shape"), [(column_sums, (1 << 23, 8)), (row_sums, (16, 1 << 20))]
)
def test_a_long_sum_occupies_all_multiprocessors(
    made: Callable[..., Made], shape: tuple[int, int]
) -> None:
    task = task_of(made, *shape, target=GPU)
    kernels = split_kernels(task.final_of({}))
    assert len(kernels) == 2
    assert math.prod(int(n.value) for n in kernels[0].grid if isinstance(n, Const)) >= ENOUGH_BLOCKS


@pytest.mark.parametrize(
    ("made", "shape", "parts"),
    [
        (product_of, (1024, 1024, 1024), 1),  # as many blocks, each with much to do
        (product_of, (16, 2048, 2048), 8),
        (windows, (64, 64, 28), 4),
        slow((windows, (63, 65, 27), 4)),
        (windows, (64, 64, 112), 1),
    ],
)
def test_products_are_split_if_blocks_would_be_few_or_small(
    made: Callable[..., Made], shape: tuple[int, ...], parts: int
) -> None:
    task = task_of(made, *shape, target=GPU)
    assert task.space.config(task.space.default_index).values.get("parts", 1) == parts
    kernels = split_kernels(task.final_of({}))
    assert len(kernels) == 1 + (parts > 1)
    assert math.prod(int(n.value) for n in kernels[0].grid if isinstance(n, Const)) >= 125


@pytest.mark.parametrize("side", [28, 57])
def test_windows_are_loaded_in_whole_vectors_whatever_the_size_of_the_image(side: int) -> None:
    loop = text_of(windows, 64, 64, side).partition("_k_o = 0")[2].partition("+=")[0]
    assert loop.count("pack<4>(&X[") == loop.count("pack<4>(&F[") == 1
    assert not re.search(r" [XF]\[", loop)


def normed(m: int = 6, n: int = 40) -> Made:
    """Rows less their mean over their deviation, whose inverse root is a stage of its own."""
    X = given(m, n)
    k, r = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="r")
    S = te.compute((m,), lambda i: te.sum(X[i, k], axis=k), name="S")
    D = te.compute((m, n), lambda i, j: X[i, j] - S[i] / n, name="D")
    V = te.compute((m,), lambda i: te.sum(D[i, r] * D[i, r], axis=r), name="V")
    R = te.compute((m,), lambda i: 1.0 / te.sqrt(V[i] / n + 1.0), name="R")
    return [X], [te.compute((m, n), lambda i, j: D[i, j] * R[i], name="Y")]


def test_what_is_computed_once_for_a_row_is_in_its_kernel() -> None:
    def expected(x: Any) -> Any:
        d = x - x.mean(axis=1, keepdims=True)
        return d / np.sqrt((d * d).mean(axis=1, keepdims=True) + 1)

    check(normed, expected)
    task = task_of(normed, target=GPU)
    assert len(split_kernels(task.final_of({}))) == 1


def test_the_next_tiles_of_a_product_are_loaded_first_and_where_it_is_written() -> None:
    loop = text_of(product_of, 2048, 2048, 2048).partition("for (int ")[2]
    assert loop.count("load_here(pack<4>(&") >= 2
    assert loop.index("load_here(") < loop.index("+=")


def doubled(m: int, n: int) -> Made:
    X, B = given(m, n), given(n, name="B")
    return [X, B], [te.compute((m, n), lambda i, j: X[i, j] * 2.0 + B[j], name="Y")]


def halves(m: int, n: int) -> Made:
    """Rows of a half type, doubled, and their sums."""
    X: te.Tensor = te.placeholder((m, n), "float16", name="X")
    k = te.reduce_axis((0, n), name="k")
    S = te.compute((m,), lambda i: te.sum(X[i, k].astype("float32"), axis=k), name="S")
    return [X], [te.compute((m, n), lambda i, j: X[i, j] + S[i].astype("float16"), name="Y")]


def image_softmax(b: int, c: int, h: int, w: int) -> Made:
    """Softmax over all axes but the first."""
    X = given(b, c, h, w)
    r, q = ([te.reduce_axis((0, n), name=f"{name}{n}") for n in (c, h, w)] for name in "rq")
    M = te.compute((b,), lambda i: te.max(X[(i, *r)], axis=r), name="M")
    E = te.compute((b, c, h, w), lambda i, *at: te.exp(X[(i, *at)] - M[i]), name="E")
    S = te.compute((b,), lambda i: te.sum(E[(i, *q)], axis=q), name="S")
    return [X], [te.compute((b, c, h, w), lambda i, *at: E[(i, *at)] / S[i], name="Y")]


def image_softmax_expected(x: Any) -> Any:
    return softmax_expected(x.reshape(len(x), -1)).reshape(x.shape)


def halves_expected(x: Any) -> Any:
    return x + x.astype("f4").sum(axis=1, keepdims=True).astype("f2")


@pytest.mark.parametrize(
    ("made", "expected", "shape", "lanes"),
    [
        (softmax_of, softmax_expected, (6, 1023), 4),
        (softmax_of, softmax_expected, (6, 130), 4),
        (row_sums, lambda x: x.sum(axis=1), (9, 1025), 4),
        (doubled, lambda x, b: 2 * x + b, (7, 131), 4),
        (halves, halves_expected, (5, 131), 8),
        (image_softmax, image_softmax_expected, (5, 3, 5, 15), 4),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_rows_of_any_length_move_in_whole_vectors_but_for_their_ends(
    made: Callable[..., Made], expected: Callable[..., Any], shape: tuple[int, ...], lanes: int
) -> None:
    check(made, expected, *shape)
    text = text_of(made, *shape)
    assert f"pack<{lanes}>(&X[" in text
    assert made is row_sums or f"pack<{lanes}>(&Y[" in text


@pytest.mark.parametrize("shape", [(6, 3, 5, 15), slow(((5, 1, 15, 15),)), (3, 2, 3, 2)])
def test_rows_of_several_axes_are_kept_in_registers(shape: tuple[int, ...]) -> None:
    check(image_softmax, image_softmax_expected, *shape)
    text = text_of(image_softmax, *shape)
    assert "float X_own[" in text
    assert "__syncthreads" not in text


def test_only_the_last_steps_of_a_sum_ask_whether_they_are_there() -> None:
    check(column_sums, lambda x: 2 * x.sum(axis=0), 1031, 40)
    text = text_of(column_sums, 4097, 4097)
    loop = text.partition("for (int k_o")[2].partition("}")[0]
    assert "+= X[" in loop
    assert "if (" not in loop


# -- scans -------------------------------------------------------------------------------------


def text_of_operator(name: str, **args: Any) -> str:
    task = Task.from_reference(name, args, "cuda -arch=sm_90")
    return emit(task.final_of({})).text


@pytest.mark.parametrize(("batch", "units"), [(300, 96), (301, 200), (1000, 129)])
def test_threads_beyond_the_units_of_a_cell_touch_no_other_block(batch: int, units: int) -> None:
    args = {"steps": 16, "batch": batch, "units": units}
    task = Task.from_reference("rnn_cell", args, "cuda -arch=sm_90")
    for rows in (1, 2, 4):
        index = task.space.index_of(
            {**task.space.config(task.default_index).values, "scan_rows": rows}
        )
        assert len(split_kernels(task.final(index))) == 1


@pytest.mark.parametrize("pattern", ["column", "row", "outer", "scalar"])
def test_broadcast_rows_of_odd_length_move_in_vectors(pattern: str) -> None:
    text = text_of_operator("broadcast_add", n=4097, pattern=pattern)
    assert "pack<4>(&C[x_y]) = C_pack" in text


@pytest.mark.parametrize(("s", "causal"), [(512, False), (250, True), (77, False)])
def test_attention_is_one_kernel_that_keeps_scores_of_one_block(s: int, causal: bool) -> None:
    text = text_of_operator("attention", b=1, heads=4, s=s, d=64, causal=causal)
    assert text.count("__global__") == 1
    kept = [int(n) for n in re.findall(r"__shared__[^\n]*\[(\d+)\]", text)]
    assert 4 * sum(kept) < 48 << 10
    parameters = re.findall(r"float\* __restrict__ (\w+)", text)
    assert parameters == ["Q", "K", "V", "O"]  # no scores in memory
    assert text.count("pack<4>(&K[") > 0 < text.count("pack<4>(&V[")
    assert "pack<4>(&O[" in text


def test_a_block_keeps_scores_of_one_head_of_several_batches() -> None:
    sizes = []
    for b in (1, 3):
        args = {"b": b, "heads": 6, "s": 500, "d": 64}
        task = Task.from_reference("attention", args, "cuda -arch=sm_90")
        final = task.final_of({"scan_rows_block64": 32})
        kept = [s.buffer for s in walk(final.body) if isinstance(s, Allocate)]
        sizes.append(sorted(str(b.shape) for b in kept if b.scope == "shared"))
    assert sizes[0] == sizes[1]


def test_a_long_scan_of_few_columns_has_no_long_serial_part() -> None:
    text = text_of_operator("linear_recurrence", m=1 << 20, n=8)
    loops = [int(n) for n in re.findall(r"for \(int \w+ = 0; \w+ < (\d+);", text)]
    assert max(loops) <= 512
    assert text.count("__global__") == 7


def test_a_row_is_scanned_in_registers_by_the_threads_of_one_block() -> None:
    text = text_of_operator("cumsum", m=4096, n=4096, axis=1)
    assert text.count("__global__") == 1
    assert text.count("pack<4>(&X[") == text.count("pack<4>(&Y[") == 1


def test_threads_of_a_row_scan_meet_in_no_bank() -> None:
    text = text_of_operator("cumsum", m=57, n=4096, axis=1)
    rows = 4 * 256 // 32  # vectors of a tile over threads of a warp
    assert f" totals[{rows * 33}];" in text  # each warp's in a row that is one element longer


@pytest.mark.parametrize(
    ("operator", "args"),
    [
        ("dense", {"m": 33, "n": 100, "k": 300, "dtype": "float16"}),
        ("softmax", {"m": 64, "n": 50257}),
    ],
)
def test_what_may_be_reduced_in_parts_has_one_space(operator: str, args: dict[str, Any]) -> None:
    task = Task.from_reference(operator, args, "cuda -arch=sm_90")
    assert any(knob.name.startswith("parts") for knob in task.space.knobs)
    assert task.untraceable == ""
