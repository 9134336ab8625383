"""Transforms loops over symbolic knobs into the final form for given knob values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from autotune.errors import InstantiationError
from autotune.ir.algebra.intervals import Bounds
from autotune.ir.algebra.polynomials import joined, to_expr, to_poly
from autotune.ir.algebra.simplify_expr import Canonical
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import BinaryOp, Buffer, Const, Expr, KnobVar, SizeVar, Var, is_const
from autotune.ir.stmt import For, LoopKind, PrimFunc, Produce, Stmt
from autotune.ir.visitor import AccessRewriter, recursive, stmt_exprs, transform, walk, walk_expr
from autotune.lowering.guards.facts import has_conditions
from autotune.lowering.guards.hoist_guards import hoist_guards
from autotune.lowering.guards.last_tile import split_last_tiles
from autotune.lowering.guards.last_vectors import split_last_vectors
from autotune.lowering.guards.loop_partition import partition, shorten
from autotune.lowering.guards.redundant_clamps import drop_redundant_clamps
from autotune.lowering.loop_fusion import fuse_loops
from autotune.lowering.mark_unrolled import mark_unrolled
from autotune.lowering.nest.digit_indices import without_digits
from autotune.lowering.output_storage import store_in_outputs
from autotune.lowering.scan.array_contraction import contract_arrays
from autotune.lowering.scan.loop_interchange import interchange_parallel_loops, interchange_steps
from autotune.lowering.scan.scalar_replacement import replace_with_scalars
from autotune.lowering.scan.step_fusion import fuse_steps
from autotune.lowering.storage_rewrite import share_storage
from autotune.lowering.vector.alignment_peeling import peel_for_alignment
from autotune.lowering.vector.size_cases import join_copies, split_by_size
from autotune.lowering.vector.vectorize import vectorize

# What is known of knobs, or of sizes.
Values = Mapping[KnobVar, int] | Mapping[SizeVar, int]


@recursive
def analyse(function: PrimFunc, knobs: Values | None = None) -> PrimFunc:
    """Substitute values of knobs or sizes; remove guards that always hold; all loops stay.

    Features and listings use this form. In it, variables of loops of length 1 are 0.

    Raises InstantiationError if the values break one of the function's requirements.
    """
    simplifier = Simplifier(_ranges({} if knobs is None else knobs))
    message = _refusal(function, simplifier)
    if message:
        raise InstantiationError(message)
    body = simplifier.stmt(function.body)
    info = function.info
    known = replace(
        info,
        loop_pragmas={var: _each(simplifier, own) for var, own in info.loop_pragmas.items()},
        num_threads={var: simplifier.expr(most) for var, most in info.num_threads.items()},
        least_extents=tuple((simplifier.expr(size), n) for size, n in info.least_extents),
        prefetches={
            name: replace(own, distance=simplifier.expr(own.distance))
            for name, own in info.prefetches.items()
        },
        blocks_per_multiprocessor=_each(simplifier, info.blocks_per_multiprocessor),
    )
    return replace(function, body=body, info=known)


def _each(simplifier: Simplifier, exprs: Mapping[str, Expr]) -> dict[str, Expr]:
    return {name: simplifier.expr(expr) for name, expr in exprs.items()}


def refusal(function: PrimFunc, knobs: Mapping[KnobVar, int]) -> str:
    """Return the first requirement of a function that knob values break; empty if there is none."""
    return _refusal(function, Simplifier(_ranges(knobs)))


def _refusal(function: PrimFunc, simplifier: Simplifier) -> str:
    for condition, message in function.info.requirements:
        verdict = simplifier.expr(condition)
        if isinstance(verdict, Const) and not verdict.value:
            return message
    return ""


def _ranges(knobs: Values) -> dict[Var, Bounds]:
    return {knob: (value, value) for knob, value in knobs.items()}


def listing(function: PrimFunc) -> PrimFunc:
    """Return the analysed function without loops of length 1."""

    def inside(node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.kind is not LoopKind.THREAD:
            return node.body if is_const(node.extent, 1) else None
        return None

    return function.with_body(transform(function.body, after=inside))


def drop_marks(function: PrimFunc) -> PrimFunc:
    """Return the function without the marks of its stages, which only listings need."""

    def inside(node: Stmt) -> Stmt | None:
        return node.body if isinstance(node, Produce) else None

    return function.with_body(transform(function.body, after=inside))


@recursive
def finalise(function: PrimFunc) -> PrimFunc:
    """Return an analysed function in the form that backends take.

    Unit loops and marks are removed, temporaries share storage, guards are removed or moved
    outwards, loops are split where guards change, and vectors are explicit.
    """
    *_, final = finalising(function)
    return final


def finalising(function: PrimFunc) -> Iterator[PrimFunc]:
    """Yield an analysed function after each pass of `finalise`; the last is the final form."""
    copies = split_by_size(rejoin(function))
    for number, copy in enumerate(copies):
        for result in _passes(copy.function):
            copies[number] = replace(copy, function=result)
            yield join_copies(copies)


def _passes(function: PrimFunc) -> Iterator[PrimFunc]:
    """Yield one copy of a function after each pass."""
    result = listing(mark_unrolled(function))
    result = interchange_parallel_loops(result)
    yield (result := drop_marks(interchange_steps(result)))
    yield (result := contract_arrays(fuse_steps(result)))
    yield (result := store_in_outputs(result))
    yield (result := share_storage(result))
    yield (result := fuse_loops(result))
    yield (result := peel_for_alignment(result))
    if has_conditions(result.body):
        tails = split_last_tiles, split_last_vectors
        for step in (hoist_guards, *tails, partition, hoist_guards, shorten):
            yield (result := step(result))
    yield (result := drop_redundant_clamps(result))
    yield (result := vectorize(replace_with_scalars(result)))
    if result.info.line_offsets:
        yield hoist_guards(result)


def rejoin(function: PrimFunc) -> PrimFunc:
    """Return an analysed function with quotients and remainders in indices joined.

    ::

        S[(x // k)*k + x % k]      ->      S[x]
        S[(x*10 + r) // 40]        ->      S[x // 4]      where 0 <= r < 10
        S[(x*n + r) // n]          ->      S[x]           where 0 <= r < n

    Listings keep both, as TVM v0.8 prints them; lengths in the first are symbolic.
    """
    exprs = (expr for stmt in walk(function.body) for expr in stmt_exprs(stmt))
    nodes = {node for expr in exprs for node in walk_expr(expr) if isinstance(node, BinaryOp)}
    if any(map(_may_have_digits, nodes)):
        function = function.with_body(Simplifier(has_digits=True).stmt(function.body))
    if not any(map(_is_symbolic_remainder, nodes)):
        return function
    extents = {loop.var: loop.extent for loop in walk(function.body) if isinstance(loop, For)}

    def place(buffer: Buffer, index: Expr) -> tuple[Buffer, Expr]:
        return buffer, without_digits(_joined(index), extents)

    return function.with_body(AccessRewriter(place).stmt(function.body))


def _may_have_digits(node: BinaryOp) -> bool:
    """Whether a sum is divided of which one term and the divisor have a common factor."""
    if node.op not in ("//", "%") or not isinstance(node.b, Const):
        return False
    form, divisor = Canonical().form(node.a), int(node.b.value)
    return len(form.terms) > 1 and any(math.gcd(t.scale, divisor) > 1 for t in form.terms)


def _joined(index: Expr) -> Expr:
    if index.lanes > 1:
        return index
    poly = to_poly(index)
    found = joined(poly, _is_symbolic_remainder)
    return index if found is poly else to_expr(found, index.dtype)


def _is_symbolic_remainder(node: Expr) -> bool:
    return isinstance(node, BinaryOp) and node.op == "%" and not isinstance(node.b, Const)
