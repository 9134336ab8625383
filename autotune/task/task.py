"""A task: one template with its arguments and target, and everything its configurations lead to."""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from autotune import te
from autotune.errors import UsageError
from autotune.external.callable_kernel import CallableKernel
from autotune.ir import dtypes
from autotune.ir.expr import KnobVar
from autotune.ir.stmt import PrimFunc
from autotune.ir.visitor import language_of
from autotune.lowering.gpu.finalise_kernels import final_form
from autotune.lowering.lift_constants import PreparedFunction, lift_constants
from autotune.operators.template_lookup import find_template
from autotune.operators.worker_source import file_text, worker_source
from autotune.runtime.callable_function import CallableFunction
from autotune.runtime.signature import ArrayParameter, Signature
from autotune.system.user_modules import what_failed
from autotune.target import Target
from autotune.task.open_sizes import (
    geometric_mean,
    likely,
    likely_shape,
    open_names,
    refuse_open_constant,
)
from autotune.task.workload import Workload
from autotune.template import Template
from autotune.trace.dry_run import TRACE_TIMEOUT_S
from autotune.trace.explore import classify, explore
from autotune.trace.fingerprint import code_hash, digest, function_lines, schedule_lines
from autotune.trace.isolate_user_code import run_silenced
from autotune.trace.structure import Structure
from autotune.trace.tracer import Structures
from search_spaces import FeasibilityCounts, IntArray, RuleCount, Space, SpaceError

__all__ = ["Task", "Workload", "code_hash"]

_log = logging.getLogger(__name__)

# Most configurations that are tried to find a legal default, if each must be traced or run.
MAX_TRIED = 256


class Task:
    """One workload on one target: its search space, and the function of each configuration.

    Nothing is traced before it is asked for; a worker that needs one configuration traces one
    structure.

    Parameters
    ----------
    template : Template
        What to tune.
    args : mapping of str to value
        Its arguments; defaults are filled in.
    target : str or Target
        What for.
    template_ref : str, optional
        How another process finds the template: a name or ``file.py:function``. By default the
        file that the template is written in.
    guarded : bool
        Try the template out in child processes before it runs in this one, because its code may
        crash or never return.
    trace_timeout_s : float
        Seconds that one run of a guarded template may take.
    constant : sequence of int
        Positions of the inputs that do not change, such as weights: what depends on these alone is
        computed once, before the first call.

    Attributes
    ----------
    template, args, target, constant
        As given, with all arguments.
    open_sizes : tuple of str
        Arguments that are lists of sizes, all of the same length: only calls know them, and
        functions work for any value. Candidates are measured with the first of each list, then with
        the second, and so on; rules choose by the geometric mean.
    workload : Workload
        Name, arguments and constant inputs.
    """

    def __init__(
        self,
        template: Template,
        args: Mapping[str, Any],
        target: str | Target = "llvm",
        template_ref: str | None = None,
        guarded: bool = False,
        trace_timeout_s: float = TRACE_TIMEOUT_S,
        constant: Sequence[int] = (),
    ) -> None:
        self.template = template
        self.args = template.bind(args)
        self.open_sizes = open_names(template, self.args)
        sizes = {n: te.var(n, likely=likely(self.args[n])) for n in self.open_sizes}
        self._sizes = tuple(sizes.values())
        given = {**self.args, **sizes}
        self.constant = _positions(constant)
        self.target = Target.of(target)
        if template.target not in (None, self.target.kind):
            raise UsageError(
                f"template {template.name!r} is for {template.target!r} targets, "
                f"not {str(self.target)!r}"
            )
        self.workload = Workload(template.name, self.args, self.constant)
        self._template_ref = template_ref
        self._late: set[str] = set()
        self._digests: WeakKeyDictionary[Structure, str] = WeakKeyDictionary()
        self._structures = Structures(
            template.name,
            lambda cfg: template(cfg, **given),
            self.target,
            template.source_file,
            guarded,
            trace_timeout_s,
            self.constant,
            template.meets_symbols,
        )

    @classmethod
    def from_reference(
        cls,
        reference: str,
        args: Mapping[str, Any],
        target: str | Target = "llvm",
        guarded: bool = False,
        text: bytes | None = None,
        constant: Sequence[int] = (),
    ) -> Task:
        """Return the task of a template given by name or as ``file.py:function``; see `__init__`.

        The file of a template is taken to hold `text`, if that is given.

        UsageError if there is no such template for this target, or the arguments do not fit.
        """
        template = find_template(reference, target, text=text)
        return cls(template, args, target, reference, guarded, constant=constant)

    def with_constant(self, constant: Sequence[int]) -> Task:
        """Return the task in which other inputs do not change, by their positions."""
        return self._with(self.args, constant, self.target)

    def with_args(self, args: Mapping[str, Any]) -> Task:
        """Return the task of the same template with other arguments."""
        return self._with(args, self.constant, self.target)

    def with_target(self, target: Target) -> Task:
        """Return the task of the same workload for another target of the same kind."""
        return self._with(self.args, self.constant, target)

    def _with(self, args: Mapping[str, Any], constant: Sequence[int], target: Target) -> Task:
        own = self._structures
        ref, guarded, timeout_s = self._template_ref, own.guarded, own.trace_timeout_s
        return Task(self.template, args, target, ref, guarded, timeout_s, constant)

    @cached_property
    def members(self) -> tuple[Task, ...]:
        """The tasks of single shapes that candidates are measured with: one without open sizes."""
        if not self.open_sizes:
            return (self,)
        rows = zip(*(self.args[name] for name in self.open_sizes), strict=True)
        own = (dict(zip(self.open_sizes, row, strict=True)) for row in rows)
        return tuple(self.with_args({**self.args, **sizes}) for sizes in own)

    def __repr__(self) -> str:
        return f"<task {self.workload} on {self.target}>"

    @property
    def template_ref(self) -> str:
        """How another process finds the template, if it has a name or stands in a file."""
        return self._template_ref or self.template.path

    @cached_property
    def worker_source(self) -> tuple[str, bytes | None]:
        """How a worker process finds the template, and the text of its file if it needs that.

        A function that is given as an object goes there as text, with what it uses.

        UsageError if no text can give the function, or the text computes something else.
        """
        if self._template_ref:
            return self._template_ref, file_text(self.template)  # the file may be edited meanwhile
        return worker_source(self.template, self._default_lines)

    def _default_lines(self, template: Template) -> list[str] | None:
        """Return what a template computes with these arguments and default knobs."""
        task = Task(template, self.args, self.target, constant=self.constant)
        function = task._structures.alone({}).function
        return None if function is None else function_lines(function)

    # -- configurations --------------------------------------------------------------------

    @cached_property
    def space(self) -> Space:
        """All configurations; what the template, the schedule and the target refuse is infeasible.

        UsageError if the template fails whatever its knobs are.
        """
        begin = time.monotonic()
        space = explore(self._structures)
        known = self._structures.known
        _log.info(
            "%s traced in %.2f s: %d configurations, %d ways through the template",
            self.workload,
            time.monotonic() - begin,
            len(space),
            len(known),
        )
        if known and all(structure.function is None for structure in known):
            first = known[0]
            why = (first.error or first.fault).removeprefix("template: ")
            raise UsageError(
                f"template {self.template.name!r} fails for every configuration: {why}"
            ) from first.cause
        return space

    @property
    def structures(self) -> tuple[Structure, ...]:
        """Structures found so far."""
        _ = self.space
        return tuple(self._structures.known)

    @property
    def explored(self) -> bool:
        """Whether all ways through the template are traced, and the space knows all it refuses."""
        _ = self.space
        return self._structures.explored

    @property
    def untraceable(self) -> str:
        """Why configurations are lowered one at a time; empty if the template is traced."""
        return self._structures.untraceable

    def refusal(self, index: int) -> str:
        """Return the rule for which a configuration may not be built; empty if it may.

        The space's own rules are those of the structures that are known; this traces the
        configuration's structure if it is new, or runs a template that cannot be traced.
        """
        broken = self.space.broken(index)
        if broken is not None:
            return broken.name
        message = self._structures.refusal(self.space.config(index).values)
        self._warn_late_knobs()
        return message

    def _warn_late_knobs(self) -> None:
        """Warn of knobs that the space lacks, as only rare configurations define them."""
        for knob in self._structures.knobs[len(self.space.knobs) :]:
            if knob.name in self._late:
                continue
            self._late.add(knob.name)
            _log.warning(
                "%s: knob %r is defined only in configurations outside of the sample that was "
                "explored; it keeps its default, %r (define it before such an `if`)",
                self.workload,
                knob.name,
                knob.value(knob.default),
            )

    def tally(self) -> FeasibilityCounts:
        """Count what rules reject of the configurations.

        Of a template that cannot be traced, up to `MAX_TRIED` configurations are tried.
        """
        if not self.untraceable:
            return self.space.tally()
        size = len(self.space)
        indices = range(size)
        if size > MAX_TRIED:
            indices = np.random.default_rng(0).integers(size, size=MAX_TRIED).tolist()
        rules = Counter(filter(None, map(self.refusal, indices)))
        counts = tuple(RuleCount(rule, "", n, None) for rule, n in rules.most_common())
        return FeasibilityCounts(size, len(indices), len(indices) - rules.total(), counts)

    def nearest_legal(self, index: int) -> int | None:
        """Return the legal configuration fewest knob steps from one; None if none was found."""
        start = self.space.nearest_feasible(index)
        if start is None:
            return None
        nearby = itertools.islice(self.space.by_distance(start), MAX_TRIED)
        return next((other for other in nearby if not self.refusal(other)), None)

    @cached_property
    def default_index(self) -> int:
        """Index of the legal configuration that a build without records uses.

        SpaceError if nothing is legal, or nothing was found that is, with the reasons.
        """
        space, tried = self.space, Counter[str]()
        if self.open_sizes and self.constant:
            _ = self.prepared_of(space.config(space.default_index).values)
        for index in itertools.islice(space.by_distance(space.default_index), MAX_TRIED):
            refused = self.refusal(index)
            if not refused:
                return index
            tried[refused] += 1
        reasons = ", ".join(f"{rule} rejects {count}" for rule, count in tried.most_common())
        raise SpaceError(
            f"none of the {tried.total()} configurations tried is feasible, "
            f"from the default outwards: {reasons}"
        )

    @cached_property
    def default_values(self) -> Mapping[str, Any]:
        """Knob values of the default configuration; those that are left out have their defaults.

        If the configuration of all defaults is legal, only its structure is traced.

        UsageError or SpaceError as of `space` and `default_index`.
        """
        if not (self.open_sizes and self.constant):
            structure = self._structures.of({})
            if structure.function is not None and not self._structures.refusal({}):
                return {}
        return self.space.config(self.default_index).values

    def structure(self, index: int) -> Structure:
        """Return the structure of a configuration, traced now if it is new."""
        return self._structures.of(self.space.config(index).values)

    def concrete_structure(self, index: int) -> Structure:
        """Return the structure of one configuration, made with plain numbers and no symbols."""
        return self._structures.alone(self.space.config(index).values)

    def classify(self, indices: IntArray) -> npt.NDArray[np.int32]:
        """Return the number of the structure of each index, -1 where it is not traced; (n,)."""
        return classify(self._structures, self.space, indices)

    def knob_values(self, index: int) -> dict[KnobVar, int]:
        """Return the value of each symbol of the structure of a configuration."""
        config = self.space.config(index)
        columns = self._structures.columns_of(config.values)
        symbols = self._structures.of(config.values).symbols
        return {knob: int(columns[name][0]) for name, knob in symbols.items()}

    def function(self, index: int) -> PrimFunc:
        """Return the analysed function of a configuration: what features are made from.

        InstantiationError if the template, the schedule or the target refuses this configuration.
        """
        return self.function_of(self.space.config(index).values)

    def function_of(self, values: Mapping[str, object]) -> PrimFunc:
        """As `function`, for named knob values; needs no search space."""
        return self._structures.instantiate(values)

    def final(self, index: int) -> PrimFunc:
        """Return the function of a configuration in the form that backends take."""
        return self.final_of(self.space.config(index).values)

    def final_of(self, values: Mapping[str, object]) -> PrimFunc:
        """As `final`, for named knob values; needs no search space."""
        return final_form(self.function_of(values), self.target)

    def prepared_of(self, values: Mapping[str, object]) -> PreparedFunction:
        """As `final_of`, with what depends only on constant inputs as a function of its own."""
        function = self.function_of(values)
        for position in self.constant if self.open_sizes else ():
            refuse_open_constant(function.params[position], self.workload)
        return lift_constants(function, self.constant).final_form(self.target)

    def callable_of(self, values: Mapping[str, object]) -> CallableFunction | None:
        """Return what a Python callable is called by, for named knob values; None if it is none."""
        function = self._structures.of(values).function
        if function is None or language_of(function) != "python":
            return None
        made = self._structures.external(values)
        assert isinstance(made, CallableKernel)
        return made.loaded(Signature(self.workload.template, tuple(self.arguments)), self.target)

    def steps_of(self, index: int) -> list[Any] | None:
        """Return the schedule steps of a configuration as plain data; None if it has no schedule.

        ``te.create_schedule(ops, steps=...)`` replays them on the same computation, without the
        template.
        """
        schedule = self.structure(index).schedule
        if schedule is None:
            return None
        return schedule.to_json({knob.name: v for knob, v in self.knob_values(index).items()})

    # -- what it computes ------------------------------------------------------------------

    @cached_property
    def arguments(self) -> list[ArrayParameter]:
        """Arrays of the function, in order: inputs, then outputs.

        UsageError if a shape depends on knobs or on sizes that are not given.
        """
        structure = self._structures.of({})
        if structure.function is None:
            _ = self.space
            structure = next(s for s in self._structures.known if s.function is not None)
        assert structure.function is not None
        params, outputs = structure.function.params, structure.function.outputs
        shapes = [likely_shape(b, self._sizes, self.template) for b in params]
        return [
            ArrayParameter(b.name, b.dtype, shape, b in outputs)
            for b, shape in zip(params, shapes, strict=True)
        ]

    @property
    def reference(self) -> Callable[..., Any] | None:
        """Function of the input arrays that returns the right answer; None if there is none."""
        return self.template.reference_for(self.args)

    @property
    def inputs(self) -> Callable[..., Any] | None:
        """What draws realistic inputs with a random generator, None if the template does not."""
        return self.template.inputs_for(self.args)

    @property
    def accept(self) -> Callable[..., bool | str] | None:
        """The template's own check of answers (`Template.accept`); None if it has none."""
        return self.template.accept_for(self.args)

    @cached_property
    def flops(self) -> float | None:
        """Floating-point operations of one run; None if the template does not say.

        UsageError if the template's count fails.
        """
        if self.open_sizes:
            every = [member.flops for member in self.members]
            return None if None in every else geometric_mean([n for n in every if n is not None])
        try:
            # It is the user's function, and may print.
            return run_silenced(partial(self.template.flops_for, self.args))
        except Exception as error:
            raise UsageError(
                f"flops of template {self.template.name!r} failed: {what_failed(error)}"
            ) from error

    @property
    def bytes(self) -> float:
        """Total size of the arguments in bytes: what a run must move at least."""
        if self.open_sizes:
            return geometric_mean([member.bytes for member in self.members])
        return float(sum(map(_bytes_of, self.arguments)))

    @property
    def constant_bytes(self) -> float:
        """Total size of the constant inputs in bytes."""
        return float(sum(_bytes_of(self.arguments[position]) for position in self.constant))

    @property
    def fingerprints(self) -> dict[str, str]:
        """Digests as of `fingerprints_of`, for the knobs' default values."""
        return self._fingerprints(self._structures.of({}))

    def fingerprints_of(self, index: int) -> dict[str, str]:
        """Return digests of the knobs ("space") and of what the template does ("template").

        "template" covers computations and schedule steps of this configuration's structure,
        before lowering and with knobs as symbols: with the knobs' values it says which program
        was meant. It does not depend on other structures, nor on which of them are known.
        """
        return self._fingerprints(self.structure(index))

    def _fingerprints(self, structure: Structure) -> dict[str, str]:
        found = self._digests.get(structure)
        if found is None:
            lines = [self.workload.key, *schedule_lines(structure.schedule)]
            if structure.schedule is None and structure.function is not None:
                lines += function_lines(structure.function)  # an external kernel
            found = self._digests[structure] = digest(lines)
        return {"space": self._space_fingerprint, "template": found}

    @cached_property
    def _space_fingerprint(self) -> str:
        return Space(self.space.knobs).fingerprint()


def _bytes_of(array: ArrayParameter) -> int:
    return dtypes.itemsize(array.dtype) * math.prod(array.fixed or ())


def _positions(constant: Sequence[int]) -> tuple[int, ...]:
    if any(type(position) is not int or position < 0 for position in constant):
        raise UsageError(
            f"constant must be positions of inputs, counted from 0, such as [1], not {constant!r}"
        )
    return tuple(sorted(set(constant)))
