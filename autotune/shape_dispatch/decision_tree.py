"""Learns a rule that picks a kernel by sizes from what shapes lose by each kernel.

A test compares the product of some sizes with a limit. What is learnt is judged by the time that is
lost, not by how often the best kernel is picked: where two kernels are as good as each other, it
does not matter which of them it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from autotune.runtime.cpu.kernel_choice import Pick, Rule, SizeTest, pick
from autotune.shape_dispatch.selection import FloatMatrix

Shape = Mapping[str, int]

# A test must make shapes so much faster, as a sum of logarithms of times.
_LEAST_GAIN = 0.01
_MOST_TESTS = 64

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
        What each shape loses by each kernel, as of `selection.select`.
    limits : sequence of float
        The largest loss of each shape.
    fixed : sequence of mapping of str to int
        For each kernel the sizes that it is made for alone: each is 1. One kernel at least has
        none.
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
        return _tree(shapes, losses, limits, rows, kernels)
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


def _tree(
    shapes: Sequence[Shape],
    losses: FloatMatrix,
    limits: Sequence[float],
    rows: list[int],
    kernels: list[int],
) -> Rule:
    costs = np.log1p(np.minimum(losses[np.ix_(rows, kernels)], _UNUSABLE))
    # To exceed a limit is worse than any sum of losses within theirs.
    over = losses[np.ix_(rows, kernels)] > np.asarray(limits)[rows][:, None] + 1e-9
    costs = costs + np.where(over, 1.0, 0.0)
    names = sorted(shapes[0])
    products = [
        group for size in range(1, len(names) + 1) for group in itertools.combinations(names, size)
    ]
    values = {
        group: np.array([np.prod([float(shapes[row][n]) for n in group]) for row in rows])
        for group in products
    }

    def grow(own: np.ndarray, depth: int) -> Rule:
        totals = costs[own].sum(axis=0)
        alone = Pick(kernels[int(totals.argmin())])
        found = (totals.min() - _LEAST_GAIN, 0, None, 0.0, -1.0)
        if depth >= _MOST_TESTS or costs[own].min(axis=1).sum() >= found[0]:
            return alone
        for number, group in enumerate(products):
            order = own[np.argsort(values[group][own], kind="stable")]
            sorted_values = values[group][order]
            before = np.cumsum(costs[order], axis=0)
            cuts = np.flatnonzero(sorted_values[1:] > sorted_values[:-1])
            for cut in cuts:
                total = before[cut].min() + (before[-1] - before[cut]).min()
                gap = np.log(sorted_values[cut + 1] / sorted_values[cut])
                # Of tests that are as good, the one whose limit is far from all shapes.
                key = (round(float(total), 6), -gap)
                if found[2] is None and total < found[0]:
                    found = (*key, group, _limit(*sorted_values[cut : cut + 2]), number)
                elif found[2] is not None and key < found[:2]:
                    found = (*key, group, _limit(*sorted_values[cut : cut + 2]), number)
        if found[2] is None:
            return alone
        group, limit = found[2], found[3]
        inside = values[group][own] <= limit
        return _joined(
            group, int(limit), grow(own[inside], depth + 1), grow(own[~inside], depth + 1)
        )

    return grow(np.arange(len(rows)), 0)


def _limit(low: float, high: float) -> float:
    """Return a whole number between two products, in the middle of their logarithms."""
    return float(max(low, np.floor(np.sqrt(low * high))))


def left_out_losses(
    shapes: Sequence[Shape],
    losses: FloatMatrix,
    limits: Sequence[float],
    fixed: Sequence[Mapping[str, int]],
) -> list[float]:
    """Return what each shape loses by the rule that is learnt from all others.

    This says how well the rule does on shapes that it never saw. NaN for the only shape.
    """
    found = []
    for row, shape in enumerate(shapes):
        others = [n for n in range(len(shapes)) if n != row]
        if not others:
            return [float("nan")]
        rule = learn(
            [shapes[n] for n in others], losses[others], [limits[n] for n in others], fixed
        )
        found.append(float(losses[row, pick(rule, shape)]))
    return found
