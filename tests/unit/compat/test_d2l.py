"""Helpers of d2ltvm's page, and the baseline that it takes from MXNet."""

import sys

import numpy as np
import pytest

from autotune.compat import d2l, tvm
from autotune.compat import mxnet as mx
from autotune.compat.tvm import te
from autotune.errors import UsageError


def test_data_are_of_the_given_shapes_and_of_theirs_together():
    a, b, out = d2l.get_bcast_data((3, 1), (3, 4))
    assert (a.shape, b.shape, out.shape) == ((3, 1), (3, 4), (3, 4))
    assert {a.dtype, b.dtype, out.dtype} == {np.dtype("float32")}
    assert len({*b.reshape(-1).tolist()}) == 12
    made = d2l.get_bcast_data((1, 4), (3, 1), tvm.nd.array)
    assert [type(each).__name__ for each in made] == ["NDArray"] * 3
    assert made[2].shape == (3, 4)
    with pytest.raises(UsageError, match="get_bcast_data: shape mismatch"):
        d2l.get_bcast_data((3, 2), (3, 4))


@pytest.mark.parametrize(
    ("one", "other"), [((3, 1), (3, 4)), ((1, 4), (3, 4)), ((3, 1), (1, 4)), ((1, 1), (1, 1))]
)
def test_a_broadcast_addition_adds_as_numpy_does(one, other):
    A, B, C = d2l.broadcast_add(one, other)
    assert [axis.var.name for axis in C.op.axis] == ["x", "y"]
    a, b, c = d2l.get_bcast_data(one, other)
    tvm.build(te.create_schedule(C.op), [A, B, C])(a, b, c)
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize(
    ("one", "other"), [((3, 2), (3, 4)), ((3,), (3, 4)), ((3, 4, 1), (3, 4, 1))]
)
def test_other_shapes_are_refused(one, other):
    with pytest.raises(UsageError, match="must be of two dimensions, of the same size or 1 each"):
        d2l.broadcast_add(one, other)


def test_a_workload_is_timed_per_run_after_a_first_one():
    numbers = []

    def workload(number):
        numbers.append(number)
        return 2e-3 * number if len(numbers) > 1 else 5.0

    assert d2l.bench_workload(workload) == pytest.approx(2e-3)
    assert numbers[0] == 1
    assert max(numbers) >= 4  # so that a repeat takes 8 ms


def test_speeds_of_a_schedule_are_additions_per_second(monkeypatch):
    sizes = []

    def rows(n):
        sizes.append(n)
        A, B, C = d2l.broadcast_add((n, 1), (n, n))
        return te.create_schedule(C.op), (A, B, C)

    seen = []
    monkeypatch.setattr(d2l, "bench_workload", lambda workload: seen.append(workload(2)) or 0.5)
    speeds = d2l.bench_bcast_add_tvm(rows, np.array([8, 16]), "llvm")
    assert speeds == pytest.approx([8 * 8 / 0.5e9, 16 * 16 / 0.5e9])
    assert [type(n) for n in sizes] == [int, int]
    assert all(0 < seconds < 1 for seconds in seen)


def test_a_picture_has_a_named_line_for_each_list_of_speeds():
    pytest.importorskip("matplotlib")
    figure = d2l.plot_gflops([1, 10], [[2.0, 3.0], np.array([4.0, 5.0])], ["a", "b"], "Size (MB)")
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Size (MB)", "GFLOP/s")
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    drawn = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert drawn == {"a": [[1, 2], [10, 3]], "b": [[1, 4], [10, 5]]}
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    with pytest.raises(UsageError, match="a name and 2 speeds for each line, got 1 names, and 3 s"):
        d2l.plot_gflops([1, 2], [[1, 2, 3]], ["a"])


def test_without_matplotlib_a_picture_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.backend_bases", None)
    with pytest.raises(UsageError, match="needs Matplotlib: pip install 'kernel-autotune"):
        d2l.plot_gflops([1], [[1.0]], ["a"])


# -- the baseline --------------------------------------------------------------------------------


def test_the_baseline_adds_arrays_as_mxnet_does():
    a, b = mx.nd.array([[1], [2]]), mx.nd.array(np.arange(6).reshape(2, 3), ctx=mx.cpu())
    assert a.dtype == b.dtype == "float32"
    assert mx.nd.array(a).dtype == "float32"
    assert mx.nd.array(mx.nd.array([1], dtype="int8")).dtype == "int8"
    out = mx.nd.array(np.zeros((2, 3)))
    assert mx.nd.broadcast_add(a, b, out=out) is out
    out.wait_to_read()
    assert out.asnumpy().tolist() == mx.nd.broadcast_add(a, b).asnumpy().tolist()
    assert out.asnumpy().tolist() == [[1, 2, 3], [5, 6, 7]]


def test_the_baseline_of_a_gpu_is_computed_there(one_gpu):
    a, b = (mx.nd.array(np.ones((2, 2)), ctx=mx.gpu()) for _ in range(2))
    total = mx.nd.broadcast_add(a, b)
    assert type(total.data) is one_gpu.ndarray
    assert total.asnumpy().tolist() == [[2, 2], [2, 2]]
