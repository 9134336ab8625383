"""Rewrites a graph of tensor expressions stage by stage, producers first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autotune import te
from autotune.ir.expr import Expr, Read
from autotune.ir.visitor import ReadRewriter
from autotune.te.scan import ScanOp
from autotune.te.tensor import ComputeOp, producers_first

#: Returns the stages that replace a stage; the last one has its elements. It is given the stage
#: with its producers replaced, and the stage of before.
Refine = Callable[[te.Tensor, te.Tensor], Sequence[te.Tensor]]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A rewritten graph.

    Attributes
    ----------
    outputs
        What takes the place of each output.
    origin
        For each new stage the stage of before that it belongs to.
    """

    outputs: tuple[te.Tensor, ...]
    origin: dict[te.Tensor, te.Tensor]


def rewrite(outputs: Sequence[te.Tensor], refine: Refine) -> Rewritten:
    """Return a graph in which stages are replaced.

    Scans, what they are made of and what they read remain as they are.
    """
    ops = producers_first([t.op for t in outputs])
    frozen = set(producers_first([op for op in ops if isinstance(op, ScanOp)]))
    new: dict[te.Tensor, te.Tensor] = {}
    origin: dict[te.Tensor, te.Tensor] = {}
    redirect = ReadRewriter(lambda tensor, at: Read(new.get(tensor, tensor), at))
    for op in ops:
        if op in frozen or not isinstance(op, ComputeOp):
            origin |= {t: t for t in op.outputs}
            continue
        changed = _redirected(op, redirect)
        if len(op.outputs) > 1:
            pairs = list(zip(op.outputs, changed.outputs, strict=True))
        else:
            stages = refine(changed.output(), op.output())
            origin |= {stage: op.output() for stage in stages}
            pairs = [(op.output(), stages[-1])]
        for old, made in pairs:
            origin[made] = old
            if made is not old:
                new[old] = made
    return Rewritten(tuple(new.get(t, t) for t in outputs), origin)


def _redirected(op: ComputeOp, redirect: ReadRewriter) -> ComputeOp:
    body: tuple[Expr, ...] = tuple(map(redirect.expr, op.body))
    same = all(a is b for a, b in zip(body, op.body, strict=True))
    return op if same else ComputeOp(op.name, op.axis, body, tag=op.tag)
