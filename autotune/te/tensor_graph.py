"""A graph of tensor expressions: inputs and outputs, from the tensors that a function returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autotune.errors import UsageError
from autotune.te.scan import ScanOp
from autotune.te.tensor import PlaceholderOp, Tensor, producers_first


@dataclass(frozen=True)
class TensorGraph:
    """A computation without a schedule."""

    #: Placeholders, in the order of the built function's parameters.
    inputs: tuple[Tensor, ...]
    #: Computed tensors, whose parameters come after the inputs'.
    outputs: tuple[Tensor, ...]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)


def returns_tensors(returned: Any) -> bool:
    """Whether a function has returned a tensor or tensors, and no schedule."""
    if isinstance(returned, Tensor):
        return True
    is_several = isinstance(returned, (list, tuple)) and len(returned) > 0
    return is_several and all(isinstance(tensor, Tensor) for tensor in returned)


def graph_of(name: str, returned: Tensor | Sequence[Tensor]) -> TensorGraph:
    """Return the graph of the tensors that a function has returned.

    `name`: name of the function, for messages.
    `returned`: inputs first and outputs last. If they are only outputs, the inputs are the
    placeholders that these depend on, in the order in which they are first read.

    Raises UsageError if nothing is computed, an input is listed after an output, or one is missing.
    """
    listed = [returned] if isinstance(returned, Tensor) else list(returned)
    inputs = [tensor for tensor in listed if isinstance(tensor.op, PlaceholderOp)]
    outputs = listed[len(inputs) :]
    if not outputs or any(isinstance(tensor.op, PlaceholderOp) for tensor in outputs):
        names = ", ".join(tensor.name for tensor in listed)
        raise UsageError(
            f"template {name!r} must return its inputs first and its outputs last, as in "
            f"`return [A, B]`, or only outputs; it returned [{names}]"
        )
    read = _placeholders(outputs)
    missing = [tensor.name for tensor in read if tensor not in inputs]
    if inputs and missing:
        raise UsageError(
            f"template {name!r} reads {', '.join(missing)}, which it does not return: return all "
            "inputs, or only the outputs"
        )
    return TensorGraph(tuple(inputs or read), tuple(outputs))


def _placeholders(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the placeholders that some tensors depend on, without the states of scans."""
    ops = producers_first([tensor.op for tensor in outputs])
    states = {state for op in ops if isinstance(op, ScanOp) for state in op.state_placeholder}
    return [
        op.output() for op in ops if isinstance(op, PlaceholderOp) and op.output() not in states
    ]
