"""Finds the matrix product in a contraction, so that a GPU computes it in tiles.

Output axes on which only one operand depends are rows or columns; axes on which both depend are a
batch. Several axes of a kind count as one, and so do reduced indices: a convolution is the product
of its weights and its windows, which are formed while they are loaded.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from autotune import te
from autotune.ir.algebra.polynomials import Poly, add, normal, to_expr, to_poly
from autotune.ir.expr import BinaryOp, Cast, Const, Expr, Read, Reduce, Var
from autotune.ir.ops import cast, const
from autotune.ir.visitor import free_vars, mentions, reads, substitute
from autotune.lowering.guards.facts import conjuncts
from autotune.lowering.nest.regions import Interval, Relaxer
from autotune.rules.gpu.product_loops import Operand, Tiles
from autotune.rules.stage_graph import extent, reads_in, reduction_of

#: Rows, columns and steps of the smallest product with tiles.
LEAST: Final = 8

#: Elements of a matrix, not of windows, that is read once, in tiles, even if there are fewer rows
#: of the other.
_LARGE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Product:
    """A contraction as a product of matrices."""

    #: The contraction.
    tensor: te.Tensor
    #: Its output axes by kind.
    batch: tuple[Any, ...]
    rows: tuple[Any, ...]
    columns: tuple[Any, ...]
    #: Its reduced axes, in the order of the operands' memory.
    steps: tuple[Any, ...]
    #: Its operands, each with 0 if it has the rows, 1 if it has the columns.
    sides: tuple[tuple[Read, int], ...]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns and steps."""
        m, n, k = (math.prod(map(extent, axes)) for axes in (self.rows, self.columns, self.steps))
        return m, n, k

    @property
    def count(self) -> int:
        """Number of products."""
        return math.prod(map(extent, self.batch))

    def loops(self, stage: Any) -> tuple[list[Any], Any, Any]:
        """Return a stage's loops over the batch, rows and columns; its axes are the product's."""
        own = dict(zip(self.tensor.op.axis, stage.op.axis, strict=True))
        batch, *kinds = (
            [own[a] for a in axes if own[a] is not stage.time]
            for axes in (self.batch, self.rows, self.columns)
        )
        stage.reorder(*batch, *kinds[0], *kinds[1])
        rows, columns = (stage.fuse(*axes) for axes in kinds)
        return batch, rows, columns

    def is_steps_last(self, read: Read, way: int) -> bool:
        """Whether neighbours in an operand's memory are steps of the reduction."""
        own = getattr(self, _kind(way))
        last = set(free_vars(read.children[-1])) if read.children else set()
        if own and own[-1].var in last:
            return False
        return self.steps[-1].var in last or not any(axis.var in last for axis in own)

    def run_of_result(self) -> int:
        """Return the number of consecutive columns that are adjacent in memory, throughout."""
        axes = list(self.tensor.op.axis)
        run = 1
        for axis in reversed(self.columns):
            last = axes.pop()
            if axis is not last:
                break
            run *= extent(axis)
        return run


def product_of(tensor: te.Tensor, apart: Collection[Any] = ()) -> Product | None:
    """Return a contraction as a product; None if it is not one, or too small for tiles.

    Axes that are `apart` belong to the batch.
    """
    body = reduction_of(tensor)
    found = reads_of(body)
    axes = [axis for axis in tensor.op.axis if extent(axis) > 1 and axis not in apart]
    users = {axis: frozenset(r for r in found if mentions(r, axis.var)) for axis in axes}
    dependent = frozenset().union(*users.values())
    groups = dict.fromkeys(u for u in users.values() if u != dependent)
    if len(groups) != 2 or not all(groups) or frozenset.intersection(*groups):
        return None
    last = users[next(axis for axis in reversed(axes) if users[axis] != dependent)]
    (first,) = (group for group in groups if group != last)
    kinds = {u: tuple(a for a in axes if users[a] == u) for u in (first, last)}
    batch = tuple(a for a in tensor.op.axis if users.get(a, dependent) == dependent)
    sides = tuple((r, int(r in last)) for r in found)
    product = Product(tensor, batch, kinds[first], kinds[last], steps_of(body), sides)
    m, n, k = product.sizes
    is_large = product.count * max(m, n) * k >= _LARGE
    if k < LEAST or (min(m, n) < LEAST and not (is_large and _is_flat(product, found))):
        return None
    return product


def reads_of(body: Reduce) -> list[Read]:
    """Return the reads of a reduction, each once, but for those inside indices of others."""
    return list(dict.fromkeys(r for source in body.sources for r in _outermost(source)))


def _outermost(expr: Expr) -> list[Read]:
    if isinstance(expr, Read):
        return [expr]
    return [read for child in expr.children for read in _outermost(child)]


def steps_of(body: Reduce) -> tuple[Any, ...]:
    """Return the reduced axes in the order of the operand with the most of them as they are."""
    own = {axis.var for axis in body.axes}
    most = max(reads_of(body), key=lambda read: sum(i in own for i in read.children), default=None)
    indices = enumerate(() if most is None else most.children)
    places = {var: n for n, index in indices for var in free_vars(index)}
    return tuple(sorted(body.axes, key=lambda axis: places.get(axis.var, -1)))


# -- tensors -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tiled:
    """A product in tiles: the operands, the sums, and the result."""

    product: Product
    tiles: Tiles
    operands: tuple[Operand, ...]
    total: te.Tensor
    result: te.Tensor

    @property
    def stages(self) -> tuple[te.Tensor, ...]:
        """All of it, in an order in which it can be computed."""
        return (*(operand.tensor for operand in self.operands), self.total, self.result)


def is_same_element(tensor: te.Tensor, reader: te.Tensor) -> bool:
    """Whether a stage reads only the element of a tensor at the index that it stores."""
    if list(map(extent, tensor.op.axis)) != list(map(extent, reader.op.axis)):
        return False
    return all(
        index is axis.var or extent(axis) == 1
        for r in reads_in(reader.op)
        if r.tensor is tensor
        for index, axis in zip(r.children, reader.op.axis, strict=True)
    )


def runs_of(product: Product) -> list[tuple[int, int]]:
    """Return for each operand its side and the number of adjacent elements in memory."""
    return [(way, _run(product, read, way)) for read, way in product.sides]


def tiled(product: Product, tiles: Tiles, shared: Collection[te.Tensor] = ()) -> Tiled:
    """Return the tensors of a product with edges padded to whole tiles.

    What is in `shared` memory already is read there.
    """
    body, sizes = reduction_of(product.tensor), product.sizes
    padded = tiles.padded(*sizes)
    name, batch = product.tensor.name, [extent(axis) for axis in product.batch]
    absorbs = body.combiner.name == "sum" and all(map(_is_product, body.sources))
    guards = list(conjuncts(body.condition))
    kk = te.reduce_axis((0, padded[2]), name=f"{name}_k")
    operands: dict[Read, Operand] = {}
    held: set[Expr] = set()
    for number, (read, way) in enumerate(product.sides):
        own = guards if absorbs else []
        operands[read], kept = _operand(product, read, way, number, own, padded)
        operands[read] = replace(operands[read], is_shared=read.tensor in shared)
        held.update(kept)

    def total(*index: Any) -> Any:
        *front, i, j = index
        place = (i, j)
        fetched: dict[Any, Any] = {}
        for read, operand in operands.items():
            pair = (place[operand.way], kk.var)
            at = pair if operand.steps_last else pair[::-1]
            fetched[read] = operand.tensor[(*front, *at)]
        values = _values(product, front, {"rows": i, "columns": j, "steps": kk.var})
        left = [substitute(g, values) for g in guards if g not in held]
        if not absorbs:
            left.append(kk.var < sizes[2])
        condition = te.all(*left) if left else const(True)
        sources = tuple(substitute(source, fetched | values) for source in body.sources)
        return Reduce(body.combiner, sources, (kk,), condition, 0)

    sums = te.compute((*batch, padded[0], padded[1]), total, name=f"{name}_total")

    def result(*index: Any) -> Any:
        at = dict(zip(product.tensor.op.axis, index, strict=True))
        front = [at[axis] for axis in product.batch]
        return sums[(*front, joined(product.rows, at), joined(product.columns, at))]

    whole = te.compute(product.tensor.shape, result, name=name)
    return Tiled(product, tiles, tuple(operands.values()), sums, whole)


def _is_product(node: Expr) -> bool:
    """Whether an expression is 0 if one of its reads is 0."""
    match node:
        case Read():
            return True
        case Cast(a=inner):
            return _is_product(inner)
        case BinaryOp(op="*", a=a, b=b):
            return _is_product(a) and _is_product(b)
    return False


def digits(axes: Sequence[Any], number: Any) -> dict[Var, Any]:
    """Return the value of each of some axes that count as one."""
    found: dict[Var, Any] = {}
    for place, axis in enumerate(reversed(axes)):
        is_first = place == len(axes) - 1
        found[axis.var] = number if is_first else number % extent(axis)
        number = number if is_first else number // extent(axis)
    return found


def joined(axes: Sequence[Any], at: Mapping[Any, Any]) -> Any:
    """Return the combined number of the values of some axes."""
    first, *others = axes
    total = at[first]
    for axis in others:
        total = total * extent(axis) + at[axis]
    return total


def _values(product: Product, batch: Sequence[Any], numbers: Mapping[str, Any]) -> dict[Any, Any]:
    """Return the values of axes from numbers of a batch's member, a row, a column, a step."""
    values: dict[Any, Any] = {a.var: i for a, i in zip(product.batch, batch, strict=True)}
    for kind, number in numbers.items():
        values |= digits(getattr(product, kind), number)
    return values


def _kind(way: int) -> str:
    return ("rows", "columns")[way]


def _operand(
    product: Product,
    read: Read,
    way: int,
    number: int,
    guards: Sequence[Expr],
    padded: Sequence[Any],
) -> tuple[Operand, list[Expr]]:
    """Return the operand for a read, with zeros outside, and its guards."""
    own, steps = getattr(product, _kind(way)), product.steps
    known = {axis.var for axis in (*product.batch, *own, *steps)}
    kept = [guard for guard in guards if known.issuperset(free_vars(guard))]
    conditions = _within(product, read, kept)
    size = product.sizes[way]
    steps_last = product.is_steps_last(read, way)

    def body(*index: Any) -> Any:
        *front, first, second = index
        at, step = (first, second) if steps_last else (second, first)
        values = _values(product, front, {_kind(way): at, "steps": step})
        inside = [at < size, step < product.sizes[2]]
        inside = inside if steps_last else inside[::-1]
        inside += [substitute(condition, values) for condition in conditions]
        value = substitute(read, values)
        return te.if_then_else(te.all(*inside), value, cast(read.dtype, const(0)))

    shape = (padded[way], padded[2]) if steps_last else (padded[2], padded[way])
    batch = [extent(axis) for axis in product.batch]
    name = f"{product.tensor.name}_{read.tensor.name}{number}.shared"
    tensor = te.compute((*batch, *shape), body, name=name)
    in_vectors = _run(product, read, way) % 2 == 0
    in_windows = not (steps_last or in_vectors or _is_flat(product, [read]))
    return Operand(tensor, way, steps_last, in_vectors, in_windows), kept


def _is_flat(product: Product, found: Sequence[Read]) -> bool:
    """Whether the steps, as one number, are multiplied by a number in the addresses of reads."""
    steps = [axis for axis in product.steps if extent(axis) > 1]
    for read in found:
        at: Poly = {}
        for index, size in zip(read.children, read.tensor.shape, strict=True):
            at = add({term: scale * int(size) for term, scale in at.items()}, to_poly(index))
        strides = [at.get((axis.var,), 0) for axis in steps]
        pairs = zip(itertools.pairwise(strides), steps[1:], strict=True) if steps else ()
        if any(outer != inner * extent(axis) for (outer, inner), axis in pairs):
            return False
    return True


def _within(product: Product, read: Read, guards: Iterable[Expr]) -> list[Expr]:
    """Return conditions under which an element exists and counts, each once."""
    axes = (*product.tensor.op.axis, *product.steps)
    relaxer = Relaxer({axis.var: const(extent(axis)) for axis in axes})
    forms: list[Poly] = []
    others: list[Expr] = []
    for index, size in zip(read.children, read.tensor.shape, strict=True):
        if reads(index):
            continue  # what is read there is an index of an element, wherever the loops read it
        low, high = _span(relaxer.interval(normal(index)))
        if low < 0:
            forms.append(to_poly(index))
        if high >= int(size):
            forms.append(add({(): int(size) - 1}, to_poly(index), -1))
    for guard in guards:
        if isinstance(guard, BinaryOp) and guard.op == ">=" and to_poly(guard.b) == {}:
            forms.append(to_poly(guard.a))
        else:
            others.append(guard)
    distinct = [form for n, form in enumerate(forms) if form not in forms[:n]]
    return [to_expr(form) >= 0 for form in distinct] + others


def _span(interval: Interval | None) -> tuple[float, float]:
    """Return the ends of an interval of numbers; infinite ones where they are not known."""
    match interval:
        case Interval(low=Const(value=low), width=Const(value=width)):
            return int(low), int(low) + int(width)
    return -math.inf, math.inf


def _run(product: Product, read: Read, way: int) -> int:
    """Return the number of adjacent elements that always exist and are consecutive."""
    body = reduction_of(product.tensor)
    own = getattr(product, _kind(way))
    loops = list(product.steps if product.is_steps_last(read, way) else own)
    if not loops or _within(product, read, conjuncts(body.condition)):
        return 1
    zeros = {axis.var for axis in (*product.tensor.op.axis, *body.axes) if extent(axis) == 1}
    run = 1
    for index, size in zip(reversed(read.children), reversed(read.tensor.shape), strict=True):
        start = add(to_poly(index), to_poly(loops[-1].var), -1) if loops else {}
        start = {term: scale for term, scale in start.items() if zeros.isdisjoint(term)}
        if not loops or any(mentions(x, loops[-1].var) for term in start for x in term):
            break
        length = extent(loops.pop())
        run *= math.gcd(length, int(size), *start.values())
        if length != int(size):
            break
    return run
