"""Cells of scans: the computation between states and updates, and the steps that it reads.

Reads are followed from the updates to the states, adding up by how many steps each is behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autotune.ir.algebra.polynomials import add, to_poly
from autotune.ir.expr import Expr, Read
from autotune.ir.visitor import reads
from autotune.te.read_bounds import ends_of, spans_of
from autotune.te.tensor import ComputeOp, Operation, Tensor, producers_first

if TYPE_CHECKING:
    from autotune.te.scan import ScanOp


@dataclass
class Steps:
    """When an operation of a cell is needed: at step + offset along one of its axes."""

    position: int
    offsets: set[int] = field(default_factory=set)


class CellAnalysis:
    """Finds the operations between states and updates, and checks which steps they read."""

    def __init__(self, op: ScanOp) -> None:
        self.op = op
        self.states = set(op.state_placeholder)
        self.first = op.first
        for init in op.init:
            if self._depending([init.op]):
                op.fail(f"init {init.name!r} depends on a state, which it is to start")
        #: Readers before what they read.
        self.times: dict[ComputeOp, Steps] = {}
        self.read: set[Tensor] = set()
        self._follow()
        for state in op.state_placeholder:
            if state not in self.read:
                op.fail(
                    f"state {state.name!r} is never read; an update that reads none is a te.compute"
                )

    def _depending(self, roots: Sequence[Operation]) -> dict[Operation, None]:
        """Return the producers of roots that depend on a state or are updates, inputs first."""
        updates = {tensor.op for tensor in self.op.update}
        found: dict[Operation, None] = {}
        for op in producers_first(roots):
            inputs = op.input_tensors
            reads_state = not self.states.isdisjoint(inputs)
            if op in updates or reads_state or any(tensor.op in found for tensor in inputs):
                found[op] = None
        return found

    def _follow(self) -> None:
        """Go from the updates to the states, and note when each operation is needed."""
        needed: dict[Operation, Steps] = {tensor.op: Steps(0, {0}) for tensor in self.op.update}
        depending = self._depending(list(needed))
        for own in reversed(depending):
            if not isinstance(own, ComputeOp):
                self.op.fail(
                    f"{own.name!r} depends on a state and is a scan itself; a cell holds none"
                )
            steps = self.times[own] = needed[own]
            for read in _distinct_reads(own.body):
                if read.tensor in self.states:
                    self._state(own, steps, read)
                elif read.tensor.op in depending:
                    self._inner(own, steps, read, needed)

    def _beyond(self, own: ComputeOp, steps: Steps, index: Expr) -> range | None:
        """Return by how much an index is beyond the step; None if that is not known.

        It is one number, or several if it depends on an axis to reduce over.
        """
        beyond = add(to_poly(index), to_poly(own.axis[steps.position].var), -1)
        ends = ends_of(beyond, spans_of(own.reduce_axis))
        return None if ends is None else range(ends[0], ends[1] + 1)

    def _state(self, own: ComputeOp, steps: Steps, read: Read) -> None:
        self.read.add(read.tensor)
        index = read.children[0]
        beyond = self._beyond(own, steps, index)
        step = own.axis[steps.position].name
        where = f"index 0 of state {read.tensor.name!r} in {own.name!r}, `{index}`, "
        if beyond is None:
            self.op.fail(f"{where}is not the step minus a number, as {step} - 1 is")
        for total in (offset + by for offset in steps.offsets for by in reversed(beyond)):
            if total == 0:
                self.op.fail(
                    f"{where}is the step that is computed; read an earlier one, as in {step} - 1"
                )
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
        beyond = [self._beyond(own, steps, index) for index in read.children]
        if inner not in needed:
            places = [position for position, b in enumerate(beyond) if b is not None]
            needed[inner] = Steps(places[0] if places else 0)
        known = needed[inner]
        by = beyond[known.position] if beyond else None
        step = own.axis[steps.position].name
        if by is None or (by != range(1) and read.tensor in self.op.update):
            self.op.fail(
                f"`{read}` in {own.name!r} depends on states and is not read at the step that is "
                f"computed, `{step}`; read the state for earlier steps"
            )
        known.offsets.update(offset + later for offset in steps.offsets for later in by)
        if max(known.offsets) > 0 or -min(known.offsets) > self.first:
            self.op.fail(
                f"`{read}` in {own.name!r} depends on states and is read at a later step, or one "
                f"before the first; read it at steps from {step} - {self.first} to {step}"
            )


def is_apart(op: ScanOp, position: int) -> bool:
    """Whether all of a cell is computed, and reads states, at one index of this dimension."""
    lengths = [state.extents[position] for state in op.state_placeholder]
    if not all(same(length, lengths[0]) for length in lengths):
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


def same(a: Expr, b: Expr) -> bool:
    """Whether two sizes are equal for all values of the variables."""
    return a is b or not add(to_poly(a), to_poly(b), -1)
