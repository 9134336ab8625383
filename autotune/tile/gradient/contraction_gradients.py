"""Gradients of contractions and tensor functions, and the tape of all statements."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

from autotune.ir.name_supply import NameSupply
from autotune.tile.check.check_function import index_names
from autotune.tile.gradient.index_validity import Place, conditions, coordinates
from autotune.tile.gradient.symbolic_shapes import SHAPES, Extents, Shape
from autotune.tile.syntax.parser import expression
from autotune.tile.syntax.syntax_tree import (
    AccessExpr,
    Aggregation,
    Assignment,
    CallExpr,
    Combination,
    Contraction,
    Expr,
    Function,
    IndexConstraint,
    Name,
    Number,
    Statement,
    children,
    names_in,
)


class Tape:
    """The generated statements, and facts about the tensors that they define."""

    def __init__(self, names: NameSupply, active: set[str]) -> None:
        self.names = names
        #: Tensors with a derivative by one of the inputs.
        self.active = active
        self.extents = Extents()
        #: All statements, in an order in which they can be computed.
        self.statements: list[Statement] = []
        #: Sizes of the dimensions of every tensor.
        self.shapes: dict[str, Shape] = {}
        #: The terms of the gradient of a tensor, each of the tensor's shape.
        self.terms: dict[str, list[Expr]] = {}
        #: Tensors that are used only as a term of one gradient.
        self.parts: set[str] = set()
        #: Tensors that may be inlined into their reader.
        self.temporaries: set[str] = set()

    def temporary(self, stem: str) -> str:
        """Return a new name for a tensor that may be inlined."""
        name = self.names.numbered(stem)
        self.temporaries.add(name)
        return name

    def assign(self, name: str, value: Expr) -> Assignment:
        """Add an element-wise statement."""
        statement = Assignment(Name(name), value)
        self.shapes[name] = self.shape(value)
        self.statements.append(statement)
        return statement

    def contract(self, statement: Contraction) -> Name:
        """Add a contraction and return its target."""
        self.shapes[statement.target.text] = statement.sizes
        self.statements.append(statement)
        return statement.target

    def add(self, name: str, term: Expr) -> None:
        """Add a term to the gradient of a tensor."""
        self.terms.setdefault(name, []).append(term)

    def add_part(self, name: str, part: Name) -> None:
        """Add a tensor that was computed only for this gradient."""
        self.parts.add(part.text)
        self.add(name, part)

    def add_broadcast(self, name: str, result: str, term: Expr) -> None:
        """Add a term of the result's shape to the gradient of a broadcast operand."""
        own, shape = self.shapes[name], self.shapes[result]
        same = self.extents.same
        if len(own) == len(shape) and all(map(same, own, shape)):
            self.add(name, term)
            return
        if not isinstance(term, Name):
            text = self.temporary(f"Grad{name}")
            self.assign(text, term)
            term = Name(text)
        letters = (f"{c}{n or ''}" for n in itertools.count() for c in "ijklmnpq")
        indices = tuple(Name(c) for c, _ in zip(letters, shape, strict=False))
        aligned = zip(indices[len(shape) - len(own) :], own, shape[len(shape) - len(own) :],
                      strict=True)  # fmt: skip
        places = tuple(self.extents.position(i, n, size) for i, n, size in aligned)
        target = Name(self.names.numbered(f"Grad{name}"))
        reads = (AccessExpr(term, indices),)
        made = Contraction(AccessExpr(target, places), own, "+", "", reads)
        self.add_part(name, self.contract(made))

    def has_tensors(self, expr: Expr) -> bool:
        """Whether an expression reads a tensor; else it is a number."""
        return any(name.text in self.shapes for name in names_in(expr))

    def shape(self, expr: Expr) -> Shape:
        """Return the shape of an element-wise expression."""
        match expr:
            case Name(text):
                return self.shapes.get(text, ())
            case CallExpr(Name(function), arguments) if function in SHAPES:
                return SHAPES[function](self.shape, arguments)
        return self.extents.broadcast(map(self.shape, children(expr)))


class Contractions:
    """Gradients of contractions, which are contractions over the same valid index sets."""

    def __init__(self, function: Function, tape: Tape) -> None:
        self.function = function
        self.tape = tape
        self.one: Name | None = None

    # -- forwards ------------------------------------------------------------------------------

    def simple(self, statement: Contraction) -> list[Contraction]:
        """Return a contraction in a form that `pull_back` supports.

        ``*``, ``>`` and ``<`` of several tensors become two contractions: the combined value of
        each valid index set, in a tensor with an element for each, and the aggregation.
        """
        tape, target = self.tape, statement.target.text
        tape.shapes[target] = statement.sizes
        default = statement.default
        if default is not None and default.text in tape.active:
            tape.active.add(target)
        if not any(access.tensor.text in tape.active for access in _valued(statement)):
            return [statement]
        tape.active.add(target)
        if statement.combination == "" or statement.aggregation in "+=":
            return [statement]
        output = self.places(statement.output)
        inputs = [place for access in statement.inputs for place in self.places(access)]
        at = coordinates(self.function, statement, [*output, *inputs])
        name = tape.names.unused(f"{target}_values")
        tape.active.add(name)
        tape.shapes[name] = tuple(place.size for place in at)
        values = AccessExpr(Name(name), tuple(place.form for place in at))
        combined = replace(
            statement,
            output=values,
            sizes=tape.shapes[name],
            aggregation="=",
            constraints=self.constraints(statement, output, [*at, *inputs]),
            default=None,
        )
        aggregated = replace(
            statement,
            combination="",
            inputs=(values,),
            constraints=self.constraints(statement, inputs, [*at, *output]),
        )
        return [combined, aggregated]

    def places(self, access: AccessExpr) -> list[Place]:
        """Return the index expressions of an access with their sizes."""
        sizes = self.tape.shapes[access.tensor.text]
        return [Place(form, size) for form, size in zip(access.indices, sizes, strict=True)]

    def constraints(
        self, statement: Contraction, wanted: Iterable[Place], present: Iterable[Place]
    ) -> tuple[IndexConstraint, ...]:
        """Return a contraction's constraints and those for removed index expressions."""
        there = set(present)
        missing = [place for place in wanted if place not in there]
        return (*statement.constraints, *conditions(missing, index_names(statement)))

    # -- backwards -----------------------------------------------------------------------------

    def pull_back(self, statement: Contraction, g: Name) -> None:
        """Add to the gradients of a contraction's inputs, given that of its output."""
        reads, at = statement.inputs, statement.output.indices
        if statement.default is not None and statement.default.text in self.tape.active:
            self.tape.add(statement.default.text, self.unwritten(statement, g))
        if not any(access.tensor.text in self.tape.active for access in _valued(statement)):
            return
        if statement.aggregation in "><":
            shared = self.shared(statement, g)
            extreme = AccessExpr(statement.target, at)
            self.into(statement, reads[0], "?", reads[0], extreme, AccessExpr(shared, at))
        elif statement.aggregation == "*":
            self.product(statement, g)
        elif statement.combination == "?":
            self.into(statement, reads[2], "?", *reads[:2], AccessExpr(g, at))
        else:
            for k, read in enumerate(reads):
                others = reads[:k] + reads[k + 1 :]
                if statement.combination == "*":
                    self.into(statement, read, "*", AccessExpr(g, at), *others)
                else:
                    self.into(statement, read, "", AccessExpr(g, at), dropped=others)

    def unwritten(self, statement: Contraction, g: Name) -> Name:
        """Return a gradient for the elements that a contraction does not write, else 0."""
        name = statement.target.text
        none = self.tape.names.unused(f"{name}_none")
        self.tape.assign(none, expression("1 < 0"))  # a condition: the type is the gradient's
        output = AccessExpr(
            Name(self.tape.names.unused(f"Grad{name}_rest")), statement.output.indices
        )
        wanted = [place for access in statement.inputs for place in self.places(access)]
        constraints = self.constraints(statement, wanted, self.places(statement.output))
        made = replace(
            statement, output=output, aggregation=">", combination="",
            inputs=(AccessExpr(Name(none), ()),), constraints=constraints, default=g,
        )  # fmt: skip
        return self.tape.contract(made)

    def into(
        self,
        statement: Contraction,
        read: AccessExpr,
        combination: Combination,
        *inputs: AccessExpr,
        dropped: tuple[AccessExpr, ...] = (),
    ) -> None:
        """Sum over a contraction's index sets into the gradient of an input."""
        if read.tensor.text in self.tape.active:
            part = self.sum(statement, read, combination, *inputs, dropped=dropped)
            self.tape.add_part(read.tensor.text, part)

    def sum(
        self,
        statement: Contraction,
        read: AccessExpr,
        combination: Combination,
        *inputs: AccessExpr,
        dropped: tuple[AccessExpr, ...] = (),
    ) -> Name:
        """Sum over a contraction's index sets at the elements that it reads."""
        target = AccessExpr(Name(self.tape.names.numbered(f"Grad{read.tensor.text}")), read.indices)
        wanted = [place for access in dropped for place in self.places(access)]
        present = [place for access in (read, *inputs) for place in self.places(access)]
        constraints = self.constraints(statement, wanted, present)
        sizes = self.tape.shapes[read.tensor.text]
        made = Contraction(target, sizes, "+", combination, inputs, constraints)
        return self.tape.contract(made)

    def gathered(
        self,
        statement: Contraction,
        name: str,
        combination: Combination,
        *inputs: AccessExpr,
        aggregation: Aggregation = "+",
    ) -> Name:
        """Aggregate other values over a contraction's index sets at the elements that it writes."""
        output = AccessExpr(Name(self.tape.names.unused(name)), statement.output.indices)
        made = replace(
            statement, output=output, aggregation=aggregation, combination=combination,
            inputs=inputs, default=None,
        )  # fmt: skip
        return self.tape.contract(made)

    def shared(self, statement: Contraction, g: Name) -> Name:
        """Return the gradient of a maximum or minimum divided by its number of ties."""
        read, name = statement.inputs[0], statement.target.text
        if self.one is None:
            # An integer, so that the count does not widen half floats.
            self.one = self.tape.assign(
                self.tape.names.unused("One"), expression("as_int(1, 32)")
            ).target
        extreme = AccessExpr(statement.target, statement.output.indices)
        ties = self.gathered(
            statement, f"{name}_ties", "?", read, extreme, AccessExpr(self.one, ())
        )
        share = self.tape.names.unused(f"Grad{name}_share")
        self.tape.assign(share, expression("G / Ties", G=g, Ties=ties))
        return Name(share)

    def product(self, statement: Contraction, g: Name) -> None:
        """Differentiate a product: the derivative by a factor is the product of all others.

        This is the product of the factors that are not 0, divided by this factor if it is not 0,
        times the other factors that are 0. If one other factor is 0, it is the sum of all factors
        that are 0. That sum is 0, but its gradient is not, so second derivatives are right at
        zeros, too. If two or more others are 0, the first and second derivatives are 0.
        """
        tape, read, name = self.tape, statement.inputs[0], statement.target.text
        tensor = read.tensor.text

        def apart(what: str, value: Expr) -> Name:
            part = Name(tape.names.unused(what))
            tape.assign(part.text, value)
            return part

        zero = apart(f"{tensor}_zero", expression("X == 0", X=read.tensor))
        filled = apart(f"{tensor}_filled", expression("Zero ? 1 : X", Zero=zero, X=read.tensor))
        null = apart(f"{tensor}_null", expression("Zero ? X : 0", Zero=zero, X=read.tensor))
        zeros = self.gathered(statement, f"{name}_zeros", "", replace(read, tensor=zero))
        nulls = self.gathered(statement, f"{name}_nulls", "", replace(read, tensor=null))
        others = self.gathered(
            statement, f"{name}_others", "", replace(read, tensor=filled), aggregation="*"
        )
        whole = apart(f"Grad{name}_others", expression("G * O", G=g, O=others))
        texts = (
            "Zeros == 0 ? Whole : (Zeros == 1 ? Whole * Nulls : 0)",
            "Zeros == 1 ? Whole : (Zeros == 2 ? Whole * Nulls : 0)",
            "Zeros == 2 ? Whole : 0",
        )
        sums = []
        for count, text in enumerate(texts):
            value = expression(text, Zeros=zeros, Whole=whole, Nulls=nulls)
            part = apart(f"Grad{name}_{count}", value)
            sums.append(self.sum(statement, read, "", AccessExpr(part, statement.output.indices)))
        given = {"Zero": zero, "X": read.tensor, "Filled": filled}
        given |= {f"Sum{count}": total for count, total in enumerate(sums)}
        tape.add(tensor, expression("Zero ? Sum1 - X * Sum2 : Sum0 / Filled", **given))


def _valued(statement: Contraction) -> tuple[AccessExpr, ...]:
    """Return the tensors with the values of a contraction; others are only compared."""
    compared = {"?": 2, "==": 2}.get(statement.combination, 0)
    return statement.inputs[compared:]


def pulled_back(tape: Tape, call: CallExpr, result: Name, gradient: Name) -> Expr:
    """Return the contribution of a call of a function in `OF_FIRST` to its operand's gradient.

    `tape`: collects the new statements.
    `call`: the function, of names and sizes.
    `result`, `gradient`: names of its value, and of the gradient of that.

    The result has the operand's shape.
    """
    function, operand = call.function.text, call.arguments[0]
    assert isinstance(operand, Name)
    sizes = tape.shapes[operand.text]
    if function == "gather":
        return CallExpr(Name("scatter"), (gradient, call.arguments[1], operand))
    if function == "scatter":
        return CallExpr(Name("gather"), (gradient, call.arguments[1]))
    term: Expr = gradient
    if function == "builtin_softmax":
        product = expression("G * Y", G=gradient, Y=result)
        weighted = tape.assign(tape.temporary(result.text), product).target
        inside = _row_sums(tape, weighted, call)
        term = expression("W - S * Y", W=weighted, S=inside, Y=result)
    elif function == "builtin_logsoftmax":
        inside = _row_sums(tape, gradient, call)
        term = expression("G - S * exp(Y)", G=gradient, S=inside, Y=result)
    same = len(sizes) == len(call.arguments) - 1
    if same and all(map(tape.extents.same, sizes, call.arguments[1:])):
        return term
    if not isinstance(term, Name):
        term = tape.assign(tape.temporary(result.text), term).target
    return CallExpr(Name("reshape"), (term, *sizes))


def _row_sums(tape: Tape, tensor: Name, call: CallExpr) -> Name:
    """Return the sums of the rows that a softmax is of."""
    rows = call.arguments[1]
    i, j = Name("i"), Name("j")
    target = AccessExpr(Name(tape.names.numbered(f"{tensor.text}_sum")), (i, Number(0)))
    read = AccessExpr(tensor, (i, j))
    return tape.contract(Contraction(target, (rows, Number(1)), "+", "", (read,)))
