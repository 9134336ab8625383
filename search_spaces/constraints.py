"""Constraints: named rules that say, for whole columns at once, what may be built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from search_spaces.errors import SpaceError


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
        What the rule means, for people.
    """

    name: str
    predicate: Callable[[Mapping[str, npt.NDArray[Any]]], Any]
    message: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SpaceError(f"a constraint's name must be a non-empty string, not {self.name!r}")

    def holds(self, columns: Mapping[str, npt.NDArray[Any]], n: int) -> npt.NDArray[np.bool_]:
        """Evaluate on `n` configurations; bool (n,).

        Raises
        ------
        SpaceError
            If the predicate reads a column that does not exist, or returns anything but bools.
        """
        try:
            verdict = np.asarray(self.predicate(columns))
        except KeyError as error:
            name = error.args[0] if error.args else None
            if name in columns:
                raise
            raise SpaceError(
                f"constraint {self.name!r} reads column {name!r}; "
                f"the columns are {', '.join(columns)}"
            ) from error
        if verdict.dtype != np.bool_ or verdict.shape not in ((), (n,)):
            raise SpaceError(
                f"constraint {self.name!r} must return {n} bools, "
                f"not {verdict.dtype} of shape {verdict.shape}"
            )
        return np.broadcast_to(verdict, (n,))
