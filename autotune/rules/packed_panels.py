"""Rewrites a contraction into register tiles over packed panels: the structure of a fast product.

Output axis v is vectorised and axis u gives the rows of a tile. Tiles at the edge repeat the last
element, and the extra elements are not stored, so inner loops have no guards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from autotune import te
from autotune.ir.expr import Const, Expr, Read
from autotune.ir.visitor import free_vars, reads, substitute
from autotune.rules.stage_graph import extent, iterations, reduction_of

#: Largest size of a panel relative to its tensor, and the least number of reads of each of its
#: elements.
_MAX_COPIES: Final = 2
_OFTEN: Final = 4


@dataclass(frozen=True, slots=True)
class Roles:
    """How the axes of a contraction are used.

    Attributes
    ----------
    vector
        Position of the vectorised output axis.
    rows
        Position of the output axis that makes the rows of a tile; None if there is none.
    """

    vector: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class Panels:
    """A contraction in tiles.

    Attributes
    ----------
    packed
        Panels in the order in which tiles read them; their last axis is one tile's vectors.
    tile
        The contraction, with an axis for all tiles along v and u, then one within each.
    result
        The result in its own shape.
    roles
        Of the axes.
    rows, columns
        Of a tile; integers or knobs.
    work
        Index sets of the contraction.
    copied
        Elements of each panel.
    """

    packed: tuple[te.Tensor, ...]
    tile: te.Tensor
    result: te.Tensor
    roles: Roles
    rows: Any
    columns: Any
    work: int
    copied: tuple[int, ...]


def roles_of(tensor: te.Tensor, lanes: int) -> list[Roles]:
    """Return the possible roles of a contraction's axes, the most promising first.

    An axis can be vectorised if every read that depends on it can be packed or is already
    contiguous along it. The result is empty if there is no such axis of at least one vector.
    """
    axes = list(tensor.op.axis)
    found: list[tuple[bool, Roles]] = []
    for v in reversed(range(len(axes))):
        if extent(axes[v]) < lanes:
            continue
        others = [u for u in range(len(axes)) if u != v and extent(axes[u]) > 1]
        rows = others[-1] if others else None
        own = [r for r in _reads(tensor) if axes[v].var in set(free_vars(r))]
        if own and all(_packs(r, tensor, v, rows) for r in own):
            found.append((True, Roles(v, rows)))
        elif own and all(_lies_along(r, axes[v].var) for r in own):
            found.append((False, Roles(v, rows)))
    return [roles for _, roles in sorted(found, key=lambda pair: not pair[0])]


def _reads(tensor: te.Tensor) -> list[Read]:
    return [r for source in reduction_of(tensor).sources for r in reads(source)]


def _lies_along(read: Read, var: Expr) -> bool:
    """Whether adjacent elements along an axis are adjacent in memory: the last index is var + c."""
    *front, last = read.children
    return not any(var is w for i in front for w in free_vars(i)) and var is last


def _used(read: Read, axes: Sequence[Any]) -> list[Any]:
    own = free_vars(read)
    return [axis for axis in axes if any(axis.var is v for v in own)]


def _packs(read: Read, tensor: te.Tensor, v: int, rows: int | None) -> bool:
    """Whether packing a read is worthwhile: it is read often, by all rows, and not too large."""
    axes = list(tensor.op.axis)
    used = _used(read, [*axes, *tensor.op.reduce_axis])
    if rows is not None and any(axis is axes[rows] for axis in used):
        return False
    size = math.prod(int(n) for n in read.tensor.shape)
    panel = math.prod(map(extent, used))
    return panel <= _MAX_COPIES * size and _OFTEN * panel <= iterations(tensor)


def _panel(
    tensor: te.Tensor, read: Read, v: int, tile_v: Any, number: int
) -> tuple[te.Tensor, list[Any], list[Any]]:
    """Return the panel of a read: consecutive tiles of v, with the other axes of the read."""
    along = tensor.op.axis[v]
    used = [axis for axis in _used(read, tensor.op.axis) if axis is not along]
    reduced = _used(read, tensor.op.reduce_axis)
    condition = reduction_of(tensor).condition
    guarded = not (isinstance(condition, Const) and condition.value)
    tiles = te.ceildiv(extent(along), tile_v)

    def body(*index: Any) -> Any:
        *front, last = index
        values = {a.var: i for a, i in zip([*used, None, *reduced], front, strict=True) if a}
        values[along.var] = _position(front[len(used)], last, tile_v, extent(along))
        moved = [substitute(i, values) for i in read.children]
        if guarded:  # elements that the condition excludes may have any value
            sizes = map(int, read.tensor.shape)
            moved = [te.max(_clamped(i, n), 0) for i, n in zip(moved, sizes, strict=True)]
        return read.tensor[tuple(moved)]

    shape = (*map(extent, used), tiles, *map(extent, reduced), tile_v)
    name = f"{tensor.name}_{read.tensor.name}{number}"
    return te.compute(shape, body, name=name), used, reduced


def _clamped(index: Any, size: int) -> Any:
    return te.min(index, size - 1)


def _position(outer: Any, inner: Any, tile: Any, size: int) -> Any:
    """Return the position of an element of a tile, clamped to the last element."""
    return _clamped(outer * tile + inner, size)


def panels_of(tensor: te.Tensor, roles: Roles, tile_u: Any, tile_v: Any) -> Panels:
    """Return a reduction in tiles of tile_u rows and tile_v elements (integers or knobs)."""
    axes, v, u = list(tensor.op.axis), roles.vector, roles.rows
    packed: dict[Read, tuple[te.Tensor, list[Any], list[Any]]] = {}
    for number, read in enumerate(dict.fromkeys(_reads(tensor))):
        if axes[v].var in set(free_vars(read)) and _packs(read, tensor, v, u):
            packed[read] = _panel(tensor, read, v, tile_v, number)

    outer_shape = [
        te.ceildiv(extent(a), tile_v) if n == v else te.ceildiv(extent(a), tile_u) if n == u
        else extent(a)
        for n, a in enumerate(axes)
    ]  # fmt: skip
    inner_shape = [tile_v] if u is None else [tile_u, tile_v]

    def tile(*index: Any) -> Any:
        outer, inner = index[: len(axes)], index[len(axes) :]
        values: dict[Any, Any] = {a.var: o for a, o in zip(axes, outer, strict=True)}
        values[axes[v].var] = _position(outer[v], inner[-1], tile_v, extent(axes[v]))
        if u is not None:
            values[axes[u].var] = _position(outer[u], inner[0], tile_u, extent(axes[u]))
        replaced = {
            read: panel[
                (*(values[a.var] for a in used), outer[v], *(r.var for r in reduced), inner[-1])
            ]
            for read, (panel, used, reduced) in packed.items()
        }
        return substitute(reduction_of(tensor), {**values, **replaced})

    tiles = te.compute((*outer_shape, *inner_shape), tile, name=f"{tensor.name}_tile")

    def result(*index: Any) -> Any:
        cut = list(index)
        cut[v] = index[v] // tile_v
        rest = [index[v] % tile_v]
        if u is not None:
            cut[u] = index[u] // tile_u
            rest.insert(0, index[u] % tile_u)
        return tiles[(*cut, *rest)]

    whole = te.compute(tensor.shape, result, name=tensor.name)
    copied = tuple(
        math.prod(map(extent, (axes[v], *used, *reduced))) for _, used, reduced in packed.values()
    )
    panels = tuple(panel for panel, _, _ in packed.values())
    return Panels(panels, tiles, whole, roles, tile_u, tile_v, iterations(tensor), copied)
