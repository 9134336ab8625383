"""The names of a Tile function during checking: their kinds and ranks, and errors of names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from autotune.errors import TileError
from autotune.tile.index_sets.affine_forms import is_index
from autotune.tile.syntax.error_locations import nearest, tile_error
from autotune.tile.syntax.syntax_tree import Function, Name, Span

#: Kinds of names; "random" is the result of `prng_step`.
What: TypeAlias = Literal["tensor", "dimension", "random"]


@dataclass(frozen=True, slots=True)
class Rank:
    """The rank of a tensor: `least`, or the rank of one of `unknown` if it is larger.

    `unknown` are names of inputs that the header gives no dimensions.
    """

    least: int = 0
    unknown: frozenset[str] = frozenset()

    @property
    def known(self) -> int | None:
        """The number, if it is known."""
        return None if self.unknown else self.least


def broadcast(ranks: Iterable[Rank]) -> Rank:
    """Return the rank of operands together."""
    own = list(ranks)
    unknown = frozenset().union(*(rank.unknown for rank in own))
    return Rank(max((rank.least for rank in own), default=0), unknown)


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of an expression: arithmetic over dimensions, or a tensor of some rank."""

    what: What
    rank: Rank = Rank()


DIMENSION: Final = Kind("dimension")


@dataclass(frozen=True, slots=True)
class Symbol:
    """The meaning of a name of a function."""

    #: The name.
    name: str
    #: Whether it is a tensor or a dimension (also an input that is a size), or "random", the result
    #: of `prng_step`.
    kind: What
    #: Rank of a tensor; None if it depends on the caller's arrays.
    rank: int | None
    #: Place of its definition.
    span: Span


class SymbolTable:
    """Names of the checked part of a function."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.symbols: dict[str, Symbol] = {}
        self._ranks: dict[str, Rank] = {}
        self._found: dict[str, int] = {}

    def known(self) -> dict[str, Symbol]:
        """Return all names with their present symbols."""
        return {n: replace(s, rank=self.rank(n).known) for n, s in self.symbols.items()}

    def wrong(self, span: Span, problem: str, advice: str = "") -> TileError:
        """Return an error at a place of the function."""
        return tile_error(self.function, span, problem, advice)

    def define(self, name: Name, kind: What, rank: Rank | None = None) -> None:
        """Add a name, which must be new and begin with a capital; a rank of None is unknown."""
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
        own = Rank(0, frozenset([name.text])) if rank is None else rank
        self.symbols[name.text] = Symbol(name.text, kind, None, name.span)
        self._ranks[name.text] = own

    def rank(self, name: str) -> Rank:
        """Return the rank of a tensor, as far as it is known now."""
        own = self._ranks[name]
        least = max((self._found[n] for n in own.unknown if n in self._found), default=0)
        return Rank(max(own.least, least), own.unknown - self._found.keys())

    def has_rank(self, name: str, rank: int) -> bool:
        """Set the rank of a tensor; return False if it contradicts the known rank.

        If the rank is that of a single unknown input, the input's rank is then known, too.
        """
        own = self.rank(name)
        if own.unknown and own.least <= rank:
            if own.unknown == {name} or (len(own.unknown) == 1 and own.least < rank):
                (source,) = own.unknown
                self._found[source] = rank
            self._ranks[name] = own = Rank(rank)
        return own == Rank(rank)

    def read(self, name: Name) -> Kind:
        """Return the symbol of a name in an expression."""
        symbol = self.symbols.get(name.text)
        if symbol is None:
            raise self.undefined(name)
        return Kind(symbol.kind, self.rank(name.text))

    def undefined(self, name: Name, in_index: bool = False) -> TileError:
        """Return the error for an undefined name."""
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
        """Return the symbol of a name with indices."""
        if is_index(name.text) and name.text not in self.symbols:
            capital = name.text[:1].upper() + name.text[1:]
            raise self.wrong(
                name.span,
                f"{name.text} begins in lower case, as only indices do",
                f"did you mean {capital}?" if capital in self.symbols else
                "tensors begin with a capital",
            )  # fmt: skip
        return self.read(name)
