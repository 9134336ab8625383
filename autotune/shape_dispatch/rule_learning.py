"""Learns a rule that picks a kernel by sizes from what shapes lose by each kernel.

A test compares the product of some sizes with a limit. What is learnt is judged by the time that is
lost, not by how often the best kernel is picked: if two kernels are equally fast for a shape,
either may be picked.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from autotune.runtime.cpu.dispatch_rule import Pick, Rule, SizeTest, pick
from autotune.shape_dispatch.selection import FloatMatrix, costs_of

Shape = Mapping[str, int]

# A test must make shapes so much faster, as a sum of logarithms of times.
_LEAST_GAIN = 0.1
_ROUNDING = 1e-9

# Shapes in the middle of which, and of a shape, kernels are timed.
_NEAREST = 2

# What a kernel counts as where it cannot be used.
_UNUSABLE = 1e6


def learn(
    shapes: Sequence[Shape],
    losses: FloatMatrix,
    limits: Sequence[float],
    fixed: Sequence[Mapping[str, int]],
) -> Rule:
    """Return a rule by which every shape keeps its limit, if some kernel does.

    Parameters
    ----------
    shapes : sequence of mapping of str to int
        The sizes of each shape; all have the same names.
    losses : ndarray of float64, shape (n, kernels)
        The loss of each shape with each kernel, see `selection.select`.
    limits : sequence of float
        The largest loss of each shape.
    fixed : sequence of mapping of str to int
        For each kernel the sizes that it is specialised for, which are all 1. At least one kernel
        has none.
    """
    rows = list(range(len(shapes)))
    kernels = list(range(losses.shape[1]))
    return _by_ones(shapes, losses, limits, fixed, rows, kernels, sorted(shapes[0]))


def _by_ones(
    shapes: Sequence[Shape],
    losses: FloatMatrix,
    limits: Sequence[float],
    fixed: Sequence[Mapping[str, int]],
    rows: list[int],
    kernels: list[int],
    names: list[str],
) -> Rule:
    """Test first whether sizes are 1 that some kernels are made for; then learn the rest."""
    name = next((n for n in names if any(n in fixed[kernel] for kernel in kernels)), None)
    if name is None:
        return _Tree(shapes, losses, limits, rows, kernels).grow(np.arange(len(rows)))
    left = [n for n in names if n != name]
    ones = [row for row in rows if shapes[row][name] == 1]
    larger = [row for row in rows if shapes[row][name] != 1]
    others = [kernel for kernel in kernels if name not in fixed[kernel]]
    own = kernels if ones else others
    at_most = _by_ones(shapes, losses, limits, fixed, ones or rows, own, left)
    above = _by_ones(shapes, losses, limits, fixed, larger or rows, others, left)
    return _joined((name,), 1, at_most, above)


def _joined(sizes: tuple[str, ...], limit: int, at_most: Rule, above: Rule) -> Rule:
    return at_most if at_most == above else SizeTest(sizes, limit, at_most, above)


class _Tree:
    """Grows the rule for some shapes from its first test on.

    `rows`: the shapes, of those given.
    `kernels`: the kernels that work for all of them.
    """

    def __init__(
        self,
        shapes: Sequence[Shape],
        losses: FloatMatrix,
        limits: Sequence[float],
        rows: list[int],
        kernels: list[int],
    ) -> None:
        own = losses[np.ix_(rows, kernels)]
        self._kernels = kernels
        most = np.asarray(limits)[rows]
        self._exceeds = own > most[:, None] + _ROUNDING
        self._costs = costs_of(np.minimum(own, _UNUSABLE), most)
        names = sorted(shapes[0])
        self._products = {
            group: np.array([math.prod(float(shapes[row][n]) for n in group) for row in rows])
            for size in range(1, len(names) + 1)
            for group in itertools.combinations(names, size)
        }

    def grow(self, own: npt.NDArray[np.int64]) -> Rule:
        """Return the rule for some of the shapes."""
        totals = self._costs[own].sum(axis=0)
        best = int(totals.argmin())
        alone = Pick(self._kernels[best])
        test = self._test(own)
        if test is None:
            return alone
        total, group, limit = test
        if total > totals[best] - _LEAST_GAIN and not self._must_split(own, best):
            return alone
        inside = self._products[group][own] <= limit
        return _joined(group, limit, self.grow(own[inside]), self.grow(own[~inside]))

    def _must_split(self, own: npt.NDArray[np.int64], kernel: int) -> bool:
        """Whether a shape exceeds its limit by a kernel and keeps it by another one."""
        exceeds = self._exceeds[own]
        return bool((exceeds[:, kernel] & ~exceeds.all(axis=1)).any())

    def _test(self, own: npt.NDArray[np.int64]) -> tuple[float, tuple[str, ...], int] | None:
        """Return the test by which least is lost: that loss, the sizes and the limit.

        Of tests that are as good it is the one whose limit is the farthest from all shapes.
        """
        best: tuple[float, float, tuple[str, ...], int] | None = None
        for group, products in self._products.items():
            order = own[np.argsort(products[own], kind="stable")]
            sizes, costs = products[order], np.cumsum(self._costs[order], axis=0)
            for cut in np.flatnonzero(sizes[1:] > sizes[:-1]).tolist():
                total = costs[cut].min() + (costs[-1] - costs[cut]).min()
                low, high = sizes[cut], sizes[cut + 1]
                found = (round(float(total), 6), float(low / high), group, _limit(low, high))
                best = found if best is None else min(best, found)
        return None if best is None else (best[0], best[2], best[3])


def _limit(low: float, high: float) -> int:
    """Return a whole number between two products, in the middle of their logarithms."""
    return int(max(low, math.floor(math.sqrt(low * high))))


def left_out_losses(
    shapes: Sequence[Shape],
    losses: FloatMatrix,
    limits: Sequence[float],
    fixed: Sequence[Mapping[str, int]],
    parents: Sequence[Collection[int]],
) -> list[float]:
    """Return what each shape that was tuned loses by the rule that is learnt without it.

    This says how well the rule does on shapes that it never saw.

    `parents`: for each shape the shapes that it was made from, by their numbers; none for one that
        was tuned. What was made from a shape is left out with it.
    """
    found = []
    for row, shape in enumerate(shapes):
        if parents[row]:
            continue
        others = [n for n in range(len(shapes)) if n != row and row not in parents[n]]
        if not others:
            found.append(math.nan)
            continue
        rule = learn(
            [shapes[n] for n in others], losses[others], [limits[n] for n in others], fixed
        )
        found.append(float(losses[row, pick(rule, shape)]))
    return found


def shapes_between(shapes: Sequence[Shape]) -> list[tuple[Shape, tuple[int, int]]]:
    """Return shapes in the middle of each shape and its nearest ones, with the two numbers.

    Distances are those of logarithms of sizes. Only shapes count that have a size of 1 where the
    other has one. The rule learns from these shapes, too, which cost no tuning.

    Each middle comes twice, the second time with the nearest powers of two. Rows of such lengths
    lie in few sets of the caches, where a kernel may lose that is good for all sizes around.
    """
    found: dict[tuple[int, ...], tuple[Shape, tuple[int, int]]] = {}
    known = {tuple(shape.values()) for shape in shapes}
    for row, shape in enumerate(shapes):
        near = sorted(
            (math.dist(_logarithms(shape), _logarithms(other)), n)
            for n, other in enumerate(shapes)
            if n != row and all((size == 1) == (other[k] == 1) for k, size in shape.items())
        )
        for _, n in near[:_NEAREST]:
            mean = {k: math.sqrt(size * shapes[n][k]) for k, size in shape.items()}
            rounded = {k: round(size) for k, size in mean.items()}
            powers = {k: 1 << round(math.log2(size)) for k, size in mean.items()}
            for middle in (rounded, powers):
                key = tuple(middle.values())
                if key not in known:
                    found.setdefault(key, (middle, (row, n)))
    return list(found.values())


def _logarithms(shape: Shape) -> list[float]:
    return [math.log(size) for size in shape.values()]
