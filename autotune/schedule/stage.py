"""A stage: the schedule of one operation, and the primitives that change it."""

from __future__ import annotations

from autotune.schedule.annotation_primitives import PRAGMAS, AnnotationPrimitives
from autotune.schedule.loop_primitives import LoopPrimitives
from autotune.schedule.placement_primitives import PlacementPrimitives
from autotune.schedule.stage_core import SCOPES, Alignment, Attach, AttachPoint

__all__ = ["PRAGMAS", "SCOPES", "Alignment", "Attach", "AttachPoint", "Stage"]


class Stage(LoopPrimitives, AnnotationPrimitives, PlacementPrimitives):
    """How one operation is computed.

    Attributes
    ----------
    op : Operation
        The operation, with its body after caching and inlining.
    label : str
        Its name in steps: the operation's name, with a number if another stage has it.
    leaf_axes : list of IterVar
        Its loops, outermost first.
    all_axes : list of IterVar
        Root axes and every axis derived from them, in order of creation.
    relations : list of Split or Fuse
        How the leaves derive from the root axes.
    loop_kinds : dict
        Kinds of loops that are not serial.
    bindings : dict
        Thread axes that loops are bound to.
    pragmas : dict
        Hints for the compiler by loop: values by kind of hint.
    attach, attach_point : Attach, AttachPoint or None
        Where it is computed.
    scan : Stage or None
        The scan that it starts, or whose cell it is part of.
    scope : str or None
        Storage of its result: "global", "shared", "local"; None to derive it from the place of the
        computation.
    alignments : dict
        Requested strides by dimension.
    layout : tuple of Digits or None
        Indices into its storage; None for its dimensions in order.
    double_buffered : bool
        Whether the next iteration's result is computed before the present one is used.
    buffered_through : str or None
        "registers": it is loaded into registers before the use and stored after it; "copies": it is
        copied asynchronously.
    store_predicate : Expr or None
        Condition of its stores; None to store always.
    demands : list of Requirement
        Conditions on knobs that its primitives require.
    """
