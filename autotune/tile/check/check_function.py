"""Checks a Tile function without sizes: names, ranks, linearity, arity."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.errors import TileError
from autotune.system.words import counted
from autotune.tile.check.check_indices import check_dimension, check_index
from autotune.tile.check.check_values import check_value, random_is_no_tensor
from autotune.tile.check.dimension_arithmetic import index_form
from autotune.tile.check.scope import DIMENSION, Kind, Rank, Symbol, SymbolTable
from autotune.tile.check.size_inputs import in_sizes, size_inputs
from autotune.tile.index_sets.affine_forms import SizeNeeded, free_direction, is_index
from autotune.tile.syntax.error_locations import nearest, tile_error
from autotune.tile.syntax.syntax_tree import (
    AccessExpr,
    Assignment,
    Contraction,
    Function,
    Input,
    Name,
    Statement,
    has_fraction,
    names_in,
)
from autotune.tile.syntax.unparser import expr_code


def check(function: Function, ranks: Mapping[str, int] | None = None) -> dict[str, Symbol]:
    """Return the tensors and dimensions of a function by name, in order of definition.

    Parameters
    ----------
    ranks
        Those of inputs without dimensions in the header, as far as they are known.

    Raises
    ------
    TileError
        For the first mistake that does not depend on sizes.
    """
    checker = _Checker(function, ranks or {})
    for declared in sorted(function.inputs, key=lambda i: i.name.text not in checker.given):
        checker.input(declared)  # size inputs first: others may have them as dimensions
    for declared in function.inputs:
        checker.computed_sizes(declared)
    for statement in function.statements:
        checker.statement(statement)
    checker.outputs()
    return checker.scope.known()


def unbounded(function: Function, statement: Contraction, free: str) -> TileError:
    """Return the error for an unbounded index of a contraction."""
    first = next(n for n in _index_names(statement) if n.text == free)
    return tile_error(
        function, first.span,
        f"index {free} is not bounded: no index expression keeps it from growing",
        f"add a constraint, such as `, {free} < N`",
    )  # fmt: skip


def index_names(statement: Contraction) -> tuple[str, ...]:
    """Return the indices of a contraction: those of the output first, in order of mention."""
    return tuple(dict.fromkeys(name.text for name in _index_names(statement)))


def _index_names(statement: Contraction) -> list[Name]:
    forms = [*statement.output.indices, *(e for a in statement.inputs for e in a.indices)]
    forms += [c.form for c in statement.constraints]
    return [name for form in forms for name in names_in(form) if is_index(name.text)]


class _Checker:
    """Checks a function from its header to its last statement."""

    def __init__(self, function: Function, ranks: Mapping[str, int]) -> None:
        self.function = function
        self.ranks = ranks
        self.scope = SymbolTable(function)
        self.given = size_inputs(function)
        self.in_sizes = in_sizes(function)

    def input(self, declared: Input) -> None:
        if declared.name.text in self.given:
            self.scope.define(declared.name, "dimension", Rank())
            return
        rank = self.ranks.get(declared.name.text)
        if declared.dimensions is not None:
            rank = len(declared.dimensions)
        self.scope.define(declared.name, "tensor", None if rank is None else Rank(rank))
        for name in declared.named.values():
            known = self.scope.symbols.get(name.text)
            if known is None:
                self.scope.define(name, "dimension", Rank())
            elif known.kind == "tensor":
                raise self.scope.wrong(
                    name.span, f"{name.text} is a tensor and cannot be a dimension"
                )

    def computed_sizes(self, declared: Input) -> None:
        for expr in declared.dimensions or ():
            if not isinstance(expr, Name):
                check_dimension(self.scope, expr, "a size")

    def outputs(self) -> None:
        inputs = {i.name.text for i in self.function.inputs}
        seen: set[str] = set()
        for name in self.function.outputs:
            text = name.text
            if text in seen:
                raise self.scope.wrong(name.span, f"output {text} is listed twice")
            seen.add(text)
            if text in inputs:
                raise self.scope.wrong(
                    name.span,
                    f"{text} is an input and cannot be an output as well",
                    f"assign it to another name, as in {text}Copy = {text};",
                )
            if text not in self.scope.symbols:
                known = (s.name for s in self.scope.symbols.values() if s.kind != "random")
                raise self.scope.wrong(
                    name.span, f"output {text} is never assigned", nearest(text, known)
                )
            if self.scope.symbols[text].kind == "random":
                raise self.scope.wrong(
                    name.span,
                    f"output {text} is what prng_step gives, not a tensor",
                    f"give prng_value({text}) and prng_state({text}) names, and return these",
                )

    def statement(self, statement: Statement) -> None:
        if isinstance(statement, Contraction):
            self.contraction(statement)
            self.scope.define(statement.target, "tensor", Rank(len(statement.output.indices)))
        else:
            kind = self.assignment(statement)
            self.scope.define(statement.target, kind.what, kind.rank)

    def assignment(self, statement: Assignment) -> Kind:
        """Check the expression of an element-wise statement; a needed size must be arithmetic."""
        names = [self.scope.symbols.get(n.text) for n in names_in(statement.value)]
        whole = all(symbol is not None and symbol.kind == "dimension" for symbol in names)
        if whole and statement.target.text in self.in_sizes and not has_fraction(statement.value):
            check_dimension(self.scope, statement.value, "a size")
            return DIMENSION
        return check_value(self.scope, statement.value)

    def contraction(self, statement: Contraction) -> None:
        self.sizes(statement)
        for access in statement.inputs:
            self.access(access)
        if statement.default is not None:
            self.default(statement, statement.default)
        for index in statement.output.indices:
            check_index(self.scope, index)
        for constraint in statement.constraints:
            check_index(self.scope, constraint.form)
            check_dimension(self.scope, constraint.bound, "the bound of a constraint")
        self.bounded(statement)

    def sizes(self, statement: Contraction) -> None:
        indices, sizes = statement.output.indices, statement.sizes
        for size in sizes:
            check_dimension(self.scope, size, "a size")
        if len(indices) == len(sizes):
            return
        name = statement.target.text
        if not sizes:
            listed = ", ".join(map(expr_code, indices))
            guess = ", ".join(expr_code(i)[:1].upper() for i in indices)
            raise self.scope.wrong(
                statement.output.span,
                f"{name} has {counted(len(indices), 'index', 'indices')} but no sizes",
                f"its sizes stand after a colon: {name}[{listed}: {guess}]",
            )
        raise self.scope.wrong(
            statement.output.span,
            f"{name} has {counted(len(indices), 'index', 'indices')} and "
            f"{counted(len(sizes), 'size')}: there is one size for each index",
        )

    def default(self, statement: Contraction, name: Name) -> None:
        kind = self.scope.read_tensor(name)
        rank = len(statement.output.indices)
        if kind.what != "tensor":
            raise self.scope.wrong(
                name.span, f"{name.text} is a {kind.what}: the name after default must be a tensor"
            )
        if not self.scope.has_rank(name.text, rank):
            raise self.scope.wrong(
                name.span,
                f"{name.text} has {counted(kind.rank.least, 'dimension')}, "
                f"{statement.target.text} has {rank}",
                "the tensor after default has the shape of the result",
            )

    def access(self, access: AccessExpr) -> None:
        name, rank = access.tensor, len(access.indices)
        kind = self.scope.read_tensor(name)
        if kind.what == "dimension":
            raise self.scope.wrong(name.span, f"{name.text} is a dimension and has no elements")
        if kind.what == "random":
            raise random_is_no_tensor(self.scope, name)
        if not self.scope.has_rank(name.text, rank):
            raise self.scope.wrong(
                access.span,
                f"{name.text} has {counted(kind.rank.least, 'dimension')}, "
                f"got {counted(rank, 'index', 'indices')}",
            )
        for index in access.indices:
            check_index(self.scope, index)

    def bounded(self, statement: Contraction) -> None:
        """Raise an error for an unbounded index, if this is known without sizes."""
        indexed = (*statement.output.indices, *(e for a in statement.inputs for e in a.indices))
        try:
            forms = [index_form(self.function, e) for e in indexed]
            forms += [index_form(self.function, c.form) for c in statement.constraints]
        except SizeNeeded:
            return
        names = index_names(statement)
        free = free_direction(names, forms)
        if free is not None:
            raise unbounded(self.function, statement, free)
