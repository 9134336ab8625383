"""Random scans: cells of up to three stages and two states, with the same loop in NumPy.

Numbers are int32 and int64, which wrap alike everywhere, so that results are compared exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from autotune import te

#: Values of a stage at a step, (width,), given the input, the states so far and the step.
Row = Callable[[Any, list[Any], int], Any]


@dataclass
class RandomScan:
    """A scan with what a schedule may name, and its meaning in NumPy.

    Attributes
    ----------
    X : Tensor
        Its input, of one step more than the scan.
    scans, inits, updates, inner : list of Tensor
        Results, first steps, updates, and the other stages.
    sizes : tuple of int
        Steps, and the widths of steps.
    symbolic : bool
        Whether only calls know them.
    first : int
        Steps of init.
    starts, rows : list of callable
        The first steps, and the others, of each state.
    description : list of str
        What the stages compute, for whoever reads a failure.
    mixes : bool
        Whether a step reads another column than its own.
    """

    X: Any
    scans: list[Any]
    inits: list[Any]
    updates: list[Any]
    inner: list[Any]
    sizes: tuple[int, ...]
    symbolic: bool
    first: int
    starts: list[Row]
    rows: list[Row]
    description: list[str] = field(default_factory=list)
    mixes: bool = False

    def reference(self, x: Any) -> list[Any]:
        """Return the results for an input."""
        states = [
            np.zeros((self.sizes[0], width), scan.dtype)
            for width, scan in zip(self.widths, self.scans, strict=True)
        ]
        with np.errstate(over="ignore"):
            for t in range(self.sizes[0]):
                rows = self.starts if t < self.first else self.rows
                new = [row(x, states, t) for row in rows]
                for state, values in zip(states, new, strict=True):
                    state[t] = values
        return states

    @property
    def widths(self) -> tuple[int, ...]:
        """Columns of each state."""
        return tuple(self.sizes[1 + min(which, len(self.sizes) - 2)] for which in self.scans_at)

    @property
    def scans_at(self) -> range:
        """Numbers of the states."""
        return range(len(self.scans))

    def input(self) -> Any:
        """Return small numbers, (steps + 1, columns)."""
        m, n = self.sizes[:2]
        return np.random.default_rng(m * 100 + n).integers(-9, 9, (m + 1, n)).astype("int32")


@dataclass
class _Source:
    """What a stage may read: a tensor of steps, as an array, how far it is behind at its own."""

    name: str
    tensor: Any
    width: Any
    columns: int
    row: Row
    behind: int = 0
    is_state: bool = False
    in_cell: bool = True


class _Drawer:
    """Draws the stages of a cell."""

    def __init__(self, draw: Any, first: int, steps: Any, m: int) -> None:
        self.draw, self.first, self.steps, self.m = draw, first, steps, m
        self.description: list[str] = []
        self.mixes = False

    def pick(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def columns(self, source: _Source, width: Any, columns: int) -> Any:
        """Draw which column of a source is read: as text, as an index, and as NumPy's indices."""
        own, n = np.arange(columns), source.width
        alike = width is n
        kind = self.pick("own", "own", "own", "reversed", "next", "first") if alike else "next"
        if kind != "own" and source.tensor.name != "X":
            self.mixes = True
        if kind == "reversed":
            return "n-1-i", lambda i: n - 1 - i, own[::-1]
        if kind == "next":
            return "(i+1)%n", lambda i: (i + 1) % n, (own + 1) % max(source.columns, 1)
        return ("0", lambda i: 0, own * 0) if kind == "first" else ("i", lambda i: i, own)

    def back(self, source: _Source, in_cell: bool) -> int:
        """Draw how many steps before a stage's own it reads a source."""
        last = self.first - source.behind if in_cell else 0
        return int(self.draw(st.integers(int(source.is_state), last)))

    def term(
        self, source: _Source, width: Any, columns: int, in_cell: bool
    ) -> tuple[str, Any, Row, int]:
        """Draw a read of a source: as text, as an expression, as a row, and how far behind."""
        text, index, which = self.columns(source, width, columns)
        tensor, m = source.tensor, self.m
        if tensor.name == "X" and self.pick(True, False, False):
            if self.pick(True, False):
                return f"X[m-t, {text}]", lambda t, i: tensor[self.steps - t, index(i)], \
                    lambda x, s, t: x[m - t][which], 0
            return f"X[t+1, {text}]", lambda t, i: tensor[t + 1, index(i)], \
                lambda x, s, t: x[t + 1][which], 0
        back = self.back(source, in_cell)
        return (
            f"{source.name}[t-{back}, {text}]",
            lambda t, i: tensor[t - back, index(i)],
            lambda x, states, t: source.row(x, states, t - back)[which],
            source.behind + back,
        )

    def stage(
        self, name: str, sources: list[_Source], width: Any, columns: int, dtype: str
    ) -> _Source:
        """Draw a stage that combines sources, or sums one of them over its columns."""
        how = self.pick("+", "+", "max", "where", "sum", "window")
        if how == "sum":
            return self.total(name, sources[0], width, columns, dtype)
        if how == "window":
            return self.window(name, sources[0], width, columns, dtype)
        in_cell = any(source.in_cell for source in sources)
        terms = [self.term(source, width, columns, in_cell) for source in sources]
        scale = self.pick(1, -1, 2, 3)

        def combined(values: Any, larger: Any, where: Any) -> Any:
            total = values[0] * scale
            for value in values[1:]:
                if how == "max":
                    total = larger(total, value)
                else:
                    total = total + (where(value > 0, value, -1) if how == "where" else value)
            return total

        tensor = te.compute(
            (self.steps, width),
            lambda t, i: combined(
                [expr(t, i).astype(dtype) for _, expr, _, _ in terms],
                te.max,
                lambda c, a, b: te.if_then_else(c, a, te.const(b, dtype)),
            ),
            name=name,
        )
        texts = ", ".join(text for text, *_ in terms)
        self.description.append(f"{name}[t, i]: {dtype} = {how}({scale}*{texts})")

        def row(x: Any, states: Any, t: int) -> Any:
            values = [own(x, states, t).astype(dtype) for _, _, own, _ in terms]
            return combined(values, np.maximum, np.where).astype(dtype)

        behind = max(back for *_, back in terms)
        return _Source(name, tensor, width, columns, row, behind, in_cell=in_cell)

    def total(
        self, name: str, source: _Source, width: Any, columns: int, dtype: str
    ) -> _Source:
        back = self.back(source, source.in_cell)
        k = te.reduce_axis((0, source.width), name="k")
        tensor = te.compute(
            (self.steps, width),
            lambda t, i: te.sum((source.tensor[t - back, k] * (k + i)).astype(dtype), axis=k),
            name=name,
        )
        self.mixes = self.mixes or source.tensor.name != "X"
        self.description.append(f"{name}[t, i]: {dtype} = sum {source.name}[t-{back}, k]*(k+i)")

        def row(x: Any, states: Any, t: int) -> Any:
            values = source.row(x, states, t - back).astype("int64")
            places = np.add.outer(np.arange(columns), np.arange(source.columns))
            return (values * places).astype(dtype).sum(axis=1, dtype=dtype)

        behind = source.behind + back
        return _Source(name, tensor, width, columns, row, behind, in_cell=source.in_cell)


    def window(
        self, name: str, source: _Source, width: Any, columns: int, dtype: str
    ) -> _Source:
        """Draw a stage that sums a source over several steps."""
        least = int(source.is_state)
        last = max(least, self.back(source, source.in_cell))
        text, index, which = self.columns(source, width, columns)
        k = te.reduce_axis((least, last + 1), name="k")
        tensor = te.compute(
            (self.steps, width),
            lambda t, i: te.sum((source.tensor[t - k, index(i)] * (k + 2)).astype(dtype), axis=k),
            name=name,
        )
        self.description.append(
            f"{name}[t, i]: {dtype} = sum {source.name}[t-k, {text}]*(k+2), k = {least} to {last}"
        )

        def row(x: Any, states: Any, t: int) -> Any:
            rows = [
                (source.row(x, states, t - back)[which].astype("int64") * (back + 2)).astype(dtype)
                for back in range(least, last + 1)
            ]
            return np.sum(rows, axis=0, dtype=dtype)

        behind = source.behind + last
        return _Source(name, tensor, width, columns, row, behind, in_cell=source.in_cell)


@st.composite
def random_scans(draw: Any) -> RandomScan:
    """Draw a scan of as many steps as its init has, to seven."""
    first = draw(st.integers(1, 3))
    m = draw(st.integers(first, 7))
    count = draw(st.integers(1, 2))
    numbers = [draw(st.sampled_from([1, 3, 8, 13]))]
    if count == 2 and draw(st.booleans()):
        numbers.append(draw(st.sampled_from([2, 5])))
    symbolic = draw(st.booleans())
    steps, *widths = map(te.var, "mnl") if symbolic else (m, *numbers)
    del widths[len(numbers):]
    drawer = _Drawer(draw, first, steps, m)
    X = te.placeholder((steps + 1, widths[0]), "int32", name="X")
    given = _Source("X", X, widths[0], numbers[0], lambda x, states, t: x[t], in_cell=False)
    states = []
    for which in range(count):
        width, columns = widths[min(which, len(widths) - 1)], numbers[min(which, len(numbers) - 1)]
        dtype = draw(st.sampled_from(["int32", "int32", "int64"]))
        tensor = te.placeholder((steps, width), dtype, name=f"s{which}")
        row = lambda x, values, t, which=which: values[which][t]  # noqa: E731
        states.append(_Source(tensor.name, tensor, width, columns, row, is_state=True))
    inner: list[_Source] = []
    for number in range(draw(st.integers(0, 3 - count))):
        like = draw(st.sampled_from(states))
        sources = draw(st.permutations([*states, given, *inner]))
        taken = sources[: draw(st.integers(1, len(sources)))]
        inner.append(drawer.stage(f"c{number}", taken, like.width, like.columns, "int32"))
    updates = []
    for which, state in enumerate(states):
        sources = [state, *inner, given, *(states[1:] if which == 0 else ())]
        stage = drawer.stage(f"u{which}", sources, state.width, state.columns, state.tensor.dtype)
        updates.append(stage)
    inits, starts = [], []
    for state in states:
        text, expr, row, _ = drawer.term(given, state.width, state.columns, in_cell=False)
        drawer.description.append(f"{state.name} begins with {text}")
        dtype = state.tensor.dtype
        inits.append(te.compute(
            (first, state.width),
            lambda t, i, expr=expr, dtype=dtype: expr(t, i).astype(dtype),
            name=f"i{state.name}",
        ))
        starts.append(row)
    scans = te.scan(
        inits, [u.tensor for u in updates], [s.tensor for s in states], inputs=[X]
    )
    needed = {stage.op for stage in te.create_schedule(scans[0].op).stages}
    return RandomScan(
        X, scans, inits, [u.tensor for u in updates],
        [c.tensor for c in inner if c.tensor.op in needed],
        (m, *numbers), symbolic, first, starts, [u.row for u in updates], drawer.description,
        drawer.mixes,
    )
