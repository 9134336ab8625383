"""The decorator that makes a function a template: a computation, scheduled by rules or by hand."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from autotune import rules
from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.schedule.schedule import Schedule
from autotune.system.user_modules import what_failed
from autotune.te.tensor import Tensor
from autotune.te.tensor_graph import TensorGraph, graph_of, returns_tensors
from autotune.trace.template_knobs import AnnotationChoice, AxisOrder, Knobs, SplitSizes

__all__ = [
    "AnnotationChoice",
    "AxisOrder",
    "Knobs",
    "SplitSizes",
    "Template",
    "TemplateParameter",
    "template",
    "template_of",
]

_TYPES: dict[str, type] = {t.__name__: t for t in (int, float, str, bool)}
_EXPECTED = {int: "an integer", float: "a number", str: "a text", bool: "true or false"}
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True)
class TemplateParameter:
    """An argument of a template."""

    #: Its name.
    name: str
    #: int, float, str or bool.
    type: type
    #: Its default; `inspect.Parameter.empty` if it has none.
    default: Any = inspect.Parameter.empty

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True)
class Template:
    """A function that describes a computation, scheduled by rules or as its own knobs say.

    Attributes
    ----------
    name : str
        What it is called in records and on the command line.
    target : str or None
        Kind of target it is for, such as "llvm"; None for every kind.
    function : callable
        Takes the arguments, after `Knobs` if its first parameter is called ``cfg``. Returns its
        tensors (see `autotune.te.tensor_graph.graph_of`), or a schedule and its tensors.
    reference : callable or None
        Takes the input arrays in order and returns the output array (or a tuple of them). A Python
        function may name arguments of the template as keyword-only parameters, or take
        ``**kwargs``; it then gets them too.
    flops : callable, float or None
        Floating-point operations of one run; a callable takes the arguments by name.
    accumulator : str, callable or None
        Float type in which sums are computed, where that is not float32 for half types and the type
        itself for others: answers may be less precise then. A callable takes the arguments by name.
    intermediate : str, callable or None
        Float type that other intermediate values are rounded to, if it is narrower than that.
    inputs : callable or None
        Takes a `numpy.random.Generator` and returns realistic input arrays in order, where those
        that are drawn by default make no sense; it may take arguments as `reference` does.
    accept : callable or None
        Takes the outputs of the reference and those of a candidate, two lists of arrays, and
        returns whether these are right, or a text that says what is wrong; it may take arguments as
        `reference` does. Answers are then compared on realistic inputs alone, and in no other way.
    """

    name: str
    target: str | None
    function: Callable[..., Any]
    reference: Callable[..., Any] | None = None
    flops: Callable[..., float] | float | None = None
    accumulator: Callable[..., str | None] | str | None = None
    intermediate: Callable[..., str | None] | str | None = None
    inputs: Callable[..., Any] | None = None
    accept: Callable[..., bool | str] | None = None

    def __call__(self, cfg: Knobs, *args: Any, **kwargs: Any) -> Any:
        """Return the function's result; rules make the schedule of tensors without one."""
        made = self.described(cfg, *args, **kwargs)
        return _scheduled(cfg, made) if isinstance(made, TensorGraph) else made

    def described(self, cfg: Knobs, *args: Any, **kwargs: Any) -> Any:
        """Return the function's result: a `TensorGraph` of tensors without a schedule.

        Raises
        ------
        UsageError
            If inputs are missing among the tensors.
        """
        first = (cfg,) if self.takes_cfg else ()
        made = self.function(*first, *args, **kwargs)
        return graph_of(self.name, made) if returns_tensors(made) else made

    @cached_property
    def takes_cfg(self) -> bool:
        """Whether the first parameter of the function is ``cfg``, which defines knobs."""
        return _takes_cfg(self.function)

    @property
    def meets_symbols(self) -> bool:
        """Whether code that is not ours is given knobs, which are symbols while it is traced."""
        return self.takes_cfg and not self.is_ours

    @property
    def is_ours(self) -> bool:
        """Whether it ships with this package."""
        home = self.function.__module__ or ""  # None where it is run as text
        return home.partition(".")[0] == __name__.partition(".")[0]

    @property
    def description(self) -> str:
        """First line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n")[0]

    @property
    def source_file(self) -> str:
        """File the function is written in."""
        return inspect.getsourcefile(self.function) or ""

    @property
    def has_path(self) -> bool:
        """Whether it stands at the top level of a Python file."""
        is_outside = self.function.__qualname__.isidentifier()
        file = self.source_file
        return is_outside and file.endswith(".py") and os.path.isfile(file)

    @property
    def path(self) -> str:
        """``file.py:function``, by which another process finds the template."""
        if not self.has_path:
            raise UsageError(
                f"template {self.name!r} is defined inside another function or without a file: "
                "write it at the top level of a file, so that worker processes can load it"
            )
        return f"{os.path.abspath(self.source_file)}:{self.function.__qualname__}"

    @cached_property
    def parameters(self) -> tuple[TemplateParameter, ...]:
        """Arguments of the template, in order."""
        return tuple(_parameters(self.name, self.function))

    def parse_args(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return arguments given as texts, as on a command line, converted by their annotations.

        Raises
        ------
        UsageError
            If a name is unknown or missing, or a text is not what the annotation says.
        """
        return self.bind(self.parse_values(texts))

    def parse_values(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return some arguments given as texts, converted by their annotations.

        Raises
        ------
        UsageError
            If a text is not what the annotation says. Unknown names are left to `bind`.
        """
        types = {p.name: p.type for p in self.parameters}
        values: dict[str, Any] = {}
        for name, text in texts.items():
            values[name] = self._parsed(name, text, types[name]) if name in types else text
        return values

    def _parsed(self, name: str, text: str, kind: type) -> Any:
        try:
            if kind is int and "," in text:
                return [int(part) for part in text.removesuffix(",").split(",")]
            return _FLAGS[text.lower()] if kind is bool else kind(text)
        except (ValueError, KeyError):
            self._refuse(name, text, kind)

    def _refuse(self, name: str, value: object, kind: type) -> Any:
        raise UsageError(
            f"template {self.name!r}: argument {name} must be {_EXPECTED[kind]}, got {value!r}"
        ) from None

    def bind(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return all arguments in order, defaults filled in, each checked against its annotation.

        Raises
        ------
        UsageError
            If an argument is unknown, missing, or of the wrong type.
        """
        names = [p.name for p in self.parameters]
        signature = ", ".join(
            p.name if p.required else f"{p.name}={p.default!r}" for p in self.parameters
        )
        takes = f"it takes: {signature}" if signature else "it takes none"
        for name in args:
            if name not in names:
                raise UsageError(f"template {self.name!r} has no argument {name!r}; {takes}")
        missing = [p.name for p in self.parameters if p.required and p.name not in args]
        if missing:
            needed = ", ".join(missing)
            raise UsageError(f"template {self.name!r} needs a value for {needed}; {takes}")
        return {
            p.name: self._checked(p, args[p.name]) if p.name in args else p.default
            for p in self.parameters
        }

    def _checked(self, parameter: TemplateParameter, value: Any) -> Any:
        kind = parameter.type
        plain: Any = value
        if kind is int and isinstance(value, list | tuple):
            return self._open_size(parameter, value)
        if isinstance(value, np.generic):
            plain = value.item()
        if kind is float and isinstance(plain, int) and not isinstance(plain, bool):
            plain = float(plain)
        if type(plain) is not kind or plain in (math.inf, -math.inf) or plain != plain:
            self._refuse(parameter.name, value, kind)
        return plain

    def _open_size(self, parameter: TemplateParameter, values: Sequence[Any]) -> list[int]:
        """Return the example sizes of an argument that is known only at the call."""
        sizes = [self._checked(parameter, value) for value in values]
        if not sizes or not all(isinstance(size, int) and size >= 1 for size in sizes):
            listed = ", ".join(map(dtypes.number_text, sizes))
            raise UsageError(
                f"template {self.name!r}: a list for argument {parameter.name} holds sizes of at "
                f"least 1, got [{listed}]"
            )
        if not dtypes.fits(max(sizes), dtypes.INDEX):
            raise UsageError(
                f"template {self.name!r}: a list for argument {parameter.name} holds "
                f"{dtypes.number_text(max(sizes))}, which does not fit in {dtypes.INDEX}"
            )
        return sizes

    def reference_for(self, args: Mapping[str, Any]) -> Callable[..., Any] | None:
        """Return the reference as a function of the input arrays alone."""
        return _given(self.reference, args)

    def inputs_for(self, args: Mapping[str, Any]) -> Callable[..., Any] | None:
        """Return the drawing of realistic inputs as a function of the random generator alone."""
        return _given(self.inputs, args)

    def accept_for(self, args: Mapping[str, Any]) -> Callable[..., bool | str] | None:
        """Return `accept` as a function of the outputs alone: whether answers are right."""
        return _given(self.accept, args)

    def precision_for(self, args: Mapping[str, Any]) -> tuple[str | None, str | None]:
        """Return `accumulator` and `intermediate` for some arguments.

        Raises
        ------
        UsageError
            If one is no float type, or fails to say so.
        """
        found: list[str | None] = []
        for name in ("accumulator", "intermediate"):
            said = getattr(self, name)
            try:
                dtype = said(**args) if callable(said) else said
            except Exception as error:
                why = what_failed(error)
                raise UsageError(f"{name} of template {self.name!r} failed: {why}") from error
            if dtype is not None and dtype not in dtypes.FLOATS:
                raise UsageError(
                    f"template {self.name!r}: {name} must be one of {', '.join(dtypes.FLOATS)}, "
                    f"got {dtype!r}"
                )
            found.append(dtype)
        return found[0], found[1]

    def flops_for(self, args: Mapping[str, Any]) -> float | None:
        """Return the floating-point operations of one run, None if the template does not say."""
        if self.flops is None:
            return None
        return float(self.flops(**args) if callable(self.flops) else self.flops)


def template(
    name: str,
    target: str | None = "",
    reference: Callable[..., Any] | None = None,
    flops: Callable[..., float] | float | None = None,
    accumulator: Callable[..., str | None] | str | None = None,
    intermediate: Callable[..., str | None] | str | None = None,
    inputs: Callable[..., Any] | None = None,
    accept: Callable[..., bool | str] | None = None,
) -> Callable[[Callable[..., Any]], Template]:
    """Make a function a `Template`.

    ::

        @template("scale", reference=lambda a: 2 * a)
        def scale(n: int, dtype: str = "float32"):
            A = te.placeholder((n,), dtype, name="A")
            return [A, te.compute((n,), lambda i: A[i] * 2, name="B")]

    Its parameters are annotated int, float, str or bool, and it returns inputs, then outputs.
    Rules make the schedule. A function whose first parameter is called ``cfg`` gets `Knobs`
    there; it may return a schedule of its own and the tensors, as in ``return s, [A, B]``.

    Parameters
    ----------
    target : str, optional
        Kind of target that the template is for; None for every kind. By default every kind, or
        "llvm" if the function takes ``cfg``.
    name, reference, flops, accumulator, intermediate, inputs, accept
        As of `Template`.

    Raises
    ------
    UsageError
        If the parameters are not of that form.
    """

    def decorate(function: Callable[..., Any]) -> Template:
        kind = ("llvm" if _takes_cfg(function) else None) if target == "" else target
        made = Template(
            name, kind, function, reference, flops, accumulator, intermediate, inputs, accept
        )
        _ = made.parameters
        return made

    return decorate


def template_of(function: Callable[..., Any]) -> Template:
    """Return a template, or the template of a function that returns tensors, named after it.

    An object that wraps one of these, such as a tuned function, counts as what it wraps.

    Raises UsageError if it is no function, its parameters are not annotated, or it takes ``cfg``.
    """
    function = unwrapped(function)
    if isinstance(function, Template):
        return function
    if not inspect.isfunction(function):
        raise UsageError(f"expected a function that returns tensors, got {function!r}")
    name = function.__name__
    if _takes_cfg(function):
        raise UsageError(
            f"function {name!r} takes cfg: say with @template({name!r}, target=...) what it is for"
        )
    return template(name)(function)


def unwrapped(value: Any) -> Any:
    """Return the template or function that an object wraps, such as a tuned function; or itself."""
    if isinstance(value, Template) or inspect.isfunction(value):
        return value
    return getattr(value, "__wrapped__", value)


def _takes_cfg(function: Callable[..., Any]) -> bool:
    """Whether the first parameter is called ``cfg``, or is annotated as `Knobs`."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and (
        first.name == "cfg" or first.annotation in (Knobs, Knobs.__name__)
    )


def _scheduled(cfg: Knobs, graph: TensorGraph) -> tuple[Schedule, list[Tensor]]:
    """Return the schedule that rules make of a computation, and its tensors."""
    constants = [tensor for number, tensor in enumerate(graph.inputs) if number in cfg.constants]
    schedule = rules.schedule(_RuleKnobs(cfg), graph.outputs, constants)
    return schedule, [*graph.inputs, *rules.scheduled_outputs(schedule, graph.outputs)]


class _RuleKnobs:
    """Defines the knobs of rules for a computation, which may have defined knobs of its own.

    Stages have other sizes, and the rules' knobs other values, for each value of these. So their
    names end with it: ``tile_rows_block64``.
    """

    def __init__(self, cfg: Knobs) -> None:
        self.target = cfg.target
        self.add_constraint = cfg.add_constraint
        self._define = cfg.define_knob
        self._suffix = "".join(f"_{name}{_text(cfg[name])}" for name in cfg)

    def define_knob(self, name: str, values: Sequence[Any], default: Any = None) -> Any:
        """Define a knob and return its value."""
        return self._define(f"{name}{self._suffix}", values, default)


def _text(value: Any) -> str:
    """Return a knob's value as part of a name; this makes one trace per value of a number."""
    if isinstance(value, (AxisOrder, AnnotationChoice)):
        value = value.value
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "x".join(map(_text, value))
    return str(value) if isinstance(value, (str, bool, float)) else str(int(value))


def _given(
    function: Callable[..., Any] | None, args: Mapping[str, Any]
) -> Callable[..., Any] | None:
    """Return a function whose keyword parameters have the values of a template's arguments."""
    if function is None or not inspect.isfunction(function):
        return function
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return partial(function, **args)
    taken = {
        p.name: args[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY and p.name in args
    }
    return partial(function, **taken) if taken else function


def _parameters(name: str, function: Callable[..., Any]) -> list[TemplateParameter]:
    parameters = list(inspect.signature(function).parameters.values())
    found = []
    for parameter in parameters[_takes_cfg(function) :]:
        text = parameter.annotation
        kind = _TYPES.get(text if isinstance(text, str) else getattr(text, "__name__", ""))
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            remedy = "leave out the `/` after it"
            if parameter.kind is not parameter.POSITIONAL_ONLY:
                remedy = "write out each one, as in `n: int`"
            shown = str(parameter.replace(annotation=parameter.empty))
            raise UsageError(
                f"template {name!r}: parameter {shown!r} must be one that is given by "
                f"name: {remedy}"
            )
        if kind is None:
            raise UsageError(
                f"template {name!r}: parameter {str(parameter)!r} must be annotated as one of "
                f"{', '.join(_TYPES)}, as in `{parameter.name}: int`"
            )
        found.append(TemplateParameter(parameter.name, kind, parameter.default))
    return found
