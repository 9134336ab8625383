"""Evaluates expressions in tunable parameters, whose values may be symbols of a trace.

In: expressions in the form of Kernel Tuner's arguments, and values of parameters. Out: conditions
and numbers, symbolic if the values are. An operation that symbols do not support, such as a
fraction, makes the trace decide their values. The user's functions are called here, too: their
errors become one line.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from autotune.errors import UsageError
from autotune.system.user_modules import what_failed
from autotune.trace.symbolic_values import SymbolicInt
from search_spaces import SpaceError
from search_spaces.expression import names_of, parse_expression

_ARITHMETIC: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}


def plain(value: Any) -> Any:
    """Return a parameter's value as a plain one, which decides a symbol."""
    return value if isinstance(value, (bool, float, str)) else int(value)


def parsed(text: str, what: str, names: Collection[str]) -> ast.expr:
    """Return an expression of parameters.

    `what`: what messages call it.

    Raises UsageError if it is none, or of something else.
    """
    try:
        root = parse_expression(text)
    except SpaceError as error:
        raise UsageError(f"{what}: {error}") from error
    unknown = [name for name in names_of(root) if name not in names]
    if unknown:
        raise UsageError(f"{what} {text!r}: there is no parameter {unknown[0]!r}")
    return root


def value_of(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """Return what an expression is for values that may be symbols, which are decided if need be."""
    match node:
        case ast.BoolOp(op=op, values=parts):
            conditions = (functools.partial(value_of, part, values) for part in parts)
            return _joined(conditions, isinstance(op, ast.And))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return negated(truth(value_of(operand, values)))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return value_of(body if value_of(test, values) else orelse, values)
        case ast.Compare(left=left, ops=ops, comparators=others):
            own = _decided(values, node) if _needs_numbers(node) else values
            sides = [left, *others[:-1]]
            triples = zip(ops, sides, others, strict=True)
            pairs = (functools.partial(_compared, op, a, b, own) for op, a, b in triples)
            return _joined(pairs, is_and=True)
    return _number(node, _decided(values, node) if _needs_numbers(node) else values)


def _joined(parts: Iterable[Callable[[], Any]], is_and: bool) -> Any:
    """Return whether all of some conditions hold, or one of them, asked from left to right.

    As in Python, those after one that decides may fail: a symbol is decided only if they do.
    """
    first, *others = parts
    found = truth(first())
    for part in others:
        if isinstance(found, bool) and found is not is_and:
            return found
        try:
            other = truth(part())
        except (ZeroDivisionError, TypeError):
            if bool(found) is is_and:
                raise
            return not is_and
        found = found & other if is_and else found | other
    return found


def truth(value: Any) -> Any:
    """Return a condition for what may be a number or a text."""
    if isinstance(value, (np.bool_, str)):
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
    return value_of(node, values)


def _needs_numbers(node: ast.expr) -> bool:
    """Whether an expression has what symbols cannot do: fractions, powers, functions."""
    return any(
        isinstance(n, (ast.Div, ast.Pow, ast.Call))
        or (isinstance(n, ast.Constant) and type(n.value) is float)
        for n in ast.walk(node)
    )


def _decided(values: Mapping[str, Any], node: ast.expr) -> dict[str, Any]:
    return {name: plain(values[name]) for name in names_of(node)}


def called(what: str, function: Callable[..., Any], *args: Any, **given: Any) -> Any:
    """Return what a function of the user returns; UsageError, in one line, if it raises.

    `what`: which one it is, for the message, such as "metric 'GB/s'".
    """
    try:
        return function(*args, **given)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{what} fails: {what_failed(error)}") from error
