"""Curve features: relations between numbers of a loop nest, sampled at fixed points.

Their number and meaning do not depend on shapes, loops or operators, so a model can be used for
other operators than it was trained on. The definitions are our own; docs/features.md has the
formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from features.loop_nest import ANNOTATIONS, VIRTUAL_THREAD, FeatureError, LoopNest, Number
from features.numbers import signed_log2

_Array = npt.NDArray[np.float64]
_Value = float | _Array
_Place = np.intp | npt.NDArray[np.intp]

POINTS = 20  # Samples per relation.


@dataclass(frozen=True, slots=True)
class Relation:
    """One curve: y as a function of a bound t on x."""

    #: The bounded quantity, and the sampled quantity.
    x: str
    y: str
    #: The points are ``first * ratio**k`` for k = 0 ... 19.
    first: int
    ratio: int
    #: Unit of y.
    unit: str
    #: Meaning of the value at a point, with `{t}` for the point.
    meaning: str

    @property
    def points(self) -> tuple[int, ...]:
        """The bounds t, ascending."""
        return tuple(self.first * self.ratio**k for k in range(POINTS))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns: ``x/y/t``."""
        return tuple(f"{self.x}/{self.y}/{point}" for point in self.points)


_BYTES, _FAR = (256, 2), (1, 4)
_TOUCH = "among accesses in loops that touch at most {t}"

BYTES_REUSE = Relation("bytes", "reuse", *_BYTES, "1", f"largest reuse {_TOUCH} bytes of them")
BYTES_TOPDOWN = Relation(
    "bytes", "topdown", *_BYTES, "iterations", f"largest topdown {_TOUCH} bytes of them"
)
BYTES_TRAFFIC = Relation(
    "bytes", "traffic", *_BYTES, "bytes", "bytes moved if each access may keep {t} bytes near"
)
FOOTPRINT_INTENSITY = Relation(
    "footprint", "intensity", *_BYTES, "operations/byte",
    "most float operations per byte of a loop whose accesses touch at most {t} bytes together",
)  # fmt: skip
COUNT_REUSE = Relation("count", "reuse", *_FAR, "1", f"largest reuse {_TOUCH} elements of them")
COUNT_TOPDOWN = Relation(
    "count", "topdown", *_FAR, "iterations", f"largest topdown {_TOUCH} elements of them"
)
TOPDOWN_REUSE = Relation(
    "topdown", "reuse", *_FAR, "1", "largest reuse in a loop with a topdown of at most {t}"
)
STRIDE_ACCESSES = Relation(
    "stride", "accesses", 1, 2, "accesses",
    "accesses made {t} bytes or less apart by successive iterations of their innermost loop",
)  # fmt: skip
RELATIONS = (
    BYTES_REUSE,
    BYTES_TOPDOWN,
    BYTES_TRAFFIC,
    FOOTPRINT_INTENSITY,
    COUNT_REUSE,
    COUNT_TOPDOWN,
    TOPDOWN_REUSE,
    STRIDE_ACCESSES,
)

KINDS = (*ANNOTATIONS, VIRTUAL_THREAD)

# Names of all columns, in order.
CURVE_NAMES = (
    *(name for relation in RELATIONS for name in relation.names),
    *(f"length/{kind}" for kind in KINDS),
)


def curve_matrix(nest: LoopNest, n: int = 1, take_log: bool = False) -> _Array:
    """Return the curve features of `n` candidates as a float64 matrix (n, len(CURVE_NAMES)).

    Each row equals the result for the nest of that candidate alone, bit for bit. If a loop's length
    is not known before the call, every product with it is unknown; unknown values are left out of
    the curves.

    nest: numbers are scalars or float64 arrays (n,).
    n: number of candidates.
    take_log: apply `signed_log2` to every column.

    FeatureError if an array of the nest does not have the shape (n,).
    """
    out = np.empty((len(CURVE_NAMES), n))
    loops = _Loops(nest, n)
    curves = _curves(nest, loops, n)
    for k, relation in enumerate(RELATIONS):
        out[k * POINTS : (k + 1) * POINTS] = curves[relation]
    for row, kind in zip(out[len(RELATIONS) * POINTS :], KINDS, strict=True):
        row[:] = loops.largest(kind)
    if take_log:
        for row in out:
            row[:] = signed_log2(row)
    return out.T


def describe_curve(name: str) -> tuple[str, str]:
    """Return the meaning and the unit of a column; FeatureError if there is none of that name."""
    x, _, rest = name.partition("/")
    if name not in CURVE_NAMES:
        raise FeatureError(f"there is no curve column {name!r}")
    if x == "length":
        return (
            f"largest product of the lengths of nested loops annotated {rest}, 0 if there is none",
            "iterations",
        )
    y, _, point = rest.partition("/")
    relation = next(r for r in RELATIONS if (r.x, r.y) == (x, y))
    return relation.meaning.format(t=point), relation.unit


class _Loops:
    """Products of the lengths of loops; NaN where a length is unknown."""

    def __init__(self, nest: LoopNest, n: int) -> None:
        self._nest = nest
        self._n = n
        self.lengths = [_known(self.number(loop.length)) for loop in nest.loops]
        self.topdown: list[_Value] = []
        self.entries: list[_Value] = []
        for loop, length in zip(nest.loops, self.lengths, strict=True):
            self.entries.append(1.0 if loop.parent < 0 else self.topdown[loop.parent])
            self.topdown.append(self.entries[-1] * length)

    def number(self, number: Number) -> _Value:
        """Return a number of the nest as float64; FeatureError for an array of another shape."""
        if not isinstance(number, np.ndarray):
            return float(number)
        if number.shape != (self._n,):
            raise FeatureError(
                f"a loop nest holds an array of shape {number.shape}, expected ({self._n},)"
            )
        return number

    def work(self) -> list[_Value]:
        """Return the float operations of one whole run of each loop."""
        once: list[_Value] = []
        for loop in self._nest.loops:
            counts = (self.number(loop.add), self.number(loop.mul), self.number(loop.div))
            once.append(counts[0] + counts[1] + counts[2])
        work = once.copy()  # of one iteration, then of them all: inner loops come after outer ones
        for row in reversed(range(len(work))):
            work[row] = work[row] * self.lengths[row]
            parent = self._nest.loops[row].parent
            if parent >= 0:
                work[parent] = work[parent] + work[row]
        return work

    def largest(self, kind: str) -> _Value:
        """Return the largest product of the lengths of loops of a kind around one another."""
        products: list[_Value] = []
        largest: _Value = 0.0
        for loop, length in zip(self._nest.loops, self.lengths, strict=True):
            outer = 1.0 if loop.parent < 0 else products[loop.parent]
            products.append(outer * length if loop.annotation == kind else outer)
            if loop.annotation == kind:
                largest = np.fmax(largest, products[-1])
        return largest


def _curves(nest: LoopNest, loops: _Loops, n: int) -> dict[Relation, _Array]:
    curves = {relation: _Curve(relation, n) for relation in RELATIONS}
    footprints: list[_Value] = [0.0] * len(nest.loops)
    traffic = np.zeros((POINTS, n))
    for access in nest.accesses:
        count: _Value = 1.0
        reuse: _Value = 1.0
        innermost = access.loops[-1] if access.loops else -1
        executions = loops.topdown[innermost] if access.loops else 1.0
        moved = _Curve(BYTES_TRAFFIC, n, start=np.inf)
        moved.lower(0, executions * access.itemsize)
        for row, stride in zip(reversed(access.loops), reversed(access.strides), strict=True):
            step, length = loops.number(stride), loops.lengths[row]
            if row == innermost:
                apart = np.abs(step) * access.itemsize
                curves[STRIDE_ACCESSES].add(apart, executions)
            count = count * np.where(step != 0, length, 1.0)
            reuse = reuse * np.where(step != 0, 1.0, length)
            touched = count * access.itemsize
            near, few = _place(BYTES_REUSE, touched), _place(COUNT_REUSE, count)
            curves[BYTES_REUSE].lift(near, reuse)
            curves[BYTES_TOPDOWN].lift(near, loops.topdown[row])
            curves[COUNT_REUSE].lift(few, reuse)
            curves[COUNT_TOPDOWN].lift(few, loops.topdown[row])
            curves[TOPDOWN_REUSE].lift(_place(TOPDOWN_REUSE, loops.topdown[row]), reuse)
            moved.lower(near, loops.entries[row] * touched)
            footprints[row] = footprints[row] + touched
        fewest = np.minimum.accumulate(moved.steps[:POINTS], axis=0)
        traffic += np.where(np.isinf(fewest), 0.0, fewest)
    for work, footprint in zip(loops.work(), footprints, strict=True):
        intensity = np.where(np.equal(footprint, 0), 0.0, work / np.fmax(footprint, 1.0))
        place = _place(FOOTPRINT_INTENSITY, footprint)
        curves[FOOTPRINT_INTENSITY].lift(place, intensity)
    found = {r: np.maximum.accumulate(c.steps[:POINTS], axis=0) for r, c in curves.items()}
    found[BYTES_TRAFFIC] = traffic
    found[STRIDE_ACCESSES] = np.add.accumulate(curves[STRIDE_ACCESSES].steps[:POINTS], axis=0)
    return found


class _Curve:
    """The contribution of each point: row k belongs to the k-th point, the last row to none."""

    def __init__(self, relation: Relation, n: int, start: float = 0.0) -> None:
        self._relation = relation
        self._candidates = np.arange(n)
        self.steps = np.full((POINTS + 1, n), start)

    def lift(self, place: _Place, y: _Value) -> None:
        """Raise the curve to y from a place on, unless y is unknown."""
        where = self._where(place)
        self.steps[where] = np.fmax(self.steps[where], y)

    def lower(self, place: _Place | int, y: _Value) -> None:
        """Lower the curve to y from a place on, unless y is unknown."""
        where = self._where(place)
        self.steps[where] = np.fmin(self.steps[where], y)

    def add(self, x: _Value, y: _Value) -> None:
        """Add y to the curve from x on, unless y is unknown."""
        self.steps[self._where(_place(self._relation, x))] += np.nan_to_num(y, nan=0.0)

    def _where(self, place: _Place | int) -> tuple[_Place | int, slice | npt.NDArray[np.intp]]:
        return place, self._candidates if np.ndim(place) else slice(None)


def _place(relation: Relation, x: _Value) -> _Place:
    """Return the first point that x does not exceed, `POINTS` if there is none or x is unknown."""
    return np.searchsorted(np.array(relation.points, np.float64), x)


def _known(length: _Value) -> _Value:
    """Return a length; NaN if it is known only at the call."""
    return np.where(np.less(length, 0), np.nan, length)
