"""Turns a bound Tile function into tensor expressions.

Every statement becomes a compute, so that schedules can fuse or place it. A contraction may need a
second compute (a conversion, or zeros for elements that are not written).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from autotune import te
from autotune.ir import dtypes
from autotune.te.tensor import producers_first
from autotune.tile.binding.bound_program import Contract, Elementwise, Program
from autotune.tile.index_sets.affine_forms import Affine
from autotune.tile.index_sets.index_conditions import AtLeast, Condition, Divides
from autotune.tile.index_sets.index_set import IndexSetTooComplexError
from autotune.tile.syntax.error_locations import tile_error
from autotune.tile.to_te.contraction_loops import Loops, loops
from autotune.tile.to_te.elementwise_to_te import Index, expression

_REDUCE: Final[dict[str, Callable[..., Any]]] = {
    "+": te.sum, "*": te.prod, ">": te.max, "<": te.min, "=": te.sum
}  # fmt: skip
_COMBINE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "*": lambda a, b: a * b, "+": lambda a, b: a + b
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensors:
    """The tensor expressions of a program."""

    #: Parameters of the function, in order.
    inputs: tuple[te.Tensor, ...]
    outputs: tuple[te.Tensor, ...]
    #: Every computed tensor that an output needs, in an order in which they can be computed.
    stages: tuple[te.Tensor, ...]


def to_te(program: Program) -> Tensors:
    """Return the tensor expressions of a program.

    Raises TileError if the index sets of a contraction are too entangled for isl.
    """
    tensors: dict[str, te.Tensor] = {}
    stages: list[te.Tensor] = []
    for name in program.inputs:
        own = program.types[name]
        tensors[name] = te.placeholder(own.shape, own.dtype, name=name)
    for step in program.steps:
        if isinstance(step, Elementwise):
            made = [_element_wise(step, tensors)]
        else:
            try:
                made = _contraction(step, tensors)
            except IndexSetTooComplexError as error:
                raise tile_error(program.function, step.statement.span, str(error)) from None
        stages += made
        tensors[step.name] = made[-1]
    outputs = tuple(tensors[name] for name in program.outputs)
    read = set(producers_first([tensor.op for tensor in outputs]))
    return Tensors(
        tuple(tensors[name] for name in program.inputs),
        outputs,
        tuple(stage for stage in stages if stage.op in read),
    )


def _compute(shape: Sequence[int], body: Callable[..., Any], name: str) -> te.Tensor:
    tensor: te.Tensor = te.compute(tuple(shape), body, name=name)
    return tensor


def _element_wise(step: Elementwise, tensors: Mapping[str, te.Tensor]) -> te.Tensor:
    def body(*index: Index) -> Any:
        return expression(step.value, index, step.type.shape, tensors)

    return _compute(step.type.shape, body, step.name)


# -- contractions ------------------------------------------------------------------------------


def _contraction(step: Contract, tensors: Mapping[str, te.Tensor]) -> list[te.Tensor]:
    """Return the computes of a contraction; the last one is its tensor."""
    found = loops(step)
    if found.empty:
        none = _other(step, tensors)
        return [_compute(step.type.shape, lambda *i: none(i), step.name)]
    if not found.reduced:
        return [_assigned(step, found, tensors)]
    stages = [_reduced(step, found, tensors)]
    written = found.written
    if step.aggregation in "+=" and not step.default:
        written = ()  # a sum over nothing is 0
    elif written is None:
        stages.insert(0, _counted(step, found))
    behind = stages[-1].dtype != step.type.dtype or written != ()
    other = _other(step, tensors)
    if not behind:
        return stages

    def body(*index: Index) -> Any:
        value = stages[-1][index].astype(step.type.dtype)
        if written is None:
            return te.select(stages[0][index] > 0, value, other(index))
        values = dict(zip(found.output, index, strict=True))
        return _where(list(map(_Spelled(values).holds, written)), value, other(index))

    return [*stages, _compute(step.type.shape, body, step.name)]


def _assigned(step: Contract, found: Loops, tensors: Mapping[str, te.Tensor]) -> te.Tensor:
    """Return the compute of a contraction with at most one index set per element."""

    def body(*index: Index) -> Any:
        spelled = _spelled(found, index, {})
        conditions = [spelled.holds(c) for c in (*found.solved, *found.guards)]
        value = _combined(step, found, spelled, tensors).astype(step.accumulator)
        return _where(conditions, value.astype(step.type.dtype), other(index))

    other = _other(step, tensors)
    return _compute(step.type.shape, body, step.name)


def _other(step: Contract, tensors: Mapping[str, te.Tensor]) -> Callable[[Index], Any]:
    """Return the element at a position without an index set."""
    if step.default:
        return lambda index: tensors[step.default][index].astype(step.type.dtype)
    return lambda index: te.const(_zero(step.type.dtype), step.type.dtype)


def _reduced(step: Contract, found: Loops, tensors: Mapping[str, te.Tensor]) -> te.Tensor:
    """Return the reduction of a contraction; conditions are reduced as integers."""
    dtype = "int32" if step.accumulator == dtypes.BOOL else step.accumulator
    axes, values = _axes(found)

    def body(*index: Index) -> Any:
        spelled = _spelled(found, index, values)
        conditions = [spelled.holds(c) for c in (*found.solved, *found.guards)]
        value = _combined(step, found, spelled, tensors).astype(dtype)
        where = te.all(*conditions) if conditions else None
        return _REDUCE[step.aggregation](value, axis=axes, where=where)

    whole = found.written == () or (step.aggregation in "+=" and not step.default)
    name = step.name if whole and dtype == step.type.dtype else f"{step.name}_all"
    return _compute(step.type.shape, body, name)


def _counted(step: Contract, found: Loops) -> te.Tensor:
    """Return the number of index sets of each element."""
    axes, values = _axes(found)

    def body(*index: Index) -> Any:
        spelled = _spelled(found, index, values)
        conditions = [spelled.holds(c) for c in (*found.solved, *found.guards)]
        return te.sum(te.const(1, "int32"), axis=axes, where=te.all(*conditions))

    return _compute(step.type.shape, body, f"{step.name}_count")


def _axes(found: Loops) -> tuple[list[Any], dict[str, Any]]:
    """Return reduction axes, which begin at 0, and the values of the reduced indices."""
    axes = [te.reduce_axis((0, r.high - r.low + 1), r.name) for r in found.reduced]
    pairs = zip(found.reduced, axes, strict=True)
    return axes, {r.name: axis.var + r.low if r.low else axis.var for r, axis in pairs}


def _combined(
    step: Contract, found: Loops, spelled: _Spelled, tensors: Mapping[str, te.Tensor]
) -> Any:
    """Return the combined value of one index set."""
    read = [
        tensors[r.tensor][tuple(map(spelled.form, forms))]
        for r, forms in zip(step.reads, found.reads, strict=True)
    ]
    if step.combination in ("?", "=="):
        first, second = (r.astype(step.compared_dtype) for r in read[:2])
        if step.combination == "==":
            return (first == second).astype(step.value_dtype)
        third = read[2].astype(step.value_dtype)
        zero = te.const(_zero(step.value_dtype), step.value_dtype)
        return te.select(first == second, third, zero)
    read = [r.astype(step.value_dtype) for r in read]
    return _COMBINE[step.combination](*read) if step.combination else read[0]


def _zero(dtype: str) -> int | float | bool:
    return False if dtype == dtypes.BOOL else 0.0 if dtypes.is_float(dtype) else 0


def _where(conditions: Sequence[Any], value: Any, other: Any) -> Any:
    """Return one value where all conditions hold, else another; each is evaluated only there."""
    return te.if_then_else(te.all(*conditions), value, other) if conditions else value


def _spelled(found: Loops, index: Index, reduced: Mapping[str, Any]) -> _Spelled:
    values = dict(zip(found.output, index, strict=True)) | dict(reduced)
    spelled = _Spelled(values)
    for q in found.quotients:
        values[q.name] = spelled.form(q.form) // q.divisor
    return spelled


class _Spelled:
    """Writes polynomials and conditions as expressions over loop variables."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def form(self, form: Affine) -> Any:
        number, d = self.whole(form)
        return number // d if d > 1 else number

    def whole(self, form: Affine) -> tuple[Any, int]:
        """Return a polynomial times its denominator, and the denominator."""
        terms, constant, d = form.whole()
        total: Any = None
        for name, c in terms.items():
            term = self.values[name] if c == 1 else self.values[name] * c
            total = term if total is None else total + term
        if total is None:
            return te.const(constant, "int32"), d
        return (total + constant if constant else total), d

    def holds(self, condition: Condition) -> Any:
        number, d = self.whole(condition.form)
        if isinstance(condition, AtLeast):
            return number >= 0
        assert isinstance(condition, Divides)
        return number % (d * condition.modulus) == 0 if condition.modulus else number == 0
