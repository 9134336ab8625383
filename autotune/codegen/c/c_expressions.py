"""Writes expressions as C++, with few parentheses, and with 32-bit indices where they suffice."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from autotune.codegen.c.c_names import C_TYPES, float_text, integer_text
from autotune.errors import CodegenError
from autotune.ir import dtypes
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import (
    COMPARISON,
    BinaryOp,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Not,
    Select,
    Var,
)
from autotune.ir.intrinsics import INTRINSICS
from autotune.ir.visitor import walk_expr

# Precedence of operators.
ATOM, PREFIX, PRODUCT, SUM, ORDER, EQUALITY, AND, OR, CHOICE = range(16, 7, -1)
_BINDING = {
    "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "<": ORDER, "<=": ORDER, ">": ORDER,
    ">=": ORDER, "==": EQUALITY, "!=": EQUALITY, "and": AND, "or": OR,
}  # fmt: skip
_SPELLED = {"and": "&&", "or": "||"}
_UNSIGNED = {"int32": "unsigned", "int64": "unsigned long long"}


@dataclass(frozen=True)
class Text:
    """The text of an expression."""

    #: C++.
    text: str
    #: Precedence of its outermost operator.
    binding: int = ATOM
    #: Whether it is an index of 64 bits.
    is_long: bool = False

    def within(self, binding: int) -> str:
        """Return the text as an operand of an operator with this precedence."""
        return self.text if self.binding >= binding else f"({self.text})"


class Expressions:
    """Writes scalar expressions."""

    def __init__(self) -> None:
        #: Names of variables and of other named expressions.
        self.texts: dict[Expr, Text] = {}
        #: Names of buffers.
        self.buffers: dict[Buffer, str] = {}
        #: Buffers that are a single variable instead of an array.
        self.scalars: set[Buffer] = set()
        #: Has the ranges of the variables in scope.
        self.simplifier = Simplifier()
        #: Functions that the text needs, in order of first use.
        self.helpers: dict[str, None] = {}

    # -- parts that depend on the language
    # ----------------------------------------------------------------------

    @abstractmethod
    def function(self, name: str, dtype: str) -> str:
        """Return the name of an intrinsic for an operand type other than a half type."""

    @abstractmethod
    def widened(self, text: str, dtype: str) -> str:
        """Return a half float as float."""

    @abstractmethod
    def narrowed(self, text: str, dtype: str) -> str:
        """Return a float rounded to a half type."""

    def helper(self, name: str) -> str:
        """Record that a helper function is needed, and return its name."""
        self.helpers.setdefault(name)
        return name

    # -- indices -----------------------------------------------------------------------------------

    def index(self, expr: Expr) -> str:
        """Return the text of index arithmetic, which is exact."""
        return self.exact(expr).text

    def condition(self, expr: Expr) -> str:
        """Return the text of a condition, in which index arithmetic is exact."""
        return self._text(expr, exact=True).text

    def exact(self, expr: Expr) -> Text:
        """Return index arithmetic, in 32 bits if it fits."""
        return self._text(expr, exact=True)

    def value(self, expr: Expr) -> Text:
        """Return an expression whose integers wrap to their types."""
        return self._text(expr, exact=False)

    def fits(self, expr: Expr) -> bool:
        """Whether an index is known to need no more than 32 bits."""
        low, high = self.simplifier.bounds(expr)
        return dtypes.min_value("int32") <= low and high <= dtypes.max_value("int32")

    def never_wraps(self, expr: Expr) -> bool:
        """Whether integers in all parts of an expression are known not to wrap."""
        for node in walk_expr(expr):
            if not dtypes.is_index(node.dtype) or isinstance(node, Load):
                return False
            if not self._in_range(node):
                return False
        return True

    def _in_range(self, expr: Expr) -> bool:
        """Whether the sum of an integer expression is known to fit in its type."""
        low, high = self.simplifier.bounds(expr)
        return dtypes.min_value(expr.dtype) <= low and high <= dtypes.max_value(expr.dtype)

    def element(self, buffer: Buffer, index: Expr) -> Text:
        """Return an element of a buffer."""
        name = self.buffers.get(buffer)
        if name is None:
            raise CodegenError(f"buffer {buffer.name!r} is used where it is not allocated")
        if buffer in self.scalars:
            return Text(name)
        return Text(f"{name}[{self.index(index)}]")

    # -- all kinds ---------------------------------------------------------------------------------

    def _text(self, expr: Expr, exact: bool) -> Text:
        known = self.texts.get(expr)
        if known is not None:
            if exact or not known.is_long or expr.dtype != "int32":
                return known
            return Text(f"(int){known.within(PREFIX)}", PREFIX)
        match expr:
            case Const():
                return self._constant(expr)
            case Var():
                raise CodegenError(f"variable not in scope: {expr.name}")
            case Load():
                element = self.element(expr.buffer, expr.index)
                return Text(element.text, is_long=expr.dtype == "int64")
            case BinaryOp():
                return self._binary(expr, exact)
            case Not():
                return Text(f"!{self._text(expr.a, exact).within(PREFIX)}", PREFIX)
            case Select():
                return self._choice(expr.children, exact)
            case Cast():
                return self._cast(expr, exact)
            case Call(name="if_then_else"):
                return self._choice(expr.children, exact)
            case Call(name="likely"):
                return self._text(expr.children[0], exact)
            case Call():
                return self._call(expr)
            case _:
                raise CodegenError(f"{type(expr).__name__} has no text of one lane: {expr}")

    def _constant(self, const: Const) -> Text:
        if const.dtype == dtypes.BOOL:
            return Text("true" if const.value else "false")
        if dtypes.is_float(const.dtype):
            text = float_text(float(const.value), const.dtype)
            if text.endswith("INFINITY"):
                self.helper("INFINITY")
            if dtypes.is_half(const.dtype):
                return Text(self.narrowed(text, const.dtype))
        else:
            text = integer_text(int(const.value), const.dtype)
        return Text(text, PREFIX if text.startswith("-") else ATOM, text.endswith("ll"))

    def _number(self, expr: Expr, exact: bool = False) -> Text:
        """Return an operand of arithmetic: halves as float."""
        if not dtypes.is_half(expr.dtype):
            return self._text(expr, exact)
        if isinstance(expr, Const):
            return self._constant(Const(expr.value, "float32"))
        return Text(self.widened(self._text(expr, exact).text, expr.dtype))

    # -- operations --------------------------------------------------------------------------------

    def _binary(self, expr: BinaryOp, exact: bool) -> Text:
        op, dtype = expr.op, expr.a.dtype
        if op in ("and", "or") or op in COMPARISON:
            a, b = self._number(expr.a, exact), self._number(expr.b, exact)
            return _infix(op, a, b)
        if dtypes.is_float(dtype):
            return self._float(expr)
        if dtypes.is_index(dtype) and (exact or self.never_wraps(expr)):
            return self._index(expr)
        return self._integer(expr, exact)

    def _float(self, expr: BinaryOp) -> Text:
        a, b = self._number(expr.a), self._number(expr.b)
        if expr.op in ("min", "max"):
            result = Text(f"{self.helper(expr.op + 'imum')}({a.text}, {b.text})")
        else:
            result = _infix(expr.op, a, b, keep=True)
        if dtypes.is_half(expr.dtype):
            return Text(self.narrowed(result.text, expr.dtype))
        return result

    def _index(self, expr: BinaryOp) -> Text:
        a, b = self.exact(expr.a), self.exact(expr.b)
        is_long = a.is_long or b.is_long
        if not is_long and not self.fits(expr):
            a, is_long = Text(f"(long long){a.within(PREFIX)}", PREFIX, True), True
        if expr.op in ("min", "max"):
            if a.is_long != b.is_long:
                a, b = (Text(f"(long long){x.within(PREFIX)}", PREFIX, True) for x in (a, b))
            return Text(f"{expr.op}({a.text}, {b.text})", is_long=is_long)
        if expr.op not in ("//", "%"):
            text = _infix(expr.op, a, b)
            return Text(text.text, text.binding, is_long)
        if self.simplifier.bounds(expr.a)[0] >= 0 and self.simplifier.bounds(expr.b)[0] >= 1:
            op = "/" if expr.op == "//" else "%"
            return Text(f"{a.within(PRODUCT)} {op} {b.within(PREFIX)}", PRODUCT, is_long)
        return self._division(expr.op, "long long" if is_long else "int", a, b)

    def _integer(self, expr: BinaryOp, exact: bool) -> Text:
        """Return arithmetic of integers that wraps to their type."""
        a, b, dtype = self._text(expr.a, exact), self._text(expr.b, exact), expr.dtype
        kind, is_long = C_TYPES[dtype], dtype == "int64"
        if expr.op in ("//", "%"):
            return self._division(expr.op, kind, a, b)
        if expr.op in ("min", "max"):
            return self._extreme(expr, a, b)
        plain = _infix(expr.op, a, b)
        if dtype in _UNSIGNED:
            if all(map(self._in_range, (expr, expr.a, expr.b))):
                return Text(plain.text, plain.binding, is_long)
            wide = _UNSIGNED[dtype]
            a, b = (Text(f"({wide}){x.within(PREFIX)}", PREFIX) for x in (a, b))
            return Text(f"({kind})({_infix(expr.op, a, b).text})", PREFIX, is_long)
        if dtypes.bits(dtype) >= 32:
            return plain
        if dtypes.bits(dtype) == 16 and expr.op == "*":
            a = Text(f"(unsigned int){a.within(PREFIX)}", PREFIX)
        return Text(f"({kind})({_infix(expr.op, a, b).text})", PREFIX)

    def _extreme(self, expr: BinaryOp, a: Text, b: Text) -> Text:
        """Return the smaller or larger of two integers; C++ needs operands of one type."""
        dtype = expr.dtype
        kind = "int" if dtypes.bits(dtype) < 32 else C_TYPES[dtype]
        texts = []
        for operand, own in ((expr.a, a), (expr.b, b)):
            alike = dtype == "int32" or (isinstance(operand, Load) and kind == C_TYPES[dtype])
            texts.append(own.text if alike else f"({kind}){own.within(PREFIX)}")
        text = f"{expr.op}({', '.join(texts)})"
        if dtypes.bits(dtype) < 32:
            return Text(f"({C_TYPES[dtype]}){text}", PREFIX)
        return Text(text, is_long=dtype == "int64")

    def _division(self, op: str, kind: str, a: Text, b: Text) -> Text:
        rounding = "unsigned" if kind.startswith("unsigned") else "floor"
        name = self.helper(f"{rounding}_{'divide' if op == '//' else 'modulo'}")
        return Text(f"{name}<{kind}>({a.text}, {b.text})", is_long=kind == "long long")

    def _choice(self, operands: tuple[Expr, ...], exact: bool) -> Text:
        test, true, false = operands
        a, b = self._text(true, exact), self._text(false, exact)
        text = f"{self._text(test, exact).within(OR)} ? {a.within(OR)} : {b.within(CHOICE)}"
        return Text(text, CHOICE, a.is_long or b.is_long)

    # -- conversions and functions -----------------------------------------------------------------

    def _cast(self, cast: Cast, exact: bool) -> Text:
        source, target = cast.a.dtype, cast.dtype
        if exact and dtypes.is_index(source) and dtypes.is_index(target):
            return self.exact(cast.a)
        a = self._number(cast.a, exact)
        if target == dtypes.BOOL:
            return Text(f"{a.within(EQUALITY)} != 0", EQUALITY)
        if dtypes.is_half(target):
            return Text(self.narrowed(a.text, target))
        kind = C_TYPES[target]
        if dtypes.is_half(source) and target == "float32":
            return a
        small = dtypes.is_integer(target) and dtypes.bits(target) < 32
        if small and dtypes.is_float(source):
            low, high = (int(f(target)) for f in (dtypes.min_value, dtypes.max_value))
            return Text(f"({kind})min(max((int){a.within(PREFIX)}, {low}), {high})", PREFIX)
        return Text(f"({kind}){a.within(PREFIX)}", PREFIX, target == "int64")

    def _call(self, call: Call) -> Text:
        dtype = call.children[0].dtype if call.children else call.dtype
        if call.name not in INTRINSICS or not INTRINSICS[call.name].accepts(dtype):
            raise CodegenError(f"no intrinsic {call.name!r} for {dtype}")
        held = "float32" if dtypes.is_half(dtype) else dtype
        operands = ", ".join(self._number(child).text for child in call.children)
        text = f"{self.function(call.name, held)}({operands})"
        if dtypes.is_half(call.dtype):
            return Text(self.narrowed(text, call.dtype))
        return Text(text, is_long=call.dtype == "int64" and call.name != "popcount")


def _infix(op: str, a: Text, b: Text, keep: bool = False) -> Text:
    """Return an operation of two operands.

    Sums of integers are written without parentheses; sums of floats are not, as they are rounded.
    """
    binding = _BINDING[op]
    chained = op in ("and", "or") or (op == "+" and not keep)
    right = b.within(binding if chained else binding + 1)
    return Text(f"{a.within(binding)} {_SPELLED.get(op, op)} {right}", binding)
