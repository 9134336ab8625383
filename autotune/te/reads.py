"""Refuses reads that certainly lie outside a tensor, before a built function would do them."""

from __future__ import annotations

from autotune.errors import IRError
from autotune.ir.expr import Call, Const, Expr, Read, Reduce, Var
from autotune.ir.itervar import AxisKind, IterVar
from autotune.ir.poly import to_poly
from autotune.te.tensor import PlaceholderOp

#: The smallest and largest values of axes.
Spans = dict[Expr, tuple[int, int]]


def check_reads(
    name: str, axes: tuple[IterVar, ...], body: tuple[Expr, ...], may_be_cell: bool = False
) -> bool:
    """Raise `IRError` if a read that no condition guards leaves its tensor for some index.

    Only indices that are sums of constant multiples of the axes are judged, and only against
    constant sizes: their smallest and largest values are taken on.

    Parameters
    ----------
    name, axes, body
        Of the operation.
    may_be_cell : bool
        Let pass what is right in the cell of a scan, whose first steps are not computed: indices
        as ``t - 1``, and others that are in the tensor at the last step, as ``m - t``. Also
        ``t + 1`` of what may be a state, of which the scan knows better what is wrong.

    Returns
    -------
    bool
        Whether something was let pass.
    """
    passed = False
    spans: Spans = {}
    for axis in axes:
        assert axis.dom is not None
        low, extent = axis.dom.min, axis.dom.extent
        if isinstance(low, Const) and isinstance(extent, Const):
            if extent.value < 1:
                return False
            spans[axis.var] = int(low.value), int(low.value) + int(extent.value) - 1
    steps = [axis.var for axis in axes if axis.kind is AxisKind.SPATIAL and axis.var in spans]
    for expr in body:
        for read in _unguarded(expr):
            for position, (index, size) in enumerate(
                zip(read.children, read.tensor.extents, strict=True)
            ):
                ends = _ends(index, spans)
                if ends is None or not isinstance(size, Const) or _is_within(ends, size):
                    continue
                if may_be_cell and any(_suits_step(read, index, size, spans, v) for v in steps):
                    passed = True
                    continue
                raise IRError(
                    f"compute {name!r}: index {position} of {read.tensor.name!r}, `{index}`, "
                    f"runs from {ends[0]} to {ends[1]}, outside 0 to {int(size.value) - 1}; "
                    "guard it with te.if_then_else"
                )
    return passed


def _is_within(ends: tuple[int, int], size: Const) -> bool:
    return ends[0] >= 0 and ends[1] < size.value


def _suits_step(read: Read, index: Expr, size: Const, spans: Spans, step: Var) -> bool:
    """Whether an index may be right from some step on, or is that of a later step of a state.

    A state is a placeholder of as many steps.
    """
    last = spans[step][1]
    found = to_poly(index)
    if found == {(step,): 1, (): found.get((), 0)}:
        is_state = isinstance(read.tensor.op, PlaceholderOp) and size.value == last + 1
        return last + found[()] < size.value or is_state
    ends = _ends(index, {**spans, step: (last, last)})
    return ends is not None and _is_within(ends, size)


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


def _ends(index: Expr, spans: Spans) -> tuple[int, int] | None:
    """Return the smallest and largest value of an index over the axes, None where unsure."""
    low = high = 0
    for monomial, coefficient in to_poly(index).items():
        if len(monomial) > 1 or (monomial and not isinstance(monomial[0], Var)):
            return None
        ends = spans.get(monomial[0]) if monomial else (1, 1)
        if ends is None:
            return None
        values = [coefficient * end for end in ends]
        low, high = low + min(values), high + max(values)
    return low, high
