"""Structures: a template traced with symbolic knobs, once per path through it.

A structure is a schedule lowered with symbolic knobs, and the decisions of the template that lead
to it. Structures are found lazily. A template that cannot be traced runs for one configuration at a
time.
"""

from __future__ import annotations

import contextlib
import functools
import os
import reprlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autotune.errors import AutotuneError, InstantiationError, TracingError, UsageError, error_text
from autotune.external.external_kernel import ExternalKernel
from autotune.ir.stmt import PrimFunc
from autotune.lowering.lift_constants import check_constants
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.lowering.target_limits import target_rules
from autotune.schedule.schedule import Schedule
from autotune.target import Target
from autotune.te.tensor import Tensor
from autotune.trace.decision_tree import NONDETERMINISTIC, DecisionTree, KnobColumns
from autotune.trace.divergence import divergence_line
from autotune.trace.dry_run import TRACE_TIMEOUT_S, Fault, probe
from autotune.trace.fingerprint import schedule_lines, step_lines
from autotune.trace.isolate_user_code import run_isolated
from autotune.trace.structure import Structure, distinct, failed, schedule_rules
from autotune.trace.template_knobs import Knobs
from autotune.trace.value_sources import (
    ConcreteValues,
    KnobTable,
    PlainValues,
    SymbolicValues,
    ValueSource,
)
from records.caller_warnings import is_own, warn
from search_spaces import Knob as SpaceKnob

Template = Callable[[Knobs], tuple[Schedule, Sequence[Tensor]] | ExternalKernel]

# The folder of the rules, which fail for no knobs.
_RULES = os.path.join(os.path.dirname(os.path.dirname(__file__)), "rules", "")

# Runs to detect a template that is not deterministic, and pairs of runs to find the place.
MAX_REPEATS = 16


class TracingWarning(UserWarning):
    """A template runs for one configuration at a time, or the rules failed for some of them."""


class Structures:
    """All known structures of one template for given arguments and target.

    name: name of the template, for messages.
    run: the template with its arguments filled in: takes `Knobs`, returns schedule and tensors.
    target: the target.
    source_file: file of the template, to report the line that prevents tracing.
    guarded: probe each new path through the template in a child process first, discard its output,
        and undo its changes to the process: for untrusted code.
    trace_timeout_s: seconds that the template may take in the child process, each time.
    constants: positions of the inputs that do not change.
    compared: whether structures are compared with runs of the template on plain numbers: for code
        that may do with a symbol what it has no meaning for.
    """

    def __init__(
        self,
        name: str,
        run: Template,
        target: Target,
        source_file: str = "",
        guarded: bool = False,
        trace_timeout_s: float = TRACE_TIMEOUT_S,
        constants: tuple[int, ...] = (),
        compared: bool = True,
    ) -> None:
        self.name = name
        self.constants = constants
        self.compared = compared
        self.guarded = guarded
        self.trace_timeout_s = trace_timeout_s
        self.target = target
        self.table = KnobTable(name)  # knobs met so far
        self.tree = DecisionTree()
        self.known: list[Structure] = []  # in order of discovery
        # Why every configuration runs separately; empty if the template can be traced.
        self.untraceable = ""
        self.explored = False  # whether all structures are known
        self._run = run
        self._source_file = source_file
        self._compared: Mapping[str, object] | None = None
        self._latest: tuple[Mapping[str, object], Structure] | None = None

    @property
    def knobs(self) -> tuple[SpaceKnob, ...]:
        """Knobs met so far, in order of first definition."""
        return tuple(self.table.knobs.values())

    def of(self, values: Mapping[str, object]) -> Structure:
        """Return the structure of one configuration, tracing it if it is new."""
        latest = self._latest
        if latest is not None and latest[0] == values:
            return latest[1]
        found = self._find(values)
        self._latest = dict(values), found
        return found

    def _find(self, values: Mapping[str, object]) -> Structure:
        if not self.untraceable:
            for node, _ in self.tree.walk(self.columns_of(values), 1):
                if node.structure is not None:
                    return self.known[node.structure]
                self.trace(values)
                if self.untraceable:
                    break
        return self.alone(values)

    def instantiate(self, values: Mapping[str, object]) -> PrimFunc:
        """Return the analysed function of one configuration.

        InstantiationError if the template refuses this configuration.
        """
        structure = self.of(values)
        if structure.number >= 0 and not self.guarded:
            self.check(values)
            structure = self.of(values)
        return structure.instantiate(self._numbers(structure, values))

    def check(self, values: Mapping[str, object]) -> None:
        """Compare the structure of a configuration with a run of the template on its plain numbers.

        If they differ the template cannot be traced.
        """
        if self.untraceable or not self.compared:
            return
        for node, _ in self.tree.walk(self.columns_of(values), 1):
            if node.structure is None or self._compared == values:
                return
            structure = self.known[node.structure]
            if self.guarded and self._probe(lambda _: self._plain(values)):
                return
            try:
                self._compare(structure, values)
            except TracingError as error:
                self._give_up(str(error), self._divergence(structure, values, str(error)))

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
            structure = (self._fault_structure(values) if self.guarded else None) or self._traced(
                source
            )
        except TracingError as error:
            self._give_up(str(error), self._place(error))
            return
        if structure.error and not isinstance(structure.cause, InstantiationError):
            # Symbols may cause an error: it counts only if plain numbers cause it, too.
            plain = self._attempt(ConcreteValues(self.table, values))
            if not plain.error:
                self._give_up(structure.error, self._place(structure.cause))
                return
            structure = failed(source, len(self.known), plain.error, plain.cause)
            self._warn_of_mistake(structure)
        try:
            self._compare(structure, values)
            self.tree.insert(structure.decisions, structure.number)
        except TracingError as error:
            self._give_up(str(error), self._divergence(structure, values, str(error)))
            return
        self.known.append(structure)

    def _traced(self, source: SymbolicValues) -> Structure:
        """Return the structure of a run with symbols.

        TracingError if it used an operation that symbols do not support.
        """
        try:
            return self._attempt(source)
        finally:
            source.end()

    def _plain(self, values: Mapping[str, object]) -> Schedule | None:
        """Return the schedule for plain numbers; None if the template refuses them."""
        try:
            made = self.run(PlainValues(self.table, values))
            return None if isinstance(made, ExternalKernel) else made[0]
        except (MemoryError, KeyboardInterrupt):
            raise
        except BaseException:
            # Rules that these numbers break are conditions on symbols in the structure.
            return None

    def _compare(self, structure: Structure, values: Mapping[str, object]) -> None:
        """Raise TracingError if plain numbers lead to another schedule than symbols did."""
        if structure.schedule is None or not self.compared:
            return
        self._compared = values
        plain = self._plain(values)
        if plain is None:
            return
        knobs = structure.knobs(self._numbers(structure, values))
        if schedule_lines(structure.schedule, knobs) == schedule_lines(plain):
            return
        again = (schedule_lines(self._plain(values)) for _ in range(MAX_REPEATS))
        if any(lines != schedule_lines(plain) for lines in again):
            raise TracingError(NONDETERMINISTIC)
        raise TracingError(
            "plain numbers lead to another schedule than symbols, which stand for them; it may "
            "not ask for the type, the identity or the repr of a knob"
        )

    def _divergence(self, structure: Structure, values: Mapping[str, object], reason: str) -> str:
        """Return the place at which plain numbers diverge from symbols, or from one another.

        Two runs of a template that is not deterministic may still be equal.
        """
        steps: list[list[str]] = []
        if structure.schedule is not None and (plain := self._plain(values)) is not None:
            knobs = structure.knobs(self._numbers(structure, values))
            steps = [step_lines(structure.schedule, knobs), step_lines(plain)]
        differing = (steps[0], steps[1]) if steps else ((), ())
        for pair in reversed(range(MAX_REPEATS if reason == NONDETERMINISTIC else 1)):
            line = divergence_line(
                lambda: self.run(SymbolicValues(self.table, values)),
                lambda: self.run(PlainValues(self.table, values)),
                self._source_file,
                ((), ()) if pair else differing,
            )
            if line and not is_own(self._source_file):
                return f"{self._source_file}:{line}"
        return self._place(None)

    def _fault_structure(self, values: Mapping[str, object]) -> Structure | None:
        """Return the structure of a path that ends the process in which it is probed; else None.

        The path is followed here only to the last decision before its end.
        """

        def both(notify: Callable[[], object]) -> None:
            self._traced(SymbolicValues(self.table, values, notify))
            self._plain(values)

        fault = self._probe(both)
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
        return probe(run, self.trace_timeout_s)

    def alone(self, values: Mapping[str, object]) -> Structure:
        """Return the structure of one configuration, run with plain numbers."""
        source = ConcreteValues(self.table, values)
        fault = self._probe(lambda _: self._attempt(source)) if self.guarded else None
        if fault is not None:
            return Structure(-1, fault=f"template: {fault.message}")
        return self._attempt(source)

    def run(self, source: ValueSource) -> tuple[Schedule, tuple[Tensor, ...]] | ExternalKernel:
        """Run the template with values from `source`."""
        run = functools.partial(self._run, Knobs(source, self.target, self.constants))
        return checked_result(self.name, run_isolated(run) if self.guarded else run())

    def external(self, values: Mapping[str, object]) -> ExternalKernel | None:
        """Return the external kernel of one configuration, with plain numbers; None if none."""
        made = self.run(PlainValues(self.table, values))
        return made if isinstance(made, ExternalKernel) else None

    def discover_knobs(self, values: Mapping[str, object]) -> None:
        """Run the template for one configuration, only to see which knobs it defines."""
        if self.guarded and self._probe(lambda _: self.run(PlainValues(self.table, values))):
            return
        try:
            self.run(PlainValues(self.table, values))
        except (UsageError, KeyboardInterrupt):
            raise
        except BaseException:
            # An error of this configuration is reported when it is requested.
            return

    def _attempt(self, source: ValueSource) -> Structure:
        """Run the template and lower its result; its own errors become a failed structure."""
        try:
            schedule, tensors, lowered = self._lowered(self.run(source))
            check_constants(f"template {self.name!r}", lowered, self.constants)
            rules = [] if schedule is None else schedule_rules(schedule)
            rules += target_rules(lowered, self.target)
        except (UsageError, MemoryError, KeyboardInterrupt):
            raise
        except BaseException as error:  # a template may raise whatever it likes
            if isinstance(error, TracingError) and isinstance(source, SymbolicValues):
                raise
            cause = error if isinstance(error, Exception) else None
            return failed(source, len(self.known), self._message(error), cause)
        own = source.requirements if isinstance(source, SymbolicValues) else []
        requirements = distinct([*own, *rules, *lowered.info.requirements])
        function = replace(lowered, info=replace(lowered.info, requirements=requirements))
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

    def _lowered(
        self, made: tuple[Schedule, tuple[Tensor, ...]] | ExternalKernel
    ) -> tuple[Schedule | None, tuple[Tensor, ...], PrimFunc]:
        """Return schedule (None for an external kernel), tensors and function of a run's result."""
        if not isinstance(made, ExternalKernel):
            return *made, lower_schedule(*made, self.name)
        why = made.refusal(self.target)
        if why:
            if any(structure.schedule is not None for structure in self.known):
                raise InstantiationError(why)
            raise UsageError(f"template {self.name!r} returns {why}")
        return None, made.tensors, made.lowered(self.name, os.path.dirname(self._source_file))

    def _message(self, error: BaseException) -> str:
        text = error_text(error).strip().split("\n")[0]
        if isinstance(error, InstantiationError):
            return text
        if isinstance(error, AutotuneError):
            line = self._line(error)
            return f"template: {text} ({line})" if line else f"template: {text}"
        place = self._place(error)
        what = f"{type(error).__name__}{text and f': {text}'}"
        return f"template: {what}{f' ({place})' if place else ''}"

    def _place(self, error: BaseException | None) -> str:
        """Return where a template fails: its line, or else its file; "" of one of ours."""
        return self._line(error) or ("" if is_own(self._source_file) else self._source_file)

    def _line(self, error: BaseException | None) -> str:
        """Return file:line of the template's last line in an error's traceback, "" if none is."""
        frames = traceback.extract_tb(error.__traceback__) if error is not None else []
        is_theirs = not is_own(self._source_file)
        own = [frame for frame in frames if is_theirs and frame.filename == self._source_file]
        return f"{own[-1].filename}:{own[-1].lineno}" if own else ""

    def _warn_of_mistake(self, structure: Structure) -> None:
        """Warn of a path that fails by a mistake of ours: in the rules, or in what they made.

        Schedules of templates that do not see knobs are made by rules.
        """
        cause = structure.cause
        if cause is None or isinstance(cause, InstantiationError):
            return
        frames = traceback.extract_tb(cause.__traceback__)
        if not any(frame.filename.startswith(_RULES) for frame in frames) and (
            self.compared or self._line(cause)
        ):
            return
        why = structure.error.removeprefix("template: ")
        warn(
            f"template {self.name!r} lacks configurations by a mistake in autotune, which please "
            f"report: {why}",
            TracingWarning,
        )

    def _give_up(self, reason: str, place: str) -> None:
        self.untraceable, self._latest = reason, None
        why = reason.removeprefix("template: ").removesuffix(f" ({place})")
        warn(
            f"template {self.name!r} cannot be traced, so each configuration is lowered on its "
            f"own, which is slower: {why}{f' [{place}]' if place else ''}",
            TracingWarning,
        )


def checked_result(
    name: str, result: object
) -> tuple[Schedule, tuple[Tensor, ...]] | ExternalKernel:
    """Return what a template has returned, once its tensors are scheduled.

    UsageError if it is none of what a template may return.
    """
    if isinstance(result, ExternalKernel):
        return result
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Schedule):
        schedule, tensors = result
        if isinstance(tensors, (list, tuple)) and all(isinstance(t, Tensor) for t in tensors):
            return schedule, tuple(tensors)
    raise UsageError(
        f"template {name!r} must return its tensors, as in `return [A, B]`, its schedule "
        "and them, as in `return s, [A, B]`, or a kernel such as autotune.CKernel; it returned "
        + " ".join(reprlib.repr(result).split())
    )


class _Stop(BaseException):
    """Ends a run at its last allowed decision."""


def _stop_at(source: SymbolicValues, decisions: int) -> None:
    if len(source.decisions) >= decisions:
        raise _Stop
