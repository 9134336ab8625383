"""One path through a template: its schedule lowered with symbols, and its decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune.errors import InstantiationError
from autotune.ir.axes import IterVar
from autotune.ir.expr import Const, Expr, KnobVar
from autotune.ir.ops import binary
from autotune.ir.stmt import PrimFunc
from autotune.lowering.finalise import analyse, refusal
from autotune.lowering.target_limits import Rule, may_fail
from autotune.schedule.schedule import Schedule
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, Tensor
from autotune.trace.value_sources import Decision, SymbolicValues, ValueSource


@dataclass(frozen=True, eq=False)
class Structure:
    """One path through a template."""

    number: int  # Position in order of discovery; -1 for a run of a single configuration.
    # Decisions of the path; evaluate each only where the earlier ones hold.
    decisions: tuple[Decision, ...] = ()
    # Symbols of the knobs that it uses, by column.
    symbols: Mapping[str, KnobVar] = field(default_factory=dict)
    # The result of the template and its loops, with symbolic knobs; None if it failed. A kernel as
    # text has no schedule. ``function.info.requirements`` holds the conditions on knobs, with
    # messages.
    schedule: Schedule | None = None
    tensors: tuple[Tensor, ...] = ()
    function: PrimFunc | None = None
    error: str = ""  # Error of the template; empty if there was none.
    # How the template ended the process that probed it; empty if it did not. Its configurations are
    # legal: they are measured in a worker, where they fail without harm.
    fault: str = ""
    cause: Exception | None = None  # The exception behind `error`.

    @property
    def requirements(self) -> tuple[tuple[Expr, str], ...]:
        """Conditions on knobs in addition to the decisions, with messages."""
        return () if self.function is None else self.function.info.requirements

    def instantiate(self, columns: Mapping[str, Any]) -> PrimFunc:
        """Return the analysed function of one configuration.

        columns: value of each column of `symbols`.

        InstantiationError if the template refuses this configuration.
        """
        if self.function is None:
            raise InstantiationError(self.error or self.fault) from self.cause
        return analyse(self.function, self.knobs(columns))

    def refusal(self, columns: Mapping[str, Any]) -> str:
        """Return why the template refuses a configuration; empty if it does not.

        A configuration that ends the process is not refused: it is tried in a worker.
        """
        if self.function is None:
            return self.error
        return refusal(self.function, self.knobs(columns))

    def knobs(self, columns: Mapping[str, Any]) -> dict[KnobVar, int]:
        """Return the value of each symbol, from the values of the columns."""
        return {knob: int(columns[name]) for name, knob in self.symbols.items()}


def failed(source: ValueSource, number: int, error: str, cause: Exception | None) -> Structure:
    """Return the structure of a run that raised."""
    if isinstance(source, SymbolicValues):
        symbols = dict(source.symbols)
        return Structure(number, tuple(source.decisions), symbols, error=error, cause=cause)
    return Structure(-1, error=error, cause=cause)


def distinct(requirements: Sequence[tuple[Expr, str]]) -> tuple[tuple[Expr, str], ...]:
    """Drop repetitions and constant true conditions."""
    found = {
        (id(condition), message): (condition, message)
        for condition, message in requirements
        if not (isinstance(condition, Const) and condition.value)
    }
    return tuple(found.values())


def schedule_rules(schedule: Schedule) -> list[Rule]:
    """Return the conditions on knobs, with messages, that make sizes of a schedule sensible.

    With plain numbers the primitives check these at once.
    """
    rules: list[Rule] = []
    for stage in schedule.stages:
        rules += ((binary(">=", size, least), message) for size, least, message in stage.demands)
        for name, extent in _extents(stage.op):
            message = f"{name} of {stage.name!r} must not be negative"
            rules.append((binary(">=", extent, 0), message))
    return [rule for rule in rules if not isinstance(rule[0], Const) and may_fail(rule[0])]


def _extents(op: object) -> Iterator[tuple[str, Expr]]:
    if isinstance(op, ComputeOp):
        axes: list[IterVar] = [*op.axis, *op.reduce_axis]
        for axis in axes:
            assert axis.dom is not None
            yield f"the length of axis {axis.name!r}", axis.dom.extent
    elif isinstance(op, ScanOp) and op.scan_axis.dom is not None:
        yield "the number of steps after the first", op.scan_axis.dom.extent
