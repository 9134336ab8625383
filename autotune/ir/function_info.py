"""Facts and hints of a function beside its loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.ir.expr import Buffer, Expr, SizeVar, Var


@dataclass(frozen=True)
class FunctionInfo:
    """Facts and hints that lowering hands on to later passes and code generators.

    Buffers are named, because passes replace buffers and keep the names.
    """

    #: Conditions on knobs, each with an error message.
    requirements: tuple[tuple[Expr, str], ...] = ()
    #: Stage and axis of each loop over blocks or threads, by its variable.
    bound_axes: Mapping[Var, tuple[str, str]] = field(default_factory=dict)
    #: Pragmas by the variable of the loop: "auto_unroll_max_step", the most stores of an unrolled
    #: loop; "unroll_explicit", 0 if the loop stays and the backend gets a hint.
    unroll_pragmas: Mapping[Var, Mapping[str, Expr]] = field(default_factory=dict)
    #: Sizes of scans, and the least number of steps of each.
    least_extents: tuple[tuple[Expr, int], ...] = ()
    #: Buffers with the states of scans, and whether each index into them determines the element of
    #: a step.
    scan_states: Mapping[str, bool] = field(default_factory=dict)
    #: Buffers that are written once, in whole cache lines, and not read soon. Their vectors are
    #: stored past the caches: a memory-bound kernel is up to twice as fast, but partial lines are
    #: much slower.
    nontemporal: frozenset[str] = frozenset()
    #: Prefetch distance of each buffer in elements.
    prefetch_distances: Mapping[str, Expr] = field(default_factory=dict)
    #: The requested number, by the buffer that the blocks compute.
    blocks_per_multiprocessor: Mapping[str, Expr] = field(default_factory=dict)
    #: Buffers that are filled one iteration ahead: through registers, or by asynchronous copies.
    loaded_ahead: frozenset[str] = frozenset()
    copied_ahead: frozenset[str] = frozenset()
    #: Local buffers that hold what is loaded ahead until it is stored: its loads stay first.
    waiting: frozenset[str] = frozenset()
    #: Variables for the alignment of arrays: the number of elements of an array before the first
    #: one that begins a cache line. The results of the function do not depend on them.
    line_offsets: Mapping[SizeVar, Buffer] = field(default_factory=dict)
    #: Loops that could not be vectorized, each with the reason.
    not_vectorized: tuple[tuple[str, str], ...] = ()
