"""The computation of a template without its schedule: its operations, uses of inputs, and code.

It computes the right answers where a template has no reference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from autotune import te
from autotune.errors import UsageError
from autotune.external.external_kernel import ExternalKernel
from autotune.ir import dtypes
from autotune.ir import expr as ir
from autotune.ir.evaluate.interpreter import evaluate
from autotune.ir.stmt import PrimFunc
from autotune.ir.visitor import post_order, walk_expr
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.measure.checks.input_uses import InputUse, input_uses
from autotune.measure.checks.program_reference import UnscheduledPrograms
from autotune.measure.checks.retype_floats import (
    float_types,
    has_computed_positions,
    has_jumps,
    intermediate_type,
    with_floats,
)
from autotune.runtime.cpu.compiled_kernel import CpuBinary
from autotune.runtime.cpu.llvm_compiler import compile_binary
from autotune.system.user_modules import what_failed
from autotune.target import Target
from autotune.task.open_sizes import geometric_mean
from autotune.task.task import Task
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from autotune.te.tensor_graph import TensorGraph
from autotune.trace.isolate_user_code import run_isolated
from autotune.trace.template_knobs import Knobs
from autotune.trace.value_sources import ConcreteValues, KnobTable
from search_spaces import KnobValue, SpaceError


@dataclass(frozen=True)
class Computation:
    """The computation itself, without a schedule.

    tensors: inputs, then outputs; no symbolic sizes.
    terms: `reduction_length` as the author of an external kernel states it.
    """

    tensors: Sequence[Tensor]
    terms: int | None = None

    @classmethod
    def of(cls, task: Task) -> Computation:
        """Return the computation of a task's template, with its default knobs if they are legal."""
        try:
            return cls.by_default(task)
        except (Exception, SystemExit):
            # The template refuses its defaults: the space knows which configuration it takes.
            return cls._with_values(task, task.space.config(task.default_index).values)

    @classmethod
    def by_default(cls, task: Task) -> Computation:
        """Return the computation of a task's template with its default knobs, legal or not."""
        return cls._with_values(task, {})

    @classmethod
    def _with_values(cls, task: Task, values: Mapping[str, KnobValue]) -> Computation:
        source = ConcreteValues(KnobTable(task.template.name), values)
        made = task.template.described(Knobs(source, task.target, task.constant), **task.args)
        if isinstance(made, ExternalKernel):
            return cls(made.tensors, made.reduction_length)
        return cls(made.tensors if isinstance(made, TensorGraph) else tuple(made[1]))

    def operations(self) -> list[ComputeOp]:
        """Return the computed operations, producers first."""
        return [op for op in self._all() if isinstance(op, ComputeOp)]

    def _all(self) -> list[Operation]:
        found: dict[Operation, None] = {}

        def visit(op: Operation) -> None:
            if op not in found:
                for tensor in op.input_tensors:
                    visit(tensor.op)
                found[op] = None

        for tensor in self.tensors:
            visit(tensor.op)
        return list(found)

    def reduction_length(self) -> int:
        """Return how many terms an output element accumulates, along the longest chain."""
        if self.terms is not None:
            return self.terms
        length: dict[Operation, int] = {}
        for op in self._all():
            own = self._product([op.scan_axis] if isinstance(op, ScanOp) else op.reduce_axis)
            fed = max((length.get(t.op, 1) for t in op.input_tensors), default=1)
            length[op] = fed if own == 1 else own if fed == 1 else own + fed
            if isinstance(op, ScanOp):  # each step adds to all before
                length[op] = max(1, own) * fed
        return max(length.values(), default=1)

    def functions(self) -> frozenset[str] | None:
        """Return the names of the functions that are applied; None of an external kernel."""
        if not self.is_computed:
            return None
        nodes = (node for op in self.operations() for body in op.body for node in walk_expr(body))
        return frozenset(node.name for node in nodes if isinstance(node, ir.Call))

    def input_uses(self) -> tuple[InputUse, ...] | None:
        """Return the uses of each input; None for an external kernel."""
        if not self.is_computed:
            return None
        inputs = [t for t in self.tensors if isinstance(t.op, PlaceholderOp)]
        return tuple(input_uses(inputs, self.operations()))

    def work(self) -> int:
        """Return the number of elements computed, every term of a reduction counted."""
        return sum(self._product((*op.axis, *op.reduce_axis)) for op in self.operations())

    def arithmetic(self) -> int:
        """Return how often operators and functions are applied to elements, indices left out.

        Each term of a reduction is one operation more; casts and conditions count as none.
        """
        return sum(
            self._product((*op.axis, *op.reduce_axis)) * _operators(body)
            for op in self.operations()
            for body in op.body
        )

    def compiled(self, target: Target) -> UnscheduledPrograms[CpuBinary]:
        """Return the programs, unscheduled: inputs, then outputs, which they write."""
        outputs = [t.op for t in self.tensors if not isinstance(t.op, PlaceholderOp)]
        schedule = te.create_schedule(outputs)
        function = lower_schedule(schedule, list(self.tensors), "unscheduled")

        def compiled(one: PrimFunc) -> CpuBinary:
            return compile_binary(finalise(analyse(one)), target)

        own, types = compiled(function), float_types(function)
        outside = {buffer.dtype for buffer in function.params}
        if outside.isdisjoint(dtypes.FLOATS) or has_computed_positions(function):
            return UnscheduledPrograms(own)
        other = "float32" if types == {"float64"} else "float64"
        program = compiled(with_floats(function, other))
        wide, single = (program, None) if other == "float64" else (None, program)
        known = has_jumps(function), intermediate_type(function)
        return UnscheduledPrograms(own, wide, single, *known)

    @property
    def is_computed(self) -> bool:
        """Whether it says how its outputs are computed, which an external kernel does not."""
        return self.terms is None

    def _product(self, axes: Sequence[Any]) -> int:
        return math.prod(int(evaluate(axis.dom.extent)) for axis in axes)


def float_operations(task: Task) -> float | None:
    """Return the operations of one run: as the template states them, else as its formula has them.

    None of a template that only moves elements or states 0, that has no legal configuration, or
    that returns an external kernel and states none. Of several shapes it is their geometric mean.

    UsageError if the template's count fails, or its formula cannot be found.
    """
    if task.flops is not None:
        return task.flops or None
    if task.open_sizes:
        every = [float_operations(member) for member in task.members]
        return None if None in every else geometric_mean([n for n in every if n is not None])
    try:
        if task.structure(task.default_index).schedule is None:
            return None
    except SpaceError:
        return None
    try:
        # It is the user's function, and may print.
        return float(run_isolated(partial(Computation.of, task)).arithmetic()) or None
    except (Exception, SystemExit) as error:  # a template may raise whatever it likes
        raise UsageError(
            f"the operations of template {task.template.name!r} cannot be counted, "
            f"{what_failed(error)}; say flops= where it is defined"
        ) from error


def _operators(body: ir.Expr) -> int:
    """Count operators and functions of an element's formula, each once however often it is used."""
    nodes = post_order(body, (), _computed_from)
    return sum(_is_arithmetic(node) for node in nodes)


def _is_arithmetic(node: ir.Expr) -> bool:
    if isinstance(node, ir.Call):
        return node.name not in ("if_then_else", "likely")
    return isinstance(node, ir.Reduce) or (
        isinstance(node, ir.BinaryOp) and node.op in ir.ARITHMETIC
    )


def _computed_from(node: ir.Expr) -> Sequence[ir.Expr]:
    """Return the values that a value is computed from; neither indices nor conditions."""
    match node:
        case ir.Read():
            return ()
        case ir.Reduce(sources=sources):
            return sources
        case ir.Select(true=true, false=false):
            return (true, false)
        case ir.Call(name="if_then_else", children=(_, *values)):
            return values
    return node.children
