"""Moves whole vectors together where only some vectors are cut off by guards on their lanes.

::

    vectorized (l, 0, 4)                          if (0 <= x*4 - h && x*4 + 3 - h < n)
      if (0 <= x*4 + l - h < n)            ->       vectorized (l, 0, 4)
        Y[x*4 + l - h] = ...                          Y[x*4 + l - h] = ...
                                                  else
                                                    ... (the loop as it was)

Threads have one program, so that loops over them cannot be split where a row begins or ends.
"""

from __future__ import annotations

from autotune.ir.expr import Const, Expr
from autotune.ir.ops import binary, chain, const, likely
from autotune.ir.stmt import For, If, LoopKind, PrimFunc, Stmt
from autotune.ir.visitor import free_vars, mentions
from autotune.lowering.dependence.accesses import accesses
from autotune.lowering.guards.facts import ConditionRewriter
from autotune.lowering.guards.loop_splitting import Splitter, inside
from autotune.lowering.vector.lane_guards import uniform_condition


def separate_whole_vectors(function: PrimFunc) -> PrimFunc:
    """Return the function with a copy of vectors that guards cut off, for whole vectors."""
    return function.with_body(_WholeVectors(function.body).run())


class _WholeVectors(Splitter):
    def split(self, loop: For) -> Stmt:
        if loop.kind is not LoopKind.VECTORIZED or not isinstance(loop.extent, Const):
            return loop
        if not any(access.buffer.scope == "global" for access in accesses(loop.body)):
            return loop
        tests: dict[Expr, Expr] = {}
        for stmt, inner in inside(loop.body, {}):
            for part, over in self.choices.parts_of(stmt):
                if not self._differs(part, loop):
                    continue
                within = [inner[var] for var in free_vars(part) if var in inner]
                extremes = None if over is None else self.extremes(over, [loop, *within])
                if extremes is None:
                    return loop
                tests[part] = self.simplifier.expr(binary("<=", extremes[0], const(0)))
        test = chain("and", dict.fromkeys(tests.values()), True)
        if isinstance(test, Const):
            return loop
        whole = ConditionRewriter(dict.fromkeys(tests, const(True)), self.choices).stmt(loop)
        return If(likely(test), whole, loop)

    def _differs(self, part: Expr, loop: For) -> bool:
        """Whether a condition may differ between lanes."""
        if not mentions(part, loop.var):
            return False
        first = uniform_condition(part, loop.var, const(0), loop.length)
        return mentions(first, loop.var)
