"""Facts and hints of a function beside its loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.ir.expr import Buffer, Expr, SizeVar, Var


@dataclass(frozen=True)
class FunctionInfo:
    """Facts and hints that lowering hands on to later passes and code generators.

    Buffers are named, because passes replace buffers and keep the names.

    Attributes
    ----------
    requirements : tuple of (Expr, str)
        Conditions on knobs, each with an error message.
    bound_axes : mapping of Var to (str, str)
        Stage and axis of each loop over blocks or threads, by its variable.
    unroll_pragmas : mapping of Var to mapping of str to Expr
        Pragmas by the variable of the loop: "auto_unroll_max_step", the most stores of an unrolled
        loop; "unroll_explicit", 0 if the loop stays and the backend gets a hint.
    least_extents : tuple of (Expr, int)
        Sizes of scans, and the least number of steps of each.
    scan_states : mapping of str to bool
        Buffers with the states of scans, and whether each index into them determines the element
        of a step.
    nontemporal : frozenset of str
        Buffers that are written once, in whole cache lines, and not read soon. Their vectors are
        stored past the caches: a memory-bound kernel is up to twice as fast, but partial lines are
        much slower.
    prefetch_distances : mapping of str to Expr
        Prefetch distance of each buffer in elements.
    blocks_per_multiprocessor : mapping of str to Expr
        The requested number, by the buffer that the blocks compute.
    loaded_ahead, copied_ahead : frozenset of str
        Buffers that are filled one iteration ahead: through registers, or by asynchronous copies.
    waiting : frozenset of str
        Local buffers that hold what is loaded ahead until it is stored: its loads stay first.
    line_offsets : mapping of SizeVar to Buffer
        Variables for the alignment of arrays: the number of elements of an array before the first
        one that begins a cache line. The results of the function do not depend on them.
    not_vectorized : tuple of (str, str)
        Loops that could not be vectorized, each with the reason.
    """

    requirements: tuple[tuple[Expr, str], ...] = ()
    bound_axes: Mapping[Var, tuple[str, str]] = field(default_factory=dict)
    unroll_pragmas: Mapping[Var, Mapping[str, Expr]] = field(default_factory=dict)
    least_extents: tuple[tuple[Expr, int], ...] = ()
    scan_states: Mapping[str, bool] = field(default_factory=dict)
    nontemporal: frozenset[str] = frozenset()
    prefetch_distances: Mapping[str, Expr] = field(default_factory=dict)
    blocks_per_multiprocessor: Mapping[str, Expr] = field(default_factory=dict)
    loaded_ahead: frozenset[str] = frozenset()
    copied_ahead: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()
    line_offsets: Mapping[SizeVar, Buffer] = field(default_factory=dict)
    not_vectorized: tuple[tuple[str, str], ...] = ()
