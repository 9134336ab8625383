"""Sources of the values of a template's knobs: one configuration, or symbols.

A `KnobTable` remembers every knob a template defined, over all its runs, and the symbol of each
column, so that the expressions of different runs are comparable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from autotune.errors import InstantiationError, IRError, TracingError, UsageError
from autotune.ir import dtypes
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.expr import Const, Expr, KnobVar, Load, Read
from autotune.ir.ops import convert
from autotune.ir.visitor import walk_expr
from autotune.trace.symbolic_values import SymbolicInt, symbolic_int
from search_spaces import Knob as SpaceKnob
from search_spaces import KnobValue, SpaceError, SplitKnob

# Largest number of decisions of a run; a template with more is in an endless loop over a knob.
MAX_DECISIONS = 1000

_INT32 = 1 << 31


class Decision(NamedTuple):
    """A decision of a run: the path is valid only where `expr` has the value `outcome`."""

    expr: Expr
    outcome: int


def is_numeric(knob: SpaceKnob) -> bool:
    """Whether the knob's columns become symbols; all other knobs are decided when they are read."""
    return knob.numeric and all(
        table.dtype == np.int64 and np.abs(table).max() < _INT32 for table in knob.tables.values()
    )


def position_name(knob: SpaceKnob) -> str:
    """Name of the symbol for the position of a decided knob.

    It is the knob's column if that has positions; the columns of a number that cannot be a symbol
    (a float) have its value.
    """
    return f"{knob.name} (position)" if knob.numeric else knob.name


class KnobTable:
    """All knobs a template has defined so far, in order of first definition."""

    def __init__(self, template: str) -> None:
        self.template = template
        self.knobs: dict[str, SpaceKnob] = {}  # definitions by name
        # The knob that each column belongs to, positions of decided knobs included.
        self.owners: dict[str, SpaceKnob] = {}
        self.symbols: dict[str, KnobVar] = {}  # symbols by name of column
        self.intervals = Intervals()

    def define(self, knob: SpaceKnob) -> SpaceKnob:
        """Add a knob, or return the known one of the same definition.

        UsageError if the name is taken by a knob with other values.
        """
        known = self.knobs.setdefault(knob.name, knob)
        if known is not knob and known.spec() != knob.spec():
            raise UsageError(
                f"template {self.template!r}: knob {knob.name!r} is defined twice with different "
                f"values ({_summary(known)}, and {_summary(knob)}); give the two different names, "
                "or make its values independent of other knobs"
            )
        self.owners.update(dict.fromkeys((*knob.column_names, position_name(knob)), known))
        return known

    def symbol(self, column: str, low: int, high: int) -> KnobVar:
        """Return the symbol of a column."""
        if column not in self.symbols:
            self.symbols[column] = KnobVar(column, low, high)
        return self.symbols[column]


def _summary(knob: SpaceKnob) -> str:
    values = ", ".join(str(knob.value(i)) for i in range(min(len(knob), 4)))
    return f"{len(knob)} values {values}{', ...' if len(knob) > 4 else ''}"


class ValueSource(ABC):
    """Gives a template the values of its knobs during one run.

    table: where definitions are noted.
    values: the configuration; other knobs have their default.
    """

    def __init__(self, table: KnobTable, values: Mapping[str, object]) -> None:
        self.table = table
        self.values = values

    def define(self, knob: SpaceKnob) -> SpaceKnob:
        """Record a knob's definition."""
        return self.table.define(knob)

    def position(self, knob: SpaceKnob) -> int:
        """Return the knob's position in this configuration."""
        if knob.name in self.values:
            return knob.index_of(self.values[knob.name])
        return knob.default

    @abstractmethod
    def numbers(self, knob: SpaceKnob) -> tuple[Any, ...]:
        """Return the number in each of the knob's columns, or the value if it has no columns."""

    @abstractmethod
    def choice(self, knob: SpaceKnob) -> KnobValue:
        """Return the knob's value, as a plain Python value."""

    @abstractmethod
    def require(self, condition: Any, message: str) -> None:
        """Make configurations in which `condition` does not hold infeasible."""


class ConcreteValues(ValueSource):
    """Plain values: the template runs for this configuration alone."""

    def numbers(self, knob: SpaceKnob) -> tuple[Any, ...]:
        """Return the plain numbers."""
        value = self.choice(knob)
        return value if isinstance(value, tuple) and isinstance(knob, SplitKnob) else (value,)

    def choice(self, knob: SpaceKnob) -> KnobValue:
        """Return the plain value."""
        return knob.value(self.position(knob))

    def require(self, condition: Any, message: str) -> None:
        """Raise `InstantiationError` with `message` if the condition is false."""
        if not checked_condition(condition, message):
            raise InstantiationError(message)


class PlainValues(ConcreteValues):
    """Plain values of a configuration that may be infeasible."""

    def require(self, condition: Any, message: str) -> None:
        """Only check that it is a condition."""
        checked_condition(condition, message)


class SymbolicValues(ValueSource):
    """Symbols, guided by one configuration; decisions of the template are recorded.

    table, values: as for `ValueSource`.
    on_decision: called after each decision; its exception ends the run.
    """

    def __init__(
        self,
        table: KnobTable,
        values: Mapping[str, object],
        on_decision: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(table, values)
        self._on_decision = on_decision
        # In order; each depends on the outcomes of the earlier ones.
        self.decisions: list[Decision] = []
        self.requirements: list[tuple[Expr, str]] = []  # constraints with their messages
        self.symbols: dict[str, KnobVar] = {}  # symbols in use, by column
        # The first unsupported use of a symbol, even if the template caught the error.
        self.refused: TracingError | None = None
        self._decided: dict[Expr, int] = {}
        self._over = False

    def position(self, knob: SpaceKnob) -> int:
        """Return the knob's position in the guiding configuration.

        InstantiationError if that has a value which the knob does not take.
        """
        try:
            return super().position(knob)
        except SpaceError as error:
            raise InstantiationError(str(error)) from error

    def numbers(self, knob: SpaceKnob) -> tuple[Any, ...]:
        """Return a symbol for each column; the plain value of a knob that cannot be one."""
        if not is_numeric(knob):
            return (self.choice(knob),)
        position = self.position(knob)
        return tuple(
            self._symbol(column, int(table.min()), int(table.max()), int(table[position]))
            for column, table in knob.tables.items()
        )

    def choice(self, knob: SpaceKnob) -> KnobValue:
        """Return the value in the guiding configuration, and record the decision."""
        position = self.position(knob)
        symbol = self._symbol(position_name(knob), 0, len(knob) - 1, position)
        return knob.value(int(symbol))

    def require(self, condition: Any, message: str) -> None:
        """Add a constraint for all configurations that take this path."""
        expr = checked_condition(condition, message)
        if isinstance(expr, Const) and not expr.value:
            raise InstantiationError(message)
        self.requirements.append((expr, message))

    def decide(self, expr: Expr, value: int | bool) -> None:
        """Record a decision, unless it follows from the knobs' ranges or from earlier ones."""
        if self._over:
            raise TracingError(
                f"`{expr}` is used that an earlier run has kept: the values of knobs are those of "
                "one run"
            )
        if expr in self._decided:
            return
        low, high = self.table.intervals.bounds(expr)
        if low == high or all(
            node in self._decided for node in walk_expr(expr) if isinstance(node, KnobVar)
        ):
            return
        if len(self.decisions) == MAX_DECISIONS:
            self.refuse(
                TracingError(
                    f"more than {MAX_DECISIONS} decisions on knobs in one run: a loop over a knob "
                    "does not end; loop over int(knob)"
                )
            )
        self._decided[expr] = int(value)
        self.decisions.append(Decision(expr, int(value)))
        if self._on_decision is not None:
            self._on_decision()

    def refuse(self, error: TracingError) -> NoReturn:
        """Raise the error, and record the first one."""
        self.refused = self.refused or error
        raise error

    def end(self) -> None:
        """End the run: refuse further decisions, and raise its first error."""
        self._over = True
        if self.refused is not None:
            raise self.refused

    def _symbol(self, column: str, low: int, high: int, value: int) -> SymbolicInt | int:
        if low == high:
            return low
        symbol = self.symbols[column] = self.table.symbol(column, low, high)
        return symbolic_int(symbol, value, self)


def checked_condition(condition: Any, message: str) -> Expr:
    """Return a constraint's condition as an expression over knobs alone.

    UsageError if it is not a condition, depends on anything but knobs, or the message is not a
    text.
    """
    if not isinstance(message, str) or not message.strip():
        raise UsageError(f"add_constraint: the message must say what is demanded, got {message!r}")
    try:
        expr = convert(condition)
    except IRError:
        expr = None
    if expr is None or expr.dtype != dtypes.BOOL:
        raise UsageError(
            f"add_constraint({message!r}): expected a condition on knobs such as a * b <= 64, "
            f"got {condition!r}"
        )
    for node in walk_expr(expr):
        leaf = not node.children or isinstance(node, (Read, Load))
        if leaf and not isinstance(node, (KnobVar, Const)):
            raise UsageError(
                f"add_constraint({message!r}): `{expr}` depends on `{node}`, which is not a knob"
            )
    return expr
