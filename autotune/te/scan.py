"""Scans: tensors whose steps along the first dimension are computed from the steps before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from autotune.errors import IRError
from autotune.ir.axes import AxisKind, IterVar, Range
from autotune.ir.expr import Const, Var
from autotune.ir.ops import binary
from autotune.te.compute import compute
from autotune.te.scan_cell import CellAnalysis, is_apart, same
from autotune.te.tensor import Axes, ComputeOp, Operation, PlaceholderOp, Tensor


class ScanOp(Operation):
    """States that are carried from step to step: first `init`, then `update` at every later step.

    Attributes
    ----------
    init : tuple of Tensor
        The first steps of each state.
    update : tuple of Tensor
        Each state at a step, computed from earlier ones.
    state_placeholder : tuple of Tensor
        What stands for each state in `update`.
    first : int
        Number of steps of `init`.
    scan_axis : IterVar
        The steps that are updated: from the number of steps of `init` on.
    cell : dict of ComputeOp to Steps
        What is computed in every step, updates included: all that depends on a state.
    apart : frozenset of int
        Dimensions along which no element depends on another one: a part of the states can be
        computed without the rest.
    tag : str
        A mark by which code that schedules finds it.
    """

    def __init__(
        self,
        name: str,
        init: Sequence[Tensor],
        update: Sequence[Tensor],
        state_placeholder: Sequence[Tensor],
        tag: str = "",
    ) -> None:
        super().__init__(name)
        self.tag = tag
        self.init = tuple(init)
        self.update = tuple(update)
        self.state_placeholder = tuple(state_placeholder)
        first, steps = init[0].extents[0], update[0].extents[0]
        assert isinstance(first, Const)
        self.first = int(first.value)
        self.scan_axis = IterVar(
            Var(f"{name}.idx"), Range(first, binary("-", steps, first)), AxisKind.SCAN
        )
        self.cell = CellAnalysis(self).times
        self.apart = frozenset(
            position
            for position in range(1, min(t.ndim for t in update))
            if is_apart(self, position)
        )
        self.outputs = tuple(
            Tensor(self, i, t.extents, t.dtype, name if len(update) == 1 else f"{name}.v{i}")
            for i, t in enumerate(update)
        )

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors of its first steps, then of its updates."""
        return list(dict.fromkeys((*self.init, *self.update)))

    def axes_told(self, axes: Axes) -> str:
        """Return where the loops are."""
        parts = ", ".join(dict.fromkeys(repr(t.op.name) for t in (*self.init, *self.update)))
        return (
            f"{self.name!r} is a scan, whose loops are those of its init and update ({parts}), and "
            "over the steps its scan_axis; schedule these"
        )

    def fail(self, problem: str) -> NoReturn:
        """Raise an `IRError` that names the scan."""
        raise IRError(f"scan {self.name!r}: {problem}")


def scan(
    init: Any,
    update: Any,
    state_placeholder: Any,
    inputs: Any = (),
    name: str = "scan",
    tag: str = "",
) -> Any:
    """Return the tensor, or tensors, of a recurrence along the first dimension.

    The first steps are those of `init`; each later step t is row t of `update`, in which
    `state_placeholder` stands for the result and is read at earlier steps.

    Parameters
    ----------
    init : Tensor or list of Tensor (k, ...)
        The first k >= 1 steps of each state.
    update : Tensor or list of Tensor (m, ...)
        Each state at step t, from states at steps t - k to t - 1.
    state_placeholder : Tensor or list of Tensor (m, ...)
        Made by `placeholder`, and read by `update` alone.
    inputs : Tensor or list of Tensor, optional
        What the updates read besides; it says so to readers, and need not be complete.
    name : str
        Name in listings.
    tag : str
        A mark by which code that schedules finds the operation.

    Returns
    -------
    Tensor or list of Tensor
        One per state, (m, ...); a list if lists are given.

    Raises
    ------
    IRError
        If numbers, shapes or types disagree, a state is read at its own step, a later one or one
        before the first, or is never read.

    Examples
    --------
    The sums of the columns of X down to each row::

        state = te.placeholder((m, n))
        first = te.compute((1, n), lambda _, i: X[0, i])
        later = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i])
        sums = te.scan(first, later, state, inputs=[X])
    """
    several = any(isinstance(given, (list, tuple)) for given in (init, update, state_placeholder))
    inits, updates, states = (
        _tensors(name, what, given)
        for what, given in (
            ("init", init),
            ("update", update),
            ("state_placeholder", state_placeholder),
        )
    )
    _tensors(name, "inputs", inputs)
    _check(name, inits, updates, states)
    op = ScanOp(name, [_computed(name, t) for t in inits], updates, states, tag)
    return list(op.outputs) if several else op.output()


def _tensors(name: str, what: str, given: Any) -> list[Tensor]:
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    for tensor in listed:
        if not isinstance(tensor, Tensor):
            raise IRError(f"scan {name!r}: {what} takes tensors, got {tensor!r}")
    return listed


def _computed(name: str, init: Tensor) -> Tensor:
    """Return an init that is computed: a placeholder is copied."""
    if isinstance(init.op, ComputeOp):
        return init
    copy: Tensor = compute(init.extents, lambda *i: init(*i), name=f"{name}.{init.name}")
    return copy


# -- checks of what is given -----------------------------------------------------------------


def _check(
    name: str, inits: Sequence[Tensor], updates: Sequence[Tensor], states: Sequence[Tensor]
) -> None:
    def fail(problem: str) -> NoReturn:
        raise IRError(f"scan {name!r}: {problem}")

    counts = len(inits), len(updates), len(states)
    if not states or len(set(counts)) > 1:
        fail(
            "give one init, one update and one state for each result, got {}, {} and {}".format(
                *counts
            )
        )
    for what, given in (("init", inits), ("update", updates), ("state", states)):
        if len(set(given)) < len(given):
            fail(f"one tensor is given as {what} twice; give each state its own")
    for init, update, state in zip(inits, updates, states, strict=True):
        if not isinstance(state.op, PlaceholderOp):
            fail(f"state {state.name!r} is computed; make it with te.placeholder")
        if not isinstance(update.op, ComputeOp):
            fail(f"update {update.name!r} is not made by te.compute, which an update must be")
        _check_shapes(fail, init, update, state)
    first, steps = inits[0].extents[0], states[0].extents[0]
    for init, state in zip(inits[1:], states[1:], strict=True):
        if not same(init.extents[0], first) or not same(state.extents[0], steps):
            fail(
                f"all states have one number of steps, got {inits[0].shape[0]} of "
                f"{states[0].shape[0]} for {states[0].name!r} and {init.shape[0]} of "
                f"{state.shape[0]} for {state.name!r}"
            )
    if not isinstance(first, Const):
        fail(f"init {inits[0].name!r} has `{first}` steps; give it a number that is known")
    if first.value < 1:
        fail(f"init {inits[0].name!r} has no steps; give it one at least")
    if isinstance(steps, Const) and first.value > steps.value:
        fail(
            f"init {inits[0].name!r} has {first.value} steps, more than the {steps.value} of the "
            "scan"
        )


def _check_shapes(
    fail: Callable[[str], NoReturn], init: Tensor, update: Tensor, state: Tensor
) -> None:
    if state.ndim < 1:
        fail(f"state {state.name!r} has no dimensions; the first one is that of the steps")
    if update.ndim != state.ndim or not all(map(same, update.extents, state.extents)):
        fail(
            f"update {update.name!r} has shape {_shape(update)} and its state {state.name!r} "
            f"{_shape(state)}; give them one shape, of the same variables"
        )
    if init.ndim != state.ndim or not all(map(same, init.extents[1:], state.extents[1:])):
        fail(
            f"init {init.name!r} has shape {_shape(init)} and its state {state.name!r} "
            f"{_shape(state)}; they may differ in the first dimension alone"
        )
    for what, tensor in (("init", init), ("update", update)):
        if tensor.dtype != state.dtype:
            fail(
                f"{what} {tensor.name!r} is {tensor.dtype} and its state {state.name!r} "
                f"{state.dtype}; use .astype({state.dtype!r}) or another type of the placeholder"
            )


def _shape(tensor: Tensor) -> str:
    extents = [str(extent) for extent in tensor.extents]
    return f"({', '.join(extents)}{',' if len(extents) == 1 else ''})"
