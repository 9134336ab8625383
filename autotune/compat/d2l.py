"""Helpers of the package d2ltvm that its page on broadcast addition on GPUs uses."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from autotune.compat import tvm
from autotune.compat.arrays import NDArray
from autotune.errors import UsageError
from autotune.measure.timing.kernel_timing import time_kernel
from autotune.measure.timing_policy import TimingPolicy
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Shape = tuple[int, int]


def get_bcast_data(
    shape1: Sequence[int],
    shape2: Sequence[int],
    constructor: Callable[[npt.NDArray[np.float32]], Any] | None = None,
) -> tuple[Any, Any, Any]:
    """Return arrays for a broadcast addition: two of random numbers, and one for their sum.

    Parameters
    ----------
    shape1, shape2 : sequence of int
        Shapes that NumPy can broadcast.
    constructor : callable, optional
        Makes other arrays of the three float32 arrays, each by itself.

    Raises
    ------
    UsageError
        If the shapes cannot be broadcast.
    """
    try:
        shape = np.broadcast_shapes(tuple(shape1), tuple(shape2))
    except ValueError as error:
        raise UsageError(f"get_bcast_data: {error}") from None
    draw = np.random.default_rng(0).standard_normal
    arrays = draw(shape1, np.float32), draw(shape2, np.float32), np.empty(shape, np.float32)
    a, b, out = arrays if constructor is None else map(constructor, arrays)
    return a, b, out


def broadcast_add(shape1: Shape, shape2: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """Return placeholders `A` and `B` of two dimensions, and their sum `C`, with axes x and y.

    Raises
    ------
    UsageError
        If the shapes have other numbers of dimensions, or cannot be broadcast.
    """
    pairs = list(zip(shape1, shape2, strict=False))
    if (len(shape1), len(shape2)) != (2, 2) or any(m != n and 1 not in (m, n) for m, n in pairs):
        raise UsageError(
            f"broadcast_add: shapes must be of two dimensions, of the same size or 1 each, got "
            f"{tuple(shape1)} and {tuple(shape2)}"
        )
    A = tvm.te.placeholder(shape1, name="A")
    B = tvm.te.placeholder(shape2, name="B")

    def element(operand: Tensor, x: Any, y: Any) -> Any:
        rows, columns = (size == 1 for size in operand.shape)
        return operand[0 if rows else x, 0 if columns else y]

    shape = tuple(n if m == 1 else m for m, n in pairs)
    C = tvm.te.compute(shape, lambda x, y: element(A, x, y) + element(B, x, y), name="C")
    return A, B, C


def bench_workload(workload: Callable[[int], float]) -> float:
    """Return the seconds of one run: the median of repeats of several milliseconds, after a run.

    Parameters
    ----------
    workload : callable
        Takes a number of runs, and returns the seconds that they took together, such as the
        method `timeit` of a `timeit.Timer`.
    """
    workload(1)

    def runs(_: object, number: int) -> float:
        return float(workload(number))

    return statistics.median(time_kernel(lambda: None, TimingPolicy(), loop=runs).costs_s)


def bench_bcast_add_tvm(
    func: Callable[[int], tuple[Schedule, Sequence[Tensor]]], sizes: Iterable[int], target: str
) -> npt.NDArray[np.float64]:
    """Return the speeds in GFLOP/s of the sum of an (n, 1) and an (n, n) array, one per size n.

    Parameters
    ----------
    func : callable
        Takes n, and returns a schedule and its tensors.
    sizes : iterable of int
    target : str
        Such as "cuda"; where no GPU can be used, it becomes "cuda -on=cpu".

    Raises
    ------
    UsageError
        As `autotune.compat.tvm.build`, and its other errors.
    """
    device = tvm.device(target)

    def on_device(values: npt.NDArray[np.float32]) -> NDArray:
        return tvm.nd.array(values, device)

    speeds = []
    for n in map(int, sizes):
        schedule, tensors = func(n)
        built = tvm.build(schedule, tensors, target)
        arrays = get_bcast_data((n, 1), (n, n), on_device)

        def workload(number: int, built: Any = built, arrays: Any = arrays) -> float:
            timed = built.time_evaluator(built.entry_name, device, number)
            return number * float(timed(*arrays).mean)

        speeds.append(n * n / 1e9 / bench_workload(workload))
    return np.array(speeds)


def plot_gflops(
    sizes: npt.ArrayLike,
    gflops: Sequence[npt.ArrayLike],
    legend: Sequence[str],
    xlabel: str = "Size",
) -> Figure:
    """Return a picture of speeds over sizes, both logarithmic; the last line of a cell shows it.

    Parameters
    ----------
    sizes : array (n,)
    gflops : sequence of array (n,)
        GFLOP/s, a line for each.
    legend : sequence of str
        The lines' names.
    xlabel : str
        What the sizes are.

    Raises
    ------
    UsageError
        If Matplotlib is not installed, or the numbers of names or speeds differ.
    """
    lines = [np.asarray(line, float) for line in gflops]
    at = np.asarray(sizes, float)
    if len(lines) != len(legend) or any(line.shape != at.shape for line in lines):
        raise UsageError(
            f"plot_gflops: expected a name and {at.size} speeds for each line, got {len(legend)} "
            f"names, and {', '.join(str(line.size) for line in lines)} speeds"
        )
    from autotune.report.plots import speed_figure

    named = {name: line.tolist() for name, line in zip(legend, lines, strict=True)}
    return speed_figure(at.tolist(), named, xlabel)
