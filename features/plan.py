"""The part of itervar extraction that depends only on a nest's structure, computed once.

Thousands of chunks of candidates share one structure, so it is checked, its columns are sorted and
named, and the bases of the thread levels are found only once.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache

from features.loop_nest import ANNOTATIONS, VIRTUAL_THREAD, FeatureError, LoopNest
from features.schema import (
    ARITH,
    ARITH_FIELDS,
    ATTR,
    ATTR_FIELDS,
    TOUCH_FIELDS,
    FeatureLayout,
    column_name,
)

Path = tuple[int, ...]
_LoopKey = tuple[str, str, int, int]
_AccessKey = tuple[str, Path]


@dataclass(frozen=True, slots=True)
class FeatureColumn:
    """The source of one feature column."""

    #: Unique in the nest.
    name: str
    #: Index of the loop.
    row: int
    #: One of the schema's fields or, in the one-hot code, an annotation.
    field: str
    #: Index of the access of a touch field, else -1.
    access: int = -1
    #: Position of the row among that access's loops.
    place: int = -1
    #: Whether `take_log` applies.
    is_logged: bool = True


@dataclass(frozen=True, slots=True)
class ExtractionPlan:
    """The structure of a nest, ready for evaluation."""

    #: The columns in the order of the layout: for each row `_attr_`, `_arith_` and its accesses.
    groups: tuple[tuple[int, str, tuple[FeatureColumn, ...]], ...]
    #: The same, flat.
    columns: tuple[FeatureColumn, ...]
    #: For each row, the distinct loop paths from it down to its accesses.
    paths_below: tuple[tuple[Path, ...], ...]
    #: By (path, place): for the places of a path that have thread touches, the place of
    #: the base they refer to.
    bases: dict[tuple[Path, int], int]
    #: For each row, the annotation that is 1 in the one-hot code.
    annotations: tuple[str, ...]

    def of_names(self, names: tuple[str, ...]) -> tuple[FeatureColumn, ...]:
        """Return the columns of these names, in that order."""
        by_name = {column.name: column for column in self.columns}
        try:
            return tuple(by_name[name] for name in names)
        except KeyError as error:
            raise FeatureError(f"this loop nest has no feature column {error}") from None


def plan_of(nest: LoopNest, layout: FeatureLayout) -> ExtractionPlan:
    """Return the plan for a nest's structure; raises FeatureError where it is inconsistent."""
    for access in nest.accesses:
        if not len(access.loops) == len(access.strides) == len(access.mods):
            raise FeatureError(
                f"access {access.name}: {len(access.strides)} strides and {len(access.mods)} mods"
                f" for {len(access.loops)} open loops; expected one of each per loop"
            )
    loops = tuple((loop.name, loop.annotation, loop.parent, loop.depth) for loop in nest.loops)
    return _plan(loops, tuple((access.name, access.loops) for access in nest.accesses), layout)


@lru_cache(maxsize=256)
def _plan(
    loops: tuple[_LoopKey, ...], accesses: tuple[_AccessKey, ...], layout: FeatureLayout
) -> ExtractionPlan:
    _check(loops, accesses)
    touching: dict[int, list[tuple[bytes, str, int, int]]] = defaultdict(list)
    paths_below: list[dict[Path, None]] = [{} for _ in loops]
    bases: dict[tuple[Path, int], int] = {}
    for index, (name, path) in enumerate(accesses):
        for place, row in enumerate(path):
            touching[row].append((name.encode(), name, index, place))
            paths_below[row][path[place:]] = None
        bases.update(_bases(path, tuple(_level(loops[row][1]) for row in path)))
    groups: list[tuple[int, str, tuple[FeatureColumn, ...]]] = []
    for row, (loop, _, _, _) in enumerate(loops):
        groups.append((row, ATTR, _attr_columns(row, loop, layout)))
        arith = tuple(FeatureColumn(column_name(row, loop, ARITH, f), row, f) for f in ARITH_FIELDS)
        groups.append((row, ARITH, arith))
        for _, name, index, place in sorted(touching[row]):
            touch = (
                FeatureColumn(column_name(row, loop, name, field), row, field, index, place)
                for field in TOUCH_FIELDS
            )
            groups.append((row, name, tuple(touch)))
    return ExtractionPlan(
        groups=tuple(groups),
        columns=tuple(column for _, _, columns in groups for column in columns),
        paths_below=tuple(tuple(paths) for paths in paths_below),
        bases=bases,
        annotations=tuple(layout.one_hot[layout.hot(loop[1])] for loop in loops),
    )


def _attr_columns(row: int, loop: str, layout: FeatureLayout) -> tuple[FeatureColumn, ...]:
    return tuple(
        FeatureColumn(
            column_name(row, loop, ATTR, field),
            row,
            field,
            is_logged=field in ATTR_FIELDS and field != "nest_level",
        )
        for field in (*ATTR_FIELDS, *layout.one_hot)
    )


def _level(annotation: str) -> int:
    """Return the level of a loop: blocks contain threads, threads contain everything else."""
    if annotation.startswith("BLOCK_"):
        return 2
    return 1 if annotation.startswith("THREAD_") or annotation == "PARALLEL" else 0


def _bases(path: Path, levels: tuple[int, ...]) -> dict[tuple[Path, int], int]:
    """Find the base of each place of one access's path.

    A row that closes inside a row exactly one level higher leaves its touches as the base in every
    open row of that higher level. Rows close innermost first, so the outermost such row wins.
    """
    bases = {}
    for inner in range(len(path) - 1, 0, -1):
        if levels[inner - 1] == levels[inner] + 1:
            for place in range(inner):
                if levels[place] == levels[inner] + 1:
                    bases[path, place] = inner
    return bases


def _check(loops: tuple[_LoopKey, ...], accesses: tuple[_AccessKey, ...]) -> None:
    chains: list[Path] = []
    for index, (name, annotation, parent, depth) in enumerate(loops):
        if annotation not in ANNOTATIONS and annotation != VIRTUAL_THREAD:
            raise FeatureError(
                f"loop {name}: unknown annotation {annotation!r}, expected one of"
                f" {', '.join((*ANNOTATIONS, VIRTUAL_THREAD))}"
            )
        if not -1 <= parent < index:
            raise FeatureError(f"loop {name}: parent {parent} does not come before loop {index}")
        chains.append((*(chains[parent] if parent >= 0 else ()), index))
        if depth != len(chains[index]):
            raise FeatureError(
                f"loop {name}: depth {depth}, but {len(chains[index]) - 1} loops are around it"
            )
    seen: set[str] = set()
    for name, path in accesses:
        if name in seen:
            raise FeatureError(f"two accesses are called {name}; number them over the function")
        seen.add(name)
        if path and not (0 <= path[-1] < len(loops) and path == chains[path[-1]]):
            raise FeatureError(f"access {name}: loops {path} are not the loops around one place")
