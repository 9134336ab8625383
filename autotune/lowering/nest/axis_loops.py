"""The loop of each axis: serial, parallel or over threads, and conditions on its length.

Loops of several stages that are bound to one thread axis share its variable: the outermost one is
the loop, the inner ones become guards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.errors import LoweringError
from autotune.ir.algebra.canonical_sums import INF
from autotune.ir.algebra.simplify_stmt import Simplifier
from autotune.ir.axes import AxisKind, IterVar, same_index
from autotune.ir.expr import Expr, Var
from autotune.ir.ops import binary, chain
from autotune.ir.stmt import For, LoopKind, Stmt
from autotune.ir.visitor import Rewriter, substitute_stmt
from autotune.lowering.nest.axis_guards import guarded
from autotune.lowering.nest.bound_inference import Bounds, is_sized
from autotune.lowering.nest.stage_placement import seen_by_all
from autotune.schedule.stage import Stage

#: The thread axes of enclosing loops, outermost first, and their variables.
Threads = Mapping[IterVar, Var]


@dataclass(frozen=True)
class OpenThreads:
    """The threads of a stage."""

    #: Variables of the thread axes of its loops and of enclosing loops.
    variables: Threads
    #: Loops of the stage that are the outermost loop of their thread axis.
    opened: frozenset[IterVar] = frozenset()

    def at(self, stage: Stage, leaf: IterVar) -> Threads:
        """Return the threads that are open at a loop of the stage, without inner loops."""
        further_in = stage.leaf_axes[stage.leaf_axes.index(leaf) + 1 :]
        later = {stage.bindings[axis] for axis in further_in if axis in self.opened}
        return {axis: var for axis, var in self.variables.items() if axis not in later}


class AxisLoops:
    """Makes loops, and collects their requirements and pragmas for the function."""

    def __init__(self, bounds: Bounds) -> None:
        #: Conditions on knobs that the loops require, each with an error message.
        self.requirements: list[tuple[Expr, str]] = []
        #: Pragmas by the variable of the loop.
        self.loop_pragmas: dict[Var, Mapping[str, Expr]] = {}
        #: Most threads that share a parallel loop, by its variable.
        self.num_threads: dict[Var, Expr] = {}
        #: Stage and axis of each loop that opens a thread axis, by its variable.
        self.bound_axes: dict[Var, tuple[str, str]] = {}
        self._bounds = bounds
        self._simplifier = Simplifier(otherwise=(0, INF))  # sizes are not negative
        self._threads: dict[Var, Expr] = {}
        self._virtual: dict[IterVar, Var] = {}
        self._extents: dict[Var, Expr] = {}

    def open_threads(self, stage: Stage, around: Threads) -> OpenThreads:
        """Return the threads of a stage, given the threads of the loops around it."""
        variables = dict(around)
        opened = []
        for leaf in stage.leaf_axes:
            thread = stage.bindings.get(leaf)
            if thread is None:
                continue
            outer = next((other for other in around if same_index(other, thread)), None)
            if outer is not None:
                self._require_shared(stage, leaf, self._extents[around[outer]])
            if thread not in variables:
                variables[thread] = self._variable(thread)
                self._extents[variables[thread]] = self._bounds.ranges[leaf].extent
                self.bound_axes[variables[thread]] = stage.name, leaf.name
                opened.append(leaf)
        return OpenThreads(variables, frozenset(opened))

    def _variable(self, thread: IterVar) -> Var:
        """Return the variable of a loop over threads; a virtual thread axis has one variable."""
        fresh: Var = Var(thread.name if thread.thread_tag == "vthread" else thread.thread_tag)
        return self._virtual.setdefault(thread, fresh) if thread.thread_tag == "vthread" else fresh

    def _require_shared(self, stage: Stage, leaf: IterVar, around: Expr) -> None:
        """Require that the threads of an enclosing loop can share the iterations of an axis.

        There must be enough threads, and each must see the results of the others.
        """
        tag = stage.bindings[leaf].thread_tag
        where = f"stage {stage.name!r}: axis {leaf.name!r} is"
        self._require(
            binary("<=", self._bounds.ranges[leaf].extent, around),
            f"{where} longer than the loop around that is bound to the same {tag}; split it to "
            "that length",
        )
        level = tag.partition("Idx")[0]
        if leaf.kind is not AxisKind.REDUCE and not seen_by_all(stage, level):
            remedy = "leave it unbound"
            if level != "block":
                remedy += ", or give the stage shared storage with set_scope"
            self._require(
                binary("<=", around, 1),
                f"{where} bound to {tag} inside a loop that is so too, but each {level} keeps the "
                f"result of {stage.name!r} to itself and would lack what others compute; {remedy}",
            )

    def _require(self, condition: Expr, message: str) -> None:
        """Add a condition on knobs; raise an error if sizes of a call may break it."""
        if is_sized(condition):
            condition = self._simplifier.expr(condition)
            if is_sized(condition):
                raise LoweringError(message)
        self.requirements.append((condition, message))

    def loop(self, stage: Stage, leaf: IterVar, body: Stmt, threads: OpenThreads) -> Stmt:
        """Return the loop over an axis of a stage, or its guard in a loop of its thread axis."""
        extent = self._bounds.ranges[leaf].extent
        thread = stage.bindings.get(leaf)
        if thread is None:
            self._note_pragmas(stage, leaf, leaf.var)
            kind = stage.loop_kinds.get(leaf, LoopKind.SERIAL)
            if kind is LoopKind.PARALLEL:
                self._note_num_threads(stage, leaf)
            return For(leaf.var, extent, kind, body)
        var = threads.variables[thread]
        self._threads[leaf.var] = var
        self._note_pragmas(stage, leaf, var)
        if leaf not in threads.opened:
            return guarded([binary("<", var, extent)], body)
        if thread.dom is not None:
            self.requirements.append(
                (
                    binary("==", extent, thread.dom.extent),
                    f"stage {stage.name!r}: axis {leaf.name!r} bound to {thread.thread_tag} must "
                    "have its extent; leave the thread axis' range out, or split the loop to it",
                )
            )
        kind = LoopKind.VTHREAD if thread.thread_tag == "vthread" else LoopKind.THREAD
        return For(var, extent, kind, body, thread.thread_tag)

    def _note_pragmas(self, stage: Stage, leaf: IterVar, var: Var) -> None:
        if leaf in stage.pragmas:
            self.loop_pragmas[var] = stage.pragmas[leaf]

    def _note_num_threads(self, stage: Stage, leaf: IterVar) -> None:
        """Note the most threads of a loop: one limit holds for all that share their iterations."""
        limits = [own["num_threads"] for own in stage.pragmas.values() if "num_threads" in own]
        if limits:
            self.num_threads[leaf.var] = chain("min", limits[1:], limits[0])

    def once_more(self, stage: Stage, leaves: Sequence[IterVar], nest: Stmt) -> Stmt:
        """Return second loops over axes, with new variables."""
        fresh = {
            leaf.var: Var(f"{leaf.name}.init") for leaf in leaves if leaf not in stage.bindings
        }
        for var, other in fresh.items():
            if var in self.loop_pragmas:
                self.loop_pragmas[other] = self.loop_pragmas[var]
            if var in self.num_threads:
                self.num_threads[other] = self.num_threads[var]
        return _Rename(fresh).stmt(nest) if fresh else nest

    def with_threads(self, body: Stmt) -> Stmt:
        """Return statements with the variables of bound axes replaced by thread variables."""
        return substitute_stmt(body, self._threads)


class _Rename(Rewriter):
    """Gives loops other variables."""

    def __init__(self, mapping: Mapping[Any, Var]) -> None:
        super().__init__()
        self.mapping = mapping
        self._memo.update(mapping)

    def visit_For(self, node: For) -> Stmt:
        var = self.mapping.get(node.var, node.var)
        return For(var, self.expr(node.extent), node.kind, self.stmt(node.body), node.thread_tag)
