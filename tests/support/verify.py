"""Checks that a lowered function is well formed; run after every pass in tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.expr import (
    ARITHMETIC,
    LOGIC,
    BinaryOp,
    Broadcast,
    Buffer,
    Call,
    Const,
    Expr,
    KnobVar,
    Load,
    Not,
    Ramp,
    Read,
    Reduce,
    Select,
    SizeVar,
    Var,
)
from autotune.ir.intrinsics import INTRINSICS, Intrinsic
from autotune.ir.ops import const
from autotune.ir.printer import excerpt
from autotune.ir.stmt import (
    Allocate,
    Arrive,
    Barrier,
    CopyAhead,
    For,
    FunctionInfo,
    If,
    LoopKind,
    PrimFunc,
    Raw,
    Stmt,
    Store,
    ThreadReduce,
    WarpReduce,
)
from autotune.ir.visitor import (
    child_stmts,
    free_vars,
    is_thread_loop,
    is_uniform,
    stmt_exprs,
    walk,
    walk_expr,
)

_TAGGED = (LoopKind.THREAD, LoopKind.VTHREAD)
_IN_ORDER = (LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.UNROLL_HINTED)


def verify(function: PrimFunc, allow_knobs: bool = False) -> PrimFunc:
    """Check `function` and return it.

    Every variable is a size or bound by exactly one enclosing loop; every buffer is a parameter or
    allocated around its use, under a name of its own; only outputs are written among parameters;
    types and lanes agree; no node is left that exists only before lowering; facts and hints are
    about buffers, sizes and knobs of the function.

    Parameters
    ----------
    function : PrimFunc
        A lowered function.
    allow_knobs : bool
        Whether knobs may stand for sizes, as they do before substitution.

    Raises
    ------
    IRError
        Naming the function, what is wrong and where.
    """
    _Verifier(function, allow_knobs).check()
    return function


class _Verifier:
    def __init__(self, function: PrimFunc, allow_knobs: bool) -> None:
        self.function = function
        self.allow_knobs = allow_knobs
        self.bound: set[int] = {id(size) for size in (*function.sizes, *function.info.line_offsets)}
        self.buffers: set[int] = set()
        self.names: set[str] = set()
        self.well_formed: set[int] = set()
        self.mask = 1  # lanes of the enclosing conditions
        self.threads: set[Var] = set()  # variables of the enclosing thread loops
        self.alone = ""  # the enclosing statement that only some threads may execute

    def fail(self, problem: str) -> NoReturn:
        raise IRError(f"function {self.function.name!r}: {problem}")

    def check(self) -> None:
        for size in self.function.sizes:
            if not isinstance(size, SizeVar):
                self.fail(f"{size.name!r} is listed as a size but is not a size variable")
        for buffer in self.function.params:
            self.declare(buffer)
        for buffer in self.function.outputs:
            if id(buffer) not in self.buffers:
                self.fail(f"output {buffer.name!r} is not a parameter")
        self.stmt(self.function.body)
        self.info(self.function.info)

    def info(self, info: FunctionInfo) -> None:
        """Check facts and hints; the walk over the body has declared all buffers before."""
        for condition, message in info.requirements:
            knobs_only = all(isinstance(var, KnobVar) for var in free_vars(condition))
            if condition.dtype != dtypes.BOOL or not knobs_only:
                self.fail(f"the requirement `{condition}` ({message}) is not a condition on knobs")
        for extent, _ in info.least_extents:
            self.integer(extent, "an extent with a least value")
        for pragmas in info.loop_pragmas.values():
            for pragma, value in pragmas.items():
                self.integer(value, f"the pragma {pragma!r}")
        for most in info.num_threads.values():
            self.integer(most, "the number of threads of a loop")
        distances = {name: own.distance for name, own in info.prefetches.items()}
        numbers = {**distances, **info.blocks_per_multiprocessor}
        for name, value in numbers.items():
            self.integer(value, f"a hint for buffer {name!r}")
        names = (info.nontemporal, info.scan_states, info.loaded_ahead, info.copied_ahead, numbers)
        for name in set().union(*names) - self.names:
            self.fail(f"a fact or hint names buffer {name!r}, which it does not have")
        for var, buffer in info.line_offsets.items():
            if id(buffer) not in self.buffers:
                self.fail(f"{var.name!r} says where {buffer.name!r} lies, which is not a parameter")

    def declare(self, buffer: Buffer) -> None:
        if buffer.name in self.names:
            self.fail(f"two buffers are named {buffer.name!r}")
        self.names.add(buffer.name)
        for extent in buffer.shape:
            self.integer(extent, f"an extent of buffer {buffer.name!r}")
        self.buffers.add(id(buffer))

    # Statements.

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case Store():
                self.store(stmt)
            case For():
                self.loop(stmt)
            case If(condition, _, _):
                self.expr(condition)
                if condition.dtype != dtypes.BOOL:
                    self.fail(f"the condition `{condition}` is {_type(condition)}, not a bool")
                what = f"the condition `{excerpt(condition)}`"
                self.under_mask(condition.lanes, what)
                outer = self.mask
                self.mask = max(outer, condition.lanes)
                with self.where(condition, what):
                    self.inside(child_stmts(stmt))
                self.mask = outer
            case Allocate(buffer, body):
                if buffer.scope not in ("global", "shared", "local"):
                    self.fail(f"buffer {buffer.name!r} is in the unknown scope {buffer.scope!r}")
                self.declare(buffer)
                self.stmt(body)
                self.buffers.discard(id(buffer))
            case ThreadReduce():
                self.thread_reduce(stmt)
            case Raw(values=values):
                for value in values:
                    self.expr(value)
            case WarpReduce():
                self.warp_reduce(stmt)
            case Barrier():
                self.together("a barrier")
            case CopyAhead(body) | Arrive(body):
                for inner in walk(body):
                    if isinstance(inner, Store) and inner.buffer.scope != "shared":
                        self.fail(f"{inner.buffer.name!r} is copied to, but not in shared storage")
                self.stmt(body)
            case _:
                self.inside(child_stmts(stmt))

    def inside(self, stmts: Iterable[Stmt]) -> None:
        for inner in stmts:
            self.stmt(inner)

    def under_mask(self, lanes: int, what: str) -> None:
        """Check that a node of `lanes` lanes is allowed under the enclosing conditions."""
        if self.mask > 1 and lanes not in (1, self.mask):
            self.fail(f"{what} has {lanes} lanes under a condition of {self.mask}")

    def loop(self, loop: For) -> None:
        what = f"loop {loop.var.name!r}"
        if self.mask > 1 and loop.kind not in _IN_ORDER:
            self.fail(f"{what} is {loop.kind} under a condition of {self.mask} lanes")
        self.integer(loop.extent, f"the extent of {what}")
        if not dtypes.is_index(loop.var.dtype):
            self.fail(f"the variable of {what} is a {loop.var.dtype}, not an int32 or int64")
        if id(loop.var) in self.bound:
            self.fail(f"the variable of {what} is bound a second time inside its own loop")
        if bool(loop.thread_tag) != (loop.kind in _TAGGED):
            self.fail(f"{what} is {loop.kind} and has the thread tag {loop.thread_tag!r}")
        self.bound.add(id(loop.var))
        if is_thread_loop(loop):
            self.threads.add(loop.var)
        with self.where(loop.extent, f"the extent of {what}"):
            self.stmt(loop.body)
        self.threads.discard(loop.var)
        self.bound.discard(id(loop.var))

    @contextmanager
    def where(self, expr: Expr, what: str) -> Iterator[None]:
        """Check statements that run as often as an expression gives."""
        outer = self.alone
        if not outer and not is_uniform(expr, self.threads):
            self.alone = what
        yield
        self.alone = outer

    def store(self, store: Store) -> None:
        buffer, index, value = store.buffer, store.index, store.value
        self.access(buffer, index)
        self.expr(index)
        self.expr(value)
        if value.dtype != buffer.dtype or value.lanes != index.lanes:
            self.fail(
                f"{buffer.name}[{index}] takes {_named(buffer.dtype, index.lanes)}, "
                f"but `{value}` is {_type(value)}"
            )
        if index.lanes == 1 and self.mask > 1:
            self.fail(f"one element of {buffer.name} is written under a condition of lanes")
        self.under_mask(index.lanes, f"{buffer.name}[{index}]")
        is_parameter = any(buffer is param for param in self.function.params)
        if is_parameter and buffer not in self.function.outputs:
            self.fail(f"the parameter {buffer.name!r} is written but is not an output")

    def thread_reduce(self, reduction: ThreadReduce) -> None:
        for expr in stmt_exprs(reduction):
            self.expr(expr)
        self.reduced(reduction.operands, reduction.results, const(0))

    def reduced(self, operands: tuple[Expr, ...], results: tuple[Buffer, ...], index: Expr) -> None:
        for expr in operands:
            self.expr(expr)
        if len(operands) != len(results):
            self.fail(f"{len(operands)} values are reduced across threads to {len(results)}")
        for operand, result in zip(operands, results, strict=True):
            self.access(result, index)
            if operand.dtype != result.dtype or operand.lanes != 1:
                self.fail(f"{result.name!r} takes a {result.dtype}, `{operand}` is another type")

    def warp_reduce(self, reduction: WarpReduce) -> None:
        self.together("a reduction of a warp")
        self.integer(reduction.index, "the place of a reduction of a warp")
        if reduction.width not in (1, 2, 4, 8, 16, 32):
            self.fail(f"a reduction of {reduction.width} threads of a warp")
        self.reduced(reduction.operands, reduction.results, reduction.index)

    def together(self, what: str) -> None:
        """Check that all threads of a block reach this statement."""
        if self.alone:
            self.fail(f"not all threads of a block come to {what}: {self.alone} differs")

    # Expressions.

    def integer(self, expr: Expr, what: str) -> None:
        self.expr(expr)
        if not dtypes.is_index(expr.dtype) or expr.lanes != 1:
            self.fail(f"{what}, `{expr}`, is {_type(expr)}, not one integer size")

    def access(self, buffer: Buffer, index: Expr) -> None:
        if id(buffer) not in self.buffers:
            self.fail(f"buffer {buffer.name!r} is neither a parameter nor allocated around its use")
        if not dtypes.is_index(index.dtype):
            self.fail(
                f"the index `{index}` of {buffer.name!r} is {_type(index)}, not an integer index"
            )

    def expr(self, expr: Expr) -> None:
        for node in walk_expr(expr):
            match node:
                case KnobVar() if not self.allow_knobs:
                    self.fail(f"knob {node.name!r} is left in a function that should have none")
                case Var() if id(node) not in self.bound and not isinstance(node, KnobVar):
                    self.fail(f"variable {node.name!r} is used outside any loop over it")
                case Load():
                    self.access(node.buffer, node.index)
            if id(node) not in self.well_formed:
                problem = _problem(node)
                if problem:
                    self.fail(f"{problem} in `{node}`")
                self.well_formed.add(id(node))


def _named(dtype: str, lanes: int) -> str:
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def _type(expr: Expr) -> str:
    return _named(expr.dtype, expr.lanes)


def _problem(node: Expr) -> str | None:
    """Return what is wrong with one node and its operands; empty if nothing is."""
    match node:
        case BinaryOp():
            return _binary_problem(node)
        case Not() if node.a.dtype != dtypes.BOOL:
            return f"`not` of {_type(node.a)}"
        case Select():
            return _choice_problem("select", node.children)
        case Call(name="if_then_else"):
            return _choice_problem(node.name, node.children)
        case Call(name="likely") if node.children[0].dtype != dtypes.BOOL:
            return f"`likely` of {_type(node.children[0])}"
        case Call() if any(child.lanes not in (1, node.lanes) for child in node.children):
            return f"operands of {node.name!r} differ in lanes"
        case Call() if node.name in INTRINSICS:
            return _intrinsic_problem(node, INTRINSICS[node.name])
        case Ramp() | Broadcast() if any(child.lanes != 1 for child in node.children):
            return "a vector made of vectors"
        case Ramp() | Broadcast() if node.lanes < 2:
            return f"a vector of {node.lanes} lanes"
        case Ramp() if any(not dtypes.is_index(child.dtype) for child in node.children):
            return "a ramp of other values than int32 or int64"
        case Ramp() if node.base.dtype != node.stride.dtype:
            return f"a ramp from {_type(node.base)} by {_type(node.stride)}"
        case Read() | Reduce():
            return f"a {type(node).__name__}, which only exists before lowering,"
        case Const() if dtypes.is_integer(node.dtype) and not (
            dtypes.min_value(node.dtype) <= node.value <= dtypes.max_value(node.dtype)
        ):
            return f"a constant that {node.dtype} cannot hold"
        case _:
            return None


def _binary_problem(node: BinaryOp) -> str | None:
    a, b, op = node.a, node.b, node.op
    if a.dtype != b.dtype or a.lanes != b.lanes:
        return f"`{op}` of {_type(a)} and {_type(b)}"
    if op in LOGIC:
        allowed = a.dtype == dtypes.BOOL
    elif op == "/":
        allowed = dtypes.is_float(a.dtype)
    elif op in ("//", "%"):
        allowed = dtypes.is_integer(a.dtype)
    else:
        allowed = op not in ARITHMETIC or a.dtype != dtypes.BOOL
    return None if allowed else f"`{op}` of {_type(a)}"


def _intrinsic_problem(node: Call, known: Intrinsic) -> str | None:
    if len(node.children) != known.arity:
        return f"{len(node.children)} operands of {node.name!r}, which takes {known.arity}"
    operand = node.children[0].dtype
    if any(child.dtype != operand for child in node.children):
        return f"operands of {node.name!r} differ in type"
    if not known.accepts(operand):
        return f"{node.name!r} of {operand}, which takes {known.takes}s"
    if node.dtype != (known.gives or operand):
        return f"{node.name!r} of {operand} as {node.dtype}"
    return None


def _choice_problem(name: str, children: tuple[Expr, ...]) -> str | None:
    test, true, false = children
    if test.dtype != dtypes.BOOL:
        return f"{name} on {_type(test)}"
    if true.dtype != false.dtype or true.lanes != false.lanes:
        return f"{name} between {_type(true)} and {_type(false)}"
    if test.lanes not in (1, true.lanes):
        return f"{name} of {_type(true)} on {_type(test)}"
    return None
