"""Splits conditions into comparisons, and simplifies programs with known comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce

from autotune.ir import dtypes
from autotune.ir.expr import BinaryOp, Call, Cast, Const, Expr, Load, Read, Select, is_const
from autotune.ir.ops import binary, const
from autotune.ir.stmt import NOTHING, Allocate, For, If, Stmt, Store, is_empty
from autotune.ir.visitor import Substitution, child_stmts, walk, walk_expr


def operands(node: Expr, op: str) -> Iterator[Expr]:
    """Yield the operands of a chain of one operation; the expression if it is no chain."""
    if isinstance(node, BinaryOp) and node.op == op:
        yield from operands(node.a, op)
        yield from operands(node.b, op)
    else:
        yield node


def extremum(node: Expr, at_most_zero: Callable[[Expr], bool]) -> Expr:
    """Return a minimum or maximum of integers without redundant operands.

    `node`: integers connected by min and max.
    `at_most_zero`: whether an integer is known to be at most 0.
    """
    if not isinstance(node, BinaryOp) or node.op not in ("min", "max"):
        return node
    op = node.op

    def excludes(a: Expr, b: Expr) -> bool:
        return at_most_zero(binary("-", a, b) if op == "min" else binary("-", b, a))

    kept: list[Expr] = []
    for operand in operands(node, op):
        simple = extremum(operand, at_most_zero)
        if not any(excludes(known, simple) for known in kept):
            kept = [known for known in kept if not excludes(simple, known)]
            kept.append(simple)
    return reduce(partial(binary, op), kept)


def conjuncts(condition: Expr) -> Iterator[Expr]:
    """Yield the conditions that all have to hold for `condition` to hold, marks removed."""
    for part in operands(condition, "and"):
        if isinstance(part, Call) and part.name == "likely":
            yield from conjuncts(part.children[0])
        elif not is_const(part, True):
            yield part


def excess(condition: Expr) -> Expr | None:
    """Return the integer that is at most 0 exactly when an order comparison is true.

    It is None for other conditions, and for those that read memory or may wrap.
    """
    if not isinstance(condition, BinaryOp) or condition.op not in ("<", "<=", ">", ">="):
        return None
    if not all(map(is_exact, condition.children)):
        return None
    a, b = condition.a, condition.b
    if condition.op in (">", ">="):
        a, b = b, a
    difference = binary("-", a, b)
    one = const(1, difference.dtype)
    return binary("+", difference, one) if condition.op in ("<", ">") else difference


def is_exact(node: Expr) -> bool:
    """Whether an expression is index arithmetic, which neither wraps nor reads memory."""
    return all(map(_is_exact, walk_expr(node)))


def _is_exact(node: Expr) -> bool:
    if isinstance(node, (Load, Read)) or node.lanes != 1:
        return False
    if isinstance(node, Cast) and not dtypes.holds(node.dtype, node.a.dtype):
        return False
    return node.dtype == dtypes.BOOL or dtypes.is_index(node.dtype)


class ConditionFinder:
    """Finds the conditions that statements test; each expression is visited once."""

    def __init__(self) -> None:
        self._found: dict[Expr, tuple[Expr, ...]] = {}
        self._parts: dict[Expr, dict[Expr, Expr | None]] = {}
        self._plain: dict[Stmt, bool] = {}

    def of(self, stmt: Stmt) -> Sequence[Expr]:
        """Return the conditions that a statement itself tests, in branches and selects."""
        if isinstance(stmt, If):
            return (stmt.condition,)
        if isinstance(stmt, Store):
            return (*self._in(stmt.index), *self._in(stmt.value))
        return ()

    def parts(self, condition: Expr) -> Mapping[Expr, Expr | None]:
        """Return the conjuncts of a condition, each with its excess."""
        parts = self._parts.get(condition)
        if parts is None:
            parts = {part: excess(part) for part in conjuncts(condition)}
            self._parts[condition] = parts
        return parts

    def parts_of(self, stmt: Stmt) -> Iterator[tuple[Expr, Expr | None]]:
        """Yield the conjuncts of all conditions that a statement itself tests."""
        for condition in self.of(stmt):
            yield from self.parts(condition).items()

    def is_plain(self, stmt: Stmt) -> bool:
        """Whether a statement tests no condition, and all its loops have a known length."""
        found = self._plain.get(stmt)
        if found is None:
            if isinstance(stmt, For):
                own = isinstance(stmt.extent, Const) and stmt.extent.value > 0
            else:
                own = not self.of(stmt)
            found = self._plain[stmt] = own and all(map(self.is_plain, child_stmts(stmt)))
        return found

    def _in(self, expr: Expr) -> tuple[Expr, ...]:
        found = self._found.get(expr)
        if found is None:
            found = self._found[expr] = tuple(
                part.children[0]
                for part in walk_expr(expr)
                if isinstance(part, Select)
                or (isinstance(part, Call) and part.name == "if_then_else")
            )
        return found


def has_conditions(stmt: Stmt) -> bool:
    """Whether a statement tests anything."""
    choices = ConditionFinder()
    return any(choices.of(inner) for inner in walk(stmt))


class ConditionRewriter(Substitution):
    """Simplifies a program in which some conditions are known to be true or false.

    `known`: the known value of each condition: a constant, or an equivalent condition.
    `choices`: finds the statements that have conditions; others are not visited.
    """

    def __init__(self, known: Mapping[Expr, Expr], choices: ConditionFinder) -> None:
        super().__init__(known)
        self._choices = choices

    def stmt(self, node: Stmt) -> Stmt:
        """Rewrite a statement in which something is tested."""
        return node if self._choices.is_plain(node) else super().stmt(node)

    def visit_If(self, node: If) -> Stmt:
        """Keep one branch if the condition is known."""
        condition, then = self.expr(node.condition), self.stmt(node.then)
        orelse = None if node.orelse is None else self.stmt(node.orelse)
        if isinstance(condition, Const):
            return then if condition.value else (orelse or NOTHING)
        if is_empty(then) and is_empty(orelse):
            return NOTHING
        return node.with_parts(condition, then, orelse)

    def visit_For(self, node: For) -> Stmt:
        """Drop an empty loop."""
        body = self.stmt(node.body)
        if is_empty(body):
            return NOTHING
        return node.with_body(body)

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Drop an unused allocation."""
        body = self.stmt(node.body)
        if is_empty(body):
            return NOTHING
        return node if body is node.body else Allocate(node.buffer, body)
