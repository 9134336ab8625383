"""The dependence test of scans: whether parallel iterations access different elements at any step.

The state of a scan has its steps along the first dimension. Barriers cannot order two blocks, or
two iterations of a parallel loop. So they must never access the same *column*, which is one element
at all steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from autotune.errors import LoweringError
from autotune.ir.algebra.canonical_sums import INF
from autotune.ir.algebra.polynomials import add, to_expr, to_poly
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.expr import Buffer, Const, Expr, Ramp, SizeVar, Var, is_const
from autotune.ir.printer import excerpt
from autotune.ir.stmt import For, Stmt
from autotune.ir.visitor import free_vars, is_thread_loop
from autotune.lowering.dependence.accesses import Access, accesses, in_one_step
from autotune.lowering.dependence.sharing_conflicts import Conflicts
from autotune.lowering.guards.facts import conjuncts, excess


class DependenceTest:
    """Tests whether parallel iterations access disjoint columns.

    `axes`: variables and lengths of the loops whose iterations run in parallel.
    `states`: names of the arrays with steps, and whether their columns can be distinguished; in
    other arrays every element is a column.
    """

    def __init__(self, axes: Mapping[Var, Expr], states: Mapping[str, bool]) -> None:
        self.axes = {var: extent for var, extent in axes.items() if not is_const(extent, 1)}
        self.states = states

    def shared(self, found: Sequence[Access]) -> Access | None:
        """Return an access to a column that another iteration may write; None if there is none."""
        for number, first in enumerate(found):
            for second in found[number:]:
                same = first.buffer is second.buffer and (first.writes or second.writes)
                if same and not self._are_apart(first, second):
                    return first
        return None

    def _are_apart(self, a: Access, b: Access) -> bool:
        """Whether two accesses by different iterations never touch the same element.

        This holds if the steps differ, or if the columns differ.
        """
        if not self.axes:
            return True
        if not self.states.get(a.buffer.name, True):
            return False
        if a.buffer.name in self.states:
            columns = in_one_step(a, b, set(self.axes))
            if columns is None:
                return True
            a, b = columns
        return self._far(a, b) or self._never_meet(a, b)

    def _never_meet(self, a: Access, b: Access) -> bool:
        """Try all iterations, if their number is known."""
        axes = [(v, int(e.value)) for v, e in self.axes.items() if isinstance(e, Const)]
        return len(axes) == len(self.axes) and not Conflicts(axes).between(a, b)

    def _far(self, a: Access, b: Access) -> bool:
        """Whether one iteration moves a column further than all inner terms together can.

        A column is a sum of multiples of the axes, which are equal in both, and of other terms.
        """
        parts = self._linear(a), self._linear(b)
        if parts[0] is None or parts[1] is None or parts[0][0] != parts[1][0]:
            return False
        scales, (low, high) = parts[0]
        (other_low, other_high) = parts[1][1]
        reach = max(high - other_low, other_high - low)
        for var, scale in sorted(scales.items(), key=lambda item: item[1]):
            extent = self.axes[var]
            if not reach < scale:
                return False
            last = int(extent.value) - 1 if isinstance(extent, Const) else INF
            reach += scale * last
        return True

    def _linear(self, access: Access) -> tuple[dict[Var, int], tuple[float, float]] | None:
        """Return the coefficient of each axis in a column, and the range of the other terms."""
        index, lanes = access.index, 0
        if isinstance(index, Ramp):
            if not is_const(index.stride, 1):
                return None
            index, lanes = index.base, index.lanes - 1
        rest = to_poly(index)
        scales: dict[Var, int] = {}
        for var in self.axes:
            scales[var] = rest.pop((var,), 0)
        if any(var in self.axes for term in rest for atom in term for var in free_vars(atom)):
            return None
        simplifier = Simplifier(otherwise=(0, INF))
        for var, extent in access.free:
            simplifier.bind(var, 0, max(0.0, simplifier.bounds(extent)[1] - 1))
        low, high = simplifier.bounds(to_expr(rest, index.dtype))
        for over in (excess(part) for test in access.conditions for part in conjuncts(test)):
            if over is not None:  # at most 0
                others = to_expr(add(rest, to_poly(over), -1), index.dtype)
                high = min(high, simplifier.bounds(others)[1])
        return scales, (low, high + lanes)


def refuse_sharing_blocks(
    loops: Sequence[For], body: Stmt, carried: Set[Buffer], states: Mapping[str, bool]
) -> None:
    """Raise an error for scans in which a block needs results of another block.

    `loops`: loops over blocks and threads.
    `body`: the statement of one thread.
    `carried`: arrays in global storage that the scan writes and reads.
    `states`: as for `DependenceTest`.
    """
    blocks = {loop.var: loop.extent for loop in loops if not is_thread_loop(loop)}
    for loop in filter(is_thread_loop, loops):
        body = loop.with_body(body)
    found = [access for access in accesses(body) if access.buffer in carried]
    shared = DependenceTest(blocks, states).shared(found)
    if shared is None:
        return
    name, index = shared.buffer.name, excerpt(shared.index)
    if name in states:
        what, parts = f"columns of {name!r}, the state of a scan,", "init and update"
    else:
        what, parts = f"elements of {name!r}, which a scan computes in each step,", "all stages"
    why = remedy = ""
    if not states.get(name, True):
        why = ", as far as can be told of indices that run backwards"
        remedy = ", let indices run upwards"
    elif any(isinstance(var, SizeVar) for var in free_vars(shared.index)):
        why = ", as far as can be told of sizes that only a call knows"
        remedy = ", give sizes as numbers"
    raise LoweringError(
        f"blocks share {what} at `{index}`{why}, and cannot wait for one another between "
        f"steps; bind the same columns of {parts} to one block{remedy}, or let one block "
        "compute all"
    )
