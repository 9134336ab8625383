"""Statements as C++: loops, conditions, stores, and vectors as loops over their lanes."""

from __future__ import annotations

import re
import textwrap
from abc import abstractmethod
from collections.abc import Iterator, Set
from contextlib import contextmanager

from autotune.codegen.c.c_expressions import AND, SUM, Expressions, Text
from autotune.codegen.c.c_lanes import (
    LaneExtractor,
    RampRewriter,
    eager_loads,
    guarded_loads,
    one_lane,
    overlaps,
    packed_lanes,
)
from autotune.codegen.c.c_names import C_TYPES, CNameSupply, whole
from autotune.codegen.c.common_subexpressions import repeated
from autotune.errors import CodegenError
from autotune.ir.expr import BinaryOp, Buffer, Const, Expr, Load, Ramp, Var
from autotune.ir.ops import binary, const
from autotune.ir.stmt import (
    Allocate,
    Arrive,
    Barrier,
    CopyAhead,
    For,
    If,
    LoopKind,
    Produce,
    Seq,
    Stmt,
    Store,
    WarpReduce,
)
from autotune.ir.visitor import free_vars, loads, walk, walk_expr

#: Largest local array, in elements, that is expected to stay in registers, and the longest loop
#: over such an array that is unrolled.
REGISTERS, MAX_UNROLLED = 256, 64

#: Longer lines are broken.
LINE_LENGTH = 100

_UNROLLED = (LoopKind.UNROLLED, LoopKind.UNROLL_HINTED)
#: Operations with an assignment operator, and their types: a stored sum wraps in two's complement,
#: although signed overflow is undefined in C++.
_ASSIGNED = {"+": ("float32", "float64", "int32", "int64", "uint32", "uint64"),
             "-": ("float32", "float64", "int32", "int64", "uint32", "uint64"),
             "*": ("float32", "float64")}  # fmt: skip


class Statements(Expressions):
    """Writes the statements of one function."""

    def __init__(self, names: CNameSupply) -> None:
        super().__init__()
        self.names = names
        #: The text so far.
        self.lines: list[str] = []
        self.depth = 1
        self.masks: list[str] = []
        self.loops: set[Var] = set()

    @abstractmethod
    def barrier(self) -> str:
        """Return the statement that lets threads wait for one another."""

    @abstractmethod
    def copy_ahead(self, body: Stmt) -> None:
        """Write some stores as asynchronous copies."""
        raise NotImplementedError

    def arrive(self) -> str:
        """Return the statement that waits for a thread's asynchronous copies."""
        raise NotImplementedError

    def warp_reduce(self, reduction: WarpReduce) -> None:
        """Write a reduction among threads of a warp."""

    @abstractmethod
    def declare(self, buffer: Buffer, name: str) -> None:
        """Write the declaration of a buffer that is allocated here."""

    # -- text --------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Write one line, or several if it is long; products are not broken."""
        pad = "  " * self.depth
        together = re.sub(r" ([*/%]) ", "\xa0\\1\xa0", text)
        broken = textwrap.wrap(
            re.sub(r"(unsigned|signed|long) (?=char|short|int|long)", "\\1\xa0", together),
            max(LINE_LENGTH, len(pad) + 60),
            initial_indent=pad,
            subsequent_indent=pad + "    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        self.lines += [line.replace("\xa0", " ") for line in broken]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write the following lines as a block."""
        self.line(f"{head} {{".lstrip())
        self.depth += 1
        self.names.open()
        yield
        self.names.close()
        self.depth -= 1
        self.line("}")

    def body(self, stmt: Stmt, variables: Set[Var]) -> None:
        """Write the body of a scope with some new variables."""
        with self._named(stmt, variables):
            self.stmt(stmt)

    @contextmanager
    def _named(self, stmt: Stmt | None, variables: Set[Var]) -> Iterator[None]:
        """Name indices over new variables that occur in several places of a statement."""
        named = []
        for expr in repeated(stmt, variables) if stmt is not None else ():
            seen = all(var in self.texts for var in free_vars(expr))
            if seen and expr not in self.texts and self.never_wraps(expr):
                text = self.exact(expr)
                name = self.names.fresh(self._noun(expr))
                self.line(f"const {'long long' if text.is_long else 'int'} {name} = {text.text};")
                self.texts[expr] = Text(name, is_long=text.is_long)
                named.append(expr)
        yield
        for expr in named:
            del self.texts[expr]

    def _noun(self, expr: Expr) -> str:
        """Return a name for an index: that of the original axis of its innermost loop."""
        own = free_vars(expr)
        inner = [var for var in own if var in self.loops]
        kinds = {var.name.partition(".")[0] for var in own}
        outer = {"threadIdx": "thread", "blockIdx": "block"}.get("".join(kinds), "at")
        noun = whole(inner[-1].name) if inner else outer
        sides = {"//": ".row", "%": ".column"}
        return noun + (sides.get(expr.op, "") if isinstance(expr, BinaryOp) else "")

    # -- statements --------------------------------------------------------------------------------

    def stmt(self, stmt: Stmt) -> None:
        """Write one statement."""
        match stmt:
            case Store():
                self._store(stmt)
            case For():
                self._loop(stmt)
            case If():
                self._branch(stmt)
            case Seq(stmts):
                for inner in stmts:
                    self.stmt(inner)
            case Allocate(buffer, body):
                self._allocate(buffer, body)
            case Produce(_, body):
                self.stmt(body)
            case Barrier():
                self.line(self.barrier())
            case WarpReduce():
                self.warp_reduce(stmt)
            case CopyAhead(body):
                self.copy_ahead(body)
            case Arrive():
                self.line(self.arrive())
            case _:
                raise CodegenError(f"cannot write a {type(stmt).__name__}")

    def _allocate(self, buffer: Buffer, body: Stmt) -> None:
        name = self.names.fresh(buffer.name)
        self.buffers[buffer] = name
        if buffer.scope == "local" and buffer.elements == 1:
            self.scalars.add(buffer)
        self.declare(buffer, name)
        self.stmt(body)

    def _loop(self, loop: For) -> None:
        if loop.kind in (LoopKind.THREAD, LoopKind.VTHREAD, LoopKind.VECTORIZED):
            raise CodegenError(f"loop {loop.var.name} is {loop.kind} where it has no meaning")
        if loop.kind in _UNROLLED or self._indexes_registers(loop):
            self.line("#pragma unroll")
        with self._counting(loop.var, loop.extent, inside=loop.body):
            self.stmt(loop.body)

    @contextmanager
    def _counting(
        self, var: Var, extent: Expr, step: int = 1, inside: Stmt | None = None
    ) -> Iterator[str]:
        """Write a loop whose variable counts up to `extent`; name common indices of `inside`."""
        end, high = self.exact(extent), self.simplifier.bounds(extent)[1]
        kind = "long long" if end.is_long and not self.fits(extent) else "int"
        self.names.open()
        name = self.names.fresh(var.name)
        self.simplifier.bind(var, 0, max(0.0, high - 1))
        self.texts[var] = Text(name, is_long=kind == "long long")
        if inside is not None:
            self.loops.add(var)
        count = f"++{name}" if step == 1 else f"{name} += {step}"
        head = f"for ({kind} {name} = 0; {name} < {end.within(SUM)}; {count})"
        with self.block(head), self._named(inside, {var}):
            yield name
        del self.texts[var]
        self.names.close()

    def _indexes_registers(self, loop: For) -> bool:
        """Whether a loop must be unrolled so that an array in it stays in registers."""
        if not isinstance(loop.extent, Const) or loop.extent.value > MAX_UNROLLED:
            return False
        for stmt in walk(loop.body):
            for buffer, index in _accesses(stmt):
                size = buffer.elements
                in_registers = buffer.scope == "local" and size is not None and size <= REGISTERS
                if in_registers and any(node is loop.var for node in walk_expr(index)):
                    return True
        return False

    def _branch(self, stmt: If) -> None:
        if stmt.condition.lanes > 1:
            self._masked(stmt)
            return
        with self.block(f"if ({self.condition(stmt.condition)})"):
            self.stmt(stmt.then)
        if stmt.orelse is not None:
            self.lines.pop()
            with self.block("} else"):
                self.stmt(stmt.orelse)

    # -- stores ------------------------------------------------------------------------------------

    def _store(self, store: Store) -> None:
        if store.index.lanes == 1:
            self.assign(store)
            return
        straight = RampRewriter(self.simplifier.expr)
        store = Store(store.buffer, straight.index(store.index), straight.expr(store.value))
        width = 1 if self.masks else _width(store)
        if width == 1:
            self._lane_by_lane(store)
        elif width == store.index.lanes:
            self._packed(store, width, const(0))
        else:
            part = Var("part")
            self.line("#pragma unroll")
            with self._counting(part, const(store.index.lanes), width):
                self._packed(store, width, part)

    def assign(self, store: Store, place: str = "") -> None:
        """Write the assignment of a scalar value to an element, or to `place`."""
        value, dtype = store.value, store.buffer.dtype
        element = place or self.element(store.buffer, store.index).text
        if not place and isinstance(value, BinaryOp) and dtype in _ASSIGNED.get(value.op, ()):
            own = value.a
            same = isinstance(own, Load) and own.buffer is store.buffer
            if same and own.children[0] is store.index:
                self.line(f"{element} {value.op}= {self.value(value.b).text};")
                return
        is_known = value in self.texts
        text = self.value(value).text
        if isinstance(value, Load) and not is_known:
            text = self.loaded(store, value, text)
        if place:
            self.line(f"{place} = {text};")
        else:
            self.write(store.buffer, element, text)

    def loaded(self, store: Store, load: Load, text: str) -> str:
        """Return the text of a load that is part of a store, given its usual text."""
        return text

    def write(self, buffer: Buffer, place: str, value: str) -> None:
        """Write the assignment of elements of a buffer at `place`."""
        self.line(f"{place} = {value};")

    # -- vectors -----------------------------------------------------------------------------------

    def _lane_by_lane(self, store: Store) -> None:
        """Store the active lanes of a vector one after another, all computed before the first."""
        lanes = store.index.lanes
        if not overlaps(store):
            with self._lanes(lanes) as lane:
                self.assign(one_lane(store, lane))
            return
        new = self.names.fresh(f"{store.buffer.name}.new")
        self.line(f"{C_TYPES[store.buffer.dtype]} {new}[{lanes}];")
        with self._lanes(lanes) as lane:
            self.assign(one_lane(store, lane), f"{new}[{self.index(lane)}]")
        with self._lanes(lanes) as lane:
            element = self.element(store.buffer, one_lane(store, lane).index)
            self.line(f"{element.text} = {new}[{self.index(lane)}];")

    @contextmanager
    def _lanes(self, lanes: int) -> Iterator[Var]:
        """Write the following lines for each active lane."""
        lane = Var("lane")
        self.line("#pragma unroll")
        with self._counting(lane, const(lanes)) as name:
            if not self.masks:
                yield lane
                return
            tests = [f"{mask}[{name}]" for mask in self.masks]
            with self.block(f"if ({' && '.join(tests)})"):
                yield lane

    def _packed(self, store: Store, width: int, first: Expr) -> None:
        """Store `width` lanes from `first` on; adjacent elements are stored together."""
        to_pack = packed_lanes(store.buffer, store.index) > 1
        packs: dict[Load, str] = {}
        for load in eager_loads(store.value):
            if packed_lanes(load.buffer, load.index) > 1:
                text = f"{self.helper('pack')}<{width}>(&{self._start(load, first)})"
                packs[load] = self.loaded(store, load, text)
        for load, condition in guarded_loads(store.value).items():
            none = f"Pack<{C_TYPES[load.buffer.dtype]}, {width}>{{}}"
            text = f"{self.helper('pack')}<{width}>(&{self._start(load, first)})"
            packs[load] = f"{self.condition(condition)} ? {text} : {none}"
        target = f"{self.helper('pack')}<{width}>(&{self._start(store, first)})" if to_pack else ""
        if to_pack and isinstance(store.value, Load) and store.value in packs:
            self.write(store.buffer, target, packs[store.value])
            return
        names: dict[Load, str] = {}
        for load, text in packs.items():
            names[load] = self.names.fresh(f"{load.buffer.name}.pack")
            self.line(f"const auto {names[load]} = {text};")
        result = ""
        if to_pack:
            result = self.names.fresh(f"{store.buffer.name}.pack")
            self.line(f"Pack<{C_TYPES[store.buffer.dtype]}, {width}> {result};")
        lane = Var("lane")
        number = binary("+", first, lane)
        self.line("#pragma unroll")
        with self._counting(lane, const(width)) as counter:
            for load, name in names.items():
                self.texts[LaneExtractor(number).expr(load)] = Text(f"{name}[{counter}]")
            self.assign(one_lane(store, number), f"{result}[{counter}]" if to_pack else "")
        if to_pack:
            self.write(store.buffer, target, result)

    def _start(self, access: Load | Store, first: Expr) -> str:
        """Return the first element of a part of an access with adjacent elements."""
        assert isinstance(access.index, Ramp)
        return self.element(access.buffer, binary("+", access.index.base, first)).text

    def _masked(self, stmt: If) -> None:
        """Write both branches of a vector condition, each for its lanes."""
        name = self.names.fresh("active")
        self.line(f"bool {name}[{stmt.condition.lanes}];")
        lane = Var("lane")
        self.line("#pragma unroll")
        with self._counting(lane, const(stmt.condition.lanes)) as number:
            test = self._text(LaneExtractor(lane).expr(stmt.condition), exact=True).within(AND)
            outer = "".join(f"{mask}[{number}] && " for mask in self.masks)
            self.line(f"{name}[{number}] = {outer}{test};")
        for side, mask in ((stmt.then, name), (stmt.orelse, f"!{name}")):
            if side is not None:
                self.masks.append(mask)
                self.stmt(side)
                self.masks.pop()


def _width(store: Store) -> int:
    """Return the number of lanes of a vector statement that move together, at least 1."""
    always, guarded = eager_loads(store.value), guarded_loads(store.value)
    accesses: list[Load | Store] = [store, *always, *guarded]
    found = [packed_lanes(access.buffer, access.index) for access in accesses]
    together = [lanes for lanes in found if lanes > 1]
    if not together:
        return 1
    # A pack of all lanes is computed before it is stored.
    is_whole = min(together) == found[0] == store.index.lanes
    return min(together) if is_whole or not overlaps(store) else 1


def _accesses(stmt: Stmt) -> Iterator[tuple[Buffer, Expr]]:
    if isinstance(stmt, Store):
        yield stmt.buffer, stmt.index
    yield from ((load.buffer, load.index) for load in loads(stmt))
