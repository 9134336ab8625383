"""From a lowered function to the plain loop nest that feature extractors read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import LoweringError
from autotune.ir import dtypes
from autotune.ir.columns import ColumnProgram
from autotune.ir.expr import (
    Binary,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Knob,
    Load,
    Select,
    Var,
)
from autotune.ir.intervals import interval
from autotune.ir.ops import const
from autotune.ir.printer import excerpt
from autotune.ir.stmt import For, Function, If, LoopKind, Stmt, Store, ThreadReduce
from autotune.ir.visitor import child_stmts, substitute_stmt, walk_expr
from autotune.lowering.strides import (
    ABSENT,
    Amount,
    Analysis,
    FormAnalysis,
    TextAnalysis,
    Touch,
)
from features import VIRTUAL_THREAD, BufferAccess, Loop, LoopNest, Number, Scratch

_ANNOTATIONS = {
    LoopKind.SERIAL: "SERIAL",
    LoopKind.PARALLEL: "PARALLEL",
    LoopKind.UNROLLED: "UNROLL",
    LoopKind.UNROLL_HINTED: "UNROLL",
    LoopKind.VECTORIZED: "VECTORIZE",
    LoopKind.VTHREAD: VIRTUAL_THREAD,
}
_LEVELS = {"blockIdx": "BLOCK", "threadIdx": "THREAD"}
_COUNTED = {"+": "add", "-": "add", "*": "mul", "/": "div", "//": "div", "%": "div"}


def loop_nest(function: Function, knobs: Mapping[Knob, int] | None = None) -> LoopNest:
    """Return the loop nest of a function, knobs replaced by values; every number is an int.

    Lengths that only a call decides are `features.SYMBOLIC`. Loops of length 0 and what stands
    in them are there, as in the nests of all candidates.

    Parameters
    ----------
    function : Function
        As `lower_schedule` returns it.
    knobs : mapping of Knob to int
        Values of the function's knobs.

    Raises
    ------
    LoweringError
        If a knob has no value.
    """
    values = {knob: const(value, knob.dtype) for knob, value in (knobs or {}).items()}
    return NestWalk(substitute_stmt(function.body, values), FormAnalysis()).nest(_number)


def text_nest(function: Function) -> LoopNest:
    """Return the loop nest of a function without knobs, read off its text as it stands."""
    return NestWalk(function.body, TextAnalysis()).nest(_number)


def _number(value: Amount) -> Number:
    if isinstance(value, int):
        return value
    names = [repr(node.name) for node in walk_expr(value) if isinstance(node, Knob)]
    raise LoweringError(f"`{excerpt(value)}` depends on knob {names[0]}, which has no value")


class LoopNestPlan:
    """The loop nests of all candidates of a structure, as one program over knob columns.

    A candidate's nest is what `loop_nest` returns for its knobs' values. Only accesses in a branch
    of an expression that knobs alone rule out stay here, for the rows are the same for all.

    Parameters
    ----------
    function : Function
        As `lower_schedule` returns it, knobs symbolic.

    Attributes
    ----------
    knobs : tuple of str
        Names of the columns that are read.
    """

    def __init__(self, function: Function) -> None:
        self._walk = NestWalk(function.body, FormAnalysis())
        self._constants: dict[Expr, Number] = {}
        exprs: dict[Expr, None] = {}
        for amount in self._walk.amounts():
            if isinstance(amount, Expr):
                low, high = interval(amount)
                if low == high:
                    self._constants[amount] = low
                else:
                    exprs[amount] = None
        self._compile(tuple(exprs))

    def _compile(self, exprs: tuple[Expr, ...]) -> None:
        self._exprs = exprs
        self._program = ColumnProgram(exprs)
        self.knobs = self._program.knobs

    def only(self, read: Callable[[LoopNest], object]) -> LoopNestPlan:
        """Return a plan of the strides and moduli alone that `read` reads from a nest.

        The other ones are 1 in its nests. What `read` reads must not depend on values.
        """
        outline = self.outline()
        used = dict.fromkeys(self._walk.lengths())

        def noted(numbers: tuple[Number, ...], amounts: Iterable[Amount]) -> _Noted:
            found = tuple(amounts)
            return _Noted(numbers, lambda place: used.setdefault(found[place]))

        accesses = tuple(
            replace(
                access,
                strides=noted(access.strides, (touch.stride for touch in touches)),
                mods=noted(access.mods, (touch.mod for touch in touches)),
            )
            for access, touches in zip(outline.accesses, self._walk.touches(), strict=True)
        )
        read(LoopNest(outline.loops, accesses))
        part = copy(self)
        part._constants = {expr: 1 for expr in self._exprs if expr not in used}
        part._constants.update(self._constants)
        part._compile(tuple(expr for expr in self._exprs if expr in used))
        return part

    def outline(self) -> LoopNest:
        """Return the loop nest with an array of one element wherever candidates differ."""
        return self._nest({expr: np.ones(1) for expr in self._exprs})

    def nest(
        self,
        columns: Mapping[str, npt.NDArray[np.int64 | np.float64]] | None = None,
        scratch: Scratch | None = None,
    ) -> LoopNest:
        """Return the loop nest of the candidates in `columns`.

        Parameters
        ----------
        columns : mapping of str to ndarray (n,)
            Values of each knob; not needed if there are none.
        scratch : Scratch, optional
            Where the arrays lie; they hold until its next use. Not the one for the features.

        Returns
        -------
        LoopNest
            Numbers are float64 arrays (n,), equal ones the same array, and ints where one number
            holds for all knob values.
        """
        columns = columns or {}
        out: list[npt.NDArray[np.float64]] | None = None
        if scratch is not None and self.knobs:
            scratch.reset()
            n = len(columns[self.knobs[0]])
            out = [scratch.take(n) for _ in self._exprs]
        return self._nest(dict(zip(self._exprs, self._program(columns, out), strict=True)))

    def _nest(self, varying: Mapping[Expr, Number]) -> LoopNest:
        known = {**self._constants, **varying}
        return self._walk.nest(lambda a: a if isinstance(a, int) else known[a])


class _Noted(tuple[Number, ...]):
    """Numbers that tell which of them are read."""

    note: Callable[[int], object]

    def __new__(cls, numbers: Iterable[Number], note: Callable[[int], object]) -> _Noted:
        made = super().__new__(cls, numbers)
        made.note = note
        return made

    def __getitem__(self, place: Any) -> Any:
        self.note(place)
        return super().__getitem__(place)


@dataclass
class _Row:
    """A loop, and the arithmetic for which it is the innermost open one."""

    var: Var
    annotation: str
    length: int | Expr
    parent: int
    depth: int
    counts: dict[str, int] = field(default_factory=lambda: {"add": 0, "mul": 0, "div": 0})


@dataclass
class _Access:
    """A load or store with one touch per loop open around it, outermost first."""

    buffer: Buffer
    number: int
    rows: tuple[int, ...]
    touches: tuple[Touch, ...]
    is_store: bool


class NestWalk:
    """Walks a function in textual order and collects its loops and accesses.

    Guards, producer marks and allocations do not count. A store is numbered before its value,
    which is walked left to right, then its index; a load before its index.

    Parameters
    ----------
    body : Stmt
        What to walk.
    analysis : Analysis
        Knows lengths, strides and which conditions are decided.
    """

    def __init__(self, body: Stmt, analysis: Analysis) -> None:
        self._analysis = analysis
        self._rows: list[_Row] = []
        self._accesses: list[_Access] = []
        self._open: list[int] = []
        self._numbers: dict[str, int] = {}
        self._virtual: set[Var] = set()
        self._stmt(body)

    def amounts(self) -> list[Amount]:
        """Return every length, stride and modulus."""
        found = self.lengths()
        for touches in self.touches():
            for touch in touches:
                found += touch
        return found

    def lengths(self) -> list[Amount]:
        """Return the length of every loop."""
        return [row.length for row in self._rows]

    def touches(self) -> list[tuple[Touch, ...]]:
        """Return for every access its touch of each loop around it."""
        return [access.touches for access in self._accesses]

    def nest(self, number: Callable[[Amount], Number]) -> LoopNest:
        """Return the loop nest, each length, stride and modulus turned into a number."""
        loops = tuple(
            Loop(row.var.name, row.annotation, number(row.length), row.parent, row.depth,
                 **row.counts)
            for row in self._rows
        )
        accesses = tuple(
            BufferAccess(
                buffer=access.buffer.name,
                number=access.number,
                loops=access.rows,
                strides=tuple(number(touch.stride) for touch in access.touches),
                mods=tuple(number(touch.mod) for touch in access.touches),
                itemsize=dtypes.itemsize(access.buffer.dtype),
                is_store=access.is_store,
            )
            for access in self._accesses
        )
        return LoopNest(loops, accesses)

    # -- statements ------------------------------------------------------------------------

    def _stmt(self, node: Stmt) -> None:
        if isinstance(node, For):
            self._loop(node)
        elif isinstance(node, Store):
            self._access(node.buffer, node.index, is_store=True)
            self._expr(node.value)
            self._expr(node.index)
        elif isinstance(node, If):
            self._condition(node.condition)
            for child in child_stmts(node):
                self._stmt(child)
        elif isinstance(node, ThreadReduce):
            for operand in node.operands:
                self._expr(operand)
        else:
            for child in child_stmts(node):
                self._stmt(child)

    def _condition(self, condition: Expr) -> None:
        """Walk a condition on data; guards on loops do not count."""
        if any(isinstance(part, Load) for part in walk_expr(condition)):
            self._expr(condition)

    def _loop(self, loop: For) -> None:
        if not self._has_row(loop):
            self._stmt(loop.body)
            return
        self._analysis.enter(loop.var, loop.extent)
        parent = self._open[-1] if self._open else -1
        length = self._analysis.length(loop.extent)
        self._open.append(len(self._rows))
        self._rows.append(_Row(loop.var, _annotation(loop), length, parent, len(self._open)))
        self._stmt(loop.body)
        self._open.pop()

    def _has_row(self, loop: For) -> bool:
        """Whether a loop is a row: a thread axis in its own scope is not.

        Neither is a virtual thread met before.
        """
        if loop.kind is LoopKind.VTHREAD:
            if loop.var in self._virtual:
                return False
            self._virtual.add(loop.var)
        return all(self._rows[row].var is not loop.var for row in self._open)

    # -- expressions -----------------------------------------------------------------------

    def _access(self, buffer: Buffer, index: Expr, is_store: bool) -> None:
        number = self._numbers.get(buffer.name, 0)
        self._numbers[buffer.name] = number + 1
        found = self._analysis.touches(index)
        touches = tuple(found.get(self._rows[row].var, ABSENT) for row in self._open)
        self._accesses.append(_Access(buffer, number, tuple(self._open), touches, is_store))

    def _expr(self, node: Expr, is_text: bool = False) -> None:
        if dtypes.is_integer(node.dtype) and not is_text:
            node, is_text = self._analysis.value(node), True
        if isinstance(node, Load):
            self._access(node.buffer, node.index, is_store=False)
        elif isinstance(node, Binary) and dtypes.is_float(node.dtype):
            self._count(node)
        chosen = self._chosen(node)
        for child in node.children if chosen is None else (chosen,):
            self._expr(child, is_text)

    def _chosen(self, node: Expr) -> Expr | None:
        """Return the branch that an expression always takes, None if there is none."""
        if isinstance(node, Select) or (isinstance(node, Call) and node.name == "if_then_else"):
            verdict = self._analysis.verdict(node.children[0])
            if verdict is not None:
                return node.children[1 if verdict else 2]
        return None

    def _count(self, node: Binary) -> None:
        """Charge an operation to the innermost row; division by a constant is a multiplication."""
        kind = _COUNTED.get(node.op)
        if kind is None or not self._open or self._is_constant(node):
            return
        if kind == "div" and self._is_constant(node.b):
            kind = "mul"
        self._rows[self._open[-1]].counts[kind] += 1

    def _is_constant(self, node: Expr) -> bool:
        """Whether an expression is a constant in the text once the knobs have values."""
        match node:
            case Const() | Knob():
                return True
            case Binary():
                folds = node.op in _COUNTED or dtypes.is_integer(node.dtype)
                return folds and self._is_constant(node.a) and self._is_constant(node.b)
            case Cast():
                return self._is_constant(node.a)
            case _:
                chosen = self._chosen(node)
                return chosen is not None and self._is_constant(chosen)


def _annotation(loop: For) -> str:
    if loop.kind is not LoopKind.THREAD:
        return _ANNOTATIONS[loop.kind]
    level, _, dimension = loop.thread_tag.partition(".")
    return f"{_LEVELS[level]}_{dimension.upper()}"
