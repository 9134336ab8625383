"""Binds a Tile function to the shapes and types of its inputs: everything becomes concrete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.errors import TileError
from autotune.ir import dtypes
from autotune.ir.name_supply import NameSupply
from autotune.system.words import counted
from autotune.tile.binding.bound_program import (
    AffineRead,
    Constant,
    Contract,
    Elementwise,
    Program,
    Step,
    TensorType,
    needed,
)
from autotune.tile.binding.expand_builtins import BuiltinExpander
from autotune.tile.binding.given_shapes import given_sizes
from autotune.tile.binding.size_limits import (
    check_elements,
    check_operations,
    operation_limit,
    shape_of,
)
from autotune.tile.binding.type_inference import arithmetic, typed
from autotune.tile.check.check_function import check, index_names, unbounded
from autotune.tile.check.dimension_arithmetic import dimension, index_form
from autotune.tile.check.scope import Symbol
from autotune.tile.check.size_inputs import size_inputs
from autotune.tile.index_sets.affine_forms import Affine
from autotune.tile.index_sets.index_conditions import RangeCondition
from autotune.tile.index_sets.index_set import IndexSet, IndexSetTooComplexError
from autotune.tile.syntax.error_locations import tile_error, unknown
from autotune.tile.syntax.syntax_tree import (
    AccessExpr,
    Assignment,
    Contraction,
    Function,
    Input,
    Name,
    Number,
    Span,
)
from autotune.tile.syntax.unparser import expr_code


def bind(
    function: Function,
    shapes: Mapping[str, Sequence[int]],
    dtypes_of: Mapping[str, str] | None = None,
    sizes: Mapping[str, int] | None = None,
    *,
    most_operations: int | None = None,
) -> Program:
    """Return a function with all sizes and types known.

    Parameters
    ----------
    function
        A function from `parse`.
    shapes
        Shape of every input by name.
    dtypes_of
        Data type of inputs by name; float32 by default.
    sizes
        Values of the inputs that are sizes (`size_inputs`) by name.
    most_operations
        Largest number of operations (sets of index values) of a contraction; None for
        `size_limits.operation_limit`.

    Raises
    ------
    TileError
        For all errors of `check`, for shapes that disagree with the header or each other, sizes
        below 1, indices without bounds, failed assertions, contractions with too many operations,
        and ``=`` that writes one element twice.
    UsageError
        For shapes, types or sizes of inputs that the function does not have.
    """
    symbols = check(function, {name: len(shape) for name, shape in shapes.items()})
    given = size_inputs(function)
    inputs = {i.name.text for i in function.inputs if i.name.text not in given}
    for name in (*shapes, *(dtypes_of or ())):
        if name not in inputs:
            raise unknown(function, "input", name, inputs)
    binder = _Binder(function, symbols, most_operations)
    binder.sizes |= given_sizes(function, sizes or {})
    binder.given |= dict.fromkeys(given, "the input")
    for declared in function.inputs:
        name = declared.name.text
        if name in given:
            continue
        if name not in shapes:
            raise tile_error(function, declared.span, f"the shape of input {name} is not known")
        dtype = (dtypes_of or {}).get(name, "float32")
        binder.input(declared, tuple(int(n) for n in shapes[name]), dtypes.check(dtype))
    for declared in function.inputs:
        if declared.name.text in inputs:
            binder.computed_sizes(declared)
    for statement in function.statements:
        binder.statement(statement)
    outputs = tuple(o.text for o in function.outputs)
    for name in outputs:
        if symbols[name].kind == "dimension":
            binder.as_tensor(name)
    return Program(
        function,
        tuple(i.name.text for i in function.inputs if i.name.text in inputs),
        outputs,
        binder.sizes,
        binder.types,
        needed(binder.steps, outputs),
    )


class _Binder:
    """The sizes and types of the statements that are bound so far."""

    def __init__(
        self, function: Function, symbols: Mapping[str, Symbol], most_operations: int | None
    ) -> None:
        self.function = function
        self.symbols = symbols
        self.most_operations = operation_limit(most_operations)
        self.sizes: dict[str, int] = {}
        self.types: dict[str, TensorType] = {}
        self.given: dict[str, str] = {}
        self.steps: list[Step] = []
        self.builtins = BuiltinExpander(
            function, NameSupply(symbols), self.sizes, self.types, self.statement
        )

    def wrong(self, span: Span, problem: str, advice: str = "") -> TileError:
        return tile_error(self.function, span, problem, advice)

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
        """Raise an error if the size of an input differs from the header's arithmetic."""
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

    def statement(self, statement: Assignment | Contraction) -> None:
        """Bind a statement and the expansions of its built-in functions."""
        name = statement.target.text
        if isinstance(statement, Contraction):
            self.define(self.contract(statement))
            return
        kind = self.symbols[name].kind if name in self.symbols else "tensor"
        if kind == "dimension":
            self.sizes[name] = dimension(self.function, statement.value, self.sizes)
        elif kind == "random":
            self.builtins.random_step(name, statement.value)
        else:
            plain = self.builtins.plain(statement.value)
            value = typed(self.function, plain, self.sizes, self.types)
            check_elements(self.function, statement.target.span, name, value.type.shape)
            self.define(Elementwise(name, value.type, value))

    def define(self, step: Step) -> None:
        self.types[step.name] = step.type
        self.steps.append(step)

    def as_tensor(self, name: str) -> None:
        """Make a dimension a scalar."""
        own = TensorType((), dtypes.of_value(self.sizes[name]))
        self.define(Elementwise(name, own, Constant(self.sizes[name], own)))

    # -- contractions --------------------------------------------------------------------------

    def contract(self, statement: Contraction) -> Contract:
        name = statement.target.text
        shape = shape_of(self.function, name, statement.sizes, self.sizes)
        check_elements(self.function, statement.target.span, name, shape)
        output = self.forms(statement.output)
        reads = tuple(AffineRead(a.tensor.text, self.forms(a)) for a in statement.inputs)
        domain = self.domain(statement, output, shape, reads)
        check_operations(self.function, statement, domain, self.most_operations)
        value, compared = self.value_types(statement)
        result = self.with_default(statement, TensorType(shape, value))
        contract = Contract(
            name=name,
            type=result,
            aggregation=statement.aggregation,
            combination=statement.combination,
            indices=domain.names,
            output=output,
            reads=reads,
            domain=domain,
            value_dtype=value,
            compared_dtype=compared,
            accumulator=dtypes.accumulator(value) if statement.aggregation in "+*" else value,
            default="" if statement.default is None else statement.default.text,
            statement=statement,
        )
        if statement.aggregation == "=":
            self.written_once(statement, contract)
        return contract

    def with_default(self, statement: Contraction, own: TensorType) -> TensorType:
        """Return the type of a result with elements of a default tensor."""
        name = statement.default
        if name is None:
            return own
        other = self.types[name.text]
        if other.shape != own.shape:
            raise self.wrong(
                name.span,
                f"{name.text} has the shape {list(other.shape)}, {statement.target.text} "
                f"{list(own.shape)}: the tensor after default has the shape of the result",
            )
        return TensorType(own.shape, dtypes.promote(own.dtype, other.dtype))

    def forms(self, access: AccessExpr) -> tuple[Affine, ...]:
        return tuple(index_form(self.function, e, self.sizes) for e in access.indices)

    def domain(
        self,
        statement: Contraction,
        output: tuple[Affine, ...],
        shape: tuple[int, ...],
        reads: tuple[AffineRead, ...],
    ) -> IndexSet:
        ranges = [RangeCondition(form, size) for form, size in zip(output, shape, strict=True)]
        for read in reads:
            sizes = self.types[read.tensor].shape
            ranges += [
                RangeCondition(form, size) for form, size in zip(read.indices, sizes, strict=True)
            ]
        for constraint in statement.constraints:
            form = index_form(self.function, constraint.form, self.sizes)
            bound = dimension(self.function, constraint.bound, self.sizes)
            ranges.append(RangeCondition(form, bound, whole=False))
        domain = IndexSet(index_names(statement), tuple(ranges))
        free = domain.unbounded()
        if free is not None:
            raise unbounded(self.function, statement, free)
        return domain

    def value_types(self, statement: Contraction) -> tuple[str, str]:
        """Return the types of a combined value and of the compared values of a conditional."""
        read = [self.types[a.tensor.text].dtype for a in statement.inputs]
        compared = ""
        if statement.combination in ("?", "=="):
            compared = arithmetic(dtypes.promote(read[0], read[1]))
            value = dtypes.BOOL if statement.combination == "==" else read[2]
        elif statement.combination:
            value = arithmetic(dtypes.promote(read[0], read[1]))
        else:
            value = read[0]
        return (arithmetic(value) if statement.aggregation in "+*" else value), compared

    def written_once(self, statement: Contraction, contract: Contract) -> None:
        try:
            found = contract.domain.collision(contract.output)
        except IndexSetTooComplexError as error:
            raise self.wrong(statement.output.span, f"{error}: use another aggregation") from None
        if found is None:
            return
        place = []
        for form in contract.output:
            number, d = form.at(found[0])
            place.append(str(number // d))
        sets = " and ".join(", ".join(f"{n} = {v}" for n, v in values.items()) for values in found)
        raise self.wrong(
            statement.output.span,
            f"= writes {contract.name}[{', '.join(place)}] more than once: for {sets}",
            "bound the other indices by constraints, or aggregate by +, *, > or <",
        )
