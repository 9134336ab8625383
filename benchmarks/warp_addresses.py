"""Bank conflicts of a kernel: addresses of the threads of a warp in shared memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from autotune.codegen.c.c_lanes import packed_lanes
from autotune.ir import dtypes
from autotune.ir.expr import (
    BinaryOp,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Not,
    Ramp,
    Select,
    Var,
)
from autotune.ir.stmt import For, If, Stmt, Store
from autotune.ir.visitor import child_stmts, stmt_exprs
from autotune.lowering.gpu.finalise_kernels import DeviceKernel

WARP: Final = 32
_BANKS, _BANK_BYTES = 32, 4
_SAMPLES: Final = 4
_OPS: Final[Mapping[str, Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "//": np.floor_divide, "%": np.mod,
    "min": np.minimum, "max": np.maximum, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal, "and": np.logical_and,
    "or": np.logical_or,
}  # fmt: skip


class _UnknownError(Exception):
    """A value depends on memory."""


def worst_conflict(kernel: DeviceKernel) -> float:
    """Return the most transactions of a warp's access in place of one; 1 without conflicts."""
    rng = np.random.default_rng(0)
    worst = 1.0
    for buffer, index, guards, loops in _accesses(kernel.function.body, (), ()):
        for sample in range(_SAMPLES):
            for warp in (0, 1):
                values = _lanes_of(loops, warp, rng if sample else None)
                if values is not None:
                    worst = max(worst, _transactions(buffer, index, guards, values))
    return worst


def _accesses(
    stmt: Stmt, guards: tuple[Expr, ...], loops: tuple[For, ...]
) -> Iterator[tuple[Buffer, Expr, tuple[Expr, ...], tuple[For, ...]]]:
    """Yield the accesses to shared memory with the conditions and loops around them."""
    found: list[tuple[Buffer, Expr]] = []
    for expr in stmt_exprs(stmt):
        found += [(load.buffer, load.index) for load in _loads(expr)]
    if isinstance(stmt, Store):
        found.append((stmt.buffer, stmt.index))
    yield from ((b, i, guards, loops) for b, i in dict.fromkeys(found) if b.scope == "shared")
    for child in child_stmts(stmt):
        own = loops
        inside = guards
        if isinstance(stmt, For):
            own = (*loops, stmt)
        if isinstance(stmt, If) and child is stmt.then:
            inside = (*guards, stmt.condition)
        yield from _accesses(child, inside, own)


def _loads(expr: Expr) -> Iterator[Load]:
    if isinstance(expr, Load):
        yield expr
    for child in expr.children:
        yield from _loads(child)


def _lanes_of(loops: tuple[For, ...], warp: int, rng: Any) -> dict[Var, Any] | None:
    """Return the values of loop variables of the threads of a warp; None without such a warp."""
    block = {loop.thread_tag: loop for loop in loops if loop.thread_tag.startswith("threadIdx")}
    sizes = {tag: _extent(loop) for tag, loop in block.items()}
    if warp * WARP >= math.prod(sizes.values()):
        return None
    number = warp * WARP + np.arange(min(WARP, math.prod(sizes.values()) - warp * WARP))
    values: dict[Var, Any] = {}
    for tag in sorted(block):
        values[block[tag].var] = number % sizes[tag]
        number = number // sizes[tag]
    for loop in loops:
        if loop.var not in values:
            most = max(1, _extent(loop))
            values[loop.var] = 0 if rng is None else int(rng.integers(0, most))
    return values


def _extent(loop: For) -> int:
    return int(loop.extent.value) if isinstance(loop.extent, Const) else 1


def _transactions(
    buffer: Buffer, index: Expr, guards: tuple[Expr, ...], values: Mapping[Var, Any]
) -> float:
    """Return the transactions of an access over those of as many bytes without conflicts."""
    together = packed_lanes(buffer, index)
    try:
        base = _value(index.base if isinstance(index, Ramp) else index, values)
    except _UnknownError:
        return 1.0
    threads = max(np.size(v) for v in values.values())
    base = np.broadcast_to(base, threads)
    active = np.ones(threads, dtype=bool)
    for guard in guards:
        try:
            active = active & np.broadcast_to(_value(guard, values), threads)
        except _UnknownError:
            continue
    size = dtypes.itemsize(buffer.dtype)
    at_once = WARP // max(1, together * size // _BANK_BYTES)
    total = least = 0
    for first in range(0, threads, at_once):
        own = base[first : first + at_once][active[first : first + at_once]]
        if not len(own):
            continue
        each = np.arange(0, together * size, min(size, _BANK_BYTES))
        words = np.unique((own[:, None] * size + each) // _BANK_BYTES)
        banks = np.bincount(words % _BANKS, minlength=_BANKS)
        total += int(banks.max())
        least += -(-len(words) // _BANKS)
    return total / least if least else 1.0


def _value(expr: Expr, values: Mapping[Var, Any]) -> Any:
    """Return the value of an expression for each thread."""
    match expr:
        case Const(value=value):
            return int(value)
        case Var():
            if expr not in values:
                raise _UnknownError
            return values[expr]
        case Cast(a=a) | Broadcast(value=a):
            return _value(a, values)
        case Ramp(base=a):
            return _value(a, values)
        case Not(a=a):
            return np.logical_not(_value(a, values))
        case BinaryOp(op=op, a=a, b=b) if op in _OPS:
            return _OPS[op](_value(a, values), _value(b, values))
        case Select(condition=c, true=a, false=b):
            return np.where(_value(c, values), _value(a, values), _value(b, values))
        case Call(name="bitwise_xor", children=(a, b)):
            return np.bitwise_xor(_value(a, values), _value(b, values))
        case Call(name="likely", children=(a,)):
            return _value(a, values)
    raise _UnknownError
