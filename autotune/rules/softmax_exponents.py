"""The rule for exp(x - max(x)): the exponent is bounded by 0, which it never exceeds.

::

    M[i] = max(X[i, k])                      M[i] = max(X[i, k])
    E[i, j] = exp(X[i, j] - M[i])      ->    E[i, j] = exp(min(X[i, j] - M[i], 0))

The value is the same. An exponential that cannot overflow takes fewer instructions on processors
without AVX-512, which have no instruction that scales by powers of 2.
"""

from __future__ import annotations

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


def with_bounded_exponents(target: Target, outputs: Sequence[te.Tensor]) -> Sequence[te.Tensor]:
    """Return the same computation, in which arguments of exp are bounded that are not positive."""
    if target.vector_bytes >= _SCALING_BYTES:
        return outputs

    def refine(tensor: te.Tensor, _: te.Tensor) -> tuple[te.Tensor, ...]:
        op = tensor.op
        assert isinstance(op, ComputeOp)
        rewriter = _Exponents([*op.axis, *op.reduce_axis])
        body: tuple[Expr, ...] = tuple(map(rewriter.expr, op.body))
        if all(new is old for new, old in zip(body, op.body, strict=True)):
            return (tensor,)
        return (ComputeOp(op.name, op.axis, body, tag=op.tag).output(),)

    return rewrite(outputs, refine, refine_part=refine).outputs


class _Exponents(Rewriter):
    """Bounds arguments of exp in an expression over some axes."""

    def __init__(self, axes: Sequence[IterVar]) -> None:
        super().__init__()
        self._domains: dict[Expr, Range | None] = {axis.var: axis.dom for axis in axes}

    def visit_Call(self, node: Call) -> Expr:
        """Bound the argument of exp."""
        new = self.rebuild(node)
        match node:
            case Call(name="exp", children=(BinaryOp(op="-", a=a, b=b) as argument,)):
                if argument.dtype in ("float32", "float64") and self._is_at_most(a, b):
                    return Call("exp", (te.min(new.children[0], const(0, a.dtype)),), node.dtype)
        return new

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
                    return _is_maximum(body) and self._is_term(value, body, at)
                return self._is_at_most(value, substitute(body, at))
        return False

    def _is_term(self, value: Expr, maximum: Reduce, at: Mapping[Var, Expr]) -> bool:
        """Whether a value is a term of a maximum at some place."""
        over = {axis.var: axis for axis in maximum.axes}
        found: dict[Var, Expr] = {}

        def matches(term: Expr, part: Expr) -> bool:
            if isinstance(term, Var):
                known = at.get(term, term) if term not in over else found.setdefault(term, part)
                return known is part
            if len(term.children) != len(part.children) or type(term) is not type(part):
                return False
            if not all(map(matches, term.children, part.children)):
                return False
            return term is part or term.with_children(part.children) is part

        return matches(maximum.sources[0], value) and all(
            self._runs_over(found[var], axis) if var in found else _is_never_empty(axis)
            for var, axis in over.items()
        )

    def _runs_over(self, index: Expr, axis: IterVar) -> bool:
        """Whether an index takes only values of an axis."""
        domain, own = self._domains.get(index), axis.dom
        assert own is not None
        return domain is not None and domain.min is own.min and domain.extent is own.extent


def _is_never_empty(axis: IterVar) -> bool:
    """Whether an axis has a value."""
    return axis.dom is not None and isinstance(axis.dom.extent, Const) and axis.dom.extent.value > 0


def _is_maximum(reduction: Reduce) -> bool:
    """Whether a reduction is the maximum of all its terms."""
    combiner, condition = reduction.combiner, reduction.condition
    operands = {*combiner.lhs, *combiner.rhs}
    match combiner.result:
        case (BinaryOp(op="max", children=children),):
            return operands == {*children} and is_const(condition, 1)
    return False
