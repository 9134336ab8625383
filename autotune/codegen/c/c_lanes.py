"""Vectors lane by lane: the expression of one lane, and the elements of each access."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from autotune.ir import dtypes
from autotune.ir.algebra.polynomials import to_poly
from autotune.ir.expr import (
    BinaryOp,
    Broadcast,
    Buffer,
    Call,
    Const,
    Expr,
    Load,
    Ramp,
    Select,
    is_const,
)
from autotune.ir.ops import binary, const, fold
from autotune.ir.stmt import Store
from autotune.ir.visitor import Rewriter, loads_in, walk_expr

#: Largest number of bytes that one instruction loads or stores.
PACK_BYTES = 16


class LaneExtractor(Rewriter):
    """Rewrites vector expressions to expressions of one lane.

    `lane`: its number.
    """

    def __init__(self, lane: Expr) -> None:
        super().__init__()
        self.lane = lane

    def visit_Ramp(self, node: Ramp) -> Expr:
        """Return the value in the lane."""
        return binary("+", self.expr(node.base), binary("*", self.lane, self.expr(node.stride)))

    def visit_Broadcast(self, node: Broadcast) -> Expr:
        """Return the value that all lanes have."""
        return self.expr(node.value)


class RampRewriter(Rewriter):
    """Writes indices of vectors as ramps if their lanes have a constant distance.

    So does it with quotients and remainders elsewhere, which are costly for each lane.

    `simplify`: simplifies the index of the first lane.
    """

    def __init__(self, simplify: Callable[[Expr], Expr]) -> None:
        super().__init__()
        self.simplify = simplify

    def visit_Load(self, node: Load) -> Expr:
        """Load by a ramp; load a scalar if all lanes read the same element."""
        index = self.expr(node.index)
        found = _progression(index) if index.lanes > 1 else None
        if found is not None and found[1] == 0:
            return Broadcast(Load(node.buffer, self.simplify(found[0])), index.lanes)
        return Load(node.buffer, self.index(index))

    def visit_BinaryOp(self, node: BinaryOp) -> Expr:
        """Divide once for all lanes."""
        made = self.rebuild(node)
        if node.op not in ("//", "%") or node.lanes == 1 or not dtypes.is_integer(node.dtype):
            return made
        found = _progression(made)
        if found is None:
            return made
        first = self.simplify(found[0])
        if found[1] == 0:
            return Broadcast(first, node.lanes)
        return Ramp(first, const(found[1], first.dtype), node.lanes)

    def index(self, index: Expr) -> Expr:
        """Return an index as a ramp if its lanes are known to have one constant distance."""
        found = _progression(index) if index.lanes > 1 and not isinstance(index, Ramp) else None
        if found is None or found[1] == 0:
            return index
        first = self.simplify(found[0])
        return Ramp(first, const(found[1], first.dtype), index.lanes)


def _progression(node: Expr) -> tuple[Expr, int] | None:
    """Return the first lane of an index and the distance between lanes, if it is constant."""
    match node:
        case Ramp() if isinstance(node.stride, Const):
            return node.base, int(node.stride.value)
        case Broadcast():
            return node.value, 0
        case BinaryOp():
            a, b = _progression(node.a), _progression(node.b)
            return None if a is None or b is None else _combined(node.op, a, b, node.lanes)
        case _:
            return None


def _combined(
    op: str, a: tuple[Expr, int], b: tuple[Expr, int], lanes: int
) -> tuple[Expr, int] | None:
    (first, step), (other, further) = a, b
    if op in ("+", "-"):
        return fold(op, first, other), step + further if op == "+" else step - further
    if op in ("min", "max") and not (step or further):
        return fold(op, first, other), 0
    if further or not isinstance(other, Const):
        return None
    by = int(other.value)
    if op == "*":
        return fold(op, first, other), step * by
    if op not in ("//", "%") or by < 1:
        return None
    base = fold(op, first, other)
    if step % by == 0:
        return base, step // by if op == "//" else 0
    # The first lane is a multiple of a number that is larger than the offsets of the others.
    if 0 <= step * (lanes - 1) < math.gcd(divisor(first), by):
        return base, 0 if op == "//" else step
    return None


def eager_loads(expr: Expr) -> Iterator[Load]:
    """Yield the vector loads that an expression always makes, each once."""
    seen: set[Expr] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Load) and node.lanes > 1:
            yield node
        lazy = (isinstance(node, Call) and node.name == "if_then_else") or (
            isinstance(node, BinaryOp) and node.op in ("and", "or")
        )
        stack.extend(node.children[:1] if lazy else reversed(node.children))


def guarded_loads(expr: Expr) -> dict[Load, Expr]:
    """Return the vector loads of whole packs that all lanes make or none, with the conditions.

    A load that an expression makes at several places has the conditions of all of them.
    """
    found: dict[Load, Expr] = {}
    single = set(eager_loads(expr))  # These are made under no condition, those added lane by lane.
    stack: list[tuple[Expr, Expr | None]] = [(expr, None)]
    seen = set(stack)
    while stack:
        node, under = stack.pop()
        parts = [(child, under) for child in reversed(node.children)]
        if isinstance(node, Call) and node.name == "if_then_else":
            condition, value, other = node.children
            single.update(loads_in(other))
            parts = [(condition, under)]
            if any(isinstance(part, Ramp) for part in walk_expr(condition)):
                single.update(loads_in(value))
            else:
                for_all = LaneExtractor(const(0)).expr(condition)
                parts.append((value, for_all if under is None else binary("and", under, for_all)))
        elif isinstance(node, BinaryOp) and node.op in ("and", "or"):
            single.update(loads_in(node.b))
            parts = [(node.a, under)]
        elif isinstance(node, Load) and under is not None and _is_pack(node):
            before = found.get(node)
            found[node] = under if before is None else binary("or", before, under)
        parts = [part for part in parts if part not in seen]
        seen.update(parts)
        stack += parts
    return {load: condition for load, condition in found.items() if load not in single}


def _is_pack(load: Load) -> bool:
    """Whether all lanes of a load move together."""
    return packed_lanes(load.buffer, load.index) == load.lanes > 1


def packed_lanes(buffer: Buffer, index: Expr) -> int:
    """Return how many lanes of an access may move together, from the first on; 1 if none.

    They are adjacent, and the offset of the first one is known to be a multiple of their size.
    Elements of local storage are registers and are not moved together.
    """
    if not isinstance(index, Ramp) or buffer.scope == "local":
        return 1
    if not is_const(index.stride, 1):
        return 1
    together = math.gcd(PACK_BYTES // dtypes.itemsize(buffer.dtype), index.lanes)
    while not _divides(together, index.base):
        together //= 2
    return together


def _divides(number: int, expr: Expr) -> bool:
    """Whether a number divides an index; remainders by its multiples may be left out for that."""
    if divisor(expr) % number == 0:
        return True
    terms = to_poly(_congruent(number, expr)).items()
    return all(scale * math.prod(map(divisor, monomial)) % number == 0 for monomial, scale in terms)


def _congruent(number: int, expr: Expr) -> Expr:
    """Return an index that has the same remainder by a number: ``x % (number * k)`` is ``x``."""
    match expr:
        case BinaryOp(op="%", b=Const(value=by)) if by > 0 and by % number == 0:
            return _congruent(number, expr.a)
        case BinaryOp(op="+" | "-" | "*"):
            return fold(expr.op, _congruent(number, expr.a), _congruent(number, expr.b))
    return expr


def divisor(expr: Expr) -> int:
    """Return a number that always divides an index: 0 for a constant 0."""
    match expr:
        case Const():
            return abs(int(expr.value))
        case BinaryOp(op="+" | "-" | "min" | "max"):
            return math.gcd(divisor(expr.a), divisor(expr.b))
        case BinaryOp(op="*"):
            return divisor(expr.a) * divisor(expr.b)
        case BinaryOp(op="//") if isinstance(expr.b, Const) and expr.b.value > 0:
            whole, by = divisor(expr.a), int(expr.b.value)
            return whole // by if whole % by == 0 else 1
        case BinaryOp(op="%"):
            return math.gcd(divisor(expr.a), divisor(expr.b))
        case Select():
            return math.gcd(divisor(expr.true), divisor(expr.false))
        case _:
            return 1


def overlaps(store: Store) -> bool:
    """Whether a lane of the value may read an element that another lane of the store writes."""
    return any(
        isinstance(node, Load)
        and node.buffer is store.buffer
        and node.index is not store.index
        and not _are_apart(node.index, store.index)
        for node in walk_expr(store.value)
    )


def _are_apart(one: Expr, other: Expr) -> bool:
    """Whether two vectors of adjacent elements are known to have none in common."""
    if not (isinstance(one, Ramp) and isinstance(other, Ramp)):
        return False
    distance = to_poly(binary("-", one.base, other.base))
    both_adjacent = is_const(one.stride, 1) and is_const(other.stride, 1)
    return both_adjacent and not distance.keys() - {()} and abs(distance.get((), 0)) >= one.lanes


def one_lane(store: Store, lane: Expr) -> Store:
    """Return the store of one lane."""
    rewrite = LaneExtractor(lane)
    return Store(store.buffer, rewrite.expr(store.index), rewrite.expr(store.value))
