"""Writes expressions over knobs as NumPy operations: the compiler of `column_programs`.

Every distinct subexpression is one step. The result of a step is in a scratch array that is reused
after the last use of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.evaluate import column_ops
from autotune.ir.evaluate.column_ops import LIMIT
from autotune.ir.expr import BinaryOp, Call, Cast, Const, Expr, KnobVar, Not, Select
from autotune.ir.ops import binary, logical_not
from autotune.ir.printer import excerpt
from autotune.ir.visitor import post_order


class ColumnSource:
    """The operations of one program over columns of `knobs`; registers are assigned at the end."""

    def __init__(self, knobs: Sequence[KnobVar]) -> None:
        self.intervals = Intervals()
        self.names = {id(knob): f"c{k}" for k, knob in enumerate(knobs)}
        self.space: dict[str, Any] = {**column_ops.NAMES}
        self.literals: dict[tuple[type, float | bool], str] = {}
        self.done: dict[Expr, str] = {}
        self.maybe_undefined: dict[Expr, bool] = {}
        #: (template of the line, operands, kind of result or None, result may overwrite an operand)
        self.steps: list[tuple[str, tuple[str, ...], str | None, bool]] = []
        self.targets = 0
        for knob in knobs:
            self._require_small(knob)

    def _require_small(self, node: KnobVar | Const) -> None:
        low, high = self.intervals.bounds(node)
        if max(-low, high) >= LIMIT:
            raise IRError(f"`{node}` reaches {max(-low, high)}: columns hold values below 2^52")

    def root(self, expr: Expr) -> int | bool | None:
        """Write the evaluation of an expression; return its value if that is constant."""
        for node in post_order(expr, self._unseen):
            self.intervals.bounds(node)
            self._undefined(node)
        value = self._constant(expr)
        if value is not None:
            return bool(value) if expr.dtype == dtypes.BOOL else value
        if not self.names:
            raise IRError(f"`{excerpt(expr)}` divides by zero")
        for node in post_order(expr, self._unwritten):
            self._value(node)
        name = self._value(expr)
        target = f"o{self.targets}"
        self.targets += 1
        if self._undefined(expr):
            line = f"check({{0}}, large, {self._name('e', expr)})"
            self.steps.append((line, (name,), None, False))
            if expr.dtype == dtypes.BOOL:
                self.steps.append((f"copyto({target}, {{0}} == 1)", (name,), None, False))
                return None
        self.steps.append((f"copyto({target}, {{0}})", (name,), None, False))
        return None

    def _unseen(self, node: Expr) -> Sequence[Expr]:
        return [child for child in node.children if child not in self.maybe_undefined]

    def _unwritten(self, node: Expr) -> Sequence[Expr]:
        return [child for child in self._operands(node) if child not in self.done]

    def _literal(self, value: float | bool) -> str:
        key = type(value), value
        if key not in self.literals:
            self.literals[key] = self._name("k", np.array(value))
        return self.literals[key]

    def _name(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{len(self.space)}"
        self.space[name] = value
        return name

    def _undefined(self, node: Expr) -> bool:
        """Whether the value may be a division by zero in some row (a NaN, also for a condition)."""
        found = self.maybe_undefined.get(node)
        if found is None:
            found = self.maybe_undefined[node] = self._decide_undefined(node)
        return found

    def _decide_undefined(self, node: Expr) -> bool:
        match node:
            case Select() | Call(name="if_then_else"):
                decided = self._constant(node.children[0])
                if decided is not None:
                    return self._undefined(node.children[1 if decided else 2])
            case BinaryOp(op="and" | "or"):
                decisive = int(node.op == "or")
                if any(self._constant(child) == decisive for child in node.children):
                    return False
            case BinaryOp(op="//" | "%"):
                low, high = self.intervals.bounds(node.b)
                if low <= 0 <= high:
                    return True
        return any(self._undefined(child) for child in node.children)

    def _constant(self, node: Expr) -> int | None:
        low, high = self.intervals.bounds(node)
        return low if low == high and not self._undefined(node) else None

    def _operands(self, node: Expr) -> tuple[Expr, ...]:
        """Nodes that the step of `node` reads."""
        if self._constant(node) is not None:
            return ()
        if isinstance(node, Select) or (isinstance(node, Call) and node.name == "if_then_else"):
            decided = self._constant(node.children[0])
            if decided is not None:
                return (node.children[1 if decided else 2],)
        return node.children

    def _value(self, node: Expr) -> str:
        """Return the name of the value of `node`, writing the steps that compute it."""
        name = self.names.get(id(node)) or self.done.get(node)
        if name is None:
            name = self.done[node] = self._compute(node)
        return name

    def _compute(self, node: Expr) -> str:
        if isinstance(node, Const):
            self._require_small(node)
        value = self._constant(node)
        if value is not None and abs(value) < LIMIT:
            return self._literal(bool(value) if node.dtype == dtypes.BOOL else float(value))
        if dtypes.is_integer(node.dtype) and not dtypes.is_index(node.dtype):
            what = f"not {node.dtype}: `{excerpt(node)}`"
            raise IRError(f"columns hold indices and conditions, {what}")
        match node:
            case BinaryOp():
                name = self._binary(node)
                self._check_size(node, name)
                return name
            case Not():
                return self._apply("not_", node, node.a)
            case Select() | Call(name="if_then_else"):
                return self._select(node)
            case Cast():
                return self._cast(node)
            case Call(name="likely"):
                return self._value(node.children[0])
            case _:  # gcd: the intervals refuse all others
                return self._step(node, "{r}[...] = gcd({0}, {1})", *node.children)

    def _check_size(self, node: BinaryOp, name: str) -> None:
        """Check for values that are too large; only these operations can create them."""
        low, high = self.intervals.bounds(node)
        if node.op not in ("+", "-", "*") or max(-low, high) < LIMIT:
            return
        line = "if not top({0}) < LIMIT: note({0}, large)"
        if self._undefined(node) or low < 0:
            line = "note({0}, large)"
        self.steps.append((line, (name,), None, False))

    def _step(self, node: Expr, line: str, *operands: Expr, in_place: bool = False) -> str:
        names = tuple(self._value(operand) for operand in operands)
        kind = "m" if node.dtype == dtypes.BOOL and not self._undefined(node) else "r"
        self.steps.append((line, names, kind, in_place))
        return f"#{len(self.steps) - 1}"

    def _apply(self, ufunc: str, node: Expr, *operands: Expr) -> str:
        """Write an element-wise operation, or its variant for conditions that may be undefined."""
        places = ", ".join(f"{{{k}}}" for k in range(len(operands)))
        if node.dtype == dtypes.BOOL and self._undefined(node):
            return self._step(node, f"{{r}}[...] = maybe_{ufunc}({places})", *operands)
        return self._step(node, f"{ufunc}({places}, out={{r}})", *operands, in_place=True)

    def _binary(self, node: BinaryOp) -> str:
        if node.op in column_ops.UFUNCS:
            return self._apply(column_ops.UFUNCS[node.op], node, node.a, node.b)
        if node.op == "%":
            quotient = BinaryOp("//", node.a, node.b)
            line = "multiply({1}, {2}, out={r}); subtract({0}, {r}, out={r})"
            return self._step(node, line, node.a, quotient, node.b)
        if node.op != "//":
            raise IRError(f"`{node.op}` has no meaning on columns: `{excerpt(node)}`")
        divisor = self._constant(node.b)
        if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
            inverse = self._literal(1.0 / divisor)
            line = f"multiply({{0}}, {inverse}, out={{r}}); floor({{r}}, out={{r}})"
            return self._step(node, line, node.a, in_place=True)
        low, high = self.intervals.bounds(node.b)
        line = "divide({0}, {1}, out={r}); floor({r}, out={r})"
        if low <= 0 <= high:  # b / b is NaN where b is zero, else 1
            line = "divide({1}, {1}, out={r}); multiply({r}, {0}, out={r}); "
            line += "divide({r}, {1}, out={r}); floor({r}, out={r})"
        return self._step(node, line, node.a, node.b, in_place=not low <= 0 <= high)

    def _select(self, node: Expr) -> str:
        test = node.children[0]
        if self._constant(test) is not None:
            return self._value(self._operands(node)[0])
        if any(self._undefined(child) for child in node.children):
            choose = "maybe_where" if self._undefined(test) else "where"
            return self._step(node, f"{{r}} = {choose}({{0}}, {{1}}, {{2}})", *node.children)
        _, true, false = node.children
        if node.dtype == dtypes.BOOL:
            either = binary("and", test, true), binary("and", logical_not(test), false)
            return self._value(binary("or", *either))
        return self._chosen_number(node, test, true, false)

    def _chosen_number(self, node: Expr, test: Expr, true: Expr, false: Expr) -> str:
        """Select whole numbers by arithmetic, far faster than branching on a mixed condition."""
        if self._constant(true) == 0:
            test, true, false = logical_not(test), false, true
        if self._constant(false) == 0 and self.intervals.bounds(true)[0] >= 0:
            for operand in (test, true):
                self._value(operand)
            return self._step(node, "multiply({1}, {0}, out={r})", test, true)
        for operand in (test, true, false):
            self._value(operand)
        line = "subtract({1}, {2}, out={r}); multiply({r}, {0}, out={r}); add({r}, {2}, out={r})"
        return self._step(node, line, test, true, false)

    def _cast(self, node: Cast) -> str:
        if node.dtype == dtypes.BOOL:
            return self._value(BinaryOp("!=", node.a, Const(0, node.a.dtype)))
        if node.a.dtype == dtypes.BOOL and not self._undefined(node.a):
            return self._step(node, "copyto({r}, {0})", node.a)
        return self._value(node.a)

    def compile(self) -> tuple[Callable[..., None], list[Any]]:
        """Assign registers, which are reused after their last use, and compile the lines."""
        last: dict[str, int] = {}
        for position, (_, operands, _, _) in enumerate(self.steps):
            last.update(dict.fromkeys(operands, position))
        registers = _Registers()
        lines: list[str] = []
        for position, (line, operands, kind, in_place) in enumerate(self.steps):
            places = [registers.place(name) for name in operands]
            dying = [n for n in dict.fromkeys(operands) if last[n] == position]
            if in_place:
                registers.release(dying)
            result = registers.take(f"#{position}", kind) if kind else ""
            if not in_place:
                registers.release(dying)
            lines.append(" " + line.format(*places, r=result))
        unpack = [f" {name} = part[{k}]" for k, name in enumerate(self.names.values())]
        unpack += [f" o{k} = outs[{k}]" for k in range(self.targets)]
        unpack += [f" {name} = scratch[{k}]" for k, name in enumerate(registers.names)]
        text = "\n".join(["def run(part, outs, scratch, large):", *unpack, *lines, " return"])
        exec(compile(text, "<columns>", "exec"), self.space)
        kinds = [np.bool_ if name[0] == "m" else np.float64 for name in registers.names]
        return self.space["run"], kinds


class _Registers:
    """Scratch arrays in use: "r" of float64, "m" of bool."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.held: dict[str, str] = {}
        self.free: dict[str, list[str]] = {"r": [], "m": []}

    def place(self, value: str) -> str:
        return self.held.get(value, value)

    def take(self, value: str, kind: str) -> str:
        if self.free[kind]:
            register = self.free[kind].pop()
        else:
            register = f"{kind}{len(self.names)}"
            self.names.append(register)
        self.held[value] = register
        return register

    def release(self, values: Sequence[str]) -> None:
        for value in values:
            register = self.held.pop(value, None)
            if register is not None:
                self.free[register[0]].append(register)
