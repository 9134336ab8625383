"""Derivatives of Tile functions by reverse mode: a function in, another Tile function out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.ir.name_supply import NameSupply
from autotune.system.words import counted
from autotune.tile.check.check_function import check
from autotune.tile.check.scope import Symbol
from autotune.tile.check.size_inputs import size_inputs
from autotune.tile.gradient.cleanup_generated import cleaned_up
from autotune.tile.gradient.contraction_gradients import Contractions, Tape, pulled_back
from autotune.tile.gradient.partial_derivatives import OF_FIRST, differentiable, partial
from autotune.tile.syntax.error_locations import nearest, tile_error, unknown
from autotune.tile.syntax.parser import expression, parse
from autotune.tile.syntax.syntax_tree import (
    Assignment,
    BinaryExpr,
    CallExpr,
    Contraction,
    Expr,
    Function,
    Input,
    Name,
    Negate,
    Number,
    Statement,
    children,
    expressions,
    with_operands,
)
from autotune.tile.syntax.unparser import to_code

#: Largest number of terms in one statement, to limit the nesting of expressions.
_TERMS: Final = 16


def gradient(
    function: Function,
    wrt: Sequence[str] | None = None,
    *,
    dtypes_of: Mapping[str, str] | None = None,
    ranks: Mapping[str, int] | None = None,
) -> Function:
    """Return the Tile function that computes gradients of a Tile function.

    Parameters
    ----------
    function
        What `parse` returned.
    wrt
        Names of the inputs to differentiate by; None for all floats.
    dtypes_of
        Data types of inputs by name; float32 where none is given. The result is the same for all
        float types.
    ranks
        Ranks of inputs without dimensions in the header, by name.

    Returns
    -------
    Function
        Its inputs are those of `function` and then, for each output O, the gradient GradO of the
        final result by O, in O's shape. Its outputs are GradX for each X of `wrt`.

    Raises
    ------
    TileError
        For all errors of `check`, for integers in `wrt`, and for inputs with an unknown rank.
    UsageError
        If `wrt` names no inputs, or one twice, or `ranks` or `dtypes_of` do not fit the function.

    Notes
    -----
    If a maximum or minimum has ties, they share its gradient evenly. Derivatives of products are
    right at zeros. Conversions to integers, comparisons, `index`, `ceil`, `floor` and `round` have
    the gradient 0.
    """
    given = _wrt(function, wrt, dtypes_of or {})
    symbols = check(function)
    names = NameSupply(symbols)
    known = _ranks(function, symbols, ranks or {})
    sizes = size_inputs(function)
    inputs = [
        i if i.name.text in sizes else _with_dimensions(function, i, known[i.name.text], names)
        for i in function.inputs
    ]
    symbols = check(replace(function, inputs=tuple(inputs)))  # the ranks fit together
    reverse = _Reverse(function, inputs, given, names)
    for statement in function.statements:
        if symbols[statement.target.text].kind == "dimension":
            reverse.dimension(statement)
        else:
            reverse.forward(statement)
    result = reverse.backward(given)
    # Parsed again, so that later messages can point into its text.
    return parse(to_code(result), f"gradient of {function.name}")


def _wrt(
    function: Function, wrt: Sequence[str] | None, dtypes_of: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the inputs to differentiate by, in the requested order."""
    inputs = {i.name.text: i for i in function.inputs}
    for name in dtypes_of:
        if name not in inputs:
            raise unknown(function, "input", name, inputs)
    floats = {n for n in inputs if dtypes.is_float(dtypes.check(dtypes_of.get(n, "float32")))}
    sizes = size_inputs(function)
    floats -= {*sizes, *(_whole_numbers(function) - dtypes_of.keys() if wrt is None else ())}
    asked = tuple(n for n in inputs if n in floats) if wrt is None else tuple(wrt)
    if wrt is None and not asked:
        raise UsageError(f"{function.name} has no input of floats to differentiate by")
    for name in asked:
        if name not in inputs:
            there = nearest(name, inputs) or f"there are {', '.join(inputs) or 'none'}"
            raise UsageError(f"{function.name} has no input {name} to differentiate by; {there}")
        if name in sizes:
            raise tile_error(
                function, inputs[name].span,
                f"{name} is a size: there are derivatives by tensors only",
                f"leave {name} out of wrt",
            )  # fmt: skip
        if name not in floats:
            raise tile_error(
                function, inputs[name].span,
                f"{name} is of type {dtypes_of[name]}: there are derivatives by floats only",
                f"leave {name} out of wrt, or call the function with floats",
            )  # fmt: skip
    if len(set(asked)) != len(asked) or not asked:
        raise UsageError(f"{function.name}: wrt lists one or several inputs, each once")
    return asked


def _whole_numbers(function: Function) -> set[str]:
    """Return inputs that can only be integers: numbers of rows, and states of random numbers."""
    places = {"gather": 1, "scatter": 1, "prng_step": 0}
    found = set()
    for statement in function.statements:
        pending = list(expressions(statement))
        while pending:
            expr = pending.pop()
            pending += children(expr)
            if isinstance(expr, CallExpr) and expr.function.text in places:
                argument = expr.arguments[places[expr.function.text]]
                found |= {argument.text} if isinstance(argument, Name) else set()
    return found


def _ranks(
    function: Function, symbols: Mapping[str, Symbol], given: Mapping[str, int]
) -> dict[str, int | None]:
    """Return the rank of each input; None if neither code nor caller gives it."""
    found = {i.name.text: symbols[i.name.text].rank for i in function.inputs}
    for name, rank in given.items():
        if name not in found:
            there = nearest(name, found) or f"there are {', '.join(found) or 'none'}"
            raise UsageError(f"{function.name} has no input {name} whose rank to give; {there}")
        known = found[name]
        if known not in (None, rank):
            raise UsageError(
                f"{function.name}: {name} has {counted(known, 'dimension')} by its code, not {rank}"
            )
        found[name] = rank
    return found


def _with_dimensions(
    function: Function, declared: Input, rank: int | None, names: NameSupply
) -> Input:
    """Return an input with a name for each dimension."""
    if declared.dimensions is not None:
        return declared
    text = declared.name.text
    if rank is None:
        raise tile_error(
            function, declared.span,
            f"how many dimensions {text} has is not known, and its gradient depends on it",
            f"write them in the header, as in {text}[M, N], or give its rank, as in {text}=2",
        )  # fmt: skip
    return Input(declared.name, tuple(Name(names.unused(f"{text}{k}")) for k in range(rank)))


class _Reverse:
    """Processes a function forwards and backwards.

    Forwards, every statement that depends on the inputs is split into single operations on names.
    Backwards, each operation adds to the gradients of its operands.
    """

    def __init__(
        self, function: Function, inputs: list[Input], wrt: Sequence[str], names: NameSupply
    ) -> None:
        self.function = function
        self.inputs = inputs
        self.tape = Tape(names, set(wrt))
        self.contractions = Contractions(function, self.tape)
        self.operations: list[Statement] = []
        sizes = size_inputs(function)
        for declared in inputs:
            if declared.name.text not in sizes:
                self.tape.shapes[declared.name.text] = declared.dimensions or ()

    # -- forwards ------------------------------------------------------------------------------

    def dimension(self, statement: Statement) -> None:
        assert isinstance(statement, Assignment)
        self.tape.extents.define(statement.target.text, statement.value)
        self.tape.statements.append(statement)

    def forward(self, statement: Statement) -> None:
        tape, name = self.tape, statement.target.text
        if isinstance(statement, Contraction):
            for part in self.contractions.simple(statement):
                self.operations.append(part)
                tape.statements.append(part)
            return
        if not self.active(statement.value):
            tape.assign(name, statement.value)
            return
        self.operation(name, self.flat(name, statement.value))

    def active(self, expr: Expr) -> bool:
        """Whether an expression has a derivative by one of the inputs."""
        if isinstance(expr, Name):
            return expr.text in self.tape.active
        return any(map(self.active, differentiable(expr)))

    def operation(self, name: str, value: Expr) -> None:
        """Add a statement of one operation; it may have a derivative."""
        statement = self.tape.assign(name, value)
        if self.active(value):
            self.tape.active.add(name)
            self.operations.append(statement)

    def flat(self, name: str, expr: Expr) -> Expr:
        """Return an operation on names and numbers; other operands get names."""

        def part(child: Expr) -> Expr:
            if isinstance(child, Name) or not self.tape.has_tensors(child):
                return child
            text = self.tape.temporary(name)
            if self.active(child):
                self.operation(text, self.flat(name, child))
            else:
                self.tape.assign(text, child)
            return Name(text)

        return with_operands(expr, part)

    # -- backwards -----------------------------------------------------------------------------

    def backward(self, wrt: Sequence[str]) -> Function:
        tape = self.tape
        seeds = [self.seed(output) for output in self.function.outputs]
        results = {name: tape.names.unused(f"Grad{name}") for name in wrt}
        for statement in reversed(self.operations):
            name = statement.target.text
            if tape.terms.get(name):
                g = self.total(name)
                if isinstance(statement, Contraction):
                    self.contractions.pull_back(statement, g)
                else:
                    self.pull_back(statement, g)
        for name, result in results.items():
            # Else zeros of the tensor's shape and type, whatever its elements are.
            zeros = expression("X < X ? X : 0", X=Name(name))
            value = self.summed(name) if tape.terms.get(name) else zeros
            tape.assign(result, value)
        outputs = tuple(map(Name, results.values()))
        function = Function((*self.inputs, *seeds), outputs, tuple(tape.statements))
        return cleaned_up(function, tape.names.made, tape.temporaries)

    def seed(self, output: Name) -> Input:
        """Return the input for the gradient of an output."""
        tape, name = self.tape, self.tape.names.unused(f"Grad{output.text}")
        tape.shapes[name] = tape.shapes.get(output.text, ())  # none of a dimension
        if output.text in tape.active:
            tape.add(output.text, Name(name))
        dimensions = tuple(
            tape.extents.written_out(size) or Name(tape.names.unused(f"{output.text}{k}"))
            for k, size in enumerate(tape.shapes[name])
        )
        return Input(Name(name), dimensions)

    def total(self, name: str) -> Name:
        """Return the complete gradient of a tensor."""
        value = self.summed(name)
        if isinstance(value, Name) and value.text not in self.tape.parts:
            return value
        text = self.tape.names.unused(f"Grad{name}")
        if name in self.tape.temporaries:
            self.tape.temporaries.add(text)
        self.tape.assign(text, value)
        return Name(text)

    def summed(self, name: str) -> Expr:
        """Return the sum of the terms of a gradient."""
        counts: dict[Expr, int] = {}
        for term in self.tape.terms[name]:
            counts[term] = counts.get(term, 0) + 1
        terms = [t if n == 1 else BinaryExpr("*", Number(n), t) for t, n in counts.items()]
        while len(terms) > _TERMS:
            text = self.tape.temporary(f"Grad{name}")
            self.tape.assign(text, _sum(terms[:_TERMS]))
            terms = [Name(text), *terms[_TERMS:]]
        return _sum(terms)

    def pull_back(self, statement: Assignment, g: Name) -> None:
        value, result = statement.value, statement.target
        if isinstance(value, Name):
            self.tape.add(value.text, g)
            return
        if isinstance(value, CallExpr) and value.function.text in OF_FIRST:
            operand = value.arguments[0]
            assert isinstance(operand, Name)
            self.tape.add(operand.text, pulled_back(self.tape, value, result, g))
            return
        for position, operand in enumerate(differentiable(value)):
            if isinstance(operand, Name) and operand.text in self.tape.active:
                self.tape.add_broadcast(
                    operand.text, result.text, partial(value, position, result, g)
                )


def _sum(terms: Sequence[Expr]) -> Expr:
    result = terms[0]
    for term in terms[1:]:
        if isinstance(term, Negate):
            result = BinaryExpr("-", result, term.value)
        else:
            result = BinaryExpr("+", result, term)
    return result
