"""Identity of functions and schedules: text to hash.

Names of variables do not count, except those of knobs. Types, sizes and every bit of a constant
count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from autotune.ir.axes import Combiner
from autotune.ir.expr import BinaryOp, Buffer, Call, Const, Expr, KnobVar, Load, Read, Reduce
from autotune.ir.stmt import (
    Allocate,
    Arrive,
    Barrier,
    CopyAhead,
    For,
    If,
    PrimFunc,
    Produce,
    Raw,
    Seq,
    Stmt,
    Store,
    WarpReduce,
)
from autotune.ir.visitor import Substitution
from autotune.schedule.schedule import Schedule
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, Tensor


def digest(lines: Iterable[str]) -> str:
    """16 hexadecimal digits of a text."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def code_hash(function: PrimFunc) -> str:
    """16 hexadecimal digits that are equal for functions with the same statements.

    function: in final form, as backends take it.
    """
    return digest(function_lines(function))


class _Lines:
    """Numbers every distinct expression, variable, tensor and buffer in order of appearance.

    Knobs that have a value count as the number.
    """

    def __init__(self, values: Mapping[KnobVar, int] | None = None) -> None:
        self.lines: list[str] = []
        self._numbers: dict[object, int] = {}
        numbers = {knob: Const(value, knob.dtype) for knob, value in (values or {}).items()}
        self._substitution = Substitution(numbers) if numbers else None

    def _number(self, key: object, line: str) -> int:
        number = self._numbers[key] = len(self._numbers)
        self.lines.append(f"{number} = {line}")
        return number

    def buffer(self, buffer: Buffer) -> int:
        """Return the number of a buffer."""
        found = self._numbers.get(buffer)
        if found is None:
            shape = [self.expr(extent) for extent in buffer.shape]
            found = self._number(buffer, f"buffer {buffer.dtype} {buffer.scope} {shape}")
        return found

    def tensor(self, tensor: Tensor) -> int:
        """Return the number of a tensor."""
        found = self._numbers.get(tensor)
        if found is None:
            shape = [self.expr(extent) for extent in tensor.extents]
            found = self._number(tensor, f"tensor {tensor.dtype} {shape}")
        return found

    def expr(self, node: Expr) -> int:
        """Return the number of an expression."""
        return self._expr(node if self._substitution is None else self._substitution.expr(node))

    def _expr(self, node: Expr) -> int:
        """Return the number of an expression in which knobs are substituted already."""
        found = self._numbers.get(node)
        if found is not None:
            return found
        children = [self._expr(child) for child in node.children]
        what = type(node).__name__
        match node:
            case Const():
                exact = node.value.hex() if isinstance(node.value, float) else str(node.value)
                what += f" {exact}"
            case KnobVar():
                what += f" {node.name!r}"
            case BinaryOp():
                what += f" {node.op}"
            case Call():
                what += f" {node.name}"
            case Load():
                what += f" {self.buffer(node.buffer)}"
            case Read():
                what += f" {self.tensor(node.tensor)}"
            case Reduce():
                axes = [self.expr(axis.var) for axis in node.axes]
                what += f" {self._combiner(node.combiner)} over {axes} value {node.index}"
        return self._number(node, f"{what} {node.dtype}x{node.lanes} {children}")

    def _combiner(self, combiner: Combiner) -> str:
        """Return the operations of a combiner."""
        own = _Lines()
        own._substitution = self._substitution
        parts = combiner.lhs, combiner.rhs, combiner.result, combiner.identity
        numbers = [[own.expr(node) for node in part] for part in parts]
        return f"({'; '.join(own.lines)}; {numbers})"


class _Code(_Lines):
    """The lines of a function."""

    def __init__(self, function: PrimFunc) -> None:
        super().__init__()
        for size in function.sizes:
            self.expr(size)
        for param in function.params:
            self.lines.append(f"param {self.buffer(param)} {param in function.outputs}")
        self.stmt(function.body)
        info = function.info
        for name, least in info.blocks_per_multiprocessor.items():
            self.lines.append(f"resident {name} {self.expr(least)}")
        for name, own in info.prefetches.items():
            level = "" if own.level == 2 else f" {own.level}"
            self.lines.append(f"ahead {name} {self.expr(own.distance)}{level}")
        for var, most in info.num_threads.items():
            self.lines.append(f"threads {self.expr(var)} {self.expr(most)}")
        for hint, names in (
            ("nontemporal", info.nontemporal),
            ("through_registers", info.loaded_ahead),
            ("through_copies", info.copied_ahead),
        ):
            hinted = [
                n for b, n in self._numbers.items() if isinstance(b, Buffer) and b.name in names
            ]
            self.lines.append(f"{hint} {hinted}")

    def stmt(self, node: Stmt) -> None:
        match node:
            case Store(buffer, index, value):
                self.lines.append(
                    f"store {self.buffer(buffer)} {self.expr(index)} {self.expr(value)}"
                )
            case For(var, extent, kind, body, tag):
                self.lines.append(f"for {self.expr(var)} {self.expr(extent)} {kind} {tag}")
                self._block(body)
            case If(condition, then, orelse):
                self.lines.append(f"if {self.expr(condition)}")
                self._block(then)
                if orelse is not None:
                    self.lines.append("else")
                    self._block(orelse)
            case Seq(stmts):
                for stmt in stmts:
                    self.stmt(stmt)
            case Raw(name, text, defines, values):
                macros = dict(zip(defines, map(self.expr, values), strict=True))
                self.lines.append(f"raw {name!r} {macros} {text!r}")
                if node.language != "cuda":  # the only one of earlier records
                    self.lines.append(f"in {node.language} by {node.command}")
                elif node.command or not node.header:
                    self.lines.append(f"with {node.command}, header {node.header}")
                if node.headers:
                    self.lines.append(f"including {node.headers}")
                if node.call is not None:
                    self.lines.append(f"called as {node.call}")
            case Allocate(buffer, body):
                self.lines.append(f"allocate {self.buffer(buffer)}")
                self._block(body)
            case Produce(_, body):
                self.stmt(body)
            case WarpReduce(combiner, operands, results, index, width):
                parts = [*map(self.expr, (*operands, index)), *map(self.buffer, results)]
                self.lines.append(f"warp {self._combiner(combiner)} {parts} {width}")
            case CopyAhead(body) | Arrive(body):
                self.lines.append(type(node).__name__)
                self._block(body)
            case Barrier():
                self.lines.append("barrier")
            case _:
                raise TypeError(f"unknown statement {type(node).__name__}")

    def _block(self, body: Stmt) -> None:
        self.lines.append("{")
        self.stmt(body)
        self.lines.append("}")


def function_lines(function: PrimFunc) -> list[str]:
    """Return the lines of a function, with knobs by name."""
    return _Code(function).lines


def schedule_lines(
    schedule: Schedule | None, values: Mapping[KnobVar, int] | None = None
) -> list[str]:
    """Return the compute definitions and the steps of a schedule, before any simplification.

    There are no lines for a schedule of None, of a template that failed.

    values: values that replace knobs: the lines are then those of the template run with these
        numbers.
    """
    if schedule is None:
        return []
    code = _Lines(values)
    for stage in schedule.stages:
        op = stage.op
        outputs = [code.tensor(tensor) for tensor in op.outputs]
        code.lines.append(f"{type(op).__name__} {stage.label!r} {outputs}")
        if isinstance(op, ComputeOp):
            for axis in (*op.axis, *op.reduce_axis):
                assert axis.dom is not None
                first, extent = code.expr(axis.dom.min), code.expr(axis.dom.extent)
                code.lines.append(f"axis {code.expr(axis.var)} {axis.kind} {first} {extent}")
            code.lines.append(f"is {[code.expr(body) for body in op.body]}")
        elif isinstance(op, ScanOp):
            parts = [[*map(code.tensor, ts)] for ts in (op.init, op.state_placeholder, op.update)]
            code.lines.append(f"scans {parts}")
    return code.lines + step_lines(schedule, values)


def step_lines(schedule: Schedule, values: Mapping[KnobVar, int] | None = None) -> list[str]:
    """Return the steps of a schedule; `values` as of `schedule_lines`."""
    named = {knob.name: value for knob, value in (values or {}).items()}
    return [str(step.with_knobs(named)) for step in schedule.steps]
