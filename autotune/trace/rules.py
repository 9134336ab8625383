"""What a target demands of a lowered function, as conditions on knobs."""

from __future__ import annotations

from autotune.errors import LoweringError
from autotune.ir.expr import Expr
from autotune.ir.ops import binary, const
from autotune.ir.stmt import For, Function, LoopKind, Stmt
from autotune.ir.visitor import child_stmts
from autotune.target import Target


def target_rules(function: Function, target: Target) -> list[tuple[Expr, str]]:
    """Return conditions over knobs under which `target` can run `function`, with messages.

    Raises
    ------
    LoweringError
        If no knob value helps, such as GPU threads on a CPU target.
    """
    blocks = list(dict.fromkeys(_threads(function.body, {})))
    if target.kind == "llvm":
        if any(threads is not None for threads in blocks):
            raise LoweringError(
                f"{function.name!r} binds loops to GPU threads, which target 'llvm' does not have"
            )
        return []
    limit = target.max_num_threads
    message = f"a block has at most {limit} threads"
    return [(binary("<=", t, limit), message) for t in blocks if t is not None]


def _threads(stmt: Stmt, extents: dict[str, Expr]) -> list[Expr | None]:
    """Return the threads per block at each innermost statement; None outside of any."""
    if isinstance(stmt, For) and stmt.kind is LoopKind.THREAD:
        extents = {**extents, stmt.thread_tag: stmt.extent}
    inner = child_stmts(stmt)
    if inner:
        return [threads for child in inner for threads in _threads(child, extents)]
    if not extents:
        return [None]
    total: Expr = const(1)
    for tag, extent in extents.items():
        if tag.startswith("threadIdx"):
            total = binary("*", total, extent)
    return [total]
