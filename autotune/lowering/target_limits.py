"""Limits of a target as conditions over knobs, derived from a lowered function.

The same functions serve all candidates of a structure, whose sizes are expressions over knobs, and
one candidate, whose sizes are numbers. A message names the limit. It is the same for all
candidates, because rejections are counted by message. `Task.refusal` applies them.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from autotune.errors import LoweringError
from autotune.ir import dtypes
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.expr import Buffer, Expr, Var
from autotune.ir.ops import binary, chain, const
from autotune.ir.stmt import For, LoopKind, PrimFunc, Stmt, Store, ThreadReduce
from autotune.ir.visitor import all_accessed, all_allocated, child_stmts, walk
from autotune.lowering.gpu.virtual_threads import differing
from autotune.lowering.nest.regions import is_knob_only
from autotune.lowering.storage_rewrite import elements
from autotune.target import GpuLimits, Target

Rule = tuple[Expr, str]  # A condition over knobs, and its message.

# Largest number of stores in a function after unrolling. Compile time grows with the square of what
# one nest of loops has (LLVM, two loads and three operations each: 1.3 s for 512, 5 s for 1,024,
# 20 s for 2,048). Functions of many nests may have the second number for each.
MAX_UNROLLED = 1024
UNROLLED_OF_NEST = 256

# Registers of a thread for addresses, loop variables and operands. A rough estimate; the compiler
# decides, and records have the real number.
OTHER_REGISTERS = 16

REGISTER_BYTES = 4

PACK_BYTES = 16  # Alignment of shared arrays in bytes, so that vectors can be loaded and stored.

_ONE = const(1)
_ZERO = const(0)


def target_rules(function: PrimFunc, target: Target) -> list[Rule]:
    """Return the conditions, with messages, under which `target` can run `function`.

    Conditions that hold for all values of the knobs are left out.

    `function`: as `lower_schedule` returns it.

    Raises LoweringError if no knob value helps, such as GPU threads on a CPU target.
    """
    kernels = list(launches(function.body))
    gpu = target.gpu
    if gpu is None:
        if kernels:
            raise LoweringError(
                f"{function.name!r} binds loops to GPU threads, which target 'llvm' does not have"
            )
        rules = _memory_rules(function, target)
    else:
        early = function.info.loaded_ahead
        rules = [rule for kernel in kernels for rule in _kernel_rules(kernel, gpu, early)]
    rules += _unroll_rules(function.body)
    return [(condition, message) for condition, message in rules if may_fail(condition)]


def may_fail(condition: Expr) -> bool:
    """Whether knobs can make a condition false; False if it depends on sizes of a call."""
    return is_knob_only(condition) and not Intervals().bounds(condition)[0]


def _at_most(amount: Expr, limit: int, message: str) -> Rule:
    return binary("<=", amount, limit), message


# -- CPUs ------------------------------------------------------------------------------------


def _memory_rules(function: PrimFunc, target: Target) -> list[Rule]:
    """Limit the size of all temporaries of a call; those in a parallel loop count once."""
    known = [size for size in map(_bytes, all_allocated(function.body)) if is_knob_only(size)]
    limit = target.memory_bytes
    message = f"temporaries take at most {limit} bytes of memory"
    return [_at_most(chain("+", known, 0), limit, message)]


def _unroll_rules(body: Stmt) -> list[Rule]:
    limit = max(MAX_UNROLLED, UNROLLED_OF_NEST * _nests(body))
    message = f"unrolled loops write out at most {limit} stores"
    return [_at_most(_written_out(body), limit, message)]


def _nests(stmt: Stmt) -> int:
    """Return the number of outermost loops."""
    return 1 if isinstance(stmt, For) else sum(map(_nests, child_stmts(stmt)))


def _written_out(stmt: Stmt) -> Expr:
    """Return the number of stores in the code after unrolling; 0 outside of unrolled loops."""
    if isinstance(stmt, For) and stmt.kind is LoopKind.UNROLLED and is_knob_only(stmt.extent):
        return binary("*", stmt.extent, _stores(stmt.body))
    return chain("+", map(_written_out, child_stmts(stmt)), 0)


def _stores(stmt: Stmt) -> Expr:
    if isinstance(stmt, Store):
        return _ONE
    total = chain("+", map(_stores, child_stmts(stmt)), 0)
    if isinstance(stmt, For) and stmt.kind is LoopKind.UNROLLED and is_knob_only(stmt.extent):
        return binary("*", stmt.extent, total)
    return total


# -- GPUs ------------------------------------------------------------------------------------


def launches(stmt: Stmt) -> Iterator[For]:
    """Yield the outermost loops over GPU threads, also virtual ones: one launch each."""
    if isinstance(stmt, For) and _is_launch(stmt):
        yield stmt
    else:
        for child in child_stmts(stmt):
            yield from launches(child)


def _is_launch(loop: For) -> bool:
    """Whether a loop is over threads or virtual threads."""
    return loop.kind is LoopKind.THREAD or (
        loop.kind is LoopKind.VTHREAD
        and any(isinstance(s, For) and s.kind is LoopKind.THREAD for s in walk(loop.body))
    )


def _kernel_rules(kernel: For, gpu: GpuLimits, early: Set[str]) -> list[Rule]:
    extents = _thread_extents(kernel)
    threads = block_threads(kernel)
    message = f"a block has at most {gpu.threads} threads"
    rules = [_at_most(threads, gpu.threads, message)]
    for tag, extent in extents.items():
        level, _, axis = tag.partition(".")
        what, whole = ("threads", "block") if level == "threadIdx" else ("blocks", "grid")
        limit = getattr(gpu, whole)["xyz".index(axis)]
        if limit < gpu.threads or whole == "grid":  # otherwise the limit of the product covers it
            rules.append(
                _at_most(extent, limit, f"a {whole} has at most {limit} {what} along {axis}")
            )
    shared, local = shared_bytes(kernel), local_bytes(kernel, early)
    message = f"a block has at most {gpu.shared_bytes} bytes of shared memory"
    rules.append(_at_most(shared, gpu.shared_bytes, message))
    if local is not _ZERO:
        rules += _register_rules(threads, local, gpu)
    return rules + _vector_rules(kernel, gpu)


def block_threads(kernel: For) -> Expr:
    """Return the number of threads of a block."""
    extents = _thread_extents(kernel)
    own = (extent for tag, extent in extents.items() if tag.startswith("threadIdx"))
    return chain("*", own, 1)


def _thread_extents(kernel: For) -> dict[str, Expr]:
    """Return the extent of each thread axis of a launch: of the largest loop bound to it."""
    extents: dict[str, Expr] = {}
    for loop in thread_loops(kernel):
        known = extents.get(loop.thread_tag)
        own = loop.extent if known is None else binary("max", known, loop.extent)
        extents[loop.thread_tag] = own
    return extents


def thread_loops(stmt: Stmt, around: Set[str] = frozenset()) -> Iterator[For]:
    """Yield the loops of a launch that are bound to thread axes.

    A loop inside another one of the same axis shares its threads and does not count; `around` has
    the axes of outer loops.
    """
    if isinstance(stmt, For) and stmt.kind is LoopKind.THREAD:
        if stmt.thread_tag not in around:
            yield stmt
        around = {*around, stmt.thread_tag}
    for child in child_stmts(stmt):
        yield from thread_loops(child, around)


def shared_bytes(kernel: For) -> Expr:
    """Return the size of all shared arrays, each of which is aligned.

    A reduction across threads of several warps may need one value per thread, including virtual
    threads.
    """
    sizes = [_bytes(buffer) for buffer in all_allocated(kernel, "shared")]
    for reduction, threads in _reductions(kernel, block_threads(kernel)):
        sizes += [binary("*", threads, dtypes.itemsize(r.dtype)) for r in reduction.results]
    packs = (binary("//", binary("+", size, PACK_BYTES - 1), PACK_BYTES) for size in sizes)
    return binary("*", chain("+", packs, 0), PACK_BYTES)


def _reductions(stmt: Stmt, threads: Expr) -> Iterator[tuple[ThreadReduce, Expr]]:
    """Yield reductions across threads, and how many threads each has, virtual ones included."""
    if isinstance(stmt, ThreadReduce):
        yield stmt, threads
    if isinstance(stmt, For) and stmt.kind is LoopKind.VTHREAD:
        threads = binary("*", threads, stmt.extent)
    for child in child_stmts(stmt):
        yield from _reductions(child, threads)


def local_bytes(kernel: For, early: Set[str] = frozenset()) -> Expr:
    """Return the size of a thread's arrays; those that differ between virtual threads are wider.

    A thread keeps its part of one half of the double-buffered arrays in `early`.
    """
    virtual: dict[Buffer, dict[Var, Expr]] = {}
    for loop in walk(kernel):
        if isinstance(loop, For) and loop.kind is LoopKind.VTHREAD:
            for buffer in differing(loop):
                virtual.setdefault(buffer, {})[loop.var] = loop.extent
    sizes = [
        chain("*", virtual.get(buffer, {}).values(), _bytes(buffer))
        for buffer in all_allocated(kernel, "local")
    ]
    threads = block_threads(kernel)
    for buffer in all_allocated(kernel, "shared"):
        if buffer.name in early:
            together = binary("*", threads, 2)
            whole = binary("+", _bytes(buffer), binary("-", together, 1))
            sizes.append(binary("//", whole, together))
    return chain("+", sizes, 0)


def _register_rules(threads: Expr, local: Expr, gpu: GpuLimits) -> list[Rule]:
    """Limit the arrays of a thread to the register file; larger ones would be in slow memory."""
    words = binary("//", binary("+", local, REGISTER_BYTES - 1), REGISTER_BYTES)
    registers = binary("+", words, OTHER_REGISTERS)
    warps = binary("//", binary("+", threads, gpu.warp - 1), gpu.warp)
    together = binary("*", binary("*", warps, gpu.warp), registers)
    return [
        _at_most(
            registers,
            gpu.thread_registers,
            f"a thread has at most {gpu.thread_registers} registers, by estimate",
        ),
        _at_most(
            together,
            gpu.block_registers,
            f"a block has at most {gpu.block_registers} registers, by estimate",
        ),
    ]


def _vector_rules(kernel: For, gpu: GpuLimits) -> list[Rule]:
    """Require that the lanes of a vector fill one access of a size that the hardware has.

    The rule uses the smallest elements that it moves. Larger elements are moved in several
    accesses, and unaligned ones (which only code generation knows) one by one.
    """
    rules: list[Rule] = []
    widest = gpu.vector_bytes
    message = f"a vector takes 1, 2, 4, ... or {widest} bytes"
    for loop in walk(kernel):
        if isinstance(loop, For) and loop.kind is LoopKind.VECTORIZED:
            moved = (b for b in all_accessed(loop.body) if b.scope != "local")  # no registers
            size = min((dtypes.itemsize(b.dtype) for b in moved), default=None)
            if size is None:
                continue
            taken = binary("max", binary("*", loop.extent, size), _ONE)
            fits = binary("==", binary("%", const(widest), taken), _ZERO)
            rules.append((binary("or", binary("<=", loop.extent, 1), fits), message))
    return rules


# -- sizes -----------------------------------------------------------------------------------


def _bytes(buffer: Buffer) -> Expr:
    return binary("*", elements(buffer), dtypes.itemsize(buffer.dtype))
