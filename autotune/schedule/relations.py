"""How axes derive from one another: splits and fusions, in the order they were made."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.ir.expr import Expr
from autotune.ir.itervar import IterVar


@dataclass(frozen=True, eq=False)
class Split:
    """parent = outer * extent(inner) + inner; exactly one of `factor`, `nparts` is given."""

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: Expr | None
    nparts: Expr | None


@dataclass(frozen=True, eq=False)
class Fuse:
    """fused = outer * extent(inner) + inner."""

    outer: IterVar
    inner: IterVar
    fused: IterVar


Relation = Split | Fuse
