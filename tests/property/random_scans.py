"""Random scans: cells of up to three stages and two states, with the same loop in NumPy.

Numbers are int32, which wraps alike everywhere, so that results are compared exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from autotune import te

Row = Callable[[int], Any]
"""Values of a stage at a step, (n,)."""


@dataclass
class RandomScan:
    """A scan with what a schedule may name, and its meaning in NumPy.

    Attributes
    ----------
    X : Tensor
        Its input, (m, n).
    scans, inits, updates, inner : list of Tensor
        Results, first steps, updates, and the stages of the cell that are no updates.
    sizes : tuple of int
        m and n.
    symbolic : bool
        Whether only calls know them.
    first : int
        Steps of init.
    starts, rows : list of callable
        The first steps, and the others, of each state.
    description : list of str
        What the stages compute, for whoever reads a failure.
    """

    @property
    def keeps_to_columns(self) -> bool:
        """Whether no step reads a state at other columns, or there is one block."""
        elsewhere = any(c in line for line in self.description for c in ("n-1-i", "%n", ", 0]"))
        return (self.sizes[1] <= 4 and not self.symbolic) or not elsewhere

    X: Any
    scans: list[Any]
    inits: list[Any]
    updates: list[Any]
    inner: list[Any]
    sizes: tuple[int, int]
    symbolic: bool
    first: int
    starts: list[Callable[[Any, int], Any]]
    rows: list[Callable[[Any, list[Any], int], Any]]
    description: list[str] = field(default_factory=list)

    def reference(self, x: Any) -> list[Any]:
        """Return the results for an input."""
        m, n = self.sizes
        states = [np.zeros((m, n), "int32") for _ in self.scans]
        with np.errstate(over="ignore"):
            for state, start in zip(states, self.starts, strict=True):
                for t in range(self.first):
                    state[t] = start(x, t)
            for t in range(self.first, m):
                new = [row(x, states, t) for row in self.rows]
                for state, values in zip(states, new, strict=True):
                    state[t] = values
        return states


@dataclass
class _Term:
    """One summand: as an expression over step and column, and as the row it is."""

    text: str
    expr: Callable[[Any, Any], Any]
    row: Callable[[Any, list[Any], int], Any]


def _columns(draw: Any, n: Any, count: int) -> tuple[str, Callable[[Any], Any], Any]:
    """Draw which column of a state is read: as text, as an index, and as NumPy's index."""
    kind = draw(st.sampled_from(["own", "own", "own", "reversed", "next", "first"]))
    own = np.arange(count)
    if kind == "reversed":
        return "n-1-i", lambda i: n - 1 - i, own[::-1]
    if kind == "next":
        return "(i+1)%n", lambda i: (i + 1) % n, (own + 1) % max(count, 1)
    if kind == "first":
        return "0", lambda i: 0, own * 0
    return "i", lambda i: i, own


@st.composite
def random_scans(draw: Any) -> RandomScan:
    """Draw a scan of two to eight steps or as few as its init has."""
    first = draw(st.integers(1, 2))
    m, n = draw(st.integers(first, 7)), draw(st.sampled_from([1, 3, 8, 13]))
    symbolic = draw(st.booleans())
    steps, width = (te.var("m"), te.var("n")) if symbolic else (m, n)
    X = te.placeholder((steps, width), "int32", name="X")
    count = draw(st.integers(1, 2))
    states = [te.placeholder((steps, width), "int32", name=f"s{k}") for k in range(count)]

    def state_term(which: int) -> _Term:
        back = draw(st.integers(1, first))
        text, index, columns = _columns(draw, width, n)
        return _Term(
            f"s{which}[t-{back}, {text}]",
            lambda t, i: states[which][t - back, index(i)],
            lambda x, values, t: values[which][t - back][columns],
        )

    def input_term() -> _Term:
        back = draw(st.integers(0, 1))
        return _Term(
            f"X[t-{back}, i]", lambda t, i: X[t - back, i], lambda x, values, t: x[t - back]
        )

    def stage(name: str, terms: list[_Term]) -> tuple[Any, _Term]:
        """Make the stage that adds terms, scaled; return it, and the term that reads it."""
        scale = draw(st.sampled_from([1, -1, 2, 3]))
        tensor = te.compute(
            (steps, width),
            lambda t, i: sum((one.expr(t, i) for one in terms[1:]), terms[0].expr(t, i) * scale),
            name=name,
        )
        found.append(f"{name}[t, i] = {scale}*{' + '.join(one.text for one in terms)}")

        def row(x: Any, values: Any, t: int) -> Any:
            total = terms[0].row(x, values, t) * np.int32(scale)
            for one in terms[1:]:
                total = total + one.row(x, values, t)
            return total

        return tensor, _Term(f"{name}[t, i]", lambda t, i: tensor[t, i], row)

    found: list[str] = []
    inner: list[Any] = []
    terms: list[_Term] = []
    for number in range(draw(st.integers(0, 3 - count))):
        given = [state_term(draw(st.integers(0, count - 1))), input_term(), *terms]
        tensor, term = stage(f"c{number}", given[: draw(st.integers(1, len(given)))])
        inner.append(tensor)
        terms.append(term)
    updates, rows = [], []
    for which in range(count):
        given = [state_term(which), *terms, input_term()]
        if which == 0 and count == 2:
            given.append(state_term(1))
        tensor, term = stage(f"u{which}", given)
        updates.append(tensor)
        rows.append(term.row)
    bias = [draw(st.integers(-3, 3)) for _ in range(count)]
    inits = [
        te.compute((first, width), lambda t, i, b=b: X[t, i] + b, name=f"i{k}")
        for k, b in enumerate(bias)
    ]
    starts = [lambda x, t, b=b: x[t] + np.int32(b) for b in bias]
    scans = te.scan(inits, updates, states, inputs=[X])
    return RandomScan(X, scans, inits, updates, inner, (m, n), symbolic, first, starts, rows, found)


def scheduled(draw: Any, case: RandomScan) -> Any:
    """Draw a schedule."""
    s = te.create_schedule(case.scans[0].op)
    outer: list[Any] = []
    for part in (*case.inits, *case.updates):
        o, i = s[part].split(part.op.axis[1], factor=4)
        outer.append(o)
        if draw(st.booleans()):
            s[part].vectorize(i)
    if draw(st.booleans()):
        for part, o in zip((*case.inits, *case.updates), outer, strict=True):
            s[part].parallel(o)
    for tensor in case.inner:
        # Several stages may read it; only in the innermost loop of all is it where each of them is.
        how = draw(st.sampled_from(["cell", "inline", "at", "written"]))
        readers = s.readers(tensor)
        if how == "inline":
            s[tensor].compute_inline()
        elif how == "at" and len(readers) == 1 and readers[0] in [s[u] for u in case.updates]:
            s[tensor].compute_at(readers[0], readers[0].leaf_axes[0])
        elif how == "written":
            s[s.cache_write(tensor, "local")].compute_at(s[tensor], tensor.op.axis[1])
    axis = case.scans[0].op.scan_axis
    if draw(st.booleans()):
        _, inside = s[case.scans[0]].split(axis, factor=draw(st.integers(1, 3)))
        if draw(st.booleans()):
            s[case.scans[0]].unroll(inside)
    return s
