"""Binds a Tile function to the shapes and types of its inputs: everything becomes concrete."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from autotune.errors import TileError, UsageError
from autotune.ir import dtypes
from autotune.tile.affine import Affine
from autotune.tile.check import check, index_names, unbounded
from autotune.tile.conditions import Range
from autotune.tile.dimensions import dimension, index_form
from autotune.tile.indexsets import EntangledError, IndexSet
from autotune.tile.mistakes import counted, mistake, unknown
from autotune.tile.printer import expr_code
from autotune.tile.program import Contract, Elementwise, Program, Read, Step, TensorType, needed
from autotune.tile.scope import Symbol
from autotune.tile.syntax import (
    Access,
    Assignment,
    Contraction,
    Expr,
    Function,
    Input,
    Name,
    Number,
    Span,
    names_in,
)
from autotune.tile.typed import arithmetic, typed

#: Tensors with more elements than this are refused.
MAX_ELEMENTS: Final = 2**40


def bind(
    function: Function,
    shapes: Mapping[str, Sequence[int]],
    dtypes_of: Mapping[str, str] | None = None,
) -> Program:
    """Return a function with all sizes and types known.

    Parameters
    ----------
    function
        What `parse` returned.
    shapes
        Shape of every input by name.
    dtypes_of
        Data type of inputs by name; float32 where none is given.

    Raises
    ------
    TileError
        For whatever `check` refuses, and for shapes that disagree with the header or each other,
        sizes below 1, indices without bounds, and ``=`` that writes one place twice.
    UsageError
        For shapes or types of inputs that the function does not have.
    """
    inputs = {i.name.text for i in function.inputs}
    for name in (*shapes, *(dtypes_of or ())):
        if name not in inputs:
            raise unknown(function, "input", name, inputs)
    binder = _Binder(function, check(function))
    for declared in function.inputs:
        name = declared.name.text
        if name not in shapes:
            raise mistake(function, declared.span, f"the shape of input {name} is not known")
        dtype = (dtypes_of or {}).get(name, "float32")
        binder.input(declared, tuple(int(n) for n in shapes[name]), dtypes.check(dtype))
    for declared in function.inputs:
        binder.computed_sizes(declared)
    steps = [step for s in function.statements if (step := binder.step(s)) is not None]
    outputs = tuple(o.text for o in function.outputs)
    return Program(
        function,
        tuple(i.name.text for i in function.inputs),
        outputs,
        binder.sizes,
        binder.types,
        needed(steps, outputs),
    )


def shapes_of(
    function: Function,
    sizes: Mapping[str, int],
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, tuple[int, ...]]:
    """Return the shape of every input, given the sizes of the dimensions in the header.

    Parameters
    ----------
    sizes
        Value of each dimension that the header names.
    shapes
        Shapes of the inputs without dimensions; others may be given instead of their sizes.

    Raises
    ------
    UsageError
        If something is missing, or given that the function does not have.
    """
    given = {name: tuple(shape) for name, shape in (shapes or {}).items()}
    declared = {d.text for i in function.inputs for d in i.named.values()}
    inputs = {i.name.text for i in function.inputs}
    for what, asked, known in (("dimension", sizes, declared), ("input", given, inputs)):
        for name in asked:
            if name not in known:
                raise unknown(function, what, name, known)
    found = {}
    for i in function.inputs:
        name = i.name.text
        if name in given:
            found[name] = given[name]
        elif i.dimensions is None:
            raise UsageError(
                f"{function.name}: the shape of input {name} is needed, which has no dimensions "
                f"in the header"
            )
        else:
            named = [n.text for d in i.dimensions for n in names_in(d)]
            missing = [text for text in named if text not in sizes]
            if missing:
                raise UsageError(
                    f"{function.name}: the size of dimension {missing[0]} of input {name} is needed"
                )
            found[name] = tuple(dimension(function, d, sizes) for d in i.dimensions)
    return found


class _Binder:
    """Sizes and types as far as the function has been bound."""

    def __init__(self, function: Function, symbols: Mapping[str, Symbol]) -> None:
        self.function = function
        self.symbols = symbols
        self.sizes: dict[str, int] = {}
        self.types: dict[str, TensorType] = {}
        self.given: dict[str, str] = {}

    def wrong(self, span: Span, problem: str, advice: str = "") -> TileError:
        return mistake(self.function, span, problem, advice)

    def input(self, declared: Input, shape: tuple[int, ...], dtype: str) -> None:
        name = declared.name.text
        for axis, size in enumerate(shape):
            if size < 1:
                raise self.wrong(
                    declared.span, f"dimension {axis} of {name} is {size}: sizes are at least 1"
                )
        self.types[name] = TensorType(shape, dtype)
        if declared.dimensions is None:
            return
        if len(shape) != len(declared.dimensions):
            raise self.wrong(
                declared.span,
                f"{name} has {counted(len(declared.dimensions), 'dimension')} here, "
                f"the array has {len(shape)}: shape {list(shape)}",
            )
        for axis, dim in declared.named.items():
            self.size(dim, shape[axis], f"dimension {axis} of {name}")

    def computed_sizes(self, declared: Input) -> None:
        """Refuse an input whose size is not what the header computes."""
        name = declared.name.text
        for axis, expr in enumerate(declared.dimensions or ()):
            size = self.types[name].shape[axis]
            said = size if isinstance(expr, Name) else dimension(self.function, expr, self.sizes)
            if said != size:
                code = expr_code(expr)
                wanted = code if isinstance(expr, Number) else f"{code} = {said}"
                raise self.wrong(expr.span, f"dimension {axis} of {name} is {size}, not {wanted}")

    def size(self, dim: Name, size: int, where: str) -> None:
        known = self.sizes.setdefault(dim.text, size)
        if known != size:
            raise self.wrong(
                dim.span,
                f"{dim.text} is {known} as {self.given[dim.text]}, but {size} as {where}",
                "dimensions of one name have one size",
            )
        self.given.setdefault(dim.text, where)

    def step(self, statement: Assignment | Contraction) -> Step | None:
        name = statement.target.text
        if isinstance(statement, Contraction):
            contract = self.contract(statement)
            self.types[name] = contract.type
            return contract
        if self.symbols[name].kind == "dimension":
            self.sizes[name] = dimension(self.function, statement.value, self.sizes)
            return None
        value = typed(self.function, statement.value, self.sizes, self.types)
        self.elements(statement.target.span, name, value.type.shape)
        self.types[name] = value.type
        return Elementwise(name, value.type, value)

    def elements(self, span: Span, name: str, shape: tuple[int, ...]) -> None:
        if math.prod(shape) > MAX_ELEMENTS:
            raise self.wrong(span, f"{name} would have {math.prod(shape)} elements")

    # -- contractions --------------------------------------------------------------------------

    def contract(self, statement: Contraction) -> Contract:
        name = statement.target.text
        shape = tuple(self.extent(name, k, e) for k, e in enumerate(statement.sizes))
        self.elements(statement.target.span, name, shape)
        output = self.forms(statement.output)
        reads = tuple(Read(a.tensor.text, self.forms(a)) for a in statement.inputs)
        domain = self.domain(statement, output, shape, reads)
        value, compared = self.value_types(statement)
        contract = Contract(
            name=name,
            type=TensorType(shape, value),
            aggregation=statement.aggregation,
            combination=statement.combination,
            indices=domain.names,
            output=output,
            reads=reads,
            domain=domain,
            value_dtype=value,
            compared_dtype=compared,
            accumulator=dtypes.accumulator(value) if statement.aggregation in "+*" else value,
            statement=statement,
        )
        if statement.aggregation == "=":
            self.written_once(statement, contract)
        return contract

    def extent(self, name: str, axis: int, expr: Expr) -> int:
        size = dimension(self.function, expr, self.sizes)
        if size < 1:
            raise self.wrong(
                expr.span,
                f"dimension {axis} of {name} would be {expr_code(expr)} = {size}: "
                f"sizes are at least 1",
            )
        return size

    def forms(self, access: Access) -> tuple[Affine, ...]:
        return tuple(index_form(self.function, e, self.sizes) for e in access.indices)

    def domain(
        self,
        statement: Contraction,
        output: tuple[Affine, ...],
        shape: tuple[int, ...],
        reads: tuple[Read, ...],
    ) -> IndexSet:
        ranges = [Range(form, size) for form, size in zip(output, shape, strict=True)]
        for read in reads:
            sizes = self.types[read.tensor].shape
            if len(sizes) != len(read.indices):
                access = next(a for a in statement.inputs if a.tensor.text == read.tensor)
                raise self.wrong(
                    access.span,
                    f"{read.tensor} has {counted(len(sizes), 'dimension')}, "
                    f"got {counted(len(read.indices), 'index', 'indices')}",
                )
            ranges += [Range(form, size) for form, size in zip(read.indices, sizes, strict=True)]
        for constraint in statement.constraints:
            form = index_form(self.function, constraint.form, self.sizes)
            bound = dimension(self.function, constraint.bound, self.sizes)
            ranges.append(Range(form, bound, whole=False))
        domain = IndexSet(index_names(statement), tuple(ranges))
        free = domain.unbounded()
        if free is not None:
            raise unbounded(self.function, statement, free)
        return domain

    def value_types(self, statement: Contraction) -> tuple[str, str]:
        """Types of a combined value and of what a conditional compares."""
        read = [self.types[a.tensor.text].dtype for a in statement.inputs]
        compared = ""
        if statement.combination == "?":
            compared = arithmetic(dtypes.promote(read[0], read[1]))
            value = read[2]
        elif statement.combination:
            value = arithmetic(dtypes.promote(read[0], read[1]))
        else:
            value = read[0]
        return (arithmetic(value) if statement.aggregation in "+*" else value), compared

    def written_once(self, statement: Contraction, contract: Contract) -> None:
        try:
            found = contract.domain.collision(contract.output)
        except EntangledError as error:
            raise self.wrong(statement.output.span, f"{error}: use another aggregation") from None
        if found is None:
            return
        place = []
        for form in contract.output:
            number, d = form.at(found[0])
            place.append(str(number // d))
        sets = " and ".join(
            ", ".join(f"{n} = {v}" for n, v in values.items()) for values in found
        )
        raise self.wrong(
            statement.output.span,
            f"= writes {contract.name}[{', '.join(place)}] more than once: for {sets}",
            "bound the other indices by constraints, or aggregate by +, *, > or <",
        )
