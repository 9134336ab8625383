"""Runs kernels thread by thread and says which accesses to shared storage race.

Between two barriers every thread of a block runs alone, so that a wrong kernel computes something
wrong or is told to race; that threads do not come to the same barrier is an error.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autotune.ir import dtypes
from autotune.ir.expr import (
    Binary,
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
from autotune.ir.interpreter import poison
from autotune.ir.intrinsics import INTRINSICS
from autotune.ir.stmt import Allocate, Barrier, For, Function, If, LoopKind, Seq, Stmt, Store
from autotune.lowering.kernels import split_kernels, workspace


@dataclass(frozen=True)
class Race:
    """Two threads that access one element of shared storage with no barrier between."""

    buffer: str
    element: int
    threads: tuple[int, int]


@dataclass
class Blocks:
    """What running kernels showed.

    Attributes
    ----------
    races : set of Race
        At most one for each element and barrier.
    barriers : int
        How often blocks passed a barrier.
    """

    races: set[Race] = field(default_factory=set)
    barriers: int = 0


def run_blocks(function: Function, arrays: Sequence[Any]) -> Blocks:
    """Run a function in its final form for GPUs; arrays are those of its parameters."""
    memory = {
        buffer: array.reshape(-1) for buffer, array in zip(function.params, arrays, strict=True)
    }
    for buffer in workspace(function):
        memory[buffer] = _fresh(buffer, {})
    found = Blocks()
    for kernel in split_kernels(function):
        _Grid(memory, found).run(kernel.function.body, {})
    for buffer, array in zip(function.params, arrays, strict=True):
        assert np.shares_memory(memory[buffer], array)
    return found


def _fresh(buffer: Buffer, env: dict[Var, int]) -> Any:
    size = math.prod(int(_value(extent, env, {}, None)) for extent in buffer.shape)
    return np.full(size, poison(buffer.dtype), dtypes.numpy_dtype(buffer.dtype))


class _Grid:
    """Runs one kernel, block after block."""

    def __init__(self, memory: dict[Buffer, Any], found: Blocks) -> None:
        self.memory = dict(memory)
        self.found = found

    def run(self, stmt: Stmt, env: dict[Var, int]) -> None:
        match stmt:
            case For() if stmt.thread_tag.startswith("threadIdx"):
                self._block(stmt, env)
            case For(var, extent, LoopKind.THREAD, body):
                for i in range(int(_value(extent, env, self.memory, None))):
                    self.run(body, {**env, var: i})
            case Allocate(buffer, body):
                assert buffer.scope == "shared"
                self.memory[buffer] = _fresh(buffer, env)
                self.run(body, env)
            case _:
                raise AssertionError(f"between blocks and threads: {stmt}")

    def _block(self, stmt: Stmt, env: dict[Var, int]) -> None:
        axes: list[tuple[Var, int]] = []
        while isinstance(stmt, For) and stmt.kind is LoopKind.THREAD:
            axes.append((stmt.var, int(_value(stmt.extent, env, self.memory, None))))
            stmt = stmt.body
        log: dict[tuple[Buffer, int], tuple[set[int], set[int]]] = {}
        threads = []
        for number, place in enumerate(itertools.product(*(range(n) for _, n in axes))):
            own = {**env, **{var: i for (var, _), i in zip(axes, place, strict=True)}}
            threads.append(_Thread(number, dict(self.memory), log).run(stmt, own))
        while True:
            waiting = [next(thread, None) for thread in threads]
            self._look_for_races(log)
            if all(one is None for one in waiting):
                return
            assert all(one is waiting[0] for one in waiting), "threads wait at different barriers"
            self.found.barriers += 1

    def _look_for_races(self, log: dict[tuple[Buffer, int], tuple[set[int], set[int]]]) -> None:
        for (buffer, element), (readers, writers) in log.items():
            for writer in writers:
                for other in readers | writers:
                    if other != writer:
                        pair = (min(writer, other), max(writer, other))
                        self.found.races.add(Race(buffer.name, element, pair))
        log.clear()


@dataclass
class _Thread:
    number: int
    memory: dict[Buffer, Any]
    log: dict[tuple[Buffer, int], tuple[set[int], set[int]]]

    def run(self, stmt: Stmt, env: dict[Var, int]) -> Iterator[Stmt]:
        """Carry out a statement, and yield the barriers that the thread comes to."""
        match stmt:
            case Store(buffer, index, value):
                lanes = [k for k in range(index.lanes) if env.get(_MASK, (True,) * 64)[k]]
                places = [(self.value(index, env, k), self.value(value, env, k)) for k in lanes]
                for place, new in places:
                    assert 0 <= place < len(self.memory[buffer]), f"{buffer.name}[{place}]"
                    if buffer.scope == "shared":
                        self.accesses(buffer, place)[1].add(self.number)
                    self.memory[buffer][place] = new
            case For(var, extent, _, body):
                for i in range(int(self.value(extent, env, 0))):
                    yield from self.run(body, {**env, var: i})
            case If(condition) if condition.lanes > 1:
                active = env.get(_MASK, (True,) * condition.lanes)
                test = tuple(
                    active[k] and bool(self.value(condition, env, k))
                    for k in range(condition.lanes)
                )
                other = tuple(a and not t for a, t in zip(active, test, strict=False))
                yield from self.run(stmt.then, {**env, _MASK: test})
                if stmt.orelse is not None:
                    yield from self.run(stmt.orelse, {**env, _MASK: other})
            case If(condition, then, orelse):
                chosen = then if self.value(condition, env, 0) else orelse
                if chosen is not None:
                    yield from self.run(chosen, env)
            case Seq(stmts):
                for inner in stmts:
                    yield from self.run(inner, env)
            case Allocate(buffer, body):
                assert buffer.scope == "local"
                self.memory[buffer] = _fresh(buffer, env)
                yield from self.run(body, env)
            case Barrier():
                yield stmt
            case _:
                raise AssertionError(f"unknown: {stmt}")

    def accesses(self, buffer: Buffer, place: int) -> tuple[set[int], set[int]]:
        return self.log.setdefault((buffer, int(place)), (set(), set()))

    def value(self, node: Expr, env: dict[Var, int], lane: int) -> Any:
        return _value(node, env, self.memory, self, lane)


_MASK: Any = Var("mask")


def _value(
    node: Expr, env: dict[Var, int], memory: dict[Buffer, Any], thread: _Thread | None,
    lane: int = 0,
) -> Any:  # fmt: skip
    """Value of one lane of an expression: numbers of NumPy where it is data, of Python else."""

    def of(child: Expr) -> Any:
        return _value(child, env, memory, thread, lane)

    match node:
        case Const():
            is_index = dtypes.is_index(node.dtype) or node.dtype == dtypes.BOOL
            return node.value if is_index else dtypes.numpy_dtype(node.dtype).type(node.value)
        case Var():
            return env[node]
        case Load(buffer=buffer):
            place = int(of(node.index))
            assert 0 <= place < len(memory[buffer]), f"{buffer.name}[{place}]"
            if thread is not None and buffer.scope == "shared":
                thread.accesses(buffer, place)[0].add(thread.number)
            found = memory[buffer][place]
            return int(found) if dtypes.is_index(node.dtype) else found
        case Binary():
            return _binary(node, of)
        case Not():
            return not of(node.a)
        case Select() | Call(name="if_then_else"):
            test, true, false = node.children
            return of(true) if of(test) else of(false)
        case Call(name="likely"):
            return of(node.children[0])
        case Call():
            operands = [np.float64(of(child)) for child in node.children]
            return dtypes.numpy_dtype(node.dtype).type(INTRINSICS[node.name].meaning(*operands))
        case Cast():
            if dtypes.is_index(node.dtype):
                return int(of(node.a))
            return dtypes.numpy_dtype(node.dtype).type(of(node.a))
        case Ramp():
            return of(node.base) + lane * of(node.stride)
        case Broadcast():
            return of(node.value)
        case _:
            raise AssertionError(f"unknown: {node}")


def _binary(node: Binary, of: Any) -> Any:
    if node.op in ("and", "or"):
        first = of(node.a)
        return first if bool(first) == (node.op == "or") else of(node.b)
    a, b = of(node.a), of(node.b)
    match node.op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return a / b
        case "//":
            return a // b
        case "%":
            return a % b
        case "min" | "max":
            return min(a, b) if node.op == "min" else max(a, b)
        case "==":
            return a == b
        case "!=":
            return a != b
        case "<":
            return a < b
        case "<=":
            return a <= b
        case ">":
            return a > b
        case _:
            return a >= b
