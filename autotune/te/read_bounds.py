"""Refuses reads that certainly lie outside a tensor, before a built function would do them."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.errors import IRError
from autotune.ir.algebra.polynomials import Poly, to_poly
from autotune.ir.axes import AxisKind, IterVar
from autotune.ir.expr import Call, Const, Expr, Read, Reduce, Var
from autotune.te.tensor import PlaceholderOp

#: The smallest and largest values of axes.
Spans = dict[Expr, tuple[int, int]]


def check_reads(
    name: str, axes: tuple[IterVar, ...], body: tuple[Expr, ...], may_be_cell: bool = False
) -> bool:
    """Raise `IRError` if a read that no condition guards leaves its tensor for some index.

    Only indices that are sums of constant multiples of the axes are judged, and only against
    constant sizes: their smallest and largest values are taken on.

    `name`, `axes`, `body`: of the operation.
    `may_be_cell`: let pass what may be right in the cell of a scan, whose first steps are not
    computed: indices that leave the tensor in first steps alone, as ``t - 1`` and ``m - t``. Also
    ``t + 1`` of what may be a state, of which the scan knows better what is wrong.

    Returns whether something was let pass.
    """
    passed = False
    spans = spans_of(axes)
    if any(last < first for first, last in spans.values()):
        return False
    steps = spans_of(axis for axis in axes if axis.kind is AxisKind.SPATIAL)
    for read in (read for expr in body for read in _unguarded(expr)):
        sizes = read.tensor.extents
        for position, (index, size) in enumerate(zip(read.children, sizes, strict=True)):
            found = to_poly(index)
            ends = ends_of(found, spans)
            if ends is None or not isinstance(size, Const):
                continue
            if ends[0] >= 0 and ends[1] < size.value:
                continue
            if not (may_be_cell and _suits_a_step(found, ends, steps, read, int(size.value))):
                raise IRError(
                    f"compute {name!r}: index {position} of {read.tensor.name!r}, `{index}`, "
                    f"runs from {ends[0]} to {ends[1]}, outside 0 to {int(size.value) - 1}; "
                    "guard it with te.if_then_else"
                )
            passed = True
    return passed


def spans_of(axes: Iterable[IterVar]) -> Spans:
    """Return the smallest and largest values of the axes whose bounds are numbers."""
    spans: Spans = {}
    for axis in axes:
        assert axis.dom is not None
        low, extent = axis.dom.min, axis.dom.extent
        if isinstance(low, Const) and isinstance(extent, Const):
            spans[axis.var] = int(low.value), int(low.value) + int(extent.value) - 1
    return spans


def _suits_a_step(index: Poly, ends: tuple[int, int], steps: Spans, read: Read, size: int) -> bool:
    """Whether an index leaves a tensor in first steps alone, or is a later step of a state.

    A state is a placeholder of as many steps.
    """
    is_placeholder = isinstance(read.tensor.op, PlaceholderOp)
    for step, (_, last) in steps.items():
        scale = index.get((step,), 0)
        if (scale > 0 and ends[1] < size) or (scale < 0 and ends[0] >= 0):
            return True
        is_shifted = index == {(step,): 1, (): index.get((), 0)}
        if is_shifted and is_placeholder and size == last + 1:
            return True
    return False


def _unguarded(expr: Expr) -> list[Read]:
    found: list[Read] = []
    stack = [expr]
    seen: set[Expr] = set()
    while stack:
        node = stack.pop()
        guarded = isinstance(node, Reduce) and not isinstance(node.condition, Const)
        if node in seen or guarded:
            continue
        seen.add(node)
        if isinstance(node, Read):
            found.append(node)
        # Both sides of a select are evaluated: its condition guards neither.
        choice = isinstance(node, Call) and node.name == "if_then_else"
        stack.extend(node.children[:1] if choice else node.children)
    return found


def ends_of(index: Poly, spans: Spans) -> tuple[int, int] | None:
    """Return the smallest and largest value of an index over some axes, None where unsure."""
    low = high = 0
    for monomial, coefficient in index.items():
        if len(monomial) > 1 or (monomial and not isinstance(monomial[0], Var)):
            return None
        ends = spans.get(monomial[0]) if monomial else (1, 1)
        if ends is None:
            return None
        values = [coefficient * end for end in ends]
        low, high = low + min(values), high + max(values)
    return low, high
