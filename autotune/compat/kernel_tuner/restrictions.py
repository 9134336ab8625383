"""Restrictions of a space as Kernel Tuner takes them: texts, functions, or functions with names."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from autotune.compat.kernel_tuner.problem import Problem, kernel, plain
from autotune.errors import AutotuneError, InstantiationError, UsageError, error_text
from autotune.external.c_kernel import CKernel
from autotune.system.words import one_line
from autotune.template import Knobs, Template
from autotune.trace.symbolic_values import SymbolicInt
from search_spaces import SpaceError
from search_spaces.expression import names_of, parse_expression

Condition = Callable[[Mapping[str, Any]], Any]

_ARITHMETIC: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}


@dataclass(frozen=True)
class Restriction:
    """What values of parameters must be for a configuration to be tried."""

    text: str
    holds: Condition
    #: What messages call it.
    name: str


def restrictions_of(given: Any, names: Sequence[str]) -> list[Restriction]:
    """Return the restrictions that an argument of this name gives.

    `names`: of the parameters.

    Raises UsageError if one is neither a text nor a function, or the text is no condition.
    """
    listed = [] if given is None else given if isinstance(given, (list, tuple)) else [given]
    return [_restriction(one, n, names) for n, one in enumerate(listed, 1)]


def _restriction(given: Any, number: int, names: Sequence[str]) -> Restriction:
    name = f"restriction {number}"
    if isinstance(given, str):
        return _of_text(given, name, names)
    chosen = names
    if isinstance(given, tuple) and len(given) >= 2 and callable(given[0]):
        given, chosen = given[0], list(given[1])
        return Restriction(name, lambda p: given(**{n: p[n] for n in chosen}), name)
    if not callable(given) or type(given).__module__.startswith("constraint"):
        raise UsageError(
            f"restrictions are texts, functions of a dict, or functions with the names of their "
            f"parameters, not {given!r}"
        )
    parameters = list(inspect.signature(given).parameters)
    by_name = all(name in names for name in parameters)
    if by_name:
        return Restriction(name, lambda p: given(**{n: p[n] for n in parameters}), name)
    return Restriction(name, given, name)


def _of_text(text: str, name: str, names: Sequence[str]) -> Restriction:
    try:
        root = parse_expression(text)
    except SpaceError as error:
        raise UsageError(f"restrictions: {error}") from error
    unknown = [name for name in names_of(root) if name not in names]
    if unknown:
        raise UsageError(f"restriction {text!r}: there is no parameter {unknown[0]!r}")
    return Restriction(text, functools.partial(_condition, root), f"{name}, {text!r},")


def _condition(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """Return a condition for values that may be symbols, which it decides as little as it can."""
    match node:
        case ast.BoolOp(op=op, values=parts):
            join = operator.and_ if isinstance(op, ast.And) else operator.or_
            return functools.reduce(join, (_truth(_condition(part, values)) for part in parts))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return negated(_truth(_condition(operand, values)))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _condition(body if _condition(test, values) else orelse, values)
        case ast.Compare(left=left, ops=ops, comparators=others):
            own = _decided(values, node) if _needs_numbers(node) else values
            sides = [left, *others[:-1]]
            found = (_compared(op, a, b, own) for op, a, b in zip(ops, sides, others, strict=True))
            return functools.reduce(operator.and_, found)
    return _number(node, _decided(values, node) if _needs_numbers(node) else values)


def _truth(value: Any) -> Any:
    """Return a condition for what may be a number."""
    if isinstance(value, np.bool_):
        return bool(value)
    is_number = isinstance(value, (SymbolicInt, int, float)) and not isinstance(value, bool)
    return value != 0 if is_number else value


def negated(condition: Any) -> Any:
    """Return the opposite of a condition, which may be a symbol."""
    return not condition if isinstance(condition, bool) else ~condition


def _compared(op: ast.cmpop, left: ast.expr, right: ast.expr, values: Mapping[str, Any]) -> Any:
    one = _number(left, values)
    if isinstance(right, (ast.List, ast.Tuple)):
        equal = (one == _number(item, values) for item in right.elts)
        found = functools.reduce(operator.or_, equal, False)
        return found if isinstance(op, ast.In) else negated(found)
    return _ARITHMETIC[type(op)](one, _number(right, values))


def _number(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(op=op, operand=a) if not isinstance(op, ast.Not):
            return _ARITHMETIC[type(op)](_number(a, values))
        case ast.BinOp(left=a, op=op, right=b):
            return _ARITHMETIC[type(op)](_number(a, values), _number(b, values))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _FUNCTIONS[name](*(_number(arg, values) for arg in args))
    return _condition(node, values)


def _needs_numbers(node: ast.expr) -> bool:
    """Whether an expression has what symbols cannot do: fractions, powers, functions."""
    return any(
        isinstance(n, (ast.Div, ast.Pow, ast.Call))
        or (isinstance(n, ast.Constant) and type(n.value) is float)
        for n in ast.walk(node)
    )


def _decided(values: Mapping[str, Any], node: ast.expr) -> dict[str, Any]:
    return {name: plain(values[name]) for name in names_of(node)}


def unknown(parameters: Mapping[str, list[Any]], known: Iterable[Mapping[str, Any]]) -> Restriction:
    """Return what keeps the configurations away that are known.

    `parameters`: the choices of each.
    """
    rows = frozenset(tuple(row[name] for name in parameters) for row in known)

    def holds(values: Mapping[str, Any]) -> Any:
        own = tuple(values[name] for name in parameters)
        if not any(isinstance(value, SymbolicInt) for value in own):
            return own not in rows
        return negated(_are_among(own, list(parameters.values()), rows))

    text = "its result is not known yet"
    return Restriction(text, holds, text)


def _are_among(
    values: Sequence[Any], choices: Sequence[list[Any]], rows: frozenset[tuple[Any, ...]]
) -> Any:
    """Return whether values, some of them symbols, are a row: short where rows are regular."""
    if not values:
        return bool(rows)
    rests: dict[Any, set[tuple[Any, ...]]] = {}
    for first, *rest in rows:
        rests.setdefault(first, set()).add(tuple(rest))
    firsts: dict[frozenset[tuple[Any, ...]], set[Any]] = {}
    for first, several in rests.items():
        firsts.setdefault(frozenset(several), set()).add(first)
    return _any([
        _is_among(values[0], choices[0], own) & _are_among(values[1:], choices[1:], rest)
        for rest, own in firsts.items()
    ])  # fmt: skip


def _is_among(value: Any, choices: list[Any], own: Collection[Any]) -> Any:
    """Return whether a value is one of some choices: of a symbol, by the runs that they form."""
    if not isinstance(value, SymbolicInt):
        return value in own
    runs = [
        list(run) for is_own, run in itertools.groupby(sorted(choices), own.__contains__) if is_own
    ]
    return _any([(value >= run[0]) & (value <= run[-1]) for run in runs])


def _any(found: list[Any]) -> Any:
    """Return whether one of several conditions holds, by halves, so that none is deep."""
    while len(found) > 1:
        pairs = itertools.zip_longest(found[::2], found[1::2], fillvalue=False)
        found = [a | b for a, b in pairs]
    return found[0] if found else False


@dataclass(frozen=True)
class RestrictedTemplate(Template):
    """The template of a problem in the process that searches, which alone knows restrictions.

    Functions of the user need not be sent to workers then.
    """

    restrictions: tuple[Restriction, ...] = field(default=())

    @classmethod
    def of(cls, problem: Problem, restrictions: Sequence[Restriction]) -> RestrictedTemplate:
        """Return the template of a problem with restrictions."""
        own = {each.name: getattr(kernel, each.name) for each in fields(kernel)}
        return cls(**{**own, "name": problem.name}, restrictions=tuple(restrictions))

    def described(self, cfg: Knobs, *args: Any, **kwargs: Any) -> CKernel:
        """Return the kernel, once its knobs are restricted."""
        made: CKernel = super().described(cfg, *args, **kwargs)
        values = {name: cfg[name] for name in cfg}
        for restriction in self.restrictions:
            try:
                condition = restriction.holds(values)
            except (AutotuneError, ZeroDivisionError):
                raise
            except Exception as error:
                if is_legal(self.restrictions, {name: plain(v) for name, v in values.items()}):
                    raise  # symbols alone make it fail
                raise InstantiationError("another restriction refuses it") from error
            cfg.add_constraint(_truth(condition), restriction.text)
        return made


def is_legal(restrictions: Sequence[Restriction], values: Mapping[str, Any]) -> bool:
    """Whether plain values keep all restrictions; what is divided by 0 does not.

    Raises UsageError if a restriction fails otherwise, unless one before it refuses the values.
    """
    for one in restrictions:
        try:
            if not one.holds(values):
                return False
        except ZeroDivisionError:
            return False
        except Exception as error:
            why = f"{type(error).__name__}: {one_line(error_text(error))}"
            raise UsageError(f"{one.name} fails for {dict(values)}: {why}") from error
    return True
