"""Space: the product of knobs, thinned by constraints, addressed by one integer per configuration.

All methods work on arrays of indices and materialise nothing in advance, so a space of 10^12
configurations needs no more memory than its knobs.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt

from search_spaces import nearest
from search_spaces.columns import Codec, LazyColumns
from search_spaces.config import Config
from search_spaces.constraints import CHUNK, FEASIBLE, Constraint, Verdicts, first_violated
from search_spaces.empty_space import explanation
from search_spaces.knob import Column, IntArray, Knob, SpaceError
from search_spaces.rejection_counts import ENUMERABLE as ENUMERABLE
from search_spaces.rejection_counts import SAMPLE, FeasibilityCounts, count_feasible
from search_spaces.sampling import sample_by_trial, sample_pool

# Spaces up to this size are sampled from their feasible configurations, larger ones by trial.
SAMPLE_FROM_ALL = 1 << 20

# Number of feasible configurations to find in a huge space with hardly any.
MAX_CONNECTED = 1 << 12


class Space:
    """All combinations of the knobs' values that obey the constraints.

    An index is a mixed-radix number of knob positions, the first knob most significant. `len`
    counts all combinations, feasible or not.

    Parameters
    ----------
    knobs : iterable of Knob
        At most 2^63 - 1 combinations in all.
    constraints : iterable of Constraint
        Evaluated in order, each only where the earlier ones hold.
    """

    def __init__(self, knobs: Iterable[Knob], constraints: Iterable[Constraint] = ()) -> None:
        self.knobs = tuple(knobs)
        self.constraints = tuple(constraints)
        _check_distinct("knobs", [knob.name for knob in self.knobs])
        _check_distinct("columns", [name for knob in self.knobs for name in knob.column_names])
        _check_distinct("constraints", [constraint.name for constraint in self.constraints])
        self._codec = Codec(self.knobs)
        if self._codec.size >= 2**63:
            raise SpaceError(f"the space has {self._codec.size} configurations; at most 2^63 - 1")

    def __len__(self) -> int:
        return self._codec.size

    def __repr__(self) -> str:
        knobs = ", ".join(f"{knob.name}: {len(knob)}" for knob in self.knobs)
        return f"Space({len(self)} configurations; {knobs})"

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of all columns, knob by knob."""
        return tuple(self._codec.owners)

    @property
    def categories(self) -> dict[str, int]:
        """The columns with positions instead of numbers, and the number of positions of each."""
        return {
            column: len(knob)
            for knob in self.knobs
            if not knob.numeric
            for column in knob.column_names
        }

    # Between indices, positions, values and columns

    def positions(self, indices: npt.ArrayLike) -> IntArray:
        """Knob positions of each index; int64 (n, number of knobs)."""
        where = self._indices(indices)
        out = np.empty((len(self.knobs), len(where)), dtype=np.int64)
        for k in range(len(self.knobs)):
            out[k] = self._codec.digit(where, k)
        return out.T

    def indices_of(self, positions: npt.ArrayLike) -> IntArray:
        """Encode knob positions, integers (n, number of knobs), into indices int64 (n,)."""
        rows = np.asarray(positions)
        radices = self._codec.radices
        whole = rows.dtype.kind in "iu" or not rows.size
        if rows.ndim != 2 or rows.shape[1] != len(radices) or not whole:
            raise SpaceError(
                f"positions must be integers of shape (n, {len(radices)}), "
                f"not {rows.dtype} of shape {rows.shape}"
            )
        if rows.size and bool(np.any((rows < 0) | (rows >= radices))):
            raise SpaceError(f"positions must lie in 0 to {radices} (exclusive), knob by knob")
        strides = np.array(self._codec.strides, dtype=np.int64)
        return np.asarray(rows.astype(np.int64) @ strides, dtype=np.int64)

    def config(self, i: int) -> Config:
        """Return the configuration of index `i`; SpaceError if there is none."""
        index = self._index(i)
        pairs = zip(self.knobs, self._codec.digits(index), strict=True)
        return Config(index, {knob.name: knob.value(position) for knob, position in pairs})

    def index_of(self, values: Mapping[str, object]) -> int:
        """Index of named values; lists stand for tuples.

        SpaceError if a knob is missing, unknown, or does not take its value.
        """
        names = [knob.name for knob in self.knobs]
        missing = [name for name in names if name not in values]
        unknown = [str(name) for name in values if name not in names]
        if missing or unknown:
            said = [f"no value for {', '.join(missing)}"] if missing else []
            said += [f"no knob named {', '.join(unknown)}"] if unknown else []
            raise SpaceError(f"{'; '.join(said)}; the knobs are {', '.join(names)}")
        digits = [knob.index_of(values[knob.name]) for knob in self.knobs]
        return sum(d * s for d, s in zip(digits, self._codec.strides, strict=True))

    def columns(
        self, indices: npt.ArrayLike, names: Iterable[str] | None = None
    ) -> dict[str, Column]:
        """Decode indices (n,) into columns, int64 or float64 (n,); all of them, or those named."""
        lazy = LazyColumns(self._codec, self._indices(indices))
        wanted = self.column_names if names is None else tuple(names)
        for name in wanted:
            if name not in lazy:
                known = ", ".join(self.column_names)
                raise SpaceError(f"there is no column {name!r}; the columns are {known}")
        return {name: lazy[name] for name in wanted}

    # Feasibility

    def feasible(self, indices: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether each index obeys all constraints; bool (n,)."""
        return np.equal(self._verdicts(self._indices(indices)), FEASIBLE)

    def tally(self, most: int = ENUMERABLE, sample: int = SAMPLE) -> FeasibilityCounts:
        """Count the rejections of each constraint, as the first and in all; see `rejection_counts`.

        Exact if no knobs that constraints tie together have more than `most` configurations; else
        the counts are of `sample` configurations, always the same ones.
        """
        return count_feasible(self._codec, self.constraints, most, sample)

    def feasible_indices(self, limit: int = ENUMERABLE) -> IntArray:
        """All feasible indices, ascending, int64; evaluated once, read-only.

        SpaceError if the space has more than `limit` configurations.
        """
        self._check_enumerable(limit)
        return self._whole

    def _verdicts(self, indices: IntArray) -> Verdicts:
        return first_violated(self.constraints, self._codec, indices)

    @cached_property
    def _whole(self) -> IntArray:
        """Feasible indices of the whole space."""
        found = [np.zeros(0, dtype=np.int64)]
        for start in range(0, len(self), CHUNK):
            indices = np.arange(start, min(start + CHUNK, len(self)), dtype=np.int64)
            found.append(indices[self._verdicts(indices) == FEASIBLE])
        feasible = np.concatenate(found)
        feasible.setflags(write=False)
        return feasible

    # Search

    def sample(self, n: int, rng: np.random.Generator, exclude: Iterable[int] = ()) -> IntArray:
        """Draw `n` different feasible indices at random, none of them in `exclude`; int64.

        There are fewer if the space has no more. If the space is too large to be evaluated whole,
        and four million draws in a row find none, they are drawn from the configurations that can
        be reached from the default by legal steps of one knob. The result depends only on the
        arguments and on the state of `rng`.
        """
        if n < 0:
            raise SpaceError(f"cannot sample {n} configurations; the number must be 0 or more")
        excluded = np.fromiter(exclude, dtype=np.int64)
        if len(self) <= SAMPLE_FROM_ALL:
            return sample_pool(self.feasible_indices(), n, rng, excluded)
        if "_connected" in self.__dict__:  # an earlier call has found that few are feasible
            return sample_pool(self._connected, n, rng, excluded)
        found = sample_by_trial(len(self), self.feasible, n, rng, excluded)
        if len(found) < n:
            excluded = np.concatenate([excluded, found])
            pool = self.feasible_indices() if len(self) <= ENUMERABLE else self._connected
            found = np.concatenate([found, sample_pool(pool, n - len(found), rng, excluded)])
        return found

    @cached_property
    def _connected(self) -> IntArray:
        """Feasible indices that are connected to the default by single steps, up to a limit."""
        try:
            reached = {self.default_index: None}
        except SpaceError:
            return np.zeros(0, dtype=np.int64)
        waiting = list(reached)
        for index in waiting:
            if len(reached) >= MAX_CONNECTED:
                break
            for other in self.neighbors(index).tolist():
                if other not in reached:
                    reached[other] = None
                    waiting.append(other)
        return np.sort(np.fromiter(reached, dtype=np.int64))

    def neighbors(self, i: int) -> IntArray:
        """Feasible indices that differ from `i` by one step of one knob, knob by knob; int64."""
        index = self._index(i)
        moved = [
            index + (there - here) * stride
            for knob, here, stride in zip(
                self.knobs, self._codec.digits(index), self._codec.strides, strict=True
            )
            for there in knob.neighbors(here)
        ]
        indices = np.array(moved, dtype=np.int64)
        return indices[self.feasible(indices)]

    def broken(self, i: int) -> Constraint | None:
        """Return the first constraint that index `i` breaks; None if it is feasible."""
        (verdict,) = self._verdicts(np.array([self._index(i)]))
        return None if verdict == FEASIBLE else self.constraints[verdict]

    def by_distance(self, i: int, farthest: int | None = None) -> Iterator[int]:
        """Yield feasible indices in order of knob steps from `i`, `i` first; smaller ones first.

        It ends after `farthest` steps, if given, and at a shell of more than a million
        configurations.
        """
        index = self._index(i)
        shells = itertools.islice(nearest.shells(self._codec, index), farthest)
        for shell in itertools.chain([np.array([index])], shells):
            yield from map(int, shell[self.feasible(shell)])

    def nearest_feasible(self, i: int) -> int | None:
        """Feasible index with the fewest knob steps from `i` (`i` itself if it is feasible).

        The smallest index wins a tie. None if nothing is feasible. In a space of more than a
        million configurations the search stops at a shell of a million; beyond, it takes the
        nearest of a fixed sample, and None means that none was found.
        """
        index = self._index(i)
        if self.feasible([index])[0]:
            return index
        if len(self) > SAMPLE_FROM_ALL:
            for shell in nearest.shells(self._codec, index):
                found = shell[self.feasible(shell)]
                if len(found):
                    return int(found[0])
        if len(self) > ENUMERABLE:
            rng, none = np.random.default_rng(0), np.zeros(0, dtype=np.int64)
            pool = np.sort(sample_by_trial(len(self), self.feasible, 1024, rng, none))
        else:
            pool = self.feasible_indices()
        steps = nearest.steps_to(self._codec, index, pool)
        return int(pool[np.argmin(steps)]) if len(pool) else None

    @property
    def _defaults(self) -> int:
        digits = [knob.default for knob in self.knobs]
        return sum(d * s for d, s in zip(digits, self._codec.strides, strict=True))

    @cached_property
    def default_index(self) -> int:
        """Index of the knobs' defaults, or the feasible one nearest to it.

        SpaceError, with the reasons, if nothing is feasible.
        """
        found = self.nearest_feasible(self._defaults)
        if found is None:
            raise SpaceError(self.explain_empty())
        return found

    def explain_empty(self) -> str:
        """Return one line saying which rules reject how many configurations.

        If they reject all it names the one that comes nearest: it breaks the fewest rules, and
        among those it is the fewest steps from the knobs' defaults. A space that is too large to
        count is judged by a fixed sample.
        """
        return explanation(self._codec, self.constraints, self.tally(), self._defaults)

    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify the knobs and the constraints' names.

        The same in every process; indices mean the same in spaces of the same fingerprint.
        """
        spec = {
            "knobs": [knob.spec() for knob in self.knobs],
            "constraints": [constraint.name for constraint in self.constraints],
        }
        text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    # Checks

    def _index(self, i: int) -> int:
        return int(self._indices([i])[0])

    def _indices(self, indices: npt.ArrayLike) -> IntArray:
        given = np.asarray(indices)
        if given.dtype == object and all(isinstance(index, int) for index in given):
            wrong = max(given, key=abs)  # too large for NumPy's integers
            raise SpaceError(f"index {wrong} is outside the space, 0 to {len(self) - 1}")
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise SpaceError(
                f"indices must be a one-dimensional array of integers, "
                f"not {given.dtype} of shape {given.shape}"
            )
        if given.size and not 0 <= int(given.min()) <= int(given.max()) < len(self):
            wrong = int(given.min()) if given.min() < 0 else int(given.max())
            raise SpaceError(f"index {wrong} is outside the space, 0 to {len(self) - 1}")
        return given.astype(np.int64, copy=False)

    def _check_enumerable(self, limit: int) -> None:
        if len(self) > limit:
            raise SpaceError(
                f"the space has {len(self)} configurations, too many to evaluate each "
                f"(limit {limit}); use sample()"
            )


def _check_distinct(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SpaceError(f"two {what} are named {name!r}; names must differ")
        seen.add(name)
