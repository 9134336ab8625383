"""The traversal and the rewriter of all passes; unchanged nodes keep their identity."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Any, ClassVar, ParamSpec, TypeVar

from autotune.errors import LoweringError
from autotune.ir.expr import BinaryOp, Buffer, Call, Cast, Expr, Load, Not, Read, Select, Var
from autotune.ir.ops import cast, fold, gcd, if_then_else, likely, logical_not, select
from autotune.ir.stmt import (
    Allocate,
    For,
    LoopKind,
    PrimFunc,
    Raw,
    Seq,
    Stmt,
    Store,
    ThreadReduce,
    WarpReduce,
    seq,
)

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def recursive(run: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Decorate a recursive pass: too deep nesting raises a LoweringError."""

    @wraps(run)
    def checked(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        try:
            return run(*args, **kwargs)
        except RecursionError:
            # The thousand frames of the recursion give no more information.
            raise LoweringError(
                "an expression, or one stage after another, nests deeper than Python's recursion "
                f"limit ({sys.getrecursionlimit()}) allows; give parts of the expression computes "
                "of their own that are not inlined, or raise the limit with sys.setrecursionlimit"
            ) from None

    return checked


def walk_expr(expr: Expr) -> Iterator[Expr]:
    """Yield `expr` and its operands, each distinct one once, parents first."""
    seen: set[Expr] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            yield node
            if node.children:
                stack.extend(node.children[::-1])


def post_order(
    root: Expr,
    known: Container[Expr],
    operands: Callable[[Expr], Sequence[Expr]] = operator.attrgetter("children"),
) -> Iterator[Expr]:
    """Yield the nodes of `root`, each once and after its operands, without recursion.

    Nodes in `known` are left out, with what only they need; it may grow meanwhile.
    """
    seen: set[int] = set()
    stack = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif id(node) not in seen and node not in known:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((operand, False) for operand in reversed(operands(node)))


def free_vars(expr: Expr) -> list[Var]:
    """Variables of `expr`, in order of first appearance."""
    return [node for node in walk_expr(expr) if isinstance(node, Var)]


def mentions(expr: Expr, part: Expr) -> bool:
    """Whether `part` itself, such as a variable, occurs in `expr`."""
    return any(node is part for node in walk_expr(expr))


def reads(expr: Expr) -> list[Read]:
    """Tensor reads in `expr`, in order of first appearance."""
    return [node for node in walk_expr(expr) if isinstance(node, Read)]


def child_stmts(stmt: Stmt) -> tuple[Stmt, ...]:
    """Statements directly inside `stmt`."""
    return _parts(stmt, stmt.STMTS) if stmt.STMTS else ()


def stmt_exprs(stmt: Stmt) -> tuple[Expr, ...]:
    """Expressions written directly in `stmt`."""
    return stmt.buffer.shape if isinstance(stmt, Allocate) else _parts(stmt, stmt.EXPRS)


def _parts(stmt: Stmt, fields: tuple[str, ...]) -> tuple[Any, ...]:
    found: tuple[Any, ...] = ()
    for field in fields:
        part = getattr(stmt, field)
        if part is not None:
            found += part if isinstance(part, tuple) else (part,)
    return found


def with_parts(
    stmt: Stmt, expr: Callable[[Expr], Expr] | None, inside: Callable[[Stmt], Stmt]
) -> Stmt:
    """Return a statement with its expressions and statements replaced (itself if none is new).

    If `expr` is None the expressions stay.
    """
    changed: dict[str, Any] = {}
    if expr is not None:
        _replace_fields(stmt, stmt.EXPRS, expr, changed)
    _replace_fields(stmt, stmt.STMTS, inside, changed)
    if not changed:
        return stmt
    found: Any = replace(stmt, **changed)  # type: ignore[type-var]  # all are dataclasses
    return seq(*found.stmts) if isinstance(found, Seq) else found


def _replace_fields(
    stmt: Stmt, fields: tuple[str, ...], new: Callable[[Any], Any], changed: dict[str, Any]
) -> None:
    """Add the fields of a statement to `changed` that get another value."""
    for field in fields:
        old = getattr(stmt, field)
        if isinstance(old, tuple):
            parts = tuple(map(new, old))
            if not all(map(operator.is_, parts, old)):
                changed[field] = parts
        elif old is not None and (part := new(old)) is not old:
            changed[field] = part


def loads(stmt: Stmt) -> list[Load]:
    """Return the loads in the expressions of `stmt` itself, in textual order."""
    return [load for expr in stmt_exprs(stmt) for load in loads_in(expr)]


@lru_cache(maxsize=4096)  # Pass after pass asks for those of the same expressions.
def loads_in(expr: Expr) -> tuple[Load, ...]:
    """Return the loads in `expr`, in order of first appearance."""
    return tuple(node for node in walk_expr(expr) if isinstance(node, Load))


def all_loads(stmt: Stmt) -> Iterator[Load]:
    """Yield the loads of `stmt` and of every statement inside it, in textual order."""
    for inner in walk(stmt):
        yield from loads(inner)


def accessed(stmt: Stmt) -> Iterator[Buffer]:
    """Yield the buffers that `stmt` itself reads or writes, some of them repeatedly."""
    yield from written(stmt)
    yield from (load.buffer for load in loads(stmt))


def written(stmt: Stmt) -> tuple[Buffer, ...]:
    """Buffers that `stmt` itself writes."""
    match stmt:
        case Store():
            return (stmt.buffer,)
        case ThreadReduce() | WarpReduce():
            return stmt.results
        case _:
            return ()


def all_written(stmt: Stmt) -> set[Buffer]:
    """Buffers that `stmt` or a statement inside it writes."""
    return {buffer for inner in walk(stmt) for buffer in written(inner)}


def all_accessed(stmt: Stmt) -> set[Buffer]:
    """Buffers that `stmt` or a statement inside it reads or writes."""
    return {buffer for inner in walk(stmt) for buffer in accessed(inner)}


def all_allocated(stmt: Stmt, scope: str | None = None) -> list[Buffer]:
    """Buffers that `stmt` or a statement inside it allocates, of one scope or all, in order."""
    found = (inner.buffer for inner in walk(stmt) if isinstance(inner, Allocate))
    return [buffer for buffer in found if scope in (None, buffer.scope)]


def walk(stmt: Stmt) -> Iterator[Stmt]:
    """Yield `stmt` and every statement inside it, outer ones first, in textual order."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        yield node
        if node.STMTS:
            stack.extend(_parts(node, node.STMTS)[::-1])


def is_raw(function: PrimFunc) -> bool:
    """Whether a function is an external kernel, such as a text in CUDA C++."""
    return language_of(function) is not None


def language_of(function: PrimFunc) -> str | None:
    """Return the language of an external kernel, as of `Raw`; None of a function of loops."""
    return next((s.language for s in walk(function.body) if isinstance(s, Raw)), None)


class Rewriter:
    """Base of all passes: override `visit_<Node>` for the nodes a pass changes.

    `expr` memoises on identity, which interning makes exact.
    """

    #: Names of the methods that visit nodes, by the class of the nodes; each pass has its own.
    _visitors: ClassVar[dict[type, str | None]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._visitors = {}

    def __init__(self) -> None:
        self._memo: dict[Expr, Expr] = {}

    def _method(self, node: object, default: Any) -> Any:
        cls = type(node)
        if cls not in self._visitors:
            names = (f"visit_{base.__name__}" for base in cls.__mro__)
            self._visitors[cls] = next((name for name in names if hasattr(self, name)), None)
        name = self._visitors[cls]
        return default if name is None else getattr(self, name)

    def expr(self, node: Expr) -> Expr:
        """Return the rewritten expression."""
        result = self._memo.get(node)
        if result is None:
            result = self._method(node, self.rebuild)(node)
            self._memo[node] = result
        return result

    def rebuild(self, node: Expr) -> Expr:
        """Rewrite the operands only."""
        if not node.children:
            return node
        return node.with_children(tuple(map(self.expr, node.children)))

    def stmt(self, node: Stmt) -> Stmt:
        """Return the rewritten statement."""
        result: Stmt = self._method(node, self.rebuild_stmt)(node)
        return result

    def rebuild_stmt(self, node: Stmt) -> Stmt:
        """Rewrite only the parts of `node`."""
        return with_parts(node, self.expr, self.stmt)


class StmtRewriter(Rewriter):
    """Base of passes that move statements and do not change expressions."""

    def expr(self, node: Expr) -> Expr:
        """Return the expression as it is."""
        return node

    def rebuild_stmt(self, node: Stmt) -> Stmt:
        """Rewrite only the statements inside `node`."""
        return with_parts(node, None, self.stmt) if node.STMTS else node


Change = Callable[[Stmt], Stmt | None]  # What takes the place of a statement; None if nothing does.


class _Transform(StmtRewriter):
    def __init__(self, before: Change | None, after: Change | None) -> None:
        super().__init__()
        self.before, self.after = before, after

    def stmt(self, node: Stmt) -> Stmt:
        early = self.before(node) if self.before is not None else None
        if early is not None:
            return early
        rebuilt = self.rebuild_stmt(node)
        late = self.after(rebuilt) if self.after is not None else None
        return rebuilt if late is None else late


def transform(stmt: Stmt, before: Change | None = None, after: Change | None = None) -> Stmt:
    """Return a statement in which others take the place of some; expressions stay.

    `before`: called for outer statements first; what it replaces is not looked into.
    `after`: called for inner statements first, each with what has changed inside it.
    """
    return _Transform(before, after).stmt(stmt)


# Where a load or store goes, given the buffer and the rewritten index.
Place = Callable[[Buffer, Expr], tuple[Buffer, Expr]]


class AccessRewriter(Rewriter):
    """Directs loads and stores to other places.

    `place`: returns buffer and index of an access, given its buffer and its rewritten index.
    """

    def __init__(self, place: Place) -> None:
        super().__init__()
        self._place = place

    def visit_Load(self, node: Load) -> Expr:
        """Load from elsewhere."""
        return Load(*self._place(node.buffer, self.expr(node.index)))

    def visit_Store(self, node: Store) -> Stmt:
        """Store elsewhere."""
        buffer, index = self._place(node.buffer, self.expr(node.index))
        value = self.expr(node.value)
        same = buffer is node.buffer and index is node.index and value is node.value
        return node if same else Store(buffer, index, value)


class ReadRewriter(Rewriter):
    """Replaces reads of tensors.

    `replace`: returns what takes the place of a read, given its tensor and its rewritten indices.
    """

    def __init__(self, replace: Callable[[Any, tuple[Expr, ...]], Expr]) -> None:
        super().__init__()
        self._replace = replace

    def visit_Read(self, node: Read) -> Expr:
        """Return the replacement of a read."""
        return self._replace(node.tensor, tuple(map(self.expr, node.children)))


class Substitution(Rewriter):
    """Replaces expressions by others, folding constants that this creates."""

    def __init__(self, mapping: Mapping[Any, Expr]) -> None:
        super().__init__()
        self._memo.update(mapping)

    def rebuild(self, node: Expr) -> Expr:
        """Rewrite the operands and fold."""
        if isinstance(node, BinaryOp):
            a, b = self.expr(node.a), self.expr(node.b)
            return node if a is node.a and b is node.b else fold(node.op, a, b)
        rebuilt = super().rebuild(node)
        if rebuilt is node:
            return node
        match rebuilt:
            case Select():
                return select(*rebuilt.children)
            case Cast():
                return cast(rebuilt.dtype, rebuilt.a)
            case Not():
                return logical_not(rebuilt.a)
            case Call(name="if_then_else"):
                return if_then_else(*rebuilt.children)
            case Call(name="likely"):
                return likely(rebuilt.children[0])
            case Call(name="gcd"):
                return gcd(*rebuilt.children)
        return rebuilt


def substitute(expr: Expr, mapping: Mapping[Any, Expr]) -> Expr:
    """Replace variables by expressions, folding constants that this creates."""
    return Substitution(mapping).expr(expr) if mapping else expr


def substitute_stmt(stmt: Stmt, mapping: Mapping[Any, Expr]) -> Stmt:
    """Replace variables by expressions in a statement, folding constants that this creates."""
    return Substitution(mapping).stmt(stmt) if mapping else stmt


def is_thread_loop(stmt: Stmt) -> bool:
    """Whether a statement is a loop over the threads of a block."""
    return (
        isinstance(stmt, For)
        and stmt.kind is LoopKind.THREAD
        and stmt.thread_tag.startswith("threadIdx")
    )


def is_uniform(expr: Expr, threads: Set[Var]) -> bool:
    """Whether an expression is known to have one value for all threads of a block.

    `expr`: an expression that does not depend on loops with a different number of iterations per
    thread.
    `threads`: variables of the loops over the threads.
    """
    return not any(
        node in threads
        if isinstance(node, Var)
        else isinstance(node, Load) and node.buffer.scope == "local"
        for node in walk_expr(expr)
    )
