"""What a kernel should compute: a template's NumPy reference, else the program with no schedule.

Computed once per workload. Both see the same inputs as the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune import te
from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.ir.expr import Reduce
from autotune.ir.interpreter import evaluate
from autotune.ir.visitor import walk_expr
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.nest import lower_schedule
from autotune.measure.accuracy import Array
from autotune.runtime.llvm import compile_function
from autotune.target import Target
from autotune.task import Task
from autotune.te.tensor import ComputeOp, Operation, Tensor
from autotune.trace.knobs import Knobs
from autotune.trace.sources import ConcreteValues, KnobTable
from search_spaces import KnobValue

LARGEST_UNSCHEDULED = 3 * 10**8
"""Element operations that a program without a schedule does in about a second."""


@dataclass(frozen=True)
class Program:
    """The computation itself, without a schedule.

    Parameters
    ----------
    tensors : sequence of Tensor
        Inputs, then outputs; no symbolic sizes.
    """

    tensors: Sequence[Tensor]

    @classmethod
    def of(cls, task: Task) -> Program:
        """Return what a task's template computes, with its default knobs if they are legal."""
        try:
            return cls._with_values(task, {})
        except (Exception, SystemExit):
            # The template refuses its defaults: the space knows which configuration it takes.
            return cls._with_values(task, task.space.config(task.default_index).values)

    @classmethod
    def _with_values(cls, task: Task, values: Mapping[str, KnobValue]) -> Program:
        source = ConcreteValues(KnobTable(task.template.name), values)
        _, tensors = task.template(Knobs(source, task.target), **task.args)
        return cls(tuple(tensors))

    def operations(self) -> list[ComputeOp]:
        """Return the computed operations, producers first."""
        found: dict[Operation, None] = {}

        def visit(op: Operation) -> None:
            if op not in found:
                for tensor in op.input_tensors:
                    visit(tensor.op)
                found[op] = None

        for tensor in self.tensors:
            visit(tensor.op)
        return [op for op in found if isinstance(op, ComputeOp)]

    def reduction_length(self) -> int:
        """Return how many terms an output element accumulates, along the longest chain."""
        length: dict[Operation, int] = {}
        for op in self.operations():
            own = self._product(op.reduce_axis)
            fed = max((length.get(t.op, 1) for t in op.input_tensors), default=1)
            length[op] = fed if own == 1 else own if fed == 1 else own + fed
        return max(length.values(), default=1)

    def accumulator(self) -> str | None:
        """Return the least precise float type that a reduction rounds to, if there is one."""
        nodes = (node for op in self.operations() for body in op.body for node in walk_expr(body))
        reductions = (node for node in nodes if isinstance(node, Reduce))
        found = (node.dtype for node in reductions if node.combiner.name not in ("min", "max"))
        return max(filter(dtypes.is_float, found), key=dtypes.epsilon, default=None)

    def work(self) -> int:
        """Return the number of elements computed, every term of a reduction counted."""
        return sum(self._product((*op.axis, *op.reduce_axis)) for op in self.operations())

    def run(self, arrays: Sequence[Array], target: Target) -> None:
        """Run the program, unscheduled, on arrays: inputs, then outputs, which are written."""
        outputs = [t.op for t in self.tensors if isinstance(t.op, ComputeOp)]
        schedule = te.create_schedule(outputs)
        function = lower_schedule(schedule, list(self.tensors), "unscheduled")
        compile_function(finalise(analyse(function)), target)(*arrays)

    def _product(self, axes: Sequence[Any]) -> int:
        return math.prod(int(evaluate(axis.dom.extent)) for axis in axes)


def expected_outputs(
    reference: Callable[..., Any], inputs: Sequence[Array], outputs: Sequence[Array], name: str
) -> list[Array]:
    """Call a template's reference, and check that it returns arrays like the outputs.

    Parameters
    ----------
    reference : callable
        Takes the input arrays, which are read-only; returns the output array or a sequence of them.
    inputs, outputs : sequence of ndarray
        Outputs give shapes and dtypes only.
    name : str
        The template's name, for messages.

    Returns
    -------
    list of ndarray
        C-contiguous, of the outputs' dtypes, sharing no memory with the inputs.

    Raises
    ------
    UsageError
        If it fails, or returns something of another number or shape.
    """
    try:
        with np.errstate(all="ignore"):
            returned = reference(*map(_read_only, inputs))
    except Exception as error:
        hint = "; it may not change its inputs, only return new arrays"
        raise UsageError(
            f"the reference of template {name!r} failed: {type(error).__name__}: {error}"
            + (hint if "read-only" in str(error) else "")
        ) from error
    found = list(returned) if isinstance(returned, list | tuple) else [returned]
    if len(found) != len(outputs):
        raise UsageError(
            f"the reference of template {name!r} returned {len(found)} arrays, "
            f"but the template has {len(outputs)} outputs"
        )
    for number, (got, output) in enumerate(zip(found, outputs, strict=True)):
        if np.shape(got) != output.shape:
            raise UsageError(
                f"the reference of template {name!r} returned shape {np.shape(got)} "
                f"for output {number}, which has shape {output.shape}"
            )
    with np.errstate(all="ignore"):
        return [
            np.array(got, dtype=output.dtype, order="C")
            for got, output in zip(found, outputs, strict=True)
        ]


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view
