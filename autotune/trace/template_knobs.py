"""The object `cfg` of a template: it defines knobs and returns their values."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, SupportsIndex, TypeVar, cast

from autotune.errors import UsageError
from autotune.ir.axes import IterVar
from autotune.schedule.stage import Stage
from autotune.target import Target
from autotune.trace.symbolic_values import SymbolicInt
from autotune.trace.value_sources import ValueSource
from search_spaces import AnnotateKnob, ChoiceKnob, ReorderKnob, SplitKnob
from search_spaces.knob import MAX_VALUES

T = TypeVar("T")

_ANNOTATIONS = ("none", "unroll", "vectorize", "parallel")


class Knobs:
    """Defines the knobs of a template and gives their values in one configuration.

    During a trace, numbers are symbols that can be used like plain numbers, except in text,
    hashing, `/` and `float`.

    Parameters
    ----------
    source : ValueSource
        Source of the values.
    target : Target
        The target of the template.
    constants : tuple of int
        Positions of the inputs that do not change: what depends on these alone is computed before
        the first call.

    Attributes
    ----------
    target, constants
        As given.
    """

    def __init__(
        self, source: ValueSource, target: Target, constants: tuple[int, ...] = ()
    ) -> None:
        self.target = target
        self.constants = constants
        self._source = source
        self._values: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """Return the result of the definition of knob `name`."""
        if name not in self._values:
            known = ", ".join(self._values) or "none"
            raise UsageError(f"no knob {name!r} is defined yet; defined are: {known}")
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the knobs that are defined so far."""
        return iter(self._values)

    def define_knob(
        self, name: str, values: Sequence[Any], default: Any = None, when: Any = True
    ) -> Any:
        """Define a value chosen out of a list, and return it.

        Integers are symbols during a trace; flags, strings and floats are decided, one trace each.

        Parameters
        ----------
        name : str
            Name of the knob.
        values : sequence
            The choices.
        default : optional
            One of the values; the first one if it is not given.
        when : condition
            What other knobs must be for this one to vary, such as ``layout == "tiled"``. Elsewhere
            it has its default, so that no two configurations mean the same.
        """
        plain = [int(v) if isinstance(v, SymbolicInt) else v for v in values]
        knob = self._source.table.define(ChoiceKnob(name, plain, default))
        (value,) = self._source.numbers(knob)
        self._vary_only(when, name, (value,), (knob.value(knob.default),))
        return self._keep(value, name)

    def define_range(
        self,
        name: str,
        low: SupportsIndex,
        high: SupportsIndex,
        step: int | None = None,
        log: bool = False,
        default: int | None = None,
        when: Any = True,
    ) -> Any:
        """Define an integer from `low` to `high`, and return it.

        Parameters
        ----------
        name : str
            Name of the knob.
        low, high : int
            The least value, and the largest that it may be.
        step : int, optional
            Difference of neighbours, 1 by default; with `log` their ratio, 2 by default.
        log : bool
            Whether values grow by a factor: 1, 2, 4, 8.
        default, when
            As of `define_knob`.

        Raises
        ------
        UsageError
            If there is no such value, or the values would not grow.
        """
        values = _range_values(name, low, high, step, log)
        return self.define_knob(name, values, default, when)

    def define_split(
        self,
        name: str,
        extent: SupportsIndex,
        num_outputs: int = 2,
        policy: str = "factors",
        candidates: Sequence[Sequence[int]] | None = None,
        filter: Callable[[tuple[int, ...]], bool] | None = None,
        default: Sequence[int] | None = None,
        when: Any = True,
    ) -> SplitSizes:
        """Define how an axis of length `extent` is cut into `num_outputs` loops.

        `default` is one of the values, such as ``(-1, 8, 4)``: -1 as its first size stands for what
        is left. See `search_spaces.SplitKnob` for the policies and for `filter`, and `define_knob`
        for `when`.
        """
        if not hasattr(extent, "__index__"):
            raise UsageError(f"define_split({name!r}): the extent must be a number, got {extent!r}")
        length = int(extent)
        if candidates is None and filter is None and default is None:
            knob = _plain_split(name, length, num_outputs, policy)
        else:
            given = "candidates" if candidates is not None else policy
            knob = SplitKnob(name, length, num_outputs, given, candidates, filter, default)
        known = self._source.table.define(knob)
        sizes = self._source.numbers(known)
        self._vary_only(when, name, sizes, cast(tuple[int, ...], known.value(known.default)))
        return self._keep(SplitSizes(sizes), name)

    def define_reorder(
        self,
        name: str,
        axes: Sequence[Any],
        policy: str = "all",
        candidates: Sequence[Sequence[int]] | None = None,
    ) -> AxisOrder:
        """Define an order of loops, given by axes or their names."""
        given = "candidates" if candidates is not None else policy
        knob = self._source.table.define(ReorderKnob(name, _names(axes), given, candidates))
        return self._keep(AxisOrder(functools.partial(self._source.choice, knob)), name)

    def define_annotate(
        self,
        name: str,
        axes: Sequence[Any],
        annotations: Sequence[str] = ("none", "unroll", "vectorize"),
    ) -> AnnotationChoice:
        """Define one annotation for each loop, given by axes or their names."""
        unknown = [a for a in annotations if a not in _ANNOTATIONS]
        if unknown:
            raise UsageError(
                f"define_annotate({name!r}): unknown annotation {unknown[0]!r}; "
                f"expected some of {', '.join(_ANNOTATIONS)}"
            )
        knob = self._source.table.define(AnnotateKnob(name, _names(axes), annotations))
        return self._keep(AnnotationChoice(functools.partial(self._source.choice, knob)), name)

    def add_constraint(self, condition: Any, message: str) -> None:
        """Make configurations infeasible in which `condition` is false.

        Parameters
        ----------
        condition
            A comparison of knobs; several are joined with `&` and `|`, or te.all and te.any.
        message : str
            What the rule demands; rejections are counted under it.
        """
        self._source.require(condition, message)

    def _vary_only(
        self, when: Any, name: str, numbers: Sequence[Any], defaults: Sequence[Any]
    ) -> None:
        """Let a knob have no value but its default, unless a condition holds."""
        if when is True:
            return
        is_default: Any = True
        for number, default in zip(numbers, defaults, strict=True):
            is_default = is_default & (number == default)
        try:
            condition = when | is_default
        except TypeError:
            condition = when  # not a condition: `require` reports the mistake
        self._source.require(condition, f"{name} has its default unless its condition holds")

    def _keep(self, value: T, name: str) -> T:
        self._values[name] = value
        return value


@functools.lru_cache(maxsize=256)
def _plain_split(name: str, extent: int, num_outputs: int, policy: str) -> SplitKnob:
    """Return a split knob, cached because factorising a large extent is slow."""
    return SplitKnob(name, extent, num_outputs, policy)


def _range_values(
    name: str, low: SupportsIndex, high: SupportsIndex, step: int | None, log: bool
) -> Sequence[int]:
    """Return the integers of a range."""
    try:
        least, most = int(operator.index(low)), int(operator.index(high))
        by = operator.index((2 if log else 1) if step is None else step)
    except TypeError:
        raise UsageError(
            f"define_range({name!r}): low, high and step must be integers, got {low!r}, {high!r} "
            f"and {step!r}"
        ) from None
    if least > most:
        raise UsageError(f"define_range({name!r}): low {least} is larger than high {most}")
    if by < 1 + log or (log and least < 1):
        needs = "low >= 1 and step >= 2" if log else "step >= 1"
        raise UsageError(f"define_range({name!r}): needs {needs}, got low {least} and step {by}")
    if not log:
        if (most - least) // by >= MAX_VALUES:
            raise UsageError(
                f"define_range({name!r}): {(most - least) // by + 1} values are more than "
                f"{MAX_VALUES}; take a larger step, or log=True"
            )
        return range(least, most + 1, by)
    values = [least]
    while values[-1] * by <= most:
        values.append(values[-1] * by)
    return values


def _names(axes: Sequence[Any]) -> list[str]:
    return [axis.name if isinstance(axis, IterVar) else axis for axis in axes]


class SplitSizes(Sequence[Any]):
    """Sizes of the loops an axis is split into, outermost first."""

    def __init__(self, size: tuple[Any, ...]) -> None:
        self.size = size  # the sizes: ints, or symbols during a trace

    def __len__(self) -> int:
        return len(self.size)

    def __getitem__(self, index: Any) -> Any:
        return self.size[index]

    def apply(self, stage: Stage, axis: IterVar) -> list[IterVar]:
        """Split a loop of `stage` into these sizes; returns the loops, outermost first."""
        inner = []
        for size in reversed(self.size[1:]):
            axis, last = stage.split(axis, factor=size)
            inner.append(last)
        return [axis, *reversed(inner)]


class AxisOrder:
    """An order of loops."""

    def __init__(self, choose: Callable[[], Any]) -> None:
        self._choose = choose

    @property
    def value(self) -> tuple[int, ...]:
        """The position, among the axes as defined, of the loop that comes first, second, ..."""
        order: tuple[int, ...] = self._choose()
        return order

    def apply(self, stage: Stage, axes: Sequence[IterVar]) -> list[IterVar]:
        """Reorder loops of `stage`, given in the order of the definition; returns the new order."""
        order = self.value
        _check_count("reorder", len(order), axes)
        ordered = [axes[position] for position in order]
        stage.reorder(*ordered)
        return ordered


class AnnotationChoice:
    """One annotation per loop."""

    def __init__(self, choose: Callable[[], Any]) -> None:
        self._choose = choose

    @property
    def value(self) -> tuple[str, ...]:
        """The annotation of each axis, in the order of the definition."""
        annotations: tuple[str, ...] = self._choose()
        return annotations

    def apply(self, stage: Stage, axes: Sequence[IterVar]) -> list[IterVar]:
        """Annotate loops of `stage`, given in the order of the definition; returns the loops."""
        annotations = self.value
        _check_count("annotate", len(annotations), axes)
        for axis, annotation in zip(axes, annotations, strict=True):
            if annotation != "none":
                getattr(stage, annotation)(axis)
        return list(axes)


def _check_count(what: str, expected: int, axes: Sequence[IterVar]) -> None:
    if len(axes) != expected:
        raise UsageError(f"{what} knob of {expected} axes applied to {len(axes)} axes")
