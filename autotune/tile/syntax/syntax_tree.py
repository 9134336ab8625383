"""The syntax tree of Tile: frozen dataclasses with their positions in the text.

Equality of trees ignores positions. `unparser.to_code` returns their text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

Aggregation: TypeAlias = Literal["+", "*", ">", "<", "="]
#: How the tensors of a contraction are combined; "" where there is one, "?" for A == B ? C.
Combination: TypeAlias = Literal["", "*", "+", "?", "=="]

COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=")
BITS: Final = ("&", "|", "^", "<<", ">>")


@dataclass(frozen=True, slots=True)
class Span:
    """Offset of the first character of a node, and the offset of its end."""

    start: int
    end: int


#: Span of a node that was not parsed from a text.
NOWHERE: Final = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Number:
    """A literal, never negative; an int or a finite float."""

    value: int | float
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name:
    """A tensor, dimension or index."""

    text: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negate:
    """Unary minus."""

    value: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BinaryExpr:
    """Arithmetic ``+ - * /``, a comparison, or an operation on bits."""

    op: str
    left: Expr
    right: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Conditional:
    """``condition ? then : otherwise``, element by element."""

    condition: Expr
    then: Expr
    otherwise: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CallExpr:
    """A function applied to arguments; "~" of one is ``~x``."""

    function: Name
    arguments: tuple[Expr, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


#: One family of expressions: in indices, sizes and constraints the checker allows some of it.
Expr: TypeAlias = Number | Name | Negate | BinaryExpr | Conditional | CallExpr


@dataclass(frozen=True, slots=True)
class AccessExpr:
    """A tensor at indices: ``A[i, 2 * k]``."""

    tensor: Name
    indices: tuple[Expr, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class IndexConstraint:
    """``form < bound``, which means ``0 <= form < bound``."""

    form: Expr
    bound: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Assignment:
    """``Target = value;``: an element-wise operation, or arithmetic over dimensions."""

    target: Name
    value: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Contraction:
    """``Output[indices: sizes] = aggregation(inputs combined), constraints default D;``.

    Elements without an index set are those of `default`; 0 if that is None.
    """

    output: AccessExpr
    sizes: tuple[Expr, ...]
    aggregation: Aggregation
    combination: Combination
    inputs: tuple[AccessExpr, ...]
    constraints: tuple[IndexConstraint, ...] = ()
    default: Name | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def target(self) -> Name:
        """Name of the tensor it defines."""
        return self.output.tensor


Statement: TypeAlias = Assignment | Contraction


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor that the caller passes."""

    #: Its name.
    name: Name
    #: Each size in the header: a name, or arithmetic over names; None if the header gives no
    #: dimensions.
    dimensions: tuple[Expr, ...] | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def named(self) -> dict[int, Name]:
        """Dimensions that have a name, by position."""
        return {k: d for k, d in enumerate(self.dimensions or ()) if isinstance(d, Name)}


@dataclass(frozen=True, slots=True)
class Function:
    """A whole Tile function."""

    #: Its parts in order.
    inputs: tuple[Input, ...]
    outputs: tuple[Name, ...]
    statements: tuple[Statement, ...]
    #: The text that the spans of its nodes point into ("" if it was not read from one).
    source: str = field(default="", compare=False, repr=False)
    #: Name of the text in messages: a file's path, or "tile".
    name: str = field(default="tile", compare=False, repr=False)

    def __str__(self) -> str:
        from autotune.tile.syntax.unparser import to_code

        return to_code(self)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct operands of an expression."""
    match expr:
        case Negate(value):
            return (value,)
        case BinaryExpr(_, left, right):
            return (left, right)
        case Conditional(condition, then, otherwise):
            return (condition, then, otherwise)
        case CallExpr(_, arguments):
            return arguments
    return ()


def with_operands(expr: Expr, function: Callable[[Expr], Expr]) -> Expr:
    """Return an expression whose direct operands, from left to right, a function has replaced."""
    match expr:
        case Negate(value):
            return Negate(function(value))
        case BinaryExpr(op, left, right):
            return BinaryExpr(op, function(left), function(right))
        case Conditional(condition, then, otherwise):
            return Conditional(function(condition), function(then), function(otherwise))
        case CallExpr(name, arguments):
            return CallExpr(name, tuple(map(function, arguments)))
    return expr


def substituted(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Return an expression with some of its names replaced."""
    if isinstance(expr, Name):
        return values.get(expr.text, expr)
    return with_operands(expr, lambda operand: substituted(operand, values))


def names_in(expr: Expr) -> Iterator[Name]:
    """Names that an expression reads, from left to right."""
    if isinstance(expr, Name):
        yield expr
    for child in children(expr):
        yield from names_in(child)


def has_fraction(expr: Expr) -> bool:
    """Whether a number in an expression has a decimal point or an exponent."""
    own = isinstance(expr, Number) and isinstance(expr.value, float)
    return own or any(map(has_fraction, children(expr)))


def expressions(statement: Statement) -> tuple[Expr, ...]:
    """Every outermost expression of a statement, in the order of the text."""
    if isinstance(statement, Assignment):
        return (statement.value,)
    accessed = [index for access in statement.inputs for index in access.indices]
    constrained = [e for c in statement.constraints for e in (c.form, c.bound)]
    return (*statement.output.indices, *statement.sizes, *accessed, *constrained)
