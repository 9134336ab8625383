"""How a kernel is called whose arguments are not pointers to its inputs and then its outputs."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.errors import UsageError
from autotune.ir.stmt import CallForm
from autotune.system.words import one_line
from autotune.te.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune.external.external_kernel import ExternalKernel

#: Types of numbers that kernels take by value.
BY_VALUE = frozenset(
    ("bool", "float32", "float64", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)))
)


def call_form(
    kernel: ExternalKernel,
    arguments: Sequence[Any],
    scratch: Sequence[Tensor],
    times_itself: bool = False,
) -> CallForm | None:
    """Return how a kernel is called; None if it takes pointers to inputs and then to outputs.

    `arguments`: tensors and numbers, in order; none for the inputs and then the outputs.
    `scratch`: the inputs that it may overwrite.

    Raises UsageError if they are no tensors of the kernel, or one is missing.
    """
    inputs, tensors = list(kernel.inputs), list(kernel.tensors)
    copied = [t for t in inputs if t in kernel.outputs]
    if not (arguments or copied or scratch or times_itself):
        return None
    for tensor in scratch:
        known = isinstance(tensor, Tensor) and tensor in inputs
        if not known or tensor in kernel.outputs:
            raise UsageError(f"{kernel.what}: scratch must be inputs that are no outputs")
    pointers = {t: len(tensors) - 1 - tensors[::-1].index(t) for t in tensors}
    given = arguments or tuple(pointers)
    missing = [t.name for t in pointers if not any(t is a for a in given)]
    if missing:
        raise UsageError(f"{kernel.what}: arguments lack {', '.join(missing)}")
    return CallForm(
        tuple(
            pointers[a] if isinstance(a, Tensor) and a in pointers else _number(kernel.what, a)
            for a in given
        ),
        tuple((inputs.index(t), pointers[t]) for t in copied),
        tuple(pointers[t] for t in scratch),
        bool(times_itself),
    )


def _number(what: str, value: Any) -> tuple[str, int | float]:
    """Return an argument by value after its type."""
    kind = {bool: "bool", int: "int32", float: "float64"}.get(type(value))
    kind = value.dtype.name if isinstance(value, np.generic) else kind
    if kind is None or kind not in BY_VALUE:
        raise UsageError(
            f"{what}: arguments are its inputs, its outputs, and numbers (a knob is a "
            f"macro), got {one_line(reprlib.repr(value))}"
        )
    plain = value.item() if isinstance(value, np.generic) else value
    if kind == "int32" and not -(2**31) <= plain < 2**31:
        raise UsageError(f"{what}: {plain} is no int: give numpy.int64({plain})")
    return kind, plain
