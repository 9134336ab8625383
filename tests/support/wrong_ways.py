"""Wrong kernels: a right kernel with changed inputs or outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.ir import dtypes
from autotune.task.task import Task

Array = npt.NDArray[Any]
Kernel = Callable[..., None]
"""Takes all inputs, then all outputs, which it writes."""

Right = Callable[..., list[Array]]
"""Takes the inputs, returns the outputs in the types that they are computed in."""


def right_function(task: Task, inputs: int) -> Right:
    """Return what a workload computes, half types in float32."""
    reference = task.reference

    def right(*arrays: Array) -> list[Array]:
        assert reference is not None
        with np.errstate(all="ignore"):
            found = reference(*map(as_computed, arrays))
        several = found if isinstance(found, list | tuple) else [found]
        return [np.array(array, order="C") for array in several]

    return right


def as_computed(array: Array) -> Array:
    """Return half floats as float32."""
    return array.astype(np.float32) if dtypes.is_half(array.dtype.name) else array


def write(outputs: Sequence[Array], values: Sequence[Array]) -> None:
    """Write values, rounded to the outputs' types."""
    with np.errstate(all="ignore"):
        for output, value in zip(outputs, values, strict=True):
            output[...] = value


# -- ways to be wrong ----------------------------------------------------------------------


def of_outputs(change: Callable[[Array], Array]) -> Callable[[Right, int], Kernel]:
    """Spoil the right outputs."""

    def way(right: Right, inputs: int) -> Kernel:
        def kernel(*arrays: Array) -> None:
            write(arrays[inputs:], [change(a) for a in right(*arrays[:inputs])])

        return kernel

    return way


def of_inputs(change: Callable[[Array], Array], only: int | None = None) -> Any:
    """Compute what is right for spoiled floats, of all inputs or of one."""

    def way(right: Right, inputs: int) -> Kernel:
        def kernel(*arrays: Array) -> None:
            given = [
                change(as_computed(a)) if only in (None, n) and a.dtype.kind not in "iub" else a
                for n, a in enumerate(arrays[:inputs])
            ]
            write(arrays[inputs:], right(*given))

        return kernel

    return way


def unwritten(part: Callable[[Array], Any]) -> Callable[[Right, int], Kernel]:
    """Leave a part of the outputs as it was."""

    def way(right: Right, inputs: int) -> Kernel:
        def kernel(*arrays: Array) -> None:
            for output, value in zip(arrays[inputs:], right(*arrays[:inputs]), strict=True):
                before = output.copy()
                write([output], [value])
                output[part(output)] = before[part(output)]

        return kernel

    return way


def _stale(right: Right, inputs: int) -> Kernel:
    """Write what was right the first time."""
    first: list[list[Array]] = []

    def kernel(*arrays: Array) -> None:
        first.append(right(*arrays[:inputs]))
        stale = first[0] if len(first) > 1 else [np.zeros_like(a) for a in first[0]]
        write(arrays[inputs:], stale)

    return kernel


def _swapped_rows(a: Array) -> Array:
    a[[0, 1]] = a[[1, 0]]
    return a


def _one(a: Array, factor: float) -> Array:
    flat = a.reshape(-1)
    at = np.abs(flat.astype(np.float64)).argmax() if flat.size else 0
    flat[at] = flat[at] * a.dtype.type(factor) if a.dtype.kind not in "iub" else flat[at] ^ 1
    return a


def _tail(a: Array) -> Array:
    a[..., -1] = 0
    return a


def rounded_to(name: str) -> Callable[[Array], Array]:
    def change(a: Array) -> Array:
        with np.errstate(all="ignore"):
            return a.astype(dtypes.numpy_dtype(name)).astype(a.dtype)

    return change


def _small_are_zero(limit: float) -> Callable[[Array], Array]:
    return lambda a: np.where(np.abs(a) < limit, a.dtype.type(0), a)


def _scaled(factor: float) -> Callable[[Array], Array]:
    return lambda a: a * a.dtype.type(factor)


def _clamped(limit: float) -> Callable[[Array], Array]:
    return lambda a: np.clip(a, a.dtype.type(-limit), a.dtype.type(limit))


def _ones(a: Array) -> Array:
    return np.ones_like(a)


WAYS: dict[str, Callable[[Right, int], Kernel]] = {
    "nothing": lambda right, inputs: lambda *arrays: None,
    "zeros": of_outputs(np.zeros_like),
    "ones": of_outputs(_ones),
    "stale": _stale,
    "swapped": of_outputs(_swapped_rows),
    "reversed": of_outputs(lambda a: a[::-1]),
    "one": of_outputs(lambda a: _one(a, 1.05)),
    "off-by-one": of_outputs(lambda a: np.roll(a, 1, axis=-1)),
    "tail-zero": of_outputs(_tail),
    "tail-unwritten": unwritten(lambda a: (..., slice(-1, None))),
    "odd-unwritten": unwritten(lambda a: (..., slice(1, None, 2))),
    "middle-unwritten": unwritten(lambda a: (a.shape[0] // 2,)),
    "negated": of_outputs(np.negative),
    "magnitude": of_outputs(np.abs),
    "1e-2": of_outputs(_scaled(1 + 1e-2)),
    "1e-3": of_outputs(_scaled(1 + 1e-3)),
    "1e-4": of_outputs(_scaled(1 - 1e-4)),
    "1e-9": of_outputs(_scaled(1 + 1e-9)),
    "offset": of_outputs(lambda a: a + a.dtype.type(0.05)),
    "out-clamped-1": of_outputs(_clamped(1)),
    "out-clamped-6": of_outputs(_clamped(6)),
    "out-clamped-100": of_outputs(_clamped(100)),
    "out-float16": of_outputs(rounded_to("float16")),
    "out-bfloat16": of_outputs(rounded_to("bfloat16")),
    "out-float32": of_outputs(rounded_to("float32")),
    "out-small-0.09": of_outputs(_small_are_zero(0.09)),
    "out-small-1e-3": of_outputs(_small_are_zero(1e-3)),
    "in-clamped-1": of_inputs(_clamped(1)),
    "in-clamped-4": of_inputs(_clamped(4)),
    "in-clamped-6": of_inputs(_clamped(6)),
    "in-clamped-100": of_inputs(_clamped(100)),
    "in-small-0.09": of_inputs(_small_are_zero(0.09)),
    "in-small-1e-3": of_inputs(_small_are_zero(1e-3)),
    "in-large-1": of_inputs(lambda a: np.where(np.abs(a) > 1, a * a.dtype.type(1.01), a)),
    "in-positive": of_inputs(np.abs),
    "in-float16": of_inputs(rounded_to("float16")),
    "in-bfloat16": of_inputs(rounded_to("bfloat16")),
    "in-float32": of_inputs(rounded_to("float32")),
    "in-first-only": of_inputs(np.zeros_like, only=1),
    "in-rolled": of_inputs(lambda a: np.roll(a, 1, axis=-1), only=0),
    "in-tail": of_inputs(_tail, only=0),
    "in-1e-3": of_inputs(_scaled(1.001), only=0),
}
