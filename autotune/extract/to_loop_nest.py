"""From a lowered function to the plain loop nest that feature extractors read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import LoweringError
from autotune.extract.access_strides import Amount, FormAnalysis, TextAnalysis
from autotune.extract.autotvm08 import autotvm08_loops
from autotune.extract.nest_walk import walked_nest
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.evaluate.column_programs import ColumnProgram
from autotune.ir.expr import Expr, KnobVar
from autotune.ir.ops import const
from autotune.ir.printer import excerpt
from autotune.ir.stmt import PrimFunc
from autotune.ir.visitor import substitute_stmt, walk_expr
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import Tensor
from features import LoopNest, Number, Scratch


def loop_nest(function: PrimFunc, knobs: Mapping[KnobVar, int] | None = None) -> LoopNest:
    """Return the loop nest of a function, knobs replaced by values; every number is an int.

    Lengths that are known only at the call are `features.SYMBOLIC`. Loops of length 0 and their
    bodies are kept, as in the nests of all candidates.

    `function`: as `lower_schedule` returns it.
    `knobs`: values of the function's knobs.

    Raises LoweringError if a knob has no value.
    """
    values = {knob: const(value, knob.dtype) for knob, value in (knobs or {}).items()}
    nest = walked_nest(substitute_stmt(function.body, values), FormAnalysis())
    return nest.with_numbers(_number)


def autotvm08_nest(schedule: Schedule, tensors: Sequence[Tensor]) -> LoopNest:
    """Return the loop nest of a concrete schedule that AutoTVM v0.8 reads features from.

    `schedule`: without knobs.
    `tensors`: parameters of the function: inputs, then outputs.
    """
    # AutoTVM numbers accesses to all results of one operation together, under the operation's name.
    several = [stage for stage in schedule.stages if len(stage.outputs) > 1]
    names = {tensor.name: stage.op.name for stage in several for tensor in stage.outputs}
    return walked_nest(autotvm08_loops(schedule, tensors).body, TextAnalysis(), names)


def _number(value: Amount) -> Number:
    if isinstance(value, int):
        return value
    names = [repr(node.name) for node in walk_expr(value) if isinstance(node, KnobVar)]
    raise LoweringError(f"`{excerpt(value)}` depends on knob {names[0]}, which has no value")


class LoopNestPlan:
    """The loop nests of all candidates of a structure, as one program over knob columns.

    A candidate's nest is what `loop_nest` returns for its knobs' values. Only accesses in a branch
    of an expression that knobs alone rule out stay here, for the rows are the same for all.

    `function`: as `lower_schedule` returns it, knobs symbolic.
    """

    def __init__(self, function: PrimFunc) -> None:
        #: Bounds of the numbers.
        self.intervals = Intervals()
        exprs: dict[Expr, None] = {}

        def amount(number: Amount) -> Amount:
            if not isinstance(number, Expr):
                return number
            low, high = self.intervals.bounds(number)
            if low != high:
                exprs[number] = None
            return number if low != high else low

        nest = walked_nest(function.body, FormAnalysis(self.intervals))
        self._nest = nest.with_numbers(amount)
        self._exprs = tuple(exprs)
        self._program = ColumnProgram(self._exprs)
        #: Names of the columns that are read.
        self.knobs = self._program.knobs

    def outline(self) -> LoopNest:
        """Return the loop nest with an array of one element wherever candidates differ."""
        return self.symbolic(lambda expr: np.ones(1))

    def symbolic(self, number: Callable[[Expr], Any]) -> LoopNest:
        """Return the loop nest with `number` applied to each expression that differs."""
        return self._with({expr: number(expr) for expr in self._exprs})

    def nest(
        self,
        columns: Mapping[str, npt.NDArray[np.int64 | np.float64]] | None = None,
        scratch: Scratch | None = None,
    ) -> LoopNest:
        """Return the loop nest of the candidates in `columns`.

        `columns`: values of each knob; not needed if there are none.
        `scratch`: where the arrays lie; they hold until its next use. Not the one for the features.

        Numbers are float64 arrays (n,), equal ones the same array, and ints where one number holds
        for all knob values.
        """
        columns = columns or {}
        out: list[npt.NDArray[np.float64]] | None = None
        if scratch is not None and self.knobs:
            scratch.reset()
            n = len(columns[self.knobs[0]])
            out = [scratch.take(n) for _ in self._exprs]
        return self._with(dict(zip(self._exprs, self._program(columns, out), strict=True)))

    def _with(self, varying: Mapping[Expr, Any]) -> LoopNest:
        return self._nest.with_numbers(lambda a: varying[a] if isinstance(a, Expr) else a)
