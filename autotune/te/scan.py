"""Scans: tensors whose steps along the first dimension are computed from the steps before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from autotune.errors import IRError
from autotune.ir.expr import Const, Expr, Read, Var
from autotune.ir.itervar import AxisKind, IterVar, Range
from autotune.ir.ops import binary, const
from autotune.ir.poly import add, to_poly
from autotune.ir.visitor import reads
from autotune.te.compute import compute
from autotune.te.reads import check_reads
from autotune.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor


@dataclass
class Steps:
    """When an operation of a cell is needed: at step + offset along one of its axes."""

    position: int
    offsets: set[int] = field(default_factory=set)


class ScanOp(Operation):
    """States that are carried from step to step: first `init`, then `update` again and again.

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
        self.cell = _Cell(self).times
        self.apart = frozenset(
            position
            for position in range(1, min(t.ndim for t in update))
            if _is_apart(self, position)
        )
        self.outputs = tuple(
            Tensor(self, i, t.extents, t.dtype, name if len(update) == 1 else f"{name}.v{i}")
            for i, t in enumerate(update)
        )

    @property
    def input_tensors(self) -> list[Tensor]:
        """What it starts with, then what it goes on with."""
        return list(dict.fromkeys((*self.init, *self.update)))

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
            ("init", init), ("update", update), ("state_placeholder", state_placeholder)
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
        fail("give one init, one update and one state for each result, got {}, {} and {}".format(
            *counts
        ))
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
        if not _same(init.extents[0], first) or not _same(state.extents[0], steps):
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


def _check_shapes(fail: Any, init: Tensor, update: Tensor, state: Tensor) -> None:
    if state.ndim < 1:
        fail(f"state {state.name!r} has no dimensions; the first one is that of the steps")
    if update.ndim != state.ndim or not all(map(_same, update.extents, state.extents)):
        fail(
            f"update {update.name!r} has shape {_shape(update)} and its state {state.name!r} "
            f"{_shape(state)}; give them one shape, of the same variables"
        )
    if init.ndim != state.ndim or not all(map(_same, init.extents[1:], state.extents[1:])):
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


def _same(a: Expr, b: Expr) -> bool:
    return a is b or _difference(a, b) == 0


def _difference(a: Expr, b: Expr) -> int | None:
    """Return a - b if it is one number whatever the variables are."""
    found = add(to_poly(a), to_poly(b), -1)
    return found.get((), 0) if set(found) <= {()} else None


# -- what depends on states ------------------------------------------------------------------


class _Cell:
    """Finds the operations between states and updates, and checks which steps they read.

    Attributes
    ----------
    times : dict of ComputeOp to Steps
        Readers before what they read.
    """

    def __init__(self, op: ScanOp) -> None:
        self.op = op
        self.states = set(op.state_placeholder)
        self.first = op.first
        steps = op.update[0].extents[0]
        self.length = int(steps.value) if isinstance(steps, Const) else None
        for init in op.init:
            if self._reach(init.op, set(), {}):
                op.fail(f"init {init.name!r} depends on a state, which it is to start")
        self.times: dict[ComputeOp, Steps] = {}
        self.read: set[Tensor] = set()
        self._follow()
        for state in op.state_placeholder:
            if state not in self.read:
                op.fail(f"state {state.name!r} is never read; an update that reads none is a "
                        "te.compute")
        for own, steps_of in self.times.items():
            self._check_reads(own, steps_of)

    def _reach(self, op: Operation, through: set[Operation], known: dict[Operation, bool]) -> bool:
        """Whether an operation depends on a state; note those that do in `known`, inputs first."""
        if op not in known:
            inputs = op.input_tensors
            below = [self._reach(tensor.op, through, known) for tensor in inputs]
            known[op] = any(below) or op in through or not self.states.isdisjoint(inputs)
        return known[op]

    def _follow(self) -> None:
        """Go from the updates to the states, and note when each operation is needed."""
        known: dict[Operation, bool] = {}
        updates = {tensor.op for tensor in self.op.update}
        for tensor in self.op.update:
            self._reach(tensor.op, updates, known)
        needed = {tensor.op: Steps(0, {0}) for tensor in self.op.update}
        for own in reversed([op for op, depends in known.items() if depends]):
            if not isinstance(own, ComputeOp):
                self.op.fail(
                    f"{own.name!r} depends on a state and is a scan itself; a cell holds none"
                )
            steps = self.times[own] = needed[own]
            for read in _distinct_reads(own.body):
                if read.tensor in self.states:
                    self._state(own, steps, read)
                elif known.get(read.tensor.op):
                    self._inner(own, steps, read, needed)

    def _offset(self, own: ComputeOp, steps: Steps, index: Expr) -> int | None:
        """Return by how much an index is beyond the step; None if that is no fixed number."""
        return _difference(index, own.axis[steps.position].var)

    def _state(self, own: ComputeOp, steps: Steps, read: Read) -> None:
        self.read.add(read.tensor)
        index = read.children[0]
        beyond = self._offset(own, steps, index)
        step = own.axis[steps.position].name
        where = f"index 0 of state {read.tensor.name!r} in {own.name!r}, `{index}`, "
        if beyond is None:
            self.op.fail(f"{where}is not the step minus a number, as {step} - 1 is")
        for offset in steps.offsets:
            total = offset + beyond
            if total == 0:
                self.op.fail(f"{where}is the step that is computed; read an earlier one, as in "
                             f"{step} - 1")
            if total > 0:
                self.op.fail(f"{where}is a later step; read an earlier one, as in {step} - 1")
            if -total > self.first:
                self.op.fail(
                    f"{where}is {-total} steps back, further than the {self.first} of its init; "
                    "give init as many steps"
                )

    def _inner(
        self, own: ComputeOp, steps: Steps, read: Read, needed: dict[Operation, Steps]
    ) -> None:
        inner = read.tensor.op
        beyond = [self._offset(own, steps, index) for index in read.children]
        if inner not in needed:
            places = [position for position, b in enumerate(beyond) if b is not None]
            needed[inner] = Steps(places[0] if places else 0)
        known = needed[inner]
        by = beyond[known.position] if beyond else None
        step = own.axis[steps.position].name
        if by is None or (by and read.tensor in self.op.update):
            self.op.fail(
                f"`{read}` in {own.name!r} depends on states and is not read at the step that is "
                f"computed, `{step}`; read the state for earlier steps"
            )
        known.offsets.update(offset + by for offset in steps.offsets)
        if max(known.offsets) > 0 or -min(known.offsets) > self.first:
            self.op.fail(
                f"`{read}` in {own.name!r} depends on states and is read at a later step, or one "
                f"before the first; read it at steps from {step} - {self.first} to {step}"
            )

    def _check_reads(self, own: ComputeOp, steps: Steps) -> None:
        """Refuse reads that leave their tensor at some step."""
        time = own.axis[steps.position]
        low = self.first + min(steps.offsets)
        if self.length is None:
            return
        span = Range(const(low), const(self.length + max(steps.offsets) - low))
        axes = tuple(
            IterVar(axis.var, span, axis.kind) if axis is time else axis for axis in own.axis
        )
        check_reads(own.name, (*axes, *own.reduce_axis), own.body)


def _is_apart(op: ScanOp, position: int) -> bool:
    """Whether all of a cell is computed, and reads states, at one index of this dimension."""
    lengths = [state.extents[position] for state in op.state_placeholder]
    if not all(_same(length, lengths[0]) for length in lengths):
        return False
    along: dict[Operation, int] = {tensor.op: position for tensor in op.update}
    for own in op.cell:
        var = own.axis[along[own]].var
        for read in _distinct_reads(own.body):
            is_state = read.tensor in op.state_placeholder
            if not is_state and read.tensor.op not in op.cell:
                continue
            places = [number for number, index in enumerate(read.children) if index is var]
            if not places:
                return False
            wanted = position if is_state else along.setdefault(read.tensor.op, places[0])
            if wanted not in places:
                return False
    return True


def _distinct_reads(body: Iterable[Expr]) -> list[Read]:
    return list(dict.fromkeys(read for expr in body for read in reads(expr)))
