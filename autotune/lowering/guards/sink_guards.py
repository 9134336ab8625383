"""Moves conditions inwards, so that statements between guarded statements run without guards."""

from __future__ import annotations

from autotune.errors import LoweringError
from autotune.ir.expr import Expr, Load
from autotune.ir.ops import binary, if_then_else, logical_not
from autotune.ir.stmt import Allocate, For, If, Produce, Seq, Stmt, WarpReduce, seq
from autotune.ir.visitor import all_written, walk_expr


def sink_conditions(stmt: If) -> Stmt | None:
    """Return a guarded statement with its condition moved one level inwards.

    ::

        if c:                    for i in n:
          for i in n:      ->      if c:
            f(i); g(i)               f(i); g(i)

    It is None if the condition guards a single store. Threads that the condition excludes from a
    warp reduction take part in it with the neutral element.

    Raises LoweringError if the condition reads what the guarded statements write.
    """
    written = all_written(stmt)
    for node in walk_expr(stmt.condition):
        if isinstance(node, Load) and node.buffer in written:
            raise LoweringError(
                f"the condition `{stmt.condition}` differs between threads and changes in what it "
                f"guards, where threads wait for one another; compute what it reads of "
                f"{node.buffer.name!r} before, in a stage of its own"
            )
    if stmt.orelse is not None:
        otherwise = If(logical_not(stmt.condition), stmt.orelse)
        return seq(If(stmt.condition, stmt.then), otherwise)
    return _inside(stmt.condition, stmt.then)


def _inside(condition: Expr, stmt: Stmt) -> Stmt | None:
    match stmt:
        case Seq(stmts):
            return seq(*(If(condition, inner) for inner in stmts))
        case For(var, extent, kind, body, tag):
            return For(var, extent, kind, If(condition, body), tag)
        case Allocate(buffer, body):
            return Allocate(buffer, If(condition, body))
        case Produce(name, body):
            return Produce(name, If(condition, body))
        case If(other, then, None):
            return If(binary("and", condition, other), then)
        case If(other, then, orelse):
            assert orelse is not None
            first = If(binary("and", condition, other), then)
            return seq(first, If(binary("and", condition, logical_not(other)), orelse))
        case WarpReduce(combiner, operands, results, index, width):
            pairs = zip(operands, combiner.identity, strict=True)
            values = tuple(if_then_else(condition, value, neutral) for value, neutral in pairs)
            return WarpReduce(combiner, values, results, index, width)
        case _:
            return None
