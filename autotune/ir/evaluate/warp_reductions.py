"""Lowers warp reductions to shared memory and barriers, for the interpreter."""

from __future__ import annotations

from autotune.errors import IRError
from autotune.ir.expr import Buffer, Const, Expr, Load, Var
from autotune.ir.name_supply import NameSupply
from autotune.ir.ops import binary, const
from autotune.ir.stmt import (
    Barrier,
    For,
    LoopKind,
    PrimFunc,
    Stmt,
    Store,
    WarpReduce,
    allocated,
    seq,
)
from autotune.ir.tuple_stores import store_together
from autotune.ir.visitor import StmtRewriter, is_thread_loop, walk


def lower_warp_reductions(function: PrimFunc) -> PrimFunc:
    """Return the function with warp reductions replaced by shared memory and barriers.

    ::

        r[0] = warp_reduce(sum, f, width=4)   ->   all[threadIdx.x] = f
                                                   barrier()
                                                   r[0] = all[threadIdx.x//4*4]
                                                   for (i, 1, 4)
                                                     r[0] = r[0] + all[threadIdx.x//4*4 + i]
                                                   barrier()
    """
    if not any(isinstance(stmt, WarpReduce) for stmt in walk(function.body)):
        return function
    return function.with_body(_Written(function).stmt(function.body))


class _Written(StmtRewriter):
    """Lowers the reductions of the nests of threads, one nest after another."""

    def __init__(self, function: PrimFunc) -> None:
        super().__init__()
        self.threads: list[For] = []
        self.shared: dict[str, Buffer] = {}
        self.names = NameSupply.of_buffers(function)

    def visit_For(self, node: For) -> Stmt:
        if not is_thread_loop(node):
            return self.rebuild_stmt(node)
        outermost = not self.threads
        self.threads.append(node)
        result = self.rebuild_stmt(node)
        self.threads.pop()
        if outermost:
            result = allocated(list(self.shared.values())[::-1], result)
            self.shared = {}
        return result

    def visit_WarpReduce(self, node: WarpReduce) -> Stmt:
        number: Expr = const(0)
        count = 1
        axes = {loop.thread_tag: loop for loop in self.threads}
        for tag in ("threadIdx.z", "threadIdx.y", "threadIdx.x"):
            if tag in axes:
                extent = axes[tag].extent
                if not isinstance(extent, Const):
                    raise IRError(f"a reduction of a warp among `{extent}` threads along {tag}")
                number = binary("+", binary("*", number, extent), axes[tag].var)
                count *= int(extent.value)
        if count % node.width:
            raise IRError(f"a reduction of {node.width} threads each, of which there are {count}")
        together = [self._together(result, i, count) for i, result in enumerate(node.results)]
        start = binary("*", binary("//", number, node.width), node.width)
        pairs = list(zip(together, node.results, strict=True))
        share = [Store(b, number, value) for b, value in zip(together, node.operands, strict=True)]
        first = [Store(r, node.index, Load(b, start)) for b, r in pairs]
        var = Var("lane")
        place = binary("+", start, binary("+", var, 1))
        values = node.combiner.combine(
            [Load(result, node.index) for result in node.results],
            [Load(buffer, place) for buffer in together],
        )
        stores = [Store(r, node.index, v) for r, v in zip(node.results, values, strict=True)]
        step = store_together(stores, self.names.unused)
        rest = For(var, const(node.width - 1), LoopKind.SERIAL, step)
        return seq(*share, Barrier(), *first, rest, Barrier())

    def _together(self, result: Buffer, position: int, count: int) -> Buffer:
        """Return shared storage with one value per thread, a buffer for each type and position."""
        key = f"warp.{result.dtype}.{position}"
        if key not in self.shared:
            name = self.names.unused(key)
            self.shared[key] = Buffer(name, result.dtype, (const(count),), "shared")
        return self.shared[key]
