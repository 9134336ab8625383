"""Conditions as text, such as ``x * y <= 1024``: parsed, never run, evaluated on whole columns.

The text is an expression of Python, of which only what `Expression` names is allowed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from search_spaces.knob import SpaceError

MAX_TEXT = 10_000  # Characters of a condition.
MAX_DEPTH = 200  # Operators inside one another.

_EXACT = 2.0**62  # Integers below this are computed as int64, larger ones as float64.

Array = npt.NDArray[Any]


class _Result(NamedTuple):
    """Values, and where they are not defined, because something was divided by 0."""

    value: Array
    undefined: npt.NDArray[np.bool_]


_DEFINED = np.zeros((), dtype=np.bool_)


class Expression:
    """An expression over columns, as text of Python.

    It has numbers, texts, True, False, names of columns, ``+ - * / // % **``, comparisons (also
    chained, and ``in`` a list), ``and``, ``or``, ``not``, ``a if c else b``, and ``min``, ``max``
    and ``abs``. The operators ``&&``, ``||`` and ``!`` of C are read, too.

    Called with columns it is the predicate of a constraint. What is divided by 0 makes it false,
    unless ``and`` or ``or`` decide without it.

    Parameters
    ----------
    text : str
    tables : mapping, optional
        For columns that are positions: the value at each position.

    Raises
    ------
    SpaceError
        If the text is no such expression.
    """

    def __init__(self, text: str, tables: Mapping[str, Array] | None = None) -> None:
        self.text = text
        self._tables = dict(tables or {})
        self._root = parse_expression(text)
        self.names = tuple(names_of(self._root))

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __call__(self, columns: Mapping[str, Array]) -> npt.NDArray[np.bool_]:
        """Return where it is true, bool (n,), given columns (n,)."""
        read = {
            name: self._tables[name][columns[name]] if name in self._tables else columns[name]
            for name in self.names
        }
        found = evaluate(self._root, read)
        return np.asarray(_truth(found.value) & ~found.undefined, dtype=np.bool_)


def parse_expression(text: str) -> ast.expr:
    """Return the tree of an expression; SpaceError if it has anything that is not allowed."""
    if len(text) > MAX_TEXT:
        raise SpaceError(f"a condition of {len(text)} characters: at most {MAX_TEXT} are read")
    try:
        root = ast.parse(_as_python(text).strip(), mode="eval").body
    except (RecursionError, MemoryError) as error:
        raise SpaceError(f"{shown(text)} is nested too deeply") from error
    except (SyntaxError, ValueError) as error:
        why = str(getattr(error, "msg", error))[:80]
        raise SpaceError(f"{shown(text)} is no expression: {why}") from error
    if isinstance(root, ast.List | ast.Tuple):
        raise SpaceError(f"{shown(text)} is a list and no condition")
    check_expression(root, shown(text))
    return root


def shown(text: str) -> str:
    """Return the beginning of a text for a message."""
    printed = repr(text)
    return printed if len(printed) <= 80 else f"{printed[:77]}..."


def _as_python(text: str) -> str:
    """Return the operators of C as those of Python; a text with quotes stays as it is."""
    if "'" in text or '"' in text:
        return text
    text = text.replace("&&", " and ").replace("||", " or ")
    return re.sub(r"!(?!=)", " not ", text)


def names_of(root: ast.expr) -> list[str]:
    """Return the names of columns in an expression, in order of appearance."""
    functions = {id(node.func) for node in ast.walk(root) if isinstance(node, ast.Call)}
    names = [
        (node.lineno, node.col_offset, node.id)
        for node in ast.walk(root)
        if isinstance(node, ast.Name) and id(node) not in functions
    ]
    return list(dict.fromkeys(name for _, _, name in sorted(names)))


def check_expression(node: ast.expr, where: str, depth: int = 0) -> None:
    """Raise SpaceError, which begins with `where`, if a tree has anything that is not allowed."""
    if depth > MAX_DEPTH:
        raise SpaceError(f"{where} is nested too deeply")
    if isinstance(node, ast.Constant):
        _check_constant(node.value, where)
        return
    if isinstance(node, ast.Name):
        return
    if not isinstance(node, tuple(_EVALUATED)) and not isinstance(node, ast.List | ast.Tuple):
        raise SpaceError(f"{where}: {type(node).__name__} is not allowed in a condition")
    if isinstance(node, ast.BinOp | ast.UnaryOp) and type(node.op) not in _OPERATORS:
        raise SpaceError(f"{where}: {type(node.op).__name__} is not allowed in a condition")
    if isinstance(node, ast.Compare):
        for operator, right in zip(node.ops, node.comparators, strict=True):
            _check_comparison(operator, right, where)
    if isinstance(node, ast.Call):
        known = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        if not known or node.keywords or not node.args:
            raise SpaceError(f"{where}: only {', '.join(_FUNCTIONS)} can be called in a condition")
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr) and not (isinstance(node, ast.Call) and child is node.func):
            listed = isinstance(child, ast.List | ast.Tuple)
            if listed and not (isinstance(node, ast.Compare) and child in node.comparators):
                raise SpaceError(f"{where}: a list is only allowed after in")
            check_expression(child, where, depth + 1)


def _check_constant(value: object, where: str) -> None:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise SpaceError(f"{where}: a number is not of 64 bits")
    if not isinstance(value, bool | int | float | str):
        raise SpaceError(f"{where}: {type(value).__name__} is not allowed in a condition")


def _check_comparison(operator: ast.cmpop, right: ast.expr, where: str) -> None:
    listed = isinstance(right, ast.List | ast.Tuple)
    if type(operator) not in _COMPARISONS and not isinstance(operator, ast.In | ast.NotIn):
        raise SpaceError(f"{where}: {type(operator).__name__} is not allowed in a condition")
    if listed != isinstance(operator, ast.In | ast.NotIn):
        raise SpaceError(f"{where}: in needs a list, and other comparisons a value")


def evaluate(node: ast.expr, columns: Mapping[str, Array]) -> _Result:
    """Return the values of a checked expression for columns (n,)."""
    with np.errstate(all="ignore"):
        return _evaluate(node, columns)


def _evaluate(node: ast.expr, columns: Mapping[str, Array]) -> _Result:
    if isinstance(node, ast.Constant):
        return _Result(np.asarray(node.value), _DEFINED)
    if isinstance(node, ast.Name):
        return _Result(np.asarray(columns[node.id]), _DEFINED)
    return _EVALUATED[type(node)](node, columns)


def _unary(node: ast.UnaryOp, columns: Mapping[str, Array]) -> _Result:
    operand = _evaluate(node.operand, columns)
    value: Array = _OPERATORS[type(node.op)](operand.value)
    return _Result(value, operand.undefined)


def _binary(node: ast.BinOp, columns: Mapping[str, Array]) -> _Result:
    left, right = _evaluate(node.left, columns), _evaluate(node.right, columns)
    undefined = left.undefined | right.undefined
    a, b = _number(left.value), _number(right.value)
    if isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod):
        undefined = undefined | (b == 0)
        b = np.where(b == 0, 1, b)
    value: Array = _OPERATORS[type(node.op)](a, b)
    return _Result(value, undefined)


def _boolean(node: ast.BoolOp, columns: Mapping[str, Array]) -> _Result:
    """Evaluate from left to right: what is decided already is not asked for more."""
    is_and = isinstance(node.op, ast.And)
    found = _evaluate(node.values[0], columns)
    value, undefined = _truth(found.value), found.undefined
    for part in node.values[1:]:
        other = _evaluate(part, columns)
        open_ = value if is_and else ~value
        undefined = undefined | (open_ & other.undefined)
        value = value & _truth(other.value) if is_and else value | _truth(other.value)
    return _Result(value, undefined)


def _compare(node: ast.Compare, columns: Mapping[str, Array]) -> _Result:
    left = _evaluate(node.left, columns)
    value: Array = np.ones((), dtype=np.bool_)
    undefined = left.undefined
    for operator, right_node in zip(node.ops, node.comparators, strict=True):
        if isinstance(right_node, ast.List | ast.Tuple):
            items = [_evaluate(item, columns) for item in right_node.elts]
            holds: Array = np.zeros(left.value.shape, dtype=np.bool_)
            for item in items:
                holds = holds | _equal(left.value, item.value)
                undefined = undefined | item.undefined
            value = value & (holds if isinstance(operator, ast.In) else ~holds)
            continue
        right = _evaluate(right_node, columns)
        undefined = undefined | (value & right.undefined)
        value = value & _COMPARISONS[type(operator)](left.value, right.value)
        left = right
    return _Result(value, undefined)


def _conditional(node: ast.IfExp, columns: Mapping[str, Array]) -> _Result:
    test = _evaluate(node.test, columns)
    one, other = _evaluate(node.body, columns), _evaluate(node.orelse, columns)
    chosen = _truth(test.value)
    undefined = test.undefined | np.where(chosen, one.undefined, other.undefined)
    return _Result(np.where(chosen, one.value, other.value), undefined)


def _call(node: ast.Call, columns: Mapping[str, Array]) -> _Result:
    parts = [_evaluate(argument, columns) for argument in node.args]
    value, undefined = _number(parts[0].value), parts[0].undefined
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name == "abs":
        return _Result(np.abs(value), undefined)
    for part in parts[1:]:
        value = _FUNCTIONS[name](value, _number(part.value))
        undefined = undefined | part.undefined
    return _Result(value, undefined)


def _number(values: Array) -> Array:
    """Return values to compute with: flags count as 0 and 1; TypeError if they are texts."""
    if values.dtype == np.bool_:
        return values.astype(np.int64)
    if values.dtype.kind not in "iuf":
        raise TypeError("a text is not a number")
    return values


def _truth(values: Array) -> npt.NDArray[np.bool_]:
    if values.dtype == np.bool_:
        return values
    return np.asarray(values != "" if values.dtype.kind == "U" else values != 0, dtype=np.bool_)


def _exact(operate: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Return an operation that computes in float64 where int64 would overflow."""

    def operated(a: Array, b: Array) -> Array:
        if a.dtype.kind == "f" or b.dtype.kind == "f":
            return operate(a, b)
        wide = operate(a.astype(np.float64), b.astype(np.float64))
        return wide if bool(np.any(np.abs(wide) >= _EXACT)) else operate(a, b)

    return operated


def _power(a: Array, b: Array) -> Array:
    wide = np.power(a.astype(np.float64), b.astype(np.float64))
    whole = a.dtype.kind in "iu" and b.dtype.kind in "iu" and not bool(np.any(b < 0))
    if whole and not bool(np.any(np.abs(wide) >= _EXACT)):
        return np.asarray(np.power(a, b))
    return np.asarray(wide)


def _equal(a: Array, b: Array) -> Array:
    if (a.dtype.kind == "U") != (b.dtype.kind == "U") and "O" not in (a.dtype.kind, b.dtype.kind):
        return np.zeros(np.broadcast_shapes(a.shape, b.shape), dtype=np.bool_)  # text and number
    return np.asarray(a == b)


def _ordered(compare: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def compared(a: Array, b: Array) -> Array:
        if (a.dtype.kind == "U") != (b.dtype.kind == "U"):
            raise TypeError("a text is neither smaller nor larger than a number")
        return np.asarray(compare(a, b))

    return compared


_OPERATORS: dict[type, Callable[..., Array]] = {
    ast.Add: _exact(np.add),
    ast.Sub: _exact(np.subtract),
    ast.Mult: _exact(np.multiply),
    ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: _power,
    ast.USub: lambda a: -_number(a),
    ast.UAdd: lambda a: _number(a),
    ast.Not: lambda a: ~_truth(a),
}
_COMPARISONS: dict[type, Callable[[Array, Array], Array]] = {
    ast.Eq: _equal,
    ast.NotEq: lambda a, b: ~_equal(a, b),
    ast.Lt: _ordered(np.less),
    ast.LtE: _ordered(np.less_equal),
    ast.Gt: _ordered(np.greater),
    ast.GtE: _ordered(np.greater_equal),
}
_FUNCTIONS: dict[str, Callable[..., Array]] = {"min": np.minimum, "max": np.maximum, "abs": np.abs}
_EVALUATED: dict[type, Callable[..., _Result]] = {
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Call: _call,
}
