"""Structures: what a template does with its knobs, traced once per way through it.

A structure is a schedule lowered with symbolic knobs, together with the decisions under which the
template makes this schedule. Structures are found lazily; a template that cannot be traced is run
for one configuration at a time.
"""

from __future__ import annotations

import contextlib
import inspect
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune.errors import AutotuneError, InstantiationError, TracingError, UsageError, told
from autotune.ir.expr import Const, Expr, Knob
from autotune.ir.stmt import Function
from autotune.lowering.feasibility import target_rules
from autotune.lowering.finalise import analyse, refusal
from autotune.lowering.nest import lower_schedule
from autotune.schedule.schedule import Schedule
from autotune.target import Target
from autotune.te.tensor import Tensor
from autotune.trace.knobs import Knobs
from autotune.trace.probe import TRACE_TIMEOUT_S, Fault, probe
from autotune.trace.rules import schedule_rules
from autotune.trace.silence import contained
from autotune.trace.sources import ConcreteValues, Decision, KnobTable, SymbolicValues, ValueSource
from autotune.trace.tree import DecisionTree, KnobColumns
from search_spaces import Knob as SpaceKnob

Template = Callable[[Knobs], tuple[Schedule, Sequence[Tensor]]]


class TracingWarning(UserWarning):
    """A template cannot be traced and runs for one configuration at a time."""


@dataclass(frozen=True, eq=False)
class Structure:
    """One way through a template.

    Attributes
    ----------
    number : int
        Position in order of discovery; -1 for a run of a single configuration.
    decisions : tuple of Decision
        Where the template goes this way, each to be evaluated only where the earlier ones hold.
    symbols : dict of str to ir.Knob
        Symbols of the knobs that it uses, by column.
    schedule, tensors, function
        What the template returned and its loops, knobs still symbolic; None if it failed.
        ``function.attrs["requirements"]`` holds the conditions on knobs, with messages.
    error : str
        Why the template refused; empty if it did not.
    fault : str
        How the template ended the process that tried it out; empty if it did not. Its
        configurations are legal, so that they are measured, and fail, where that does no harm.
    cause : Exception or None
        The exception behind `error`.
    """

    number: int
    decisions: tuple[Decision, ...] = ()
    symbols: Mapping[str, Knob] = field(default_factory=dict)
    schedule: Schedule | None = None
    tensors: tuple[Tensor, ...] = ()
    function: Function | None = None
    error: str = ""
    fault: str = ""
    cause: Exception | None = None

    @property
    def requirements(self) -> tuple[tuple[Expr, str], ...]:
        """Conditions on knobs beside the decisions, with messages."""
        if self.function is None:
            return ()
        found: tuple[tuple[Expr, str], ...] = self.function.attrs["requirements"]
        return found

    def instantiate(self, columns: Mapping[str, Any]) -> Function:
        """Return the analysed function of one configuration.

        Parameters
        ----------
        columns : mapping of str to int
            Value of each column of `symbols`.

        Raises
        ------
        InstantiationError
            If the template refuses this configuration.
        """
        if self.function is None:
            raise InstantiationError(self.error or self.fault) from self.cause
        return analyse(self.function, self._knobs(columns))

    def refusal(self, columns: Mapping[str, Any]) -> str:
        """Return why the template refuses a configuration; empty if it does not.

        One that ends the process is not refused: it is tried where that does no harm.
        """
        if self.function is None:
            return self.error
        return refusal(self.function, self._knobs(columns))

    def _knobs(self, columns: Mapping[str, Any]) -> dict[Knob, int]:
        return {knob: int(columns[name]) for name, knob in self.symbols.items()}


class Structures:
    """All structures of one template for given arguments and target that are known so far.

    Parameters
    ----------
    name : str
        Name of the template, for messages.
    run : callable
        The template with its arguments filled in: takes `Knobs`, returns schedule and tensors.
    target : Target
        What it is instantiated for.
    source_file : str
        File of the template, to say which of its lines defeated tracing.
    guarded : bool
        Try each new way through the template out in a child process first, and let it neither
        print nor change the process: for code that is not trusted to come back.
    trace_timeout_s : float
        Seconds that the template may take in the child process, each time.

    Attributes
    ----------
    known : list of Structure
        In order of discovery.
    table : KnobTable
        Knobs met so far.
    untraceable : str
        Why every configuration runs on its own; empty if the template can be traced.
    """

    def __init__(
        self,
        name: str,
        run: Template,
        target: Target,
        source_file: str = "",
        guarded: bool = False,
        trace_timeout_s: float = TRACE_TIMEOUT_S,
    ) -> None:
        self.name = name
        self._guarded = guarded
        self._trace_timeout_s = trace_timeout_s
        self.target = target
        self.table = KnobTable(name)
        self.tree = DecisionTree(name)
        self.known: list[Structure] = []
        self.untraceable = ""
        self._run = run
        self._source_file = source_file
        self._latest: tuple[Mapping[str, object], Structure] | None = None

    @property
    def knobs(self) -> tuple[SpaceKnob, ...]:
        """Knobs met so far, in order of first definition."""
        return tuple(self.table.knobs.values())

    def of(self, values: Mapping[str, object]) -> Structure:
        """Return the structure of one configuration, tracing it if it is new."""
        if not self.untraceable:
            for node, _ in self.tree.walk(self.columns_of(values), 1):
                if node.structure is not None:
                    return self.known[node.structure]
                self.trace(values)
                if self.untraceable:
                    break
        return self._single(values)

    def instantiate(self, values: Mapping[str, object]) -> Function:
        """Return the analysed function of one configuration.

        Raises
        ------
        InstantiationError
            If the template refuses this configuration.
        """
        structure = self.of(values)
        return structure.instantiate(self._numbers(structure, values))

    def refusal(self, values: Mapping[str, object]) -> str:
        """Return why the template refuses one configuration, tracing it if it is new, or ""."""
        structure = self.of(values)
        return structure.refusal(self._numbers(structure, values))

    def _numbers(self, structure: Structure, values: Mapping[str, object]) -> dict[str, int]:
        columns = self.columns_of(values)
        return {name: columns[name][0] for name in structure.symbols}

    def columns_of(self, values: Mapping[str, object]) -> KnobColumns:
        """Return the columns, each of length 1, of one configuration."""
        source = ConcreteValues(self.table, values)

        def read(name: str) -> Any:
            knob = self.table.owners[name]
            return knob.tables[name][[source.position(knob)]]

        return KnobColumns(self.table, read)

    # -- runs ------------------------------------------------------------------------------

    def trace(self, values: Mapping[str, object]) -> None:
        """Run the template with symbols, guided by a configuration, and add its structure.

        A template that cannot be traced sets `untraceable`, with one warning.
        """
        source = SymbolicValues(self.table, values)
        try:
            structure = (self._faulty(values) if self._guarded else None) or self._attempt(source)
        except TracingError as error:
            self._give_up(str(error), error)
            return
        if structure.error and not isinstance(structure.cause, InstantiationError):
            # Symbols may be to blame: an error counts only if plain numbers meet it too.
            plain = self._attempt(ConcreteValues(self.table, values))
            if not plain.error:
                self._give_up(structure.error, structure.cause)
                return
            structure = _failed(source, len(self.known), plain.error, plain.cause)
        self.tree.insert(structure.decisions, structure.number)
        self.known.append(structure)

    def _faulty(self, values: Mapping[str, object]) -> Structure | None:
        """Return the structure of a way that ends the process it is tried in; None if it does not.

        The way is followed here only to the last decision before its end.
        """
        fault = self._probe(lambda tell: self._attempt(SymbolicValues(self.table, values, tell)))
        if fault is None:
            return None
        source = SymbolicValues(self.table, values, lambda: _stop_at(source, fault.decisions))
        if fault.decisions:
            with contextlib.suppress(_Stop):
                self.run(source)
        return Structure(
            len(self.known),
            tuple(source.decisions),
            dict(source.symbols),
            fault=f"template: {fault.message} while it was traced",
        )

    def _probe(self, run: Callable[[Callable[[], object]], object]) -> Fault | None:
        return probe(run, self._trace_timeout_s)

    def _single(self, values: Mapping[str, object]) -> Structure:
        """Run the template for one configuration, unless it was the last one, too."""
        if self._latest is None or self._latest[0] != values:
            self._latest = dict(values), self._single_run(values)
        return self._latest[1]

    def _single_run(self, values: Mapping[str, object]) -> Structure:
        source = ConcreteValues(self.table, values)
        fault = self._probe(lambda _: self._attempt(source)) if self._guarded else None
        if fault is not None:
            return Structure(-1, fault=f"template: {fault.message}")
        return self._attempt(source)

    def run(self, source: ValueSource) -> tuple[Schedule, tuple[Tensor, ...]]:
        """Run the template with values from `source`."""
        with contained() if self._guarded else contextlib.nullcontext():
            result = self._run(Knobs(source, self.target))
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Schedule):
            schedule, tensors = result
            if isinstance(tensors, (list, tuple)) and all(isinstance(t, Tensor) for t in tensors):
                return schedule, tuple(tensors)
        raise UsageError(
            f"template {self.name!r} must return its schedule and a list of tensors, as in "
            f"`return s, [A, B]`; it returned {result!r}"
        )

    def meet_knobs(self, values: Mapping[str, object]) -> None:
        """Run the template for one configuration, only to see which knobs it defines."""
        if self._guarded and self._probe(lambda _: self.run(ConcreteValues(self.table, values))):
            return
        try:
            self.run(ConcreteValues(self.table, values))
        except (UsageError, KeyboardInterrupt):
            raise
        except BaseException:
            # What this configuration does wrong is reported when it is asked for.
            return

    def _attempt(self, source: ValueSource) -> Structure:
        """Run the template and lower what it returns; its own errors become a failed structure."""
        try:
            schedule, tensors = self.run(source)
            lowered = lower_schedule(schedule, tensors, self.name)
            rules = [*schedule_rules(schedule), *target_rules(lowered, self.target)]
        except (TracingError, UsageError, MemoryError, KeyboardInterrupt):
            raise
        except BaseException as error:  # a template may raise whatever it likes
            cause = error if isinstance(error, Exception) else None
            return _failed(source, len(self.known), self._message(error), cause)
        own = source.requirements if isinstance(source, SymbolicValues) else []
        requirements = _distinct([*own, *rules, *lowered.attrs["requirements"]])
        function = Function(
            lowered.name,
            lowered.params,
            lowered.outputs,
            lowered.body,
            lowered.sizes,
            {**lowered.attrs, "requirements": requirements},
        )
        if not isinstance(source, SymbolicValues):
            return Structure(-1, schedule=schedule, tensors=tensors, function=function)
        return Structure(
            len(self.known),
            tuple(source.decisions),
            dict(source.symbols),
            schedule,
            tensors,
            function,
        )

    def _message(self, error: BaseException) -> str:
        text = told(error).strip().split("\n")[0]
        if isinstance(error, InstantiationError):
            return text
        if isinstance(error, AutotuneError):
            return f"template: {text}"
        return f"template: {type(error).__name__}: {text} ({self._place(error)})"

    def _place(self, error: BaseException | None) -> str:
        """Return file:line of the template's last line that the error came through."""
        frames = traceback.extract_tb(error.__traceback__) if error is not None else []
        own = [frame for frame in frames if frame.filename == self._source_file]
        if own:
            return f"{own[-1].filename}:{own[-1].lineno}"
        return self._source_file or inspect.getfile(type(self))

    def _give_up(self, reason: str, error: BaseException | None) -> None:
        self.untraceable = reason
        place = self._place(error)
        warnings.warn(
            f"template {self.name!r} cannot be traced, so each configuration is lowered on its "
            f"own, which is slower: {reason.removeprefix('template: ')} [{place}]",
            TracingWarning,
            stacklevel=2,
        )


class _Stop(BaseException):
    """Ends a run that has got as far as it may."""


def _stop_at(source: SymbolicValues, decisions: int) -> None:
    if len(source.decisions) >= decisions:
        raise _Stop


def _failed(
    source: ValueSource, number: int, error: str, cause: Exception | None
) -> Structure:
    if isinstance(source, SymbolicValues):
        symbols = dict(source.symbols)
        return Structure(number, tuple(source.decisions), symbols, error=error, cause=cause)
    return Structure(-1, error=error, cause=cause)


def _distinct(requirements: Sequence[tuple[Expr, str]]) -> tuple[tuple[Expr, str], ...]:
    """Drop repetitions and conditions that are plainly true."""
    found = {
        (id(condition), message): (condition, message)
        for condition, message in requirements
        if not (isinstance(condition, Const) and condition.value)
    }
    return tuple(found.values())
