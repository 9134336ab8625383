"""Reductions: sums, products, extrema and reducers that users define, of one or several values.

A reduction is commutative and associative: schedules may split, reorder and factor its axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.axes import AxisKind, Combiner, IterVar
from autotune.ir.expr import BinaryOp, Call, Expr, Operators, Reduce, Select, Var
from autotune.ir.ops import binary, cast, const, convert, is_convertible
from autotune.ir.visitor import Rewriter, free_vars


class Reducer:
    """A reduction made by `comm_reducer`; calling it on expressions and axes applies it."""

    def __init__(
        self, fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str
    ) -> None:
        self.name = name
        self._fcombine = fcombine
        self._fidentity = fidentity
        self._combiners: dict[tuple[str, ...], Combiner] = {}

    def __call__(self, expr: Any, axis: Any, where: Any = None) -> Any:
        """Reduce an expression, or a tuple of them together, over one or several axes.

        Returns
        -------
        Expr or tuple of Expr
            The reduction, one expression per value: the body of a `te.compute`.
        """
        several = isinstance(expr, (tuple, list))
        sources = tuple(map(convert, expr)) if several else (convert(expr),)
        types = tuple(source.dtype for source in sources)
        if types not in self._combiners:
            self._combiners[types] = self._combiner(types, several)
        values = reduction(self._combiners[types], sources, axis, where)
        return values if several else values[0]

    def _combiner(self, types: tuple[str, ...], several: bool) -> Combiner:
        # Two names that differ, as the combination is shown in listings and fingerprints.
        marks = [f"{i}" if several else "" for i in range(len(types))]
        lhs = tuple(Var(f"x{mark}", t) for mark, t in zip(marks, types, strict=True))
        rhs = tuple(Var(f"y{mark}", t) for mark, t in zip(marks, types, strict=True))
        result = self._fcombine(lhs, rhs) if several else self._fcombine(lhs[0], rhs[0])
        results = self._values("combination", result, types, several)
        own = set(lhs) | set(rhs)
        for value in results:
            for var in free_vars(value):
                if var not in own:
                    raise IRError(
                        f"reducer {self.name!r}: its combination uses {var.name!r}, which is none "
                        "of its operands"
                    )
        identities = self._values("identity", self._fidentity(*types), types, several)
        if any(free_vars(value) for value in identities):
            raise IRError(f"reducer {self.name!r}: its identity must be a constant")
        return Combiner(self.name, lhs, rhs, results, identities)

    def _values(
        self, what: str, given: Any, types: tuple[str, ...], several: bool
    ) -> tuple[Expr, ...]:
        listed = given if isinstance(given, (tuple, list)) else (given,)
        if len(listed) != len(types) or isinstance(given, (tuple, list)) != several:
            wanted = f"a tuple of {len(types)} values" if several else "one value"
            raise IRError(f"reducer {self.name!r}: its {what} must be {wanted}, got {given!r}")
        values = []
        for value, dtype in zip(listed, types, strict=True):
            if not is_convertible(value):
                raise IRError(f"reducer {self.name!r}: {value!r} is not an expression ({what})")
            expr = convert(value, dtype)
            if expr.dtype != dtype:
                raise IRError(
                    f"reducer {self.name!r}: its {what} `{expr}` has type {expr.dtype} where "
                    f"{dtype} is reduced; use .astype({dtype!r})"
                )
            values.append(expr)
        return tuple(values)


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Reducer:
    """Return a reducer for a commutative and associative combination.

    Parameters
    ----------
    fcombine : callable
        Takes accumulator and new value and returns their combination; where several values are
        reduced together, takes two tuples and returns a tuple.
    fidentity : callable
        Takes the type of each value, as "float32", and returns the neutral element (or a tuple).
    name : str
        Name in listings.

    Examples
    --------
    The place and the value of the largest element of each row::

        argmax = te.comm_reducer(
            lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
            lambda index, value: (te.const(-1, index), te.min_value(value)),
            name="argmax",
        )
        where, largest = te.compute((n,), lambda i: argmax((k.var, A[i, k]), axis=k))
    """
    for what, given in (("fcombine", fcombine), ("fidentity", fidentity)):
        if not callable(given):
            raise IRError(f"comm_reducer {name!r}: {what} must be a function, got {given!r}")
    return Reducer(fcombine, fidentity, name)


def reduction(
    combiner: Combiner, sources: Sequence[Expr], axis: Any, where: Any
) -> tuple[Expr, ...]:
    """Return the values of a reduction, with axes and condition checked."""
    name = combiner.name
    axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
    for one in axes:
        if not (isinstance(one, IterVar) and one.kind is AxisKind.REDUCE):
            raise IRError(f"{name}: axis must be made by te.reduce_axis, got {one!r}")
    if not axes or len(set(axes)) != len(axes):
        raise IRError(f"{name}: give at least one axis, and each one once")
    condition = const(True) if where is None else convert(where)
    if condition.dtype != dtypes.BOOL:
        raise IRError(f"{name}: where= takes a condition, got `{condition}` of {condition.dtype}")
    return tuple(Reduce(combiner, tuple(sources), axes, condition, i) for i in range(len(sources)))


_REDUCERS = {
    "sum": Reducer(partial(binary, "+"), lambda dtype: 0, "sum"),
    "prod": Reducer(partial(binary, "*"), lambda dtype: 1, "prod"),
    "max": Reducer(partial(binary, "max"), partial(dtypes.identity, "max"), "max"),
    "min": Reducer(partial(binary, "min"), partial(dtypes.identity, "min"), "min"),
}


def _reduce(name: str, expr: Any, axis: Any, where: Any) -> Expr:
    source = convert(expr)
    if source.dtype == dtypes.BOOL:
        raise IRError(f"{name}: cannot reduce conditions; use .astype('int32') first")
    reduced: Expr = _REDUCERS[name](source, axis, where)
    return reduced


class _Widened(Rewriter):
    """Does the arithmetic of an expression in a wider float type, rounding nothing on the way."""

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.dtype = dtype

    def rebuild(self, node: Expr) -> Expr:
        return cast(self.dtype, node)

    def visit_BinaryOp(self, node: BinaryOp) -> Expr:
        return binary(node.op, self.expr(node.a), self.expr(node.b))

    def visit_Select(self, node: Select) -> Expr:
        return Select(node.condition, self.expr(node.true), self.expr(node.false))

    def visit_Call(self, node: Call) -> Expr:
        if node.name != "if_then_else":
            return cast(self.dtype, node)
        condition, true, false = node.children
        return Call(node.name, (condition, self.expr(true), self.expr(false)), self.dtype)


def _accumulated(name: str, expr: Any, axis: Any, where: Any, dtype: str | None) -> Expr:
    """Return a reduction that rounds, done in `dtype` or in its operand's default type."""
    source = convert(expr)
    wanted = dtypes.accumulator(source.dtype) if dtype is None else dtypes.check(dtype)
    if wanted != source.dtype:
        wider = dtypes.is_float(wanted) and dtypes.is_float(source.dtype)
        source = _Widened(wanted).expr(source) if wider else cast(wanted, source)
    return _reduce(name, source, axis, where)


def sum(expr: Any, axis: Any, where: Any = None, dtype: str | None = None) -> Expr:
    """Sum of `expr` over one or several reduction axes, where the condition holds.

    Parameters
    ----------
    expr : Expr
        What to sum.
    axis : IterVar or list of IterVar
        Axes made by `reduce_axis`.
    where : Expr, optional
        Only elements for which it holds are summed.
    dtype : str, optional
        Type of the sum. By default float16 and bfloat16 are multiplied and summed in float32,
        and every other type in itself (integers wrap around).
    """
    return _accumulated("sum", expr, axis, where, dtype)


def prod(expr: Any, axis: Any, where: Any = None, dtype: str | None = None) -> Expr:
    """Product of `expr` over reduction axes; parameters as of `sum`."""
    return _accumulated("prod", expr, axis, where, dtype)


def _extremum(name: str, a: Any, b: Any, axis: Any, where: Any) -> Any:
    if axis is not None:
        if b is not None:
            raise IRError(f"te.{name}: give either a second value or an axis, not both")
        return _reduce(name, a, axis, where)
    if b is None:
        raise IRError(f"te.{name}: a second value or axis= is missing")
    if isinstance(a, int) and isinstance(b, int):
        return a if (a < b) == (name == "min") else b
    # A symbolic knob answers with a symbolic knob, so that a template can still branch on it.
    for this, other, swap in ((a, b, False), (b, a, True)):
        if isinstance(this, Operators) and not isinstance(this, Expr):
            return this._binary(name, other, swap)
    return binary(name, a, b)


def max(a: Any, b: Any = None, axis: Any = None, where: Any = None) -> Any:
    """Maximum of `a` over reduction axes (``axis=``), or of two values."""
    return _extremum("max", a, b, axis, where)


def min(a: Any, b: Any = None, axis: Any = None, where: Any = None) -> Any:
    """Minimum of `a` over reduction axes (``axis=``), or of two values."""
    return _extremum("min", a, b, axis, where)
