"""Infers arguments of a template from the arrays of a call: sizes from shapes, and data types.

The template runs once with sizes as symbols. A size that is an extent of an input is read there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune import te
from autotune.errors import ArgumentError, AutotuneError, UsageError, error_text
from autotune.ir import dtypes
from autotune.ir.expr import SizeVar
from autotune.runtime.argument_checks import wrong_number
from autotune.runtime.foreign_arrays import dtype_name
from autotune.runtime.signature import ArrayParameter
from autotune.system.user_modules import what_failed
from autotune.system.words import one_line
from autotune.target import Target
from autotune.te.tensor import PlaceholderOp, Tensor
from autotune.te.tensor_graph import TensorGraph
from autotune.template import Knobs, Template
from autotune.trace.tracer import checked_result
from autotune.trace.value_sources import KnobTable, PlainValues


def read_arguments(
    template: Template, target: Target, arrays: Sequence[Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all arguments of a template for a call.

    `arrays`: the inputs, with or without the outputs.
    `given`: the arguments that are given by name. Each other one is inferred from the arrays if
    possible, and has its default otherwise.

    Raises UsageError if an argument is unknown, or is neither given nor can be inferred. Raises
    ArgumentError if there are too few arrays, or one is not an array or has too few dimensions.
    """
    for number, array in enumerate(arrays, 1):
        if not hasattr(array, "shape") or not hasattr(array, "dtype"):
            kind = type(array).__name__
            raise ArgumentError(f"{template.name}: argument {number} must be an array, got {kind}")
    for name, value in given.items():
        if isinstance(value, list | tuple):
            raise UsageError(f"{template.name}: {name} must be one value, got {value!r}")
    open_names = [p.name for p in template.parameters if p.name not in given]
    if not open_names:
        return template.bind(given)
    described = _Described(template, target, given)
    found = {name: place.read(arrays) for name, place in described.places.items()}
    missing = [p.name for p in template.parameters
               if p.required and p.name not in {*found, *given}]  # fmt: skip
    if missing and not given.keys() - {p.name for p in template.parameters}:
        name = missing[0]
        why = f" ({described.problem})" if described.problem else ""
        raise UsageError(
            f"{template.name}: the arrays do not tell argument {name!r}{why}: give it by name, as "
            f"in {template.name}(..., {name}=...)"
        ) from described.cause
    return template.bind({**found, **given})


class _Described:
    """The inputs of a template, some of whose arguments are not given.

    `places`: where each argument is read that can be inferred.
    `problem`: a message why no sizes can be inferred; empty if they can.
    `cause`: the exception behind `problem`, if there is one.
    """

    def __init__(self, template: Template, target: Target, given: Mapping[str, Any]) -> None:
        self._template, self._target = template, target
        self.places: dict[str, _Place] = {}
        self.problem = ""
        self.cause: BaseException | None = None
        absent = [p for p in template.parameters if p.name not in given]
        sizes = [p.name for p in absent if p.type is int]
        needed = [p.name for p in absent if p.type is int and p.required]
        known = {p.name: p.default for p in absent if not p.required} | dict(given)
        # Not every function takes a symbol where a number is usual, such as a padding.
        for names in (sizes, needed):
            symbols = {name: te.var(name) for name in names}
            try:
                inputs = self._inputs({**known, **symbols})
            except (Exception, SystemExit) as error:
                is_ours = isinstance(error, AutotuneError)
                why = one_line(error_text(error)) if is_ours else what_failed(error)
                self.problem = f"it does not run with sizes as symbols: {why}"
                self.cause = error
                continue
            self.problem, self.cause = "", None
            self._find_sizes(inputs)
            texts = [p.name for p in absent if p.type is str and p.default in dtypes.ALL]
            for name in texts:
                self._find_dtype(name, inputs, {**known, **symbols})
            break

    def _inputs(self, args: Mapping[str, Any]) -> list[Tensor]:
        cfg = Knobs(PlainValues(KnobTable(self._template.name), {}), self._target)
        made = self._template.described(cfg, **args)
        if not isinstance(made, TensorGraph):
            made = checked_result(self._template.name, made)
        tensors = made[1] if isinstance(made, tuple) else made.inputs
        return [tensor for tensor in tensors if isinstance(tensor.op, PlaceholderOp)]

    def _find_sizes(self, inputs: Sequence[Tensor]) -> None:
        for number, tensor in enumerate(inputs):
            for dimension, extent in enumerate(tensor.shape):
                if isinstance(extent, SizeVar):
                    place = _Place(self._template.name, inputs, number, dimension)
                    self.places.setdefault(extent.name, place)

    def _find_dtype(self, name: str, inputs: Sequence[Tensor], args: Mapping[str, Any]) -> None:
        """Find an input whose data type is an argument: it changes with it."""
        other = "float64" if args[name] != "float64" else "float32"
        try:
            changed = self._inputs({**args, name: other})
        except (Exception, SystemExit):  # it takes no such type
            return
        for number, (tensor, then) in enumerate(zip(inputs, changed, strict=False)):
            if (tensor.dtype, then.dtype) == (args[name], other):
                self.places[name] = _Place(self._template.name, inputs, number)
                return


@dataclass(frozen=True)
class _Place:
    """Where an argument is read: at the data type of an array, or at an extent of it."""

    name: str
    inputs: Sequence[Tensor]
    number: int
    dimension: int | None = None

    def read(self, arrays: Sequence[Any]) -> Any:
        if self.number >= len(arrays):
            raise wrong_number(self.name, [tensor.name for tensor in self.inputs], len(arrays))
        array = arrays[self.number]
        if self.dimension is None:
            return dtype_name(array)
        if self.dimension >= len(array.shape):
            tensor = self.inputs[self.number]
            raise ArgumentError(
                f"{self.name}: argument {self.number + 1}, {tensor.name!r}, must have "
                f"{len(tensor.shape)} dimensions, got shape {tuple(array.shape)}"
            )
        return int(array.shape[self.dimension])


def check_arrays(name: str, parameters: Sequence[ArrayParameter], arrays: Sequence[Any]) -> None:
    """Raise ArgumentError if arrays do not have the number, dtypes and shapes of parameters.

    `name`: of the function, for messages.
    `parameters`: inputs, then outputs, which may be missing among the arrays.
    """
    inputs = [p.name for p in parameters if not p.is_output]
    outputs = [p.name for p in parameters if p.is_output]
    if len(arrays) not in (len(inputs), len(parameters)):
        raise ArgumentError(
            f"{name} takes {len(inputs)} arrays ({', '.join(inputs)}), or {len(parameters)} with "
            f"its outputs ({', '.join(outputs)}), got {len(arrays)}"
        )
    for number, (array, parameter) in enumerate(zip(arrays, parameters, strict=False), 1):
        label = f"{name}: argument {number}, {parameter.name!r},"
        shape, dtype = tuple(array.shape), dtype_name(array)
        if dtype != parameter.dtype:
            raise ArgumentError(f"{label} must have dtype {parameter.dtype}, got {dtype}")
        if shape != parameter.fixed:
            raise ArgumentError(f"{label} must have shape {parameter.fixed}, got {shape}")
