"""Kernels: the final form of functions for GPUs, and its split into single kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.ir.expr import Buffer, Expr, Var
from autotune.ir.ops import const
from autotune.ir.stmt import Allocate, For, LoopKind, PrimFunc, Stmt, split_allocations, top_level
from autotune.ir.visitor import free_vars, is_raw, loads, recursive, stmt_exprs, walk, written
from autotune.lowering.finalise import drop_marks, finalise, listing, rejoin
from autotune.lowering.gpu.block_thread_nest import lift_shared, merge_thread_loops
from autotune.lowering.gpu.insert_barriers import insert_barriers
from autotune.lowering.gpu.software_pipelining import pipeline_loads
from autotune.lowering.gpu.virtual_threads import inject_virtual_threads
from autotune.lowering.gpu.whole_vectors import separate_whole_vectors
from autotune.lowering.guards.facts import has_conditions
from autotune.lowering.guards.hoist_guards import hoist_guards
from autotune.lowering.guards.loop_partition import partition, shorten
from autotune.lowering.mark_unrolled import mark_unrolled
from autotune.lowering.storage_rewrite import share_storage
from autotune.lowering.vector.vectorize import vectorize
from autotune.target import Target

Extents = tuple[Expr, Expr, Expr]


@recursive
def finalise_kernels(function: PrimFunc) -> PrimFunc:
    """Turn an analysed function into the final form for GPUs.

    It equals the form of `finalise` except for the threads. Each root stage is one kernel, a nest
    of loops over blocks, allocations of shared storage, loops over threads (along the used axes,
    always along x), and the code of one thread, with barriers. Temporaries between kernels are
    allocated around them in global storage. There are no virtual threads.

    Raises LoweringError if concurrent threads cannot execute it.
    """
    *_, final = finalising_kernels(function)
    return final


def final_form(function: PrimFunc, target: Target) -> PrimFunc:
    """Return an analysed function in the form that backends of `target` take.

    A kernel as text is not changed.

    Raises LoweringError if the target cannot execute it.
    """
    if is_raw(function):
        return function
    return finalise(function) if target.gpu is None else finalise_kernels(function)


def finalising_kernels(function: PrimFunc) -> Iterator[PrimFunc]:
    """Yield an analysed function after each pass of `finalise_kernels`."""
    yield (result := merge_thread_loops(listing(mark_unrolled(rejoin(function)))))
    yield (result := drop_marks(inject_virtual_threads(result)))
    yield (result := share_storage(result))
    if has_conditions(result.body):
        for step in (hoist_guards, partition, hoist_guards, shorten, separate_whole_vectors):
            yield (result := step(result))
    yield (result := lift_shared(vectorize(result)))
    yield (result := pipeline_loads(result))
    yield insert_barriers(result)


@dataclass(frozen=True, eq=False)
class DeviceKernel:
    """One kernel of a function."""

    #: Its name, its parameters (the parameters of the whole function and temporaries that it uses,
    #: in declaration order), the sizes that it depends on, and its nest.
    function: PrimFunc
    #: Blocks, and threads of each, along x, y and z; the grid may depend on sizes.
    grid: Extents
    block: Extents


def split_kernels(function: PrimFunc) -> list[DeviceKernel]:
    """Return the kernels of a function in final form, in the order in which they run.

    `function`: as `finalise_kernels` returns it.

    A single kernel has the function's name; several are numbered from 0: name_0, name_1.
    """
    _, nests = top_level(function.body)
    buffers = [*function.params, *workspace(function)]
    several = len(nests) > 1
    return [
        _kernel(function, f"{function.name}_{number}" if several else function.name, nest, buffers)
        for number, nest in enumerate(nests)
    ]


def workspace(function: PrimFunc) -> tuple[Buffer, ...]:
    """Return the temporaries between kernels; the code that launches them provides the memory."""
    buffers, _ = split_allocations(function.body)
    return tuple(buffers)


def _kernel(function: PrimFunc, name: str, nest: Stmt, buffers: list[Buffer]) -> DeviceKernel:
    used: dict[Buffer, bool] = {}
    variables: set[Var] = set()
    for stmt in walk(nest):
        used.update((buffer, True) for buffer in written(stmt))
        for load in loads(stmt):
            used.setdefault(load.buffer, False)
        variables.update(var for expr in stmt_exprs(stmt) for var in free_vars(expr))
    params = tuple(buffer for buffer in buffers if buffer in used)
    variables.update(var for param in params for size in param.shape for var in free_vars(size))
    own_sizes = tuple(size for size in function.sizes if size in variables)
    outputs = frozenset(buffer for buffer in params if used[buffer])
    extents = dict(_extents(nest))

    def along(axes: str) -> Extents:
        x, y, z = (extents.get(f"{axes}.{axis}", const(1)) for axis in "xyz")
        return x, y, z

    own = PrimFunc(name, params, outputs, nest, own_sizes, function.info)
    return DeviceKernel(own, along("blockIdx"), along("threadIdx"))


def _extents(stmt: Stmt) -> Iterator[tuple[str, Expr]]:
    while isinstance(stmt, (For, Allocate)):
        if isinstance(stmt, For):
            if stmt.kind is not LoopKind.THREAD:
                return
            yield stmt.thread_tag, stmt.extent
        stmt = stmt.body
