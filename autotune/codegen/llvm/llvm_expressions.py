"""Values of expressions: arithmetic, comparisons, loads and intrinsics, scalar or vector."""

from __future__ import annotations

from collections.abc import Callable

from autotune.codegen.llvm.linear_forms import Linear
from autotune.codegen.llvm.llvm_types import const_text, llvm_type, suffix, vector_of
from autotune.codegen.llvm.loads_stores import Transfers
from autotune.codegen.llvm.math import VECTOR_FUNCTIONS, function_name
from autotune.codegen.llvm.vector_ops import SIGNED_TESTS
from autotune.errors import CodegenError
from autotune.ir import dtypes
from autotune.ir.expr import (
    COMPARISON,
    LOGIC,
    BinaryOp,
    Broadcast,
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
from autotune.ir.ops import cast

#: Float arithmetic: a product and a sum may be taken together, or whatever rounds differently.
EXACT_OPS = {"+": "fadd contract", "-": "fsub contract", "*": "fmul contract", "/": "fdiv"}
FAST_OPS = {op: f"{name.split()[0]} reassoc nsz arcp contract" for op, name in EXACT_OPS.items()}
_INT_OPS = {"+": "add", "-": "sub", "*": "mul"}
_BOOL_OPS = {"and": "and", "or": "or", "+": "or", "*": "and", "min": "and", "max": "or"}
_FLOAT_TESTS = {"==": "oeq", "!=": "une", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"}

#: Intrinsics that processors have an instruction for, by their name in LLVM.
_NATIVE = {
    "abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "round": "roundeven", "popcount": "ctpop",
}  # fmt: skip
#: Intrinsics that are one instruction on integers.
_BITWISE = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}
_SHIFTS = {"shift_left": "shl", "shift_right_logical": "lshr"}
#: Intrinsics computed lane by lane by the C library: (name in float64, number of arguments).
_LIBRARY = {"fmod": ("fmod", 2)}


class Values(Transfers):
    """Evaluates expressions into SSA values.

    Attributes
    ----------
    functions : dict of str to (name, dtype, lanes)
        Math functions that the text calls, by symbol.
    float_ops : dict of str to str
        How float arithmetic is written, with what LLVM may do to it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.functions: dict[str, tuple[str, str, int]] = {}
        self.float_ops = EXACT_OPS

    def value(self, expr: Expr) -> str:
        """Operand text of the value of `expr`, of type `llvm_type(expr.dtype, expr.lanes)`."""
        if isinstance(expr, Const):
            return const_text(expr.value, expr.dtype)
        key = (expr, self.version(self.sources(expr)))
        found = self.recall(key)
        if not isinstance(found, str):
            found = self._value(expr)
            self.remember(key, found)
        return found

    def _value(self, expr: Expr) -> str:
        if dtypes.is_integer(expr.dtype) and expr.lanes == 1 and self.is_index(expr):
            return self._narrowed(self.form(expr), expr.dtype)
        match expr:
            case Load():
                return self.load(expr)
            case BinaryOp():
                return self._binary(expr)
            case Broadcast():
                return self.splat(self.value(expr.value), expr.dtype, expr.lanes)
            case Select():
                return self._select(expr)
            case Cast():
                return self.converted(self.value(expr.a), expr.a.dtype, expr.dtype, expr.lanes)
            case Not():
                kind = llvm_type(dtypes.BOOL, expr.lanes)
                true = const_text(True, dtypes.BOOL, expr.lanes)
                return self.define(f"xor {kind} {self.value(expr.a)}, {true}")
            case Call():
                return self._call(expr)
            case Ramp():
                return self._ramp(expr)
            case Var():
                raise CodegenError(f"variable of type {expr.dtype} not in scope: {expr.name}")
        raise CodegenError(f"{type(expr).__name__} cannot be compiled: {expr}")

    def _narrowed(self, form: Linear, dtype: str) -> str:
        if form.is_const:
            bits = dtypes.bits(dtype)
            return str((form.const + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))
        ref = self.materialise(form)
        return ref if dtype == "int64" else self.define(f"trunc i64 {ref} to i32")

    def widened(self, expr: Expr, lanes: int) -> str:
        """Value of `expr` over `lanes` lanes, repeated if it is a scalar."""
        if expr.lanes == lanes:
            return self.value(expr)
        if isinstance(expr, Const):
            return const_text(expr.value, expr.dtype, lanes)
        return self.splat(self.value(expr), expr.dtype, lanes)

    def _ramp(self, ramp: Ramp) -> str:
        kind = llvm_type(ramp.dtype, ramp.lanes)
        base = self.widened(ramp.base, ramp.lanes)
        scalar = llvm_type(ramp.dtype)
        if isinstance(ramp.stride, Const):
            step = int(ramp.stride.value)
            steps = ", ".join(f"{scalar} {step * i}" for i in range(ramp.lanes))
            return self.define(f"add {kind} {base}, <{steps}>")
        counts = ", ".join(f"{scalar} {i}" for i in range(ramp.lanes))
        stride = self.widened(ramp.stride, ramp.lanes)
        scaled = self.define(f"mul {kind} {stride}, <{counts}>")
        return self.define(f"add {kind} {base}, {scaled}")

    # -- arithmetic ----------------------------------------------------------------------------

    def _binary(self, expr: BinaryOp) -> str:
        op, operand = expr.op, expr.a.dtype
        if op in COMPARISON:
            return self._compare(expr)
        if op in LOGIC and self.sources(expr.b):
            return self._short_circuit(expr)
        a, b = self.value(expr.a), self.value(expr.b)
        kind = llvm_type(operand, expr.lanes)
        if operand == dtypes.BOOL:
            if op not in _BOOL_OPS:
                raise CodegenError(f"`{op}` has no meaning for bool: {expr}")
            return self.define(f"{_BOOL_OPS[op]} {kind} {a}, {b}")
        if dtypes.is_float(operand):
            if op not in self.float_ops:
                return self._float_extreme(expr, a, b)
            if not dtypes.is_half(operand):
                return self.define(f"{self.float_ops[op]} {kind} {a}, {b}")
            # Rounded each time: nothing to fuse, not even where half types have instructions.
            operation = self.float_ops[op].split()[0]
            result = self.define(f"{operation} {kind} {a}, {b}")
            return self.rounded(result, operand, expr.lanes)
        if op in _INT_OPS:
            return self.define(f"{_INT_OPS[op]} {kind} {a}, {b}")
        if op in ("min", "max"):
            sign = "u" if dtypes.is_unsigned(operand) else "s"
            return self.intrinsic(f"{sign}{op}", operand, expr.lanes, a, b)
        if dtypes.is_unsigned(operand):
            return self._unsigned_division(expr, a, b)
        return self._floor_division(expr, a, b)

    def _float_extreme(self, expr: BinaryOp, a: str, b: str) -> str:
        """Choose the smaller or larger of two floats; a NaN on either side wins, as in NumPy."""
        test = "olt" if expr.op == "min" else "ogt"
        kind = llvm_type(expr.dtype, expr.lanes)
        mask = vector_of("i1", expr.lanes)
        if self._is_constant(expr.b):
            a, b = b, a
        better = self.define(f"fcmp {test} {kind} {a}, {b}")
        chosen = self.define(f"select {mask} {better}, {kind} {a}, {kind} {b}")
        if self._is_constant(expr.a) or self._is_constant(expr.b):
            return chosen  # A NaN could only be the second, which then was chosen.
        unordered = self.define(f"fcmp uno {kind} {a}, {a}")
        return self.define(f"select {mask} {unordered}, {kind} {a}, {kind} {chosen}")

    @staticmethod
    def _is_constant(expr: Expr) -> bool:
        if isinstance(expr, Broadcast):
            expr = expr.value
        return isinstance(expr, Const) and expr.value == expr.value

    def _floor_division(self, expr: BinaryOp, a: str, b: str) -> str:
        """`//` and `%` of integers rounded down; by 0 gives 0, as in NumPy, without a trap."""
        kind = llvm_type(expr.dtype, expr.lanes)
        mask = vector_of("i1", expr.lanes)
        zero, one = (const_text(v, expr.dtype, expr.lanes) for v in (0, 1))
        divisor = expr.b.value if isinstance(expr.b, Broadcast) else expr.b
        fixed = isinstance(divisor, Const) and divisor.value not in (0, -1)
        is_zero = minus = ""
        if not fixed:
            # -1 is kept from the instruction too: the smallest integer divided by it traps.
            minus_one = const_text(-1, expr.dtype, expr.lanes)
            is_zero = self.define(f"icmp eq {kind} {b}, {zero}")
            minus = self.define(f"icmp eq {kind} {b}, {minus_one}")
            unsafe = self.define(f"or {mask} {is_zero}, {minus}")
            b = self.define(f"select {mask} {unsafe}, {kind} {one}, {kind} {b}")
        quotient = self.define(f"sdiv {kind} {a}, {b}")
        product = self.define(f"mul {kind} {quotient}, {b}")
        rest = self.define(f"sub {kind} {a}, {product}")
        inexact = self.define(f"icmp ne {kind} {rest}, {zero}")
        signs = self.define(f"xor {kind} {rest}, {b}")
        differ = self.define(f"icmp slt {kind} {signs}, {zero}")
        adjust = self.define(f"and {mask} {inexact}, {differ}")
        if expr.op == "//":
            lower = self.define(f"sub {kind} {quotient}, {one}")
            result = self.define(f"select {mask} {adjust}, {kind} {lower}, {kind} {quotient}")
            if not fixed:
                negated = self.define(f"sub {kind} {zero}, {a}")
                result = self.define(f"select {mask} {minus}, {kind} {negated}, {kind} {result}")
        else:
            raised = self.define(f"add {kind} {rest}, {b}")
            result = self.define(f"select {mask} {adjust}, {kind} {raised}, {kind} {rest}")
        if fixed:
            return result
        return self.define(f"select {mask} {is_zero}, {kind} {zero}, {kind} {result}")

    def _unsigned_division(self, expr: BinaryOp, a: str, b: str) -> str:
        """`//` and `%` of unsigned integers; by 0 gives 0, without a trap."""
        kind, mask = llvm_type(expr.dtype, expr.lanes), vector_of("i1", expr.lanes)
        zero, one = (const_text(v, expr.dtype, expr.lanes) for v in (0, 1))
        operation = "udiv" if expr.op == "//" else "urem"
        is_zero = self.define(f"icmp eq {kind} {b}, {zero}")
        safe = self.define(f"select {mask} {is_zero}, {kind} {one}, {kind} {b}")
        result = self.define(f"{operation} {kind} {a}, {safe}")
        return self.define(f"select {mask} {is_zero}, {kind} {zero}, {kind} {result}")

    def _compare(self, expr: BinaryOp) -> str:
        a, b, op = expr.a, expr.b, expr.op
        if expr.lanes == 1 and self.is_index(a) and self.is_index(b):
            return self._compare_forms(op, self.form(a), self.form(b))
        if expr.lanes > 1 and self.is_index(a) and self.is_index(b):
            known = self.compare_lanes(op, a, b)
            if known is not None:
                return known
        kind = llvm_type(a.dtype, expr.lanes)
        if dtypes.is_float(a.dtype):
            return self.define(f"fcmp {_FLOAT_TESTS[op]} {kind} {self.value(a)}, {self.value(b)}")
        test = SIGNED_TESTS[op]
        if a.dtype == dtypes.BOOL or dtypes.is_unsigned(a.dtype):
            test = test.replace("s", "u")
        return self.define(f"icmp {test} {kind} {self.value(a)}, {self.value(b)}")

    def _compare_forms(self, op: str, a: Linear, b: Linear) -> str:
        low, high = (a - b).bounds
        decided = {
            "<": (high is not None and high < 0, low is not None and low >= 0),
            "<=": (high is not None and high <= 0, low is not None and low > 0),
            ">": (low is not None and low > 0, high is not None and high <= 0),
            ">=": (low is not None and low >= 0, high is not None and high < 0),
            "==": (low == high == 0, (low or 0) > 0 or (high or 0) < 0),
            "!=": ((low or 0) > 0 or (high or 0) < 0, low == high == 0),
        }[op]
        if any(decided):
            return "true" if decided[0] else "false"
        left, right = self.materialise(a), self.materialise(b)
        return self.define(f"icmp {SIGNED_TESTS[op]} i64 {left}, {right}")

    # -- choices -------------------------------------------------------------------------------

    def _select(self, expr: Select) -> str:
        kind = llvm_type(expr.dtype, expr.lanes)
        condition = self.value(expr.condition)
        true, false = self.widened(expr.true, expr.lanes), self.widened(expr.false, expr.lanes)
        mask = vector_of("i1", expr.condition.lanes)
        return self.define(f"select {mask} {condition}, {kind} {true}, {kind} {false}")

    def _short_circuit(self, expr: BinaryOp) -> str:
        """Value of a logical operation whose second operand loads only where the first asks it."""
        kind = llvm_type(dtypes.BOOL, expr.lanes)
        decided = const_text(expr.op == "or", dtypes.BOOL, expr.lanes)
        sides = (lambda: self.value(expr.b)), (lambda: decided)
        true, false = sides if expr.op == "and" else sides[::-1]
        return self._either(self.value(expr.a), expr.a.lanes, kind, true, false)

    def _if_then_else(self, expr: Call) -> str:
        condition, true, false = expr.children
        return self._either(
            self.value(condition),
            condition.lanes,
            llvm_type(expr.dtype, expr.lanes),
            lambda: self.widened(true, expr.lanes),
            lambda: self.widened(false, expr.lanes),
        )

    def _either(
        self, test: str, lanes: int, kind: str, true: Callable[[], str], false: Callable[[], str]
    ) -> str:
        """One of two values, each loaded where it is chosen: in a branch, or in its lanes."""
        if lanes == 1:
            return self.choose(test, kind, true, false)
        mask = vector_of("i1", lanes)
        with self.masked(test, lanes):
            first = true()
        negated = self.define(f"xor {mask} {test}, {const_text(True, dtypes.BOOL, lanes)}")
        with self.masked(negated, lanes):
            second = false()
        return self.define(f"select {mask} {test}, {kind} {first}, {kind} {second}")

    # -- conversions and intrinsics --------------------------------------------------------------

    def _call(self, expr: Call) -> str:
        name, lanes = expr.name, expr.lanes
        if name == "if_then_else":
            return self._if_then_else(expr)
        if name == "likely":
            return self.value(expr.children[0])
        operand = expr.children[0].dtype if expr.children else expr.dtype
        if name not in INTRINSICS or not INTRINSICS[name].accepts(operand):
            raise CodegenError(f"no intrinsic {name!r} for {operand} on the CPU")
        if dtypes.is_half(operand):
            return self._call_in_float32(expr)
        args = [self.widened(arg, lanes) for arg in expr.children]
        kind = llvm_type(operand, lanes)
        if name in VECTOR_FUNCTIONS:
            symbol = function_name(name, operand, lanes)
            self.functions[symbol] = (name, operand, lanes)
            operands = ", ".join(f"{kind} {arg}" for arg in args)
            return self.define(f"call {kind} @{symbol}({operands})")
        if name == "isnan":
            return self.define(f"fcmp uno {kind} {args[0]}, {args[0]}")
        if name == "rsqrt":
            root = self.intrinsic("sqrt", operand, lanes, *args)
            return self.define(f"fdiv {kind} {const_text(1, operand, lanes)}, {root}")
        if name in _BITWISE:
            return self.define(f"{_BITWISE[name]} {kind} {args[0]}, {args[1]}")
        if name in _SHIFTS:
            return self._shift(expr, *args)
        if name in _NATIVE:
            return self.intrinsic(_NATIVE[name], operand, lanes, *args)
        return self._library(expr, args)

    def _shift(self, expr: Call, value: str, places: str) -> str:
        """Move bits; LLVM leaves open what comes of as many places as there are bits, or more."""
        kind, mask = llvm_type(expr.dtype, expr.lanes), vector_of("i1", expr.lanes)
        operation, bits = _SHIFTS[expr.name], dtypes.bits(expr.dtype)
        count = expr.children[1]
        if isinstance(count, Const) and 0 <= count.value < bits:
            return self.define(f"{operation} {kind} {value}, {places}")
        zero, width = (const_text(n, expr.dtype, expr.lanes) for n in (0, bits))
        fits = self.define(f"icmp ult {kind} {places}, {width}")
        some = self.define(f"select {mask} {fits}, {kind} {places}, {kind} {zero}")
        moved = self.define(f"{operation} {kind} {value}, {some}")
        return self.define(f"select {mask} {fits}, {kind} {moved}, {kind} {zero}")

    def _call_in_float32(self, expr: Call) -> str:
        """Compute a function of half floats in float32 and round its value once."""
        single = "bool" if expr.dtype == dtypes.BOOL else "float32"
        wide = Call(expr.name, tuple(cast("float32", arg) for arg in expr.children), single)
        return self.value(cast(expr.dtype, wide))

    def intrinsic(self, name: str, dtype: str, lanes: int, *args: str) -> str:
        """Call an LLVM intrinsic whose arguments and result have one type."""
        kind = llvm_type(dtype, lanes)
        symbol = f"llvm.{name}.{suffix(dtype, lanes)}"
        self.declare(symbol, f"declare {kind} @{symbol}({', '.join([kind] * len(args))})")
        return self.define(f"call {kind} @{symbol}({', '.join(f'{kind} {a}' for a in args)})")

    def _library(self, expr: Call, args: list[str]) -> str:
        name, arity = _LIBRARY[expr.name]
        symbol = name if expr.dtype == "float64" else name + "f"
        scalar, kind = llvm_type(expr.dtype), llvm_type(expr.dtype, expr.lanes)
        self.declare(
            symbol,
            f"declare {scalar} @{symbol}({', '.join([scalar] * arity)}) nounwind memory(none)",
        )
        if expr.lanes == 1:
            operands = ", ".join(f"{scalar} {a}" for a in args)
            return self.define(f"call {scalar} @{symbol}({operands})")
        result = "poison"
        for lane in range(expr.lanes):
            parts = [self.define(f"extractelement {kind} {a}, i64 {lane}") for a in args]
            one = self.define(
                f"call {scalar} @{symbol}({', '.join(f'{scalar} {p}' for p in parts)})"
            )
            result = self.define(f"insertelement {kind} {result}, {scalar} {one}, i64 {lane}")
        return result
