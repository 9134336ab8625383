"""Writes expressions as Python source: one half of the interpreter.

The source contains only numbers and names that are made here. Floats are NumPy scalars, integers
are Python integers, buffers are flat lists. A vector is written lane by lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.expr import (
    LOGIC,
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
from autotune.ir.intrinsics import INTRINSICS
from autotune.ir.visitor import walk_expr

_LONGEST_INLINE = 400


def _wrap(text: str, dtype: str) -> str:
    """Return the text of an integer that wraps to `dtype`."""
    mask = (1 << dtypes.bits(dtype)) - 1
    if dtypes.is_unsigned(dtype):
        return f"({text} & {mask})"
    half = 1 << dtypes.bits(dtype) - 1
    return f"(({text} + {half} & {mask}) - {half})"


class PythonSource:
    """Python source being written for one function; `lazy` guards divisions as `evaluate` says.

    `expr` returns the text of a value and writes extra lines if a value is used more than once or
    must not be evaluated in place. A vector is written lane by lane.
    """

    def __init__(self, lazy: bool) -> None:
        self.lazy = lazy
        self.lines: list[str] = []
        self.depth = 1
        self.fresh = 0
        self.names: dict[int, str] = {}
        self.buffers: dict[int, tuple[str, str]] = {}
        self.values: dict[str, Any] = {
            "gcd": math.gcd,
            "to_integer": dtypes.saturated,
            "rounded": dtypes.rounded,
            "float32": np.float32,
            "float64": np.float64,
            "outside": self._outside,
        }
        self.scopes: list[dict[tuple[int, int, bool], str]] = [{}]
        self.uses: dict[int, int] = {}

    @staticmethod
    def _outside(name: str, index: int, size: int, access: str) -> NoReturn:
        raise IRError(
            f"{access} index {index} is out of bounds for buffer {name!r} of {size} elements"
        )

    def line(self, text: str) -> None:
        """Write one line at the current depth."""
        self.lines.append(" " * self.depth + text)

    def name(self, prefix: str = "t") -> str:
        """Return a name not used yet."""
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def constant(self, value: Any) -> str:
        """Return a name that stands for `value`."""
        name = self.name("k")
        self.values[name] = value
        return name

    def bind(self, var: Var) -> str:
        """Name a variable that has a value from here on."""
        name = self.names[id(var)] = self.name("v")
        return name

    def compile(self, arguments: Sequence[str]) -> Callable[..., Any]:
        """Compile the written source to a function of the named arguments."""
        text = "\n".join([f"def run({', '.join(arguments)}):", *self.lines, " return None"])
        space = dict(self.values)
        exec(compile(text, "<interpreted function>", "exec"), space)
        run = space["run"]

        def guarded(*values: Any) -> Any:
            try:
                with np.errstate(all="ignore"):
                    return run(*values)
            except ZeroDivisionError:
                raise IRError("division of an integer by zero") from None

        return guarded

    def buffer(self, buffer: Buffer) -> tuple[str, str]:
        """Names of a buffer's list and of its number of elements."""
        found = self.buffers.get(id(buffer))
        if found is None:
            raise IRError(f"buffer {buffer.name!r} is neither a parameter nor allocated here")
        return found

    def count_uses(self, exprs: Sequence[Expr]) -> None:
        """Count the uses of each node, so that shared nodes are computed once."""
        uses: dict[int, int] = {}
        seen: set[int] = set()
        for root in exprs:
            uses[id(root)] = uses.get(id(root), 0) + 1
            for node in walk_expr(root):
                if id(node) in seen:
                    continue
                seen.add(id(node))
                for child in node.children:
                    times = node.lanes if child.lanes == 1 else 1
                    uses[id(child)] = uses.get(id(child), 0) + times
        self.uses = uses

    def atom(self, text: str) -> str:
        """Return a text that is cheap to repeat."""
        if text.isidentifier() or text.isdigit():
            return text
        name = self.name()
        self.line(f"{name} = {text}")
        return name

    def expr(self, node: Expr, lane: int, exact: bool) -> str:
        """Text of lane `lane` of `node`; `exact` where integers do not wrap."""
        lane = lane if node.lanes > 1 else 0
        key = (id(node), lane, exact)
        for scope in self.scopes:
            if key in scope:
                return scope[key]
        text = self._compose(node, lane, exact)
        if self.uses.get(id(node), 1) > 1 or len(text) > _LONGEST_INLINE:
            text = self.atom(text)
        self.scopes[-1][key] = text
        return text

    def _compose(self, node: Expr, lane: int, exact: bool) -> str:
        match node:
            case Const():
                if dtypes.is_float(node.dtype):
                    return self.constant(dtypes.rounded(node.value, node.dtype))
                return f"({node.value})" if node.value < 0 else str(node.value)
            case Var():
                if id(node) not in self.names:
                    raise IRError(f"variable {node.name!r} is used where it has no value")
                return self.names[id(node)]
            case BinaryOp():
                return self._binary(node, lane, exact)
            case Not():
                return f"(not {self.expr(node.a, lane, exact)})"
            case Select():
                if self.lazy:
                    return self._choose(node.children, lane, exact)
                test, *sides = (self.atom(self.expr(c, lane, exact)) for c in node.children)
                return f"({sides[0]} if {test} else {sides[1]})"
            case Cast():
                return self._cast(node, lane, exact)
            case Call():
                return self._call(node, lane, exact)
            case Load():
                name, size = self.buffer(node.buffer)
                index, where = self.expr(node.index, lane, True), self.name()
                what = self.constant(node.buffer.name)
                return (
                    f"({name}[{where}] if 0 <= ({where} := {index}) < {size} "
                    f"else outside({what}, {where}, {size}, 'load'))"
                )
            case Ramp():
                base, stride = (self.expr(c, 0, exact) for c in node.children)
                text = f"({base} + {lane} * {stride})"
                return text if exact or self.lazy else _wrap(text, node.dtype)
            case Broadcast():
                return self.expr(node.value, 0, exact)
            case _:
                raise IRError(f"a {type(node).__name__} has no value after lowering: `{node}`")

    def _binary(self, node: BinaryOp, lane: int, exact: bool) -> str:
        if self.lazy and node.op in LOGIC:
            decided = Const(node.op == "or", dtypes.BOOL)
            sides = (node.b, decided) if node.op == "and" else (decided, node.b)
            return self._choose((node.a, *sides), lane, exact)
        a, b = self.expr(node.a, lane, exact), self.expr(node.b, lane, exact)
        if node.op in LOGIC:
            return f"({a} {node.op} {b})"  # b is evaluated only if a does not decide
        if node.op in ("min", "max"):
            a, b = self.atom(a), self.atom(b)
            order = f"{a} {'<' if node.op == 'min' else '>'} {b}"
            if dtypes.is_float(node.dtype):
                order += f" or {a} != {a}"  # a NaN operand gives NaN, as in NumPy
            return f"({a} if {order} else {b})"
        text = f"({a} {node.op} {b})"
        wraps = dtypes.is_integer(node.dtype) and not (exact and dtypes.is_index(node.dtype))
        return _wrap(text, node.dtype) if wraps and node.op != "%" else text

    def _choose(self, children: Sequence[Expr], lane: int, exact: bool) -> str:
        """Evaluate a condition and then only one of two sides."""
        result = self.name()
        self.line(f"if {self.expr(children[0], lane, exact)}:")
        for k, side in enumerate(children[1:]):
            if k:
                self.line("else:")
            self.depth += 1
            self.scopes.append({})
            self.line(f"{result} = {self.expr(side, lane, exact)}")
            self.scopes.pop()
            self.depth -= 1
        return result

    def _float(self, text: str, dtype: str, source: str) -> str:
        """Text of a number of type `source` as a float type."""
        if dtypes.is_half(dtype):
            self.values.setdefault(dtype, dtypes.scalar_type(dtype))
            single = text if source == "float32" else self._float(text, "float32", source)
            return f"{dtype}({single})"
        # 64-bit integers are rounded to float32 once; a conversion through a double would round
        # twice.
        large = dtypes.is_integer(source) and dtypes.bits(source) == 64 and dtype == "float32"
        return f"rounded({text}, 'float32')" if large else f"{dtype}({text})"

    def _cast(self, node: Cast, lane: int, exact: bool) -> str:
        text = self.expr(node.a, lane, exact)
        source, target = node.a.dtype, node.dtype
        if target == dtypes.BOOL:
            return f"({text} != 0)"
        if dtypes.is_float(target):
            return self._float(text, target, source)
        if dtypes.is_float(source):
            return f"to_integer({text}, {target!r})"
        if source == dtypes.BOOL:
            return f"int({text})"
        keeps = exact and dtypes.is_index(source) and dtypes.is_index(target)
        return text if keeps or dtypes.holds(target, source) else _wrap(text, target)

    def _call(self, node: Call, lane: int, exact: bool) -> str:
        if node.name == "if_then_else":
            return self._choose(node.children, lane, exact)
        texts = [self.expr(child, lane, exact) for child in node.children]
        if node.name == "likely":
            return texts[0]
        if node.name == "gcd":
            return f"gcd({', '.join(texts)})"
        known = INTRINSICS.get(node.name)
        operand = node.children[0].dtype if node.children else node.dtype
        if known is None or not known.accepts(operand):
            raise IRError(f"intrinsic {node.name!r} of {operand} has no meaning here")
        if known.takes == "integer":
            mask = (1 << dtypes.bits(operand)) - 1
            texts = [f"({text} & {mask})" for text in texts]
        else:
            texts = [f"float64({text})" for text in texts]
        result = f"{self.constant(known.meaning)}({', '.join(texts)})"
        if dtypes.is_integer(node.dtype):
            return _wrap(result, node.dtype)
        if not dtypes.is_float(node.dtype):
            return result
        return self._float(result, node.dtype, "float64")
