"""Schedule steps as data, to print, store, replay and fingerprint.

Integer expressions in them are terms: a number, a name, or an operation in front of its operands.
`(tile*2)` over the knob "tile" is ("*", ("knob", "tile"), 2); in JSON the tuples are lists. A plain
name is an axis or a thread axis of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from autotune.errors import ScheduleError
from autotune.ir import dtypes
from autotune.ir.expr import BinaryOp, Call, Cast, Const, Expr, KnobVar, Not, Select, SizeVar, Var
from autotune.ir.ops import FOLD, binary, cast, convert, if_then_else, logical_not, select
from autotune.ir.printer import binary_text


@dataclass(frozen=True)
class Step:
    """One primitive applied to one stage.

    Attributes
    ----------
    primitive : str
        Its name, such as "split".
    stage : str
        Label of the stage, unique in its schedule; of the new stage if the primitive makes one.
    args : tuple
        Plain data: axes as name#position among all axes of their stage, as names repeat; stages
        and tensors by label, sizes and conditions as terms (see `term_of`), None for
        omitted arguments.
    """

    primitive: str
    stage: str
    args: tuple[Term | None, ...]

    def __str__(self) -> str:
        return f"{self.stage}.{self.primitive}({', '.join(map(term_text, self.args))})"

    def with_knobs(self, values: Mapping[str, int]) -> Step:
        """Return the step with knobs replaced by their values."""
        return Step(self.primitive, self.stage, tuple(with_knobs(a, values) for a in self.args))

    def to_json(self) -> list[Any]:
        """Return ``[primitive, stage, arguments...]``.

        Raises
        ------
        ScheduleError
            If a size depends on a knob: a stored step belongs to a single configuration.
        """
        for name in (name for arg in self.args for name in knobs_of(arg)):
            raise ScheduleError(
                f"step `{self}` depends on knob {name!r}; give its value, as in "
                f"to_json({{{name!r}: 4}})"
            )
        return [self.primitive, self.stage, *map(_plain, self.args)]

    @classmethod
    def from_json(cls, data: object) -> Step:
        """Return the step of ``[primitive, stage, arguments...]``, or of a step.

        Raises
        ------
        ScheduleError
            If it is neither.
        """
        if isinstance(data, Step):
            return data
        if isinstance(data, (list, tuple)) and [isinstance(s, str) for s in data[:2]] == [True] * 2:
            return cls(data[0], data[1], tuple(map(_frozen, data[2:])))
        raise ScheduleError(
            f"expected a step as [primitive, stage, arguments...], got {data!r}; give what to_json "
            "gave"
        )


def _plain(value: Term) -> Any:
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Term:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


#: A bool, int or str, or a tuple of a str and terms.
Term = Any


def term_of(expr: Expr, name: Callable[[Var], str]) -> Term:
    """Return an integer or boolean expression as a term.

    `expr`: an expression over knobs, sizes and variables that `name` accepts.
    `name`: returns the name of a variable; raises for an unknown one.

    Raises ScheduleError if the expression contains floats, tensors or calls.
    """
    match expr:
        case Const() if not isinstance(expr.value, float):
            return expr.value
        case KnobVar():
            return ("knob", expr.name)
        case SizeVar():
            return ("size", expr.name)
        case Var():
            return name(expr)
        case BinaryOp():
            return (expr.op, term_of(expr.a, name), term_of(expr.b, name))
        case Not():
            return ("not", term_of(expr.a, name))
        case Cast() if not dtypes.is_float(expr.dtype):
            return (expr.dtype, term_of(expr.a, name))
        case Select():
            return ("select", *(term_of(child, name) for child in expr.children))
        case Call(name="if_then_else"):
            return (expr.name, *(term_of(child, name) for child in expr.children))
        case _:
            raise ScheduleError(
                f"`{expr}` is more than arithmetic of integers; leave floats, tensors and calls out"
            )


def expr_of(term: Term, resolve: Callable[[str], Expr], sizes: Mapping[str, SizeVar]) -> Expr:
    """Return the expression of a term.

    Raises ScheduleError if it is not a term, or contains a knob or a size that `sizes` does not
    have.
    """
    match term:
        case bool() | int():
            return convert(term)
        case str():
            return resolve(term)
        case ("knob", str(name)):
            raise ScheduleError(f"knob {name!r} has no value; give the steps of one configuration")
        case ("size", str(name)):
            if name not in sizes:
                known = ", ".join(sizes) or "none"
                raise ScheduleError(f"there is no size {name!r}; the computation has: {known}")
            return sizes[name]
        case (str(op), *operands):
            return _operation(op, [expr_of(operand, resolve, sizes) for operand in operands])
        case _:
            raise ScheduleError(f"{term!r} is not an expression")


def _operation(op: str, operands: list[Expr]) -> Expr:
    match op, operands:
        case "not", [a]:
            return logical_not(a)
        case "select", [test, true, false]:
            return select(test, true, false)
        case "if_then_else", [test, true, false]:
            return if_then_else(test, true, false)
        case _, [a] if op == dtypes.BOOL or dtypes.is_integer(op):
            return cast(op, a)
        case _, [a, b] if op in FOLD:
            return binary(op, a, b)
        case _:
            raise ScheduleError(
                f"there is no operation {op!r} of {len(operands)} operands; compare it with what "
                "to_json gives"
            )


def with_knobs(term: Term, values: Mapping[str, int]) -> Term:
    """Return a term with knobs replaced by values and constants folded.

    The result equals the term of an expression with these values: `i // tile` is `i` for a tile of
    1.
    """
    match term:
        case ("knob", name):
            return values.get(name, term)
        case ("size", _):
            return term
        case (op, *rest):
            operands = [with_knobs(operand, values) for operand in rest]
            if all(isinstance(operand, int) for operand in operands):
                return _number(op, operands)
            replaced = (op, *operands)
            return replaced if replaced == term or knobs_of(replaced) else _folded(replaced)
        case _:
            return term


def _folded(term: Term) -> Term:
    """Return a term without knobs in the form that its expression has."""
    variables, sizes = _Named(Var), _Named(SizeVar)
    return term_of(expr_of(term, variables.__getitem__, sizes), lambda var: var.name)


class _Named(dict[str, Any]):
    """Variables by name, made at the first request."""

    def __init__(self, make: Callable[[str], Var]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, name: str) -> Var:
        made = self[name] = self.make(name)
        return made

    def __contains__(self, name: object) -> bool:
        return True


def _number(op: str, operands: list[int]) -> int:
    """Return the value of an operation of numbers, exact as sizes are."""
    if op in ("select", "if_then_else"):
        return operands[1] if operands[0] else operands[2]
    if op == "not":
        return not operands[0]
    value: int = operands[0] if len(operands) == 1 else FOLD[op](*operands)
    return value


def knobs_of(term: Term) -> list[str]:
    """Names of the knobs in a term, in order."""
    match term:
        case ("knob", name):
            return [name]
        case tuple():
            return [name for part in term for name in knobs_of(part)]
        case _:
            return []


def term_text(term: Term) -> str:
    """Return a term as the expression's text."""
    match term:
        case ("knob" | "size", name):
            return str(name)
        case ("not", a):
            return f"!{term_text(a)}"
        case (op, a, b):
            return binary_text(op, term_text(a), term_text(b))
        case (op, *operands):
            return f"{op}({', '.join(map(term_text, operands))})"
        case _:
            return str(term)
