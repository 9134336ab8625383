"""Rewrites a contraction into register tiles over packed panels: the structure of a fast product.

::

    C[i, j] = sum(A[i, k] * B[k, j])

    panel[o, k, l]    = B[k, o*columns + l]
    tile[p, o, r, l]  = sum(A[p*rows + r, k] * panel[o, k, l])
    C[i, j]           = tile[i / rows, j / columns, i % rows, j % columns]

Tiles at the edge repeat the last row, and have any value beyond the last column; these elements are
not stored, so inner loops have no guards. An operand that already lies along the vector need not be
packed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from autotune import te
from autotune.ir.expr import Const, Expr, Read
from autotune.ir.visitor import substitute
from autotune.lowering.vector.size_cases import even_part
from autotune.rules.contractions.contraction import AxisGroup, TiledContraction
from autotune.rules.stage_graph import is_open, length_of, reduction_of


@dataclass(frozen=True, slots=True)
class Choices:
    """The values of the knobs of tiles, and what their defaults leave."""

    #: Vectors in a row of a tile.
    vectors: tuple[int, ...]
    #: The same if the sums are in the cache.
    long: tuple[int, ...]
    #: Rows along the first and the second group that has some.
    rows: tuple[tuple[int, ...], ...]
    #: Steps of the sum that are written out.
    steps: tuple[int, ...]
    #: Tiles of a block.
    block_columns: tuple[int, ...]
    block_rows: tuple[int, ...]
    #: Defaults of the latter two.
    likely_columns: int
    likely_rows: int
    #: Registers that the sums of a tile leave by default, for rows that share what they read.
    likely_room: int
    #: What the rows of a tile do not divide by default.
    ragged: frozenset[AxisGroup]


@dataclass(frozen=True, slots=True, eq=False)
class Panels:
    """A contraction in tiles."""

    #: The contraction and its vectorised axis.
    way: TiledContraction
    #: Panels in the order in which tiles read them; their last axis is one tile's vectors.
    packed: tuple[te.Tensor, ...]
    #: What each panel is a copy of.
    reads: tuple[Read, ...]
    #: Whole operands in the type of the sum, which tiles read in place of those given.
    converted: tuple[te.Tensor, ...]
    #: The contraction: an axis for the tiles along each group, the rows of a tile, its columns.
    tile: te.Tensor
    #: For vectors of partial results: stages that fold them to half as many lanes each.
    folds: tuple[te.Tensor, ...]
    #: The result in its own shape.
    result: te.Tensor
    #: Rows of a tile along groups; a group that is not here has one.
    rows: Mapping[AxisGroup, Any]
    #: Of a tile.
    columns: Any
    #: Integers or knobs that these do not exceed; a call of open sizes may need fewer.
    most_rows: Mapping[AxisGroup, Any]
    most_columns: Any
    #: Of the knobs.
    choices: Choices
    #: Whether the sums of a tile stay in the cache, not in registers.
    streams: bool
    #: What each task packs for itself.
    in_tasks: frozenset[Read]


def panels_of(
    way: TiledContraction,
    most_rows: Mapping[AxisGroup, Any],
    most_columns: Any,
    packed: Collection[Read],
    choices: Choices,
    streams: bool = False,
    in_tasks: frozenset[Read] = frozenset(),
    tasks: int = 1,
) -> Panels:
    """Return a contraction in tiles of some rows along groups, and columns (integers or knobs).

    `tasks`: about how many share the columns, if only calls know these and tiles stay in the cache.
    """
    rows, columns = dict(most_rows), most_columns
    for group in list(rows)[:1]:  # functions have copies for one group only
        rows[group] = _rows_of_call(group, rows[group])
    if streams:
        columns = _columns_of_call(way, most_columns, tasks)
    stages = _TiledStages(way, rows, columns, packed)
    tiles = stages.tiles()
    folds = _folds(way, tiles) if way.sums is not None else []
    return Panels(
        way=way,
        packed=tuple(stages.panels.values()),
        reads=tuple(stages.panels),
        converted=tuple(stages.converted.values()),
        tile=tiles,
        folds=tuple(folds),
        result=stages.result(folds[-1] if folds else tiles),
        rows=rows,
        columns=columns,
        most_rows=most_rows,
        most_columns=most_columns,
        choices=choices,
        streams=streams,
        in_tasks=in_tasks,
    )


class _TiledStages:
    """The stages of a contraction in tiles.

    `rows`, `columns`: of a tile.
    `packed`: reads that have panels.
    """

    def __init__(
        self,
        way: TiledContraction,
        rows: Mapping[AxisGroup, Any],
        columns: Any,
        packed: Collection[Read],
    ) -> None:
        self.way, self.rows, self.columns = way, rows, columns
        #: The panel of each read that has one.
        self.panels = {
            read: _panel(way, value, columns, number)
            for number, (value, read) in enumerate(way.operands.items())
            if read in packed
        }
        #: The converted tensor of each operand that is converted as a whole.
        self.converted = {
            value: _converted(way, value) for value in way.operands if way.converts(value)
        }

    def tiles(self) -> te.Tensor:
        """Return the contraction in tiles: an axis over tiles for each group, rows, columns."""
        groups = self.way.groups
        sizes = {**self.rows, self.way.vector: self.columns}
        shape = [te.ceildiv(g.length, sizes.get(g, 1)) for g in groups]
        name = f"{self.way.tensor.name}_tile"
        whole = (*shape, *self.rows.values(), self.columns)
        made: te.Tensor = te.compute(whole, self._element, name=name)
        return made

    def _element(self, *index: Any) -> Any:
        """Return an element of a tile; rows beyond the result repeat its last row."""
        way = self.way
        outer, inner = index[: len(way.groups)], index[len(way.groups) :]
        places = dict(zip(way.groups, outer, strict=True))
        for group, row in zip(self.rows, inner, strict=False):
            at = places[group] * self.rows[group] + row
            places[group] = te.min(at, group.length - 1)
        column = places[way.vector] * self.columns + inner[-1]
        values: dict[Any, Any] = {}
        for group, place in places.items():
            values |= group.values(column if group is way.vector else place)
        replaced = self._operands(places, values, column, inner[-1])
        return substitute(reduction_of(way.tensor), {**values, **replaced})

    def _operands(
        self, places: Mapping[AxisGroup, Any], values: Mapping[Any, Any], column: Any, lane: Any
    ) -> dict[Any, Any]:
        """Return what an element of a tile reads in place of each operand.

        `places`: the element's index along each group, but the number of the tile along the vector.
        `values`: the values of the contraction's own axes.
        `column`, `lane`: index of the column in the result, and in the tile.
        """
        way = self.way
        replaced: dict[Any, Any] = {}
        for value, read in way.operands.items():
            if read in self.panels:
                used, reduced = way.panel_of(read)
                front = [places[g] for g in used]
                own = (*front, places[way.vector], *(r.var for r in reduced), lane)
                replaced[value] = self.panels[read][own]
            elif way.is_shared(read):
                first = way.vector.values(places[way.vector] * self.columns)
                replaced[read] = substitute(read, {**values, **first})
            elif value in self.converted:
                index = tuple(substitute(i, values) for i in read.children)
                replaced[value] = self.converted[value][index]
            elif way.uses(read, way.vector):
                inside = te.if_then_else(
                    column < way.vector.length, substitute(read, values), te.const(0, read.dtype)
                )
                replaced[value] = substitute(value, {read: inside}) if value is not read else inside
        return replaced

    def result(self, last: te.Tensor) -> te.Tensor:
        """Return the result in its own shape, read from tiles or from their folds."""
        way = self.way

        def element(*index: Any) -> Any:
            front, within = [], []
            for group in way.groups:
                if way.sums is not None and group is way.vector:
                    front.append(0)
                    continue
                size = self.columns if group is way.vector else self.rows.get(group, 1)
                at = group.position(index)
                front.append(at // size)
                if group is way.vector or group in self.rows:
                    within.append((group, at % size))
            inner = dict(within)
            own = [*front, *(inner[g] for g in self.rows)]
            if way.sums is None:
                return last[(*own, inner[way.vector])]
            combiner = reduction_of(way.tensor).combiner
            return combiner.combine([last[(*own, 0)]], [last[(*own, 1)]])[0]

        whole: te.Tensor = te.compute(way.whole.shape, element, name=way.whole.name)
        return whole


def _rows_of_call(group: AxisGroup, most: Any) -> Any:
    """Return how many rows tiles have: those of a call, in equal parts."""
    return even_part(group.length, most) if is_open(group.length) else most


def _columns_of_call(way: TiledContraction, most: Any, tasks: int) -> Any:
    """Return how many columns tiles have: those of a call in equal parts, in pairs of vectors.

    The number of parts is the least multiple of `tasks` by which none is wider than `most`.
    """
    if not is_open(way.vector.length):
        return most
    pair = 2 * way.lanes
    pairs, widest = te.ceildiv(way.vector.length, pair), te.ceildiv(most, pair)
    parts = tasks * te.max(1, te.ceildiv(pairs, widest * tasks))
    # No part is wider than `widest`, but only the minimum says so where buffers are allocated.
    return te.max(1, te.min(widest, te.ceildiv(pairs, parts))) * pair


def _panel(way: TiledContraction, value: Expr, columns: Any, number: int) -> te.Tensor:
    """Return the panel of an operand: consecutive tiles of the vector, all it is reduced over."""
    read = way.operands[value]
    used, reduced = way.panel_of(read)
    condition = reduction_of(way.tensor).condition
    guarded = not (isinstance(condition, Const) and condition.value)

    def body(*index: Any) -> Any:
        *front, lane = index
        groups, tile, over = front[: len(used)], front[len(used)], front[len(used) + 1 :]
        at = tile * columns + lane
        values = {a.var: i for a, i in zip(reduced, over, strict=True)}
        places = dict(zip(used, groups, strict=True))
        for group in way.groups:  # the panel is the same along those that are not in use
            values |= group.values(places.get(group, te.const(0, at.dtype)))
        values |= way.vector.values(at)
        moved = [substitute(i, values) for i in read.children]
        if guarded:  # elements that the condition excludes may have any value
            sizes = read.tensor.shape
            moved = [te.max(te.min(i, n - 1), 0) for i, n in zip(moved, sizes, strict=True)]
        own = te.if_then_else(
            at < way.vector.length, read.tensor[tuple(moved)], te.const(0, read.dtype)
        )
        return own if value is read else substitute(value, {read: own})

    tiles = te.ceildiv(way.vector.length, columns)
    shape = (*(g.length for g in used), tiles, *map(length_of, reduced), columns)
    panel: te.Tensor = te.compute(shape, body, name=f"{way.tensor.name}_{read.tensor.name}{number}")
    return panel


def _converted(way: TiledContraction, value: Expr) -> te.Tensor:
    """Return the whole tensor of a read in the type to which it is converted."""
    read = way.operands[value]

    def body(*index: Any) -> Any:
        return substitute(value, {read: read.tensor[index]})

    name = f"{read.tensor.name}_{value.dtype}"
    whole: te.Tensor = te.compute(read.tensor.shape, body, name=name)
    return whole


def _folds(way: TiledContraction, tiles: te.Tensor) -> list[te.Tensor]:
    """Return stages that combine each half of the lanes with the other, down to two lanes."""
    found: list[te.Tensor] = []
    last, width = tiles, way.lanes
    while width > 2:
        width //= 2

        def fold(*index: Any, last: te.Tensor = last, width: int = width) -> Any:
            *place, lane = index
            combiner = reduction_of(way.tensor).combiner
            return combiner.combine([last[(*place, lane)]], [last[(*place, lane + width)]])[0]

        last = te.compute((*tiles.shape[:-1], width), fold, name=f"{way.tensor.name}_fold{width}")
        found.append(last)
    return found
