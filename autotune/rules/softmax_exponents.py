"""The rule for exp(x - max(x)), whose exponent is never above 0.

::

    M[i] = max(X[i, k])                      M[i] = max(X[i, k])
    E[i, j] = exp(X[i, j] - M[i])      ->    E[i, j] = exp2((X[i, j] - M[i]) * log2(e))

With AVX-512 a power of 2 takes fewer instructions than one of e. The product with log2(e) is
rounded. That would be visible in large results, but these are at most 1.

Without AVX-512 there is no instruction that scales by powers of 2, and an exponential that cannot
overflow takes fewer instructions: E[i, j] = exp(min(X[i, j] - M[i], 0)), whose value is the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from autotune import te
from autotune.ir.axes import IterVar, Range
from autotune.ir.dtypes import is_float
from autotune.ir.expr import BinaryOp, Call, Cast, Const, Expr, Read, Reduce, Var, is_const
from autotune.ir.ops import const
from autotune.ir.visitor import Rewriter, substitute
from autotune.rules.rewrite_graph import rewrite
from autotune.target import Target
from autotune.te.tensor import ComputeOp

#: Bytes of vectors of processors with an instruction that scales by powers of 2.
_SCALING_BYTES: Final = 64


def with_cheap_exponents(target: Target, outputs: Sequence[te.Tensor]) -> Sequence[te.Tensor]:
    """Return the same computation with cheaper exponentials of what is known not to be positive."""
    by_2 = target.vector_bytes >= _SCALING_BYTES

    def refine(tensor: te.Tensor, _: te.Tensor) -> tuple[te.Tensor, ...]:
        op = tensor.op
        assert isinstance(op, ComputeOp)
        rewriter = _Exponents([*op.axis, *op.reduce_axis], by_2)
        body: tuple[Expr, ...] = tuple(map(rewriter.expr, op.body))
        if all(new is old for new, old in zip(body, op.body, strict=True)):
            return (tensor,)
        return (ComputeOp(op.name, op.axis, body, tag=op.tag).output(),)

    return rewrite(outputs, refine, refine_part=refine).outputs


class _Exponents(Rewriter):
    """Replaces exp in an expression over some axes.

    `by_2`: by powers of 2; otherwise by exp of the same with a bound.
    """

    def __init__(self, axes: Sequence[IterVar], by_2: bool) -> None:
        super().__init__()
        self._domains: dict[Expr, Range | None] = {axis.var: axis.dom for axis in axes}
        self._by_2 = by_2

    def visit_Call(self, node: Call) -> Expr:
        """Replace an exponential of a difference that is not positive."""
        new = self.rebuild(node)
        match node:
            case Call(name="exp", children=(BinaryOp(op="-", a=a, b=b) as argument,)):
                if argument.dtype in ("float32", "float64") and self._is_at_most(a, b):
                    return self._of_at_most_0(new.children[0])
        return new

    def _of_at_most_0(self, argument: Expr) -> Expr:
        if self._by_2:
            return te.exp2(argument * const(1 / math.log(2), argument.dtype))
        return te.exp(te.min(argument, const(0, argument.dtype)))

    def _is_at_most(self, value: Expr, bound: Expr) -> bool:
        """Whether a value is one of those whose maximum the bound is."""
        if value is bound:
            return True
        match value, bound:
            case Cast(), Cast() if value.dtype == bound.dtype and value.a.dtype == bound.a.dtype:
                # Other casts wrap, or turn all numbers but 0 into the same.
                return is_float(value.dtype) and self._is_at_most(value.a, bound.a)
            case _, BinaryOp(op="max"):
                return any(self._is_at_most(value, operand) for operand in bound.children)
            case _, Read(tensor=te.Tensor(op=ComputeOp(body=(body,), axis=axes))):
                at = dict(zip((axis.var for axis in axes), bound.children, strict=True))
                if isinstance(body, Reduce):
                    return is_maximum(body) and self._is_term(value, body, at)
                return self._is_at_most(value, substitute(body, at))
        return False

    def _is_term(self, value: Expr, maximum: Reduce, at: Mapping[Var, Expr]) -> bool:
        """Whether a value is a term of a maximum at some place."""
        found = matched_axes(value, maximum, at)
        return found is not None and all(
            runs_over(self._domains.get(found[axis.var]), axis)
            if axis.var in found
            else is_never_empty(axis)
            for axis in maximum.axes
        )


def matched_axes(value: Expr, maximum: Reduce, at: Mapping[Var, Expr]) -> dict[Expr, Expr] | None:
    """Return at what values of its axes a reduction has a value as its term; None if it has not.

    `at`: the values of other variables of the reduction.
    """
    over = {axis.var for axis in maximum.axes}
    found: dict[Expr, Expr] = {}

    def matches(term: Expr, part: Expr) -> bool:
        if isinstance(term, Var):
            known = at.get(term, term) if term not in over else found.setdefault(term, part)
            return known is part
        if len(term.children) != len(part.children) or type(term) is not type(part):
            return False
        if not all(map(matches, term.children, part.children)):
            return False
        return term is part or term.with_children(part.children) is part

    return found if matches(maximum.sources[0], value) else None


def runs_over(domain: Range | None, axis: IterVar) -> bool:
    """Whether a domain has just the values of an axis."""
    own = axis.dom
    assert own is not None
    return domain is not None and domain.min is own.min and domain.extent is own.extent


def is_never_empty(axis: IterVar) -> bool:
    """Whether an axis has a value."""
    return axis.dom is not None and isinstance(axis.dom.extent, Const) and axis.dom.extent.value > 0


def is_maximum(reduction: Reduce) -> bool:
    """Whether a reduction is the maximum of all its terms."""
    combiner, condition = reduction.combiner, reduction.condition
    operands = {*combiner.lhs, *combiner.rhs}
    match combiner.result:
        case (BinaryOp(op="max", children=children),):
            return operands == {*children} and is_const(condition, 1)
    return False
