"""Values of expressions: arithmetic, comparisons, loads and intrinsics, scalar or vector."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from autotune.codegen.llvm.indices import Indices
from autotune.codegen.llvm.linear import Linear
from autotune.codegen.llvm.math import VECTOR_FUNCTIONS, function_name
from autotune.codegen.llvm.types import const_text, llvm_type, memory_type, suffix, vector_of
from autotune.errors import CodegenError
from autotune.ir import dtypes
from autotune.ir.expr import (
    COMPARISON,
    LOGIC,
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
from autotune.ir.visitor import walk_expr

_FLOAT_OPS = {"+": "fadd contract", "-": "fsub contract", "*": "fmul contract", "/": "fdiv"}
_INT_OPS = {"+": "add", "-": "sub", "*": "mul"}
_BOOL_OPS = {"and": "and", "or": "or", "+": "or", "*": "and", "min": "and", "max": "or"}
_FLOAT_TESTS = {"==": "oeq", "!=": "une", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"}
_INT_TESTS = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle", ">": "sgt", ">=": "sge"}

#: Intrinsics that processors have an instruction for, by their name in LLVM.
_NATIVE = {
    "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint",
}  # fmt: skip
#: Intrinsics computed lane by lane by the C library: (name in float64, number of arguments).
_LIBRARY = {
    "pow": ("pow", 2), "exp2": ("exp2", 1), "log2": ("log2", 1), "sin": ("sin", 1),
    "cos": ("cos", 1), "erf": ("erf", 1),
}  # fmt: skip


class Values(Indices):
    """Evaluates expressions into SSA values.

    Attributes
    ----------
    functions : dict of str to (name, dtype, lanes)
        Math functions that the text calls, by symbol.
    mask : (str, int) or None
        Inside the branches of a vector `if_then_else`: which of how many lanes are active.
    epoch : int
        Counts loops and branches that wrote; loaded values are remembered within one epoch only.
    writes : dict of Buffer to int
        Counts stores to each buffer: one forgets what was loaded from that buffer alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.functions: dict[str, tuple[str, str, int]] = {}
        self.mask: tuple[str, int] | None = None
        self.epoch = 0
        self.writes: dict[Buffer, int] = {}
        self._sources: dict[Expr, tuple[Buffer, ...]] = {}

    # -- dispatch and memory of values ---------------------------------------------------------

    def sources(self, expr: Expr) -> tuple[Buffer, ...]:
        """Buffers that the value of `expr` is read from."""
        known = self._sources.get(expr)
        if known is None:
            loads = (node.buffer for node in walk_expr(expr) if isinstance(node, Load))
            self._sources[expr] = known = tuple(dict.fromkeys(loads))
        return known

    def version(self, buffers: tuple[Buffer, ...]) -> Hashable:
        """State of memory as far as it concerns `buffers`."""
        if not buffers:
            return None
        return (self.epoch, *(self.writes.get(buffer, 0) for buffer in buffers))

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
                return self._load(expr)
            case Binary():
                return self._binary(expr)
            case Broadcast():
                return self.splat(self.value(expr.value), expr.dtype, expr.lanes)
            case Select():
                return self._select(expr)
            case Cast():
                return self._cast(expr)
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

    def splat(self, ref: str, dtype: str, lanes: int) -> str:
        """Vector with the scalar `ref` in all lanes."""
        if not ref.startswith("%"):
            return f"splat ({llvm_type(dtype)} {ref})"
        key = ("splat", ref, lanes)
        found = self.recall(key)
        if isinstance(found, str):
            return found
        kind = llvm_type(dtype, lanes)
        first = self.define(f"insertelement {kind} poison, {llvm_type(dtype)} {ref}, i64 0")
        found = self.define(
            f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer"
        )
        self.remember(key, found, self.first)
        return found

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

    def _binary(self, expr: Binary) -> str:
        op, operand = expr.op, expr.a.dtype
        if op in COMPARISON:
            return self._compare(expr)
        if op in LOGIC and expr.lanes == 1 and self.sources(expr.b):
            return self._short_circuit(expr)
        a, b = self.value(expr.a), self.value(expr.b)
        kind = llvm_type(operand, expr.lanes)
        if operand == dtypes.BOOL:
            if op not in _BOOL_OPS:
                raise CodegenError(f"`{op}` has no meaning for bool: {expr}")
            return self.define(f"{_BOOL_OPS[op]} {kind} {a}, {b}")
        if dtypes.is_float(operand):
            if op in _FLOAT_OPS:
                return self.define(f"{_FLOAT_OPS[op]} {kind} {a}, {b}")
            return self._float_extreme(expr, a, b)
        if op in _INT_OPS:
            return self.define(f"{_INT_OPS[op]} {kind} {a}, {b}")
        if op in ("min", "max"):
            return self.intrinsic(f"s{op}", operand, expr.lanes, a, b)
        return self._floor_division(expr, a, b)

    def _float_extreme(self, expr: Binary, a: str, b: str) -> str:
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

    def _floor_division(self, expr: Binary, a: str, b: str) -> str:
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

    def _compare(self, expr: Binary) -> str:
        a, b, op = expr.a, expr.b, expr.op
        if expr.lanes == 1 and self.is_index(a) and self.is_index(b):
            return self._compare_forms(op, self.form(a), self.form(b))
        kind = llvm_type(a.dtype, expr.lanes)
        if dtypes.is_float(a.dtype):
            return self.define(f"fcmp {_FLOAT_TESTS[op]} {kind} {self.value(a)}, {self.value(b)}")
        test = _INT_TESTS[op]
        if a.dtype == dtypes.BOOL:
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
        return self.define(f"icmp {_INT_TESTS[op]} i64 {left}, {right}")

    # -- choices -------------------------------------------------------------------------------

    def _select(self, expr: Select) -> str:
        kind = llvm_type(expr.dtype, expr.lanes)
        condition = self.value(expr.condition)
        true, false = self.widened(expr.true, expr.lanes), self.widened(expr.false, expr.lanes)
        mask = vector_of("i1", expr.condition.lanes)
        return self.define(f"select {mask} {condition}, {kind} {true}, {kind} {false}")

    def _short_circuit(self, expr: Binary) -> str:
        condition = self.value(expr.a)
        if expr.op == "and":
            return self.choose(condition, "i1", lambda: self.value(expr.b), lambda: "false")
        return self.choose(condition, "i1", lambda: "true", lambda: self.value(expr.b))

    def choose(
        self, condition: str, kind: str, true: Callable[[], str], false: Callable[[], str]
    ) -> str:
        """Evaluate one of two values of type `kind` behind a branch."""
        if condition in ("true", "false"):
            return true() if condition == "true" else false()
        labels = [self.fresh(name) for name in ("then", "else", "join")]
        code = self.code
        branches, incoming = [], []
        for label, evaluate in zip(labels[:2], (true, false), strict=True):
            with self.region(label) as branch:
                ref = evaluate()
                self.line(f"br label %{labels[2]}")
            branches.append(branch)
            incoming.append(f"[{ref}, %{branch.label}]")
        self.line(f"br i1 {condition}, label %{labels[0]}, label %{labels[1]}")
        for branch in branches:
            code.append(branch)
        code.begin(labels[2])
        return self.define(f"phi {kind} {', '.join(incoming)}")

    def _if_then_else(self, expr: Call) -> str:
        condition, true, false = expr.children
        kind = llvm_type(expr.dtype, expr.lanes)
        test = self.value(condition)
        if condition.lanes == 1:
            return self.choose(
                test,
                kind,
                lambda: self.widened(true, expr.lanes),
                lambda: self.widened(false, expr.lanes),
            )
        mask = vector_of("i1", expr.lanes)
        with self._masked(test, expr.lanes):
            first = self.widened(true, expr.lanes)
        negated = self.define(f"xor {mask} {test}, {const_text(True, dtypes.BOOL, expr.lanes)}")
        with self._masked(negated, expr.lanes):
            second = self.widened(false, expr.lanes)
        return self.define(f"select {mask} {test}, {kind} {first}, {kind} {second}")

    @contextmanager
    def _masked(self, mask: str, lanes: int) -> Iterator[None]:
        """Evaluate with loads restricted to the lanes of `mask`."""
        outer = self.mask
        if outer is not None:
            mask = self.define(f"and {vector_of('i1', lanes)} {outer[0]}, {mask}")
        with self.region():
            self.mask = (mask, lanes)
            try:
                yield
            finally:
                self.mask = outer

    # -- conversions and intrinsics --------------------------------------------------------------

    def _cast(self, expr: Cast) -> str:
        source, target = expr.a.dtype, expr.dtype
        ref = self.value(expr.a)
        old, new = llvm_type(source, expr.lanes), llvm_type(target, expr.lanes)
        if source == target:
            return ref
        if target == dtypes.BOOL:
            zero = const_text(0, source, expr.lanes)
            test = "fcmp une" if dtypes.is_float(source) else "icmp ne"
            return self.define(f"{test} {old} {ref}, {zero}")
        if dtypes.is_float(source) and dtypes.is_float(target):
            op = "fpext" if dtypes.bits(target) > dtypes.bits(source) else "fptrunc"
        elif dtypes.is_float(source):
            op = "fptosi"
        elif dtypes.is_float(target):
            op = "uitofp" if source == dtypes.BOOL else "sitofp"
        elif source == dtypes.BOOL:
            op = "zext"
        else:
            op = "sext" if dtypes.bits(target) > dtypes.bits(source) else "trunc"
        return self.define(f"{op} {old} {ref} to {new}")

    def _call(self, expr: Call) -> str:
        name, lanes = expr.name, expr.lanes
        if name == "if_then_else":
            return self._if_then_else(expr)
        if name == "likely":
            return self.value(expr.children[0])
        args = [self.widened(arg, lanes) for arg in expr.children]
        kind = llvm_type(expr.dtype, lanes)
        if dtypes.is_float(expr.dtype):
            if name in VECTOR_FUNCTIONS:
                symbol = function_name(name, expr.dtype, lanes)
                self.functions[symbol] = (name, expr.dtype, lanes)
                return self.define(f"call {kind} @{symbol}({kind} {args[0]})")
            if name == "abs":
                return self.intrinsic("fabs", expr.dtype, lanes, *args)
            if name == "rsqrt":
                root = self.intrinsic("sqrt", expr.dtype, lanes, *args)
                return self.define(f"fdiv {kind} {const_text(1, expr.dtype, lanes)}, {root}")
            if name in _NATIVE:
                return self.intrinsic(_NATIVE[name], expr.dtype, lanes, *args)
            if name in _LIBRARY:
                return self._library(expr, args)
        elif name == "abs" and dtypes.is_integer(expr.dtype):
            symbol = f"llvm.abs.{suffix(expr.dtype, lanes)}"
            self.declare(symbol, f"declare {kind} @{symbol}({kind}, i1)")
            return self.define(f"call {kind} @{symbol}({kind} {args[0]}, i1 false)")
        raise CodegenError(f"no intrinsic {name!r} for {expr.dtype} on the CPU")

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

    # -- memory ----------------------------------------------------------------------------------

    def address(self, buffer: Buffer, index: Linear) -> str:
        """Pointer to element `index`; the constant part is a separate, foldable offset."""
        base = self.buffers.get(buffer)
        if base is None:
            raise CodegenError(f"buffer {buffer.name!r} is used where it is not allocated")
        kind = memory_type(buffer.dtype)
        pointer, depth = base, 1
        if index.terms:
            # Allocated buffers exist from the body (depth 1) on.
            depth = max(1, *(atom.depth for atom in index.terms))
            key = (base, index.key)
            found = self.recall(key)
            if not isinstance(found, str):
                offset = self.materialise(index.variable())
                found = self.define(f"getelementptr {kind}, ptr {base}, i64 {offset}", "p", depth)
                self.remember(key, found, depth)
            pointer = found
        if not index.const:
            return pointer
        at = (pointer, index.const)
        found = self.recall(at)
        if not isinstance(found, str):
            offset = str(index.const)
            found = self.define(f"getelementptr {kind}, ptr {pointer}, i64 {offset}", "p", depth)
            self.remember(at, found, depth)
        return found

    def consecutive(self, index: Expr) -> Linear | None:
        """First lane of a vector index whose lanes are consecutive elements, else None."""
        if index.lanes == 1:
            return self.form(index)
        if isinstance(index, Ramp) and isinstance(index.stride, Const):
            return self.form(index.base) if index.stride.value == 1 else None
        lanes = self.lanes(index)
        key, const = lanes[0].key, lanes[0].const
        if all(f.const == const + i and f.key == key for i, f in enumerate(lanes)):
            return lanes[0]
        return None

    def _load(self, load: Load) -> str:
        if load.lanes == 1:
            return self.load_lane(load, self.form(load.index))
        first = self.consecutive(load.index)
        if first is None:
            return self._gather(load, self.lanes(load.index))
        if self.mask is None:
            return self._load_unmasked(load.buffer, first, load.lanes)
        pointer = self.address(load.buffer, first)
        kind = memory_type(load.dtype, load.lanes)
        loaded = self._masked_load(load, pointer, kind, self.mask[0])
        return self._from_memory(loaded, load.dtype, load.lanes)

    def _load_unmasked(self, buffer: Buffer, index: Linear, lanes: int) -> str:
        """Load consecutive elements, unless the same ones were loaded and not written since."""
        key = ("load", buffer, index.key, index.const, lanes, self.version((buffer,)))
        found = self.recall(key)
        if isinstance(found, str):
            return found
        pointer, kind = self.address(buffer, index), memory_type(buffer.dtype, lanes)
        align = dtypes.itemsize(buffer.dtype)
        loaded = self.define(f"load {kind}, ptr {pointer}, align {align}")
        found = self._from_memory(loaded, buffer.dtype, lanes)
        self.remember(key, found, self.first)
        return found

    def _masked_load(self, load: Load, pointer: str, kind: str, mask: str) -> str:
        element = suffix(load.dtype, load.lanes)
        if load.dtype == dtypes.BOOL:
            element = f"v{load.lanes}i8"
        lanes = f"<{load.lanes} x i1>"
        symbol = f"llvm.masked.load.{element}.p0"
        self.declare(symbol, f"declare {kind} @{symbol}(ptr, i32 immarg, {lanes}, {kind})")
        return self.define(
            f"call {kind} @{symbol}(ptr {pointer}, i32 {dtypes.itemsize(load.dtype)}, "
            f"{lanes} {mask}, {kind} zeroinitializer)"
        )

    def _gather(self, load: Load, forms: list[Linear]) -> str:
        if all(f.const == forms[0].const and f.key == forms[0].key for f in forms):
            return self.splat(self.load_lane(load, forms[0]), load.dtype, load.lanes)
        kind, scalar = llvm_type(load.dtype, load.lanes), llvm_type(load.dtype)
        result = "poison"
        for lane, form in enumerate(forms):
            one = self._load_element(load, form, lane)
            result = self.define(f"insertelement {kind} {result}, {scalar} {one}, i64 {lane}")
        return result

    def load_lane(self, load: Load, index: Linear) -> str:
        """Operand text of the scalar at `index`, loaded if any lane is active."""
        return self._load_element(load, index, None)

    def _load_element(self, load: Load, index: Linear, lane: int | None) -> str:
        if self.mask is None:
            return self._load_unmasked(load.buffer, index, 1)
        mask, lanes = self.mask
        if lane is None:
            symbol = f"llvm.vector.reduce.or.v{lanes}i1"
            self.declare(symbol, f"declare i1 @{symbol}(<{lanes} x i1>)")
            active = self.define(f"call i1 @{symbol}(<{lanes} x i1> {mask})")
        else:
            active = self.define(f"extractelement <{lanes} x i1> {mask}, i64 {lane}")
        zero = const_text(0, load.dtype)
        return self.choose(
            active,
            llvm_type(load.dtype),
            lambda: self._load_unmasked(load.buffer, index, 1),
            lambda: zero,
        )

    def _from_memory(self, ref: str, dtype: str, lanes: int) -> str:
        if dtype != dtypes.BOOL:
            return ref
        zero = "0" if lanes == 1 else "zeroinitializer"
        return self.define(f"icmp ne {memory_type(dtype, lanes)} {ref}, {zero}")

    def to_memory(self, ref: str, dtype: str, lanes: int) -> str:
        """Value as it is stored: bools become bytes."""
        if dtype != dtypes.BOOL:
            return ref
        old, new = llvm_type(dtype, lanes), memory_type(dtype, lanes)
        return self.define(f"zext {old} {ref} to {new}")
