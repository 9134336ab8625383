"""Reductions and scans down columns on GPUs: vectors of neighbours, and enough blocks."""

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

from autotune import te
from autotune.codegen.cuda.cuda_source import emit
from autotune.ir.expr import Const
from autotune.lowering.gpu.finalise_kernels import split_kernels
from autotune.rules.gpu.thread_loops import ENOUGH_BLOCKS
from autotune.target import Target
from autotune.task.task import Task

Made = tuple[list[te.Tensor], list[te.Tensor]]


def task_of(made: Callable[[], Made], target: str = "cuda -arch=sm_90 -on=cpu") -> Task:
    """Return the task of a computation, scheduled by rules."""
    return bare_computations.task_of(made, Target.of(target))


def text_of(made: Callable[[], Made]) -> str:
    """Return the source of the default configuration, which compiles for sm_90."""
    return emit(task_of(made, "cuda -arch=sm_90").final_of({})).text


def given(*shape: int, dtype: str = "float32", name: str = "X") -> te.Tensor:
    tensor: te.Tensor = te.placeholder(shape, dtype, name=name)
    return tensor


def column_sums(m: int, n: int, dtype: str = "float32") -> Made:
    X, k = given(m, n, dtype=dtype), te.reduce_axis((0, m), name="k")
    S = te.compute((n,), lambda j: te.sum(X[k, j].astype("float32"), axis=k), name="S")
    return [X], [te.compute((n,), lambda j: S[j] * 2.0, name="Y")]


def scaled_sums(m: int, n: int) -> Made:
    """Sums down columns of a batch, each element less its row's and times its column's factor."""
    X, R, C = given(3, m, n), given(m, name="R"), given(n, name="C")
    k = te.reduce_axis((0, m), name="k")
    D = te.compute((3, m, n), lambda b, i, j: (X[b, i, j] - R[i]) * C[j], name="D")
    return [X, R, C], [te.compute((3, n), lambda b, j: te.sum(D[b, k, j], axis=k), name="Y")]


def channel_sums(*shape: int) -> Made:
    """Sums over all axes but the last one."""
    X = given(*shape)
    axes = [te.reduce_axis((0, n), name=f"k{n}") for n in shape[:-1]]
    return [X], [te.compute(shape[-1:], lambda c: te.sum(X[(*axes, c)], axis=axes), name="Y")]


def plane_sums(n: int, c: int, h: int, w: int) -> Made:
    """Sums of each channel of images, as for a batch norm."""
    X = given(n, c, h, w)
    i, k, j = (
        te.reduce_axis((0, size), name=name) for size, name in ((n, "i"), (h, "k"), (w, "j"))
    )
    return [X], [te.compute((c,), lambda x: te.sum(X[i, x, k, j], axis=[i, k, j]), name="Y")]


def lower_sums(m: int, n: int) -> Made:
    """Sums of the elements below the diagonal: which ones count differs between neighbours."""
    X, k = given(m, n), te.reduce_axis((0, m), name="k")
    return [X], [te.compute((n,), lambda j: te.sum(X[k, j], axis=k, where=k > j), name="Y")]


def windows(h: int, w: int, size: int, stride: int) -> Made:
    """The largest element of each window of an image of 200 channels."""
    X = given(200, h, w)
    a, b = te.reduce_axis((0, size), name="a"), te.reduce_axis((0, size), name="b")
    shape = (200, (h - size) // stride + 1, (w - size) // stride + 1)
    return [X], [
        te.compute(
            shape,
            lambda c, i, j: te.max(X[c, i * stride + a, j * stride + b], axis=[a, b]),
            name="Y",
        )
    ]


def windows_expected(x: Any, size: int, stride: int) -> Any:
    view = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))
    return view[:, ::stride, ::stride].max(axis=(3, 4))


def check(made: Callable[[], Made], expected: Callable[..., Any]) -> None:
    """Compare the default configuration and random ones with exact results."""
    task, inputs = task_of(made), small_integers(made()[0])
    indices = drawn(task)
    assert not any(map(task.refusal, indices))
    assert_right(task, indices, inputs, expected(*inputs), tolerance=1e-5)


@pytest.mark.parametrize(
    ("made", "expected", "lanes"),
    [
        (partial(column_sums, 1000, 8), lambda x: 2 * x.sum(axis=0), 4),
        (partial(column_sums, 40, 1204), lambda x: 2 * x.sum(axis=0), 4),
        (partial(column_sums, 1031, 38), lambda x: 2 * x.sum(axis=0), 2),
        (partial(column_sums, 513, 48, "float16"), lambda x: 2 * x.astype("f4").sum(axis=0), 4),
        (
            partial(scaled_sums, 70, 20),
            lambda x, r, c: ((x - r[:, None]) * c).sum(axis=1),
            4,
        ),
        (partial(channel_sums, 3, 20, 30, 12), lambda x: x.sum(axis=(0, 1, 2)), 4),
        (partial(plane_sums, 5, 6, 14, 28), lambda x: x.sum(axis=(0, 2, 3)), 4),
        (partial(plane_sums, 5, 6, 14, 9), lambda x: x.sum(axis=(0, 2, 3)), 1),
        (partial(windows, 44, 56, 2, 2), lambda x: windows_expected(x, 2, 2), 4),
        (partial(windows, 33, 96, 3, 3), lambda x: windows_expected(x, 3, 3), 4),
        (partial(lower_sums, 50, 24), lambda x: np.tril(x, -1).sum(axis=0), 1),
        (partial(windows, 20, 32, 3, 2), lambda x: windows_expected(x, 3, 2), 1),
        (partial(windows, 20, 32, 2, 4), lambda x: windows_expected(x, 2, 4), 1),
        (partial(column_sums, 300, 21), lambda x: 2 * x.sum(axis=0), 1),
    ],
)
def test_neighbouring_results_are_reduced_in_vectors_where_their_operands_begin_with_one(
    made: Callable[[], Made], expected: Callable[..., Any], lanes: int
) -> None:
    check(made, expected)
    text = text_of(made)
    assert ("pack<" in text) == (lanes > 1)
    if lanes > 1:
        assert f"pack<{lanes}>(&X[" in text
        assert not re.search(r"[ (-]X\[", text)


@pytest.mark.parametrize(
    ("m", "n", "launches"), [(4096, 4096, 1), (4096, 1000, 1), (1 << 23, 8, 2), (9000, 516, 2)]
)
def test_sums_of_columns_are_one_launch_if_blocks_with_a_sector_of_columns_are_enough(
    m: int, n: int, launches: int
) -> None:
    kernels = split_kernels(task_of(partial(column_sums, m, n), "cuda -arch=sm_90").final_of({}))
    assert len(kernels) == launches
    blocks = math.prod(int(e.value) for e in kernels[0].grid if isinstance(e, Const))
    assert blocks >= round(ENOUGH_BLOCKS)


@pytest.mark.parametrize(
    ("m", "n", "is_shared"), [(200, 1 << 19, False), (200, 1 << 14, True), (20, 1 << 16, False)]
)
def test_threads_share_the_steps_of_columns_where_columns_are_not_enough(
    m: int, n: int, is_shared: bool
) -> None:
    text = text_of(partial(column_sums, m, n))
    assert ("__shared__" in text) == is_shared
    assert "pack<4>(&X[" in text


def test_sums_over_several_axes_that_lie_as_one_are_divided_as_one() -> None:
    made = partial(channel_sums, 32, 28, 28, 128)
    first = split_kernels(task_of(made, "cuda -arch=sm_90").final_of({}))[0]
    assert math.prod(int(e.value) for e in first.grid if isinstance(e, Const)) >= ENOUGH_BLOCKS


def test_what_adds_up_parts_of_odd_columns_has_a_block_for_each_multiprocessor() -> None:
    made = partial(column_sums, 4097, 4097)
    kernels = split_kernels(task_of(made, "cuda -arch=sm_90").final_of({}))
    for kernel in kernels:
        blocks = math.prod(int(e.value) for e in kernel.grid if isinstance(e, Const))
        assert blocks >= ENOUGH_BLOCKS


def running_sums(m: int, n: int, dtype: str = "float32") -> Made:
    X, state = given(m, n, dtype=dtype), given(m, n, dtype=dtype, name="state")
    init = te.compute((1, n), lambda t, j: X[t, j], name="init")
    update = te.compute((m, n), lambda t, j: state[t - 1, j] + X[t, j], name="update")
    return [X], [te.scan(init, update, state, name="Y")]


def recurrence(m: int, n: int) -> Made:
    """Y[t] = A[t] * Y[t - 1] + X[t], from X[0] on."""
    A, X, state = given(m, n, name="A"), given(m, n), given(m, n, name="state")
    init = te.compute((1, n), lambda t, j: X[t, j], name="init")
    update = te.compute((m, n), lambda t, j: A[t, j] * state[t - 1, j] + X[t, j], name="update")
    return [A, X], [te.scan(init, update, state, name="Y")]


def recurrence_expected(a: Any, x: Any) -> Any:
    states = [x[0]]
    for weight, value in zip(a[1:], x[1:], strict=True):
        states.append(weight * states[-1] + value)
    return np.array(states)


def quarters(m: int, n: int) -> list[Any]:
    """Return small weights and values, of which all products and sums are exact."""
    rng = np.random.default_rng(0)
    return [rng.choice([-1.0, 0.0, 1.0], (m, n)).astype("f4"), *small_integers([given(m, n)])]


@pytest.mark.parametrize(
    ("m", "n", "lanes"), [(70, 16384, 4), (41, 20002, 2), (70, 64, 1), (35, 9001, 1)]
)
def test_scans_down_many_columns_move_in_vectors(m: int, n: int, lanes: int) -> None:
    for made, inputs, expected in (
        (running_sums, small_integers([given(m, n)]), lambda x: np.cumsum(x, axis=0)),
        (recurrence, quarters(m, n), recurrence_expected),
    ):
        task = task_of(partial(made, m, n))
        assert_right(task, drawn(task), inputs, expected(*inputs))
        assert task.untraceable == ""
        # What is before blocks is computed by a thread for each column: others would be idle.
        kernels = text_of(partial(made, m, n)).split("__global__")[1:]
        assert len(kernels) == 3
        for text in kernels[::2] if lanes > 1 else kernels[2:]:
            assert (f"pack<{lanes}>(&X[" in text) == (lanes > 1)
            # Also the weights, which the first step of all does not load.
            scalars = text.replace("&X[", "").replace("&A[", "")
            assert any(f"{name}[" in scalars for name in "XA") == (lanes == 1)


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_vectors_of_scans_are_as_wide_as_one_access(dtype: str) -> None:
    text = text_of(partial(running_sums, 64, 16384, dtype))
    assert f"pack<{16 // np.dtype(dtype).itemsize}>(&X[" in text


@pytest.mark.parametrize(("units", "is_wide"), [(64, True), (63, False)])
def test_the_sums_of_a_cell_load_its_state_in_vectors(units: int, is_wide: bool) -> None:
    args = {"steps": 5, "batch": 3, "units": units}
    task = Task.from_reference("lstm_cell", args, "cuda -arch=sm_90")
    text = emit(task.final_of({})).text
    assert ("pack<4>(&S_v0[" in text) == is_wide
    assert "__launch_bounds__(64)" in text  # a thread for each unit, whatever the gates


def running_rows(m: int, n: int) -> Made:
    X, state = given(m, n), given(n, m, name="state")
    init = te.compute((1, m), lambda t, i: X[i, t], name="init")
    update = te.compute((n, m), lambda t, i: state[t - 1, i] + X[i, t], name="update")
    S = te.scan(init, update, state, name="S")
    return [X], [te.compute((m, n), lambda i, t: S[t, i], name="Y")]


@pytest.mark.parametrize(("m", "n"), [(7, 1023), (5, 4097), (3, 9001), (6, 5), (6, 1), (1, 3)])
def test_rows_of_any_length_are_scanned_in_vectors(m: int, n: int) -> None:
    made = partial(running_rows, m, n)
    check(made, lambda x: np.cumsum(x, axis=1))
    text = text_of(made).split("__global__")[-1]
    assert ("pack<4>(&X[" in text) == ("pack<4>(&Y[" in text) == (n > 32)
