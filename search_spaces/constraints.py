"""Constraints: named rules for feasible configurations, evaluated on whole columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from search_spaces.columns import Codec, LazyColumns, UnknownColumnError
from search_spaces.knob import IntArray, SpaceError

Verdicts = npt.NDArray[np.int16]

FEASIBLE = -1  # Verdict on an index that breaks no constraint.
CHUNK = 1 << 15  # Configurations evaluated at a time; their columns stay in the cache.


@dataclass(frozen=True)
class Constraint:
    """A rule every feasible configuration obeys.

    Parameters
    ----------
    name : str
        Short name; rejections are counted under it.
    predicate : callable
        Takes the columns, a mapping from column name to int64 or float64 array (n,), and returns
        a bool array (n,) (or one bool for all), True where the rule holds. It is evaluated only
        where all earlier constraints of the space hold. Columns are decoded when first read.
    message : str
        An explanation of the rule for users.
    reads : collection of str, optional
        The columns that it reads, if they are known.
    detail : callable, optional
        Takes the columns of one configuration that breaks the rule and returns by how much.
    miss : callable, optional
        Takes the columns of n configurations that break the rule, and n, and returns by what share
        of its limit each misses, float64 (n,).
    """

    name: str
    predicate: Callable[[Mapping[str, npt.NDArray[Any]]], Any]
    message: str = ""
    reads: Collection[str] | None = None
    detail: Callable[[Mapping[str, npt.NDArray[Any]]], str] | None = None
    miss: Callable[[Mapping[str, npt.NDArray[Any]], int], npt.NDArray[np.float64]] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SpaceError(f"a constraint's name must be a non-empty string, not {self.name!r}")

    def holds(self, columns: Mapping[str, npt.NDArray[Any]], n: int) -> npt.NDArray[np.bool_]:
        """Evaluate on `n` configurations; bool (n,).

        SpaceError if the predicate fails, reads a column that does not exist, or returns anything
        but bools.
        """
        try:
            verdict = np.asarray(self.predicate(columns))
        except UnknownColumnError as error:
            raise SpaceError(
                f"constraint {self.name!r} reads column {error}; "
                f"the columns are {', '.join(columns)}"
            ) from error
        except Exception as error:
            raise SpaceError(
                f"constraint {self.name!r} failed: {type(error).__name__}: {error}"
            ) from error
        if verdict.dtype != np.bool_ or verdict.shape not in ((), (n,)):
            raise SpaceError(
                f"constraint {self.name!r} must return {n} bools, "
                f"not {verdict.dtype} of shape {verdict.shape}"
            )
        return np.broadcast_to(verdict, (n,))


def first_violated(constraints: Sequence[Constraint], codec: Codec, indices: IntArray) -> Verdicts:
    """Return, for each index, the number of the first constraint it breaks, or -1; int16 (n,)."""
    verdicts = np.full(len(indices), FEASIBLE, dtype=np.int16)
    for start in range(0, len(indices) if constraints else 0, CHUNK):
        columns = LazyColumns(codec, indices[start : start + CHUNK])
        alive = np.arange(start, min(start + CHUNK, len(indices)))
        for number, constraint in enumerate(constraints):
            holds = constraint.holds(columns, len(alive))
            if holds.all():
                continue
            verdicts[alive[~holds]] = number
            alive = alive[holds]
            if not alive.size:
                break
            columns = columns.rows(holds)
    return verdicts


def evaluated(
    constraints: Sequence[Constraint], columns: LazyColumns, n: int
) -> Iterator[tuple[npt.NDArray[np.bool_], bool]]:
    """Yield, for each constraint, where it holds, bool (n,), and whether all rows are evaluated.

    If a constraint fails on rows that break earlier ones, it is evaluated only on the others, and
    counts as true on the failing rows.
    """
    alive = np.ones(n, dtype=np.bool_)
    for constraint in constraints:
        try:
            holds, everywhere = constraint.holds(columns, n), True
        except SpaceError:
            if alive.all():
                raise
            holds, everywhere = np.ones(n, dtype=np.bool_), False
            if alive.any():
                rows = columns.rows(alive)
                holds[alive] = constraint.holds(rows, int(np.count_nonzero(alive)))
        alive = alive & holds
        yield holds, everywhere
