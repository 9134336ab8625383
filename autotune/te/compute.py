"""The functions of the tensor-expression language: placeholder, compute and axes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.axes import AxisKind, IterVar, Range
from autotune.ir.expr import Const, Expr, Operators, SizeVar, Var
from autotune.ir.ops import binary, const, convert, is_convertible
from autotune.te.read_bounds import check_reads
from autotune.te.tensor import ComputeOp, PlaceholderOp, Tensor, as_size

_THREAD_TAGS = (
    *(f"{level}Idx.{dim}" for level in ("block", "thread") for dim in "xyz"),
    "vthread",
)


def var(name: str = "n", dtype: str = dtypes.INDEX, likely: int | None = None) -> SizeVar:
    """Return a size that is known only when the built function is called; it is at least 0.

    `likely`: about what it will be. Schedule rules choose by it, and work for every size.
    """
    if not dtypes.is_index(dtypes.check(dtype)):
        raise IRError(f"var {name!r}: a size is an int32 or int64, not {dtype}")
    if likely is not None and (type(likely) is not int or likely < 1):
        text = dtypes.number_text(likely)
        raise IRError(f"var {name!r}: likely must be a whole number >= 1, got {text}")
    if likely is not None and not dtypes.fits(likely, dtype):
        raise IRError(f"var {name!r}: {dtypes.number_text(likely)} does not fit in {dtype}")
    size: SizeVar = SizeVar(name, dtype, likely)
    return size


size_var = var


def _shape(shape: Any, what: str) -> tuple[Expr, ...]:
    if isinstance(shape, (int, Operators)) and not isinstance(shape, Tensor):
        shape = (shape,)
    if isinstance(shape, (str, bytes)) or not isinstance(shape, Iterable):
        raise IRError(f"{what}: the shape must be a tuple of sizes, got {shape!r}")
    return tuple(as_size(size, f"{what}: dimension {i}") for i, size in enumerate(shape))


def placeholder(shape: Any, dtype: str = "float32", name: str = "placeholder") -> Tensor:
    """Return a tensor that the caller of the built function gives.

    Parameters
    ----------
    shape : tuple of int, knob or size
        Its sizes.
    dtype : str
        Element type.
    name : str
        Name in listings.
    """
    return PlaceholderOp(name, _shape(shape, f"placeholder {name!r}"), dtype).output()


def compute(shape: Any, fcompute: Callable[..., Any], name: str = "compute", tag: str = "") -> Any:
    """Return the tensor whose element at (i, j, ...) is ``fcompute(i, j, ...)``.

    Parameters
    ----------
    shape : tuple of int, knob or size
        Its sizes.
    fcompute : callable
        Takes one index per dimension, named as the axes shall be called; returns an expression,
        or a tuple of them for several tensors of this shape.
    name : str
        Name in listings.
    tag : str
        A mark by which code that schedules finds the operation: its `op.tag`.

    Returns
    -------
    Tensor or list of Tensor
    """
    extents = _shape(shape, f"compute {name!r}")
    names = _axis_names(fcompute, len(extents), name)
    axis = tuple(
        IterVar(Var(axis_name), Range(const(0), extent), AxisKind.SPATIAL)
        for axis_name, extent in zip(names, extents, strict=True)
    )
    value = fcompute(*(a.var for a in axis))
    values = value if isinstance(value, (tuple, list)) else (value,)
    if not values or not all(map(is_convertible, values)):
        raise IRError(f"compute {name!r}: the function must return an expression, got {value!r}")
    body = tuple(map(convert, values))
    op = ComputeOp(name, axis, body, tag=tag)
    op.is_for_cell = check_reads(name, (*op.axis, *op.reduce_axis), body, may_be_cell=True)
    return op.output() if len(body) == 1 else list(op.outputs)


def _axis_names(fcompute: Callable[..., Any], ndim: int, name: str) -> list[str]:
    if not callable(fcompute):
        raise IRError(f"compute {name!r}: expected a function of the indices, got {fcompute!r}")
    # An argument with a default is how a loop's current value is bound; it is no index.
    every = inspect.signature(fcompute).parameters.values()
    params = [p for p in every if p.default is p.empty]
    names = [p.name for p in params if p.kind is not inspect.Parameter.VAR_POSITIONAL]
    if len(names) < len(params):
        names += [f"i{i}" for i in range(len(names), ndim)]
    if len(names) != ndim:
        raise IRError(
            f"compute {name!r}: the shape has {ndim} dimensions, but the function takes "
            f"{len(names)} indices"
        )
    return names


def reduce_axis(dom: tuple[Any, Any], name: str = "rv") -> IterVar:
    """Return an axis to reduce over the integers dom[0], ..., dom[1] - 1."""
    try:
        low, high = dom
    except (TypeError, ValueError):
        raise IRError(f"reduce_axis {name!r}: expected (first, end), got {dom!r}") from None
    first = as_size(low, f"reduce_axis {name!r}: start")
    extent = as_size(binary("-", convert(high), first), f"reduce_axis {name!r}: extent")
    return IterVar(Var(name), Range(first, extent), AxisKind.REDUCE)


def thread_axis(dom: Any = None, tag: str | None = None, name: str | None = None) -> IterVar:
    """Return a GPU axis: ``thread_axis("threadIdx.x")`` or ``thread_axis((0, n), "threadIdx.x")``.

    Without a range, its extent is the extent of the axis bound to it.
    """
    if isinstance(dom, str):
        dom, tag = None, dom
    if tag not in _THREAD_TAGS:
        raise IRError(f"unknown thread axis {tag!r}: expected one of {', '.join(_THREAD_TAGS)}")
    span: Range | None = None
    if dom is not None:
        low, high = dom if isinstance(dom, tuple) else (0, dom)
        first = as_size(low, f"thread axis {tag}: start")
        if not isinstance(first, Const) or first.value != 0:
            raise IRError(f"thread axis {tag} must start at 0, got `{first}`")
        span = Range(first, as_size(high, f"thread axis {tag}: extent"))
    return IterVar(Var(name or tag), span, AxisKind.THREAD, tag)


def ceildiv(a: Any, b: Any) -> Any:
    """Return a / b rounded up, for integers, symbolic knobs and expressions."""
    return (a + b - 1) // b


def floordiv(a: Any, b: Any) -> Any:
    """Return a / b rounded down, as ``a // b``; the field also spells it ``indexdiv``."""
    return a // b


def floormod(a: Any, b: Any) -> Any:
    """Return the remainder of `floordiv`, as ``a % b``; the field also spells it ``indexmod``."""
    return a % b


indexdiv, indexmod = floordiv, floormod
