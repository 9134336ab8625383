"""Uniform expressions: those with one value for all threads of a block."""

from __future__ import annotations

from collections.abc import Set

from autotune.ir.expr import Expr, Load, Var
from autotune.ir.stmt import For, LoopKind, Stmt
from autotune.ir.visitor import walk_expr


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
