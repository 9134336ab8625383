"""The names of a Tile function while it is checked: what each stands for, and what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from autotune.errors import TileError
from autotune.tile.affine import is_index
from autotune.tile.mistakes import mistake, nearest
from autotune.tile.syntax import Function, Name, Span


@dataclass(frozen=True, slots=True)
class Symbol:
    """What a name of a function stands for.

    Attributes
    ----------
    name
        The name.
    kind
        Whether it is a tensor or a dimension.
    rank
        How many dimensions a tensor has; None where the caller's arrays decide.
    span
        Where it is defined.
    """

    name: str
    kind: Literal["tensor", "dimension"]
    rank: int | None
    span: Span


#: What an expression is: arithmetic over dimensions, or a tensor of some rank.
Kind: TypeAlias = tuple[Literal["tensor", "dimension"], int | None]
DIMENSION: Final[Kind] = ("dimension", 0)


class Scope:
    """Names of a function as far as it has been read."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.symbols: dict[str, Symbol] = {}

    def wrong(self, span: Span, problem: str, advice: str = "") -> TileError:
        """Return the error that says what is wrong at a place of the function."""
        return mistake(self.function, span, problem, advice)

    def define(self, name: Name, kind: Literal["tensor", "dimension"], rank: int | None) -> None:
        """Add a name, which must be new and begin with a capital."""
        if is_index(name.text):
            raise self.wrong(
                name.span,
                f"{name.text} would be an index: a {kind} begins with a capital",
                f"call it {name.text[:1].upper()}{name.text[1:]}",
            )
        if name.text in self.symbols:
            before = self.symbols[name.text]
            line = self.function.source.count("\n", 0, before.span.start) + 1
            raise self.wrong(
                name.span,
                f"{name.text} is defined already, as a {before.kind} in line {line}",
                "what is defined is never modified: choose another name",
            )
        self.symbols[name.text] = Symbol(name.text, kind, rank, name.span)

    def read(self, name: Name) -> Kind:
        """Return what a name in an expression stands for."""
        symbol = self.symbols.get(name.text)
        if symbol is None:
            raise self.undefined(name)
        return symbol.kind, symbol.rank

    def undefined(self, name: Name, in_index: bool = False) -> TileError:
        """Return the error for a name that stands for nothing here."""
        if is_index(name.text):
            capital = name.text[:1].upper() + name.text[1:]
            return self.wrong(
                name.span,
                f"{name.text} is an index, which only means something in a contraction's brackets",
                f"did you mean {capital}?" if capital in self.symbols else
                "tensors and dimensions begin with a capital",
            )  # fmt: skip
        if any(s.target.text == name.text for s in self.function.statements):
            return self.wrong(name.span, f"{name.text} is used before it is assigned")
        advice = nearest(name.text, self.symbols)
        omitted = [i.name.text for i in self.function.inputs if i.dimensions is None]
        if not advice and in_index:
            advice = f"an index begins in lower case: {name.text[:1].lower()}{name.text[1:]}"
        elif not advice and omitted:
            advice = f"declare dimensions in the header: function ({omitted[0]}[{name.text}, ...])"
        elif not advice:
            advice = "declare it as a dimension of an input, or assign it first"
        return self.wrong(name.span, f"{name.text} is not defined", advice)

    def read_tensor(self, name: Name) -> Kind:
        """Return what a name with indices behind it stands for."""
        if is_index(name.text) and name.text not in self.symbols:
            capital = name.text[:1].upper() + name.text[1:]
            raise self.wrong(
                name.span,
                f"{name.text} begins in lower case, as only indices do",
                f"did you mean {capital}?" if capital in self.symbols else
                "tensors begin with a capital",
            )  # fmt: skip
        return self.read(name)
