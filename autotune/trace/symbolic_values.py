"""Symbolic knob values: a template computes with them before a configuration is chosen.

Each has an expression over knobs and a value for the configuration that guides the trace.
Arithmetic stays symbolic; a branch needs the value and is recorded as a decision.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any, NoReturn, Protocol, Self

import numpy as np

from autotune.errors import TracingError
from autotune.ir.expr import COMPARISON, Const, Expr, Operators
from autotune.ir.ops import FOLD, binary, logical_not


class Decisions(Protocol):
    """Receives the decisions of a trace."""

    def decide(self, expr: Expr, value: int | bool) -> None:
        """Record that this path requires `expr` to be `value`."""

    def refuse(self, error: TracingError) -> NoReturn:
        """Record the error and raise it; the template may catch it."""


_OURS = ("autotune.", "features.", "search_spaces.")
_TEMPLATES = "autotune.operators."


class _Symbol:
    """A number or a flag that depends on knobs.

    expr: the expression over `ir.Knob` variables.
    value: its value under the guiding configuration.
    decisions: gets each use of the value.
    """

    __slots__ = ("_decisions", "_value", "expr")
    _plain: type

    def __init__(self, expr: Expr, value: Any, decisions: Decisions) -> None:
        self.expr = expr
        self._value = value
        self._decisions = decisions

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class for `isinstance`, which asks for it if `type` does not decide.

        For a template a symbol is a plain number; our own code tells them apart.
        """
        asking = str(sys._getframe(1).f_globals.get("__name__", ""))
        ours = asking.startswith(_OURS) and not asking.startswith(_TEMPLATES)
        return type(self) if ours else self._plain

    @property
    def guide(self) -> Any:
        """Its value under the guiding configuration; to look at it is no decision."""
        return self._value

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __expr__(self) -> Expr:
        return self.expr


def _of_values(
    operation: Callable[[Any, Any], Any], swap: bool = False
) -> Callable[[SymbolicInt, Any], Any]:
    """Return the method of an operator that takes the value of a symbol."""

    def method(self: SymbolicInt, other: Any) -> Any:
        return operation(other, int(self)) if swap else operation(int(self), other)

    return method


class SymbolicInt(_Symbol, Operators):
    """An integer that depends on knobs; `int(x)` gives its value, which then is a decision."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy's scalars leave mixed arithmetic to this class
    _plain = int
    _value: int

    def __getattr__(self, name: str) -> Any:
        """Return another attribute of the integer value, such as `bit_length`."""
        if name.startswith("_") or not hasattr(int, name):
            raise AttributeError(f"'int' object has no attribute {name!r}")
        return getattr(int(self), name)

    def __reduce__(self) -> NoReturn:
        self._refuse(f"`{self.expr}`, pickled,", "use int(knob)")

    def _refuse(self, what: str, advice: str) -> NoReturn:
        """Raise the error of an operation that has no meaning before a configuration is chosen."""
        message = f"{what} has no value before a configuration is chosen: {advice}"
        self._decisions.refuse(TracingError(message))

    def _binary(self, op: str, other: object, swap: bool = False) -> Any:
        if isinstance(other, (SymbolicInt, int, np.integer)):
            if op == "/":
                advice = "use // (or te.ceildiv) between knobs"
                self._refuse(f"`{self.expr}` divided with /", advice)
            return self._combined(op, other, swap)
        if isinstance(other, (float, np.floating)):
            self._refuse(
                f"`{self.expr}` combined with the float {other!r}",
                "scale by integers, as in knob * 3 // 2, or convert with .astype in a compute",
            )
        return super()._binary(op, other, swap)

    def _combined(self, op: str, other: SymbolicInt | int | np.integer[Any], swap: bool) -> Any:
        value = other._value if isinstance(other, SymbolicInt) else int(other)
        if op in ("//", "%"):
            divisor = self if swap else other
            if divisor == 0:
                raise ZeroDivisionError(f"`{op}` by zero")
        if swap:
            result = binary(op, other, self), FOLD[op](value, self._value)
        else:
            result = binary(op, self, other), FOLD[op](self._value, value)
        if op in COMPARISON:
            return symbolic_bool(*result, self._decisions)
        return symbolic_int(*result, self._decisions)

    def __eq__(self, other: object) -> Any:
        return self._binary("==", other)

    def __ne__(self, other: object) -> Any:
        return self._binary("!=", other)

    def __neg__(self) -> Any:
        return self._binary("-", 0, swap=True)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self._binary("max", -self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __round__(self, digits: int | None = None) -> Any:
        return self

    __floor__ = __ceil__ = __trunc__ = __pos__

    # Powers, shifts and bits depend on the value: each value is a trace of its own.

    __pow__, __rpow__ = _of_values(operator.pow), _of_values(operator.pow, swap=True)
    __lshift__, __rlshift__ = _of_values(operator.lshift), _of_values(operator.lshift, swap=True)
    __rshift__, __rrshift__ = _of_values(operator.rshift), _of_values(operator.rshift, swap=True)
    __and__ = __rand__ = _of_values(operator.and_)
    __or__ = __ror__ = _of_values(operator.or_)
    __xor__ = __rxor__ = _of_values(operator.xor)

    def __index__(self) -> int:
        self._decisions.decide(self.expr, self._value)
        return self._value

    __int__ = __index__

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __float__(self) -> float:
        advice = "compute with integers (//, %, te.min, te.max), or int()"
        self._refuse(f"float(`{self.expr}`)", advice)

    def __hash__(self) -> int:
        self._refuse(f"hash(`{self.expr}`)", "use int(knob) as the key of a set or dict")

    def __str__(self) -> str:
        self._refuse(f"the text of `{self.expr}`", "use int(knob) in names, or names without knobs")

    def __format__(self, spec: str) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"<knob expression {self.expr}>"


class SymbolicBool(_Symbol):
    """A condition over knobs; its truth, asked by `if`, `and`, `or` or `not`, is a decision."""

    __slots__ = ()
    _plain = bool
    _value: bool

    def __bool__(self) -> bool:
        self._decisions.decide(self.expr, self._value)
        return self._value

    def __index__(self) -> int:
        return int(bool(self))

    __int__ = __index__

    def _logic(self, op: str, other: object) -> Any:
        if isinstance(other, (bool, np.bool_)):
            value = bool(other)
        elif isinstance(other, SymbolicBool):
            value = other._value
        else:
            return NotImplemented
        return symbolic_bool(binary(op, self, other), FOLD[op](self._value, value), self._decisions)

    def __and__(self, other: object) -> Any:
        return self._logic("and", other)

    def __or__(self, other: object) -> Any:
        return self._logic("or", other)

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> Any:
        return symbolic_bool(logical_not(self.expr), not self._value, self._decisions)

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    def __hash__(self) -> int:
        return hash(bool(self))

    def __str__(self) -> str:
        return str(bool(self))

    def __repr__(self) -> str:
        return f"<knob condition {self.expr}>"


def symbolic_int(expr: Expr, value: int, decisions: Decisions) -> SymbolicInt | int:
    """Return a symbol, or a plain int where the expression is constant."""
    return value if isinstance(expr, Const) else SymbolicInt(expr, value, decisions)


def symbolic_bool(expr: Expr, value: bool, decisions: Decisions) -> SymbolicBool | bool:
    """Return a symbol, or a plain bool where the expression is constant."""
    return value if isinstance(expr, Const) else SymbolicBool(expr, value, decisions)
