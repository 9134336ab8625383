"""Random Tile contractions, and their results by brute force.

The three rules of validity are applied to every point of a window that surely holds all valid index
sets. Nothing here uses `autotune.tile`: a contraction is made as text and as numbers side by side.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

NAMES = "ijkl"
#: Largest absolute value of any valid index, by the number of indices.
WINDOWS = {1: 200, 2: 90, 3: 13, 4: 8}
LARGEST_SIZE = {1: 6, 2: 6, 3: 4, 4: 3}
LARGEST_OFFSET = {1: 3, 2: 3, 3: 2, 4: 1}
COMBINE: dict[str, Any] = {
    "": lambda a: a, "*": lambda a, b: a * b, "+": lambda a, b: a + b,
    "?": lambda a, b, c: c if a == b else 0,
}  # fmt: skip
AGGREGATE: dict[str, Any] = {"+": sum, "*": math.prod, ">": max, "<": min, "=": lambda v: v[0]}


@dataclass(frozen=True)
class Form:
    """A linear polynomial: one coefficient per index, then the constant."""

    coefficients: tuple[Fraction, ...]
    constant: Fraction

    def text(self, rng: random.Random) -> str:
        terms = []
        for name, c in zip(NAMES, self.coefficients, strict=False):
            if not c:
                continue
            top, bottom = abs(c.numerator), c.denominator
            ways = [f"{top} * {name}"] if top != 1 else [name]
            if bottom != 1:
                ways = [f"{ways[0]} / {bottom}", f"{top} / {bottom} * {name}"]
            terms.append(("-" if c < 0 else "+", rng.choice(ways)))
        if self.constant or not terms:
            top, bottom = abs(self.constant.numerator), self.constant.denominator
            number = str(top) if bottom == 1 else f"{top} / {bottom}"
            terms.append(("-" if self.constant < 0 else "+", number))
        rng.shuffle(terms)
        sign, first = terms[0]
        return ("-" if sign == "-" else "") + first + "".join(f" {s} {t}" for s, t in terms[1:])

    def numerators(self, grid: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the value at each point, times the denominator, which comes second."""
        d = math.lcm(self.constant.denominator, *(c.denominator for c in self.coefficients))
        whole = np.array([int(c * d) for c in self.coefficients])
        return whole @ grid + int(self.constant * d), d


@dataclass(frozen=True)
class Case:
    """A contraction as text and as numbers."""

    code: str
    names: str
    shapes: tuple[tuple[int, ...], ...]
    aggregation: str
    combination: str
    output: tuple[Form, ...]
    output_shape: tuple[int, ...]
    reads: tuple[tuple[Form, ...], ...]
    constraints: tuple[tuple[Form, int], ...]

    def forms(self) -> list[Form]:
        reads = itertools.chain(*self.reads)
        return [*self.output, *reads, *(form for form, _ in self.constraints)]

    def is_bounded(self) -> bool:
        """Whether the coefficients have full column rank."""
        rows = [list(form.coefficients) for form in self.forms()]
        return rank(rows) == len(self.names)

    def valid(self) -> np.ndarray:
        """Every valid index set: one row per index, one column per set, in lexicographic order."""
        n = len(self.names)
        around = np.arange(-WINDOWS[n], WINDOWS[n] + 1)
        grid = np.stack([axis.ravel() for axis in np.meshgrid(*[around] * n, indexing="ij")])
        shapes = [self.output_shape, *self.shapes]
        for forms, shape in zip([self.output, *self.reads], shapes, strict=True):
            for form, size in zip(forms, shape, strict=True):
                value, d = form.numerators(grid)
                grid = grid[:, (value >= 0) & (value < d * size) & (value % d == 0)]
        for form, bound in self.constraints:
            value, d = form.numerators(grid)
            grid = grid[:, (value >= 0) & (value < d * bound)]
        assert (np.abs(grid) < WINDOWS[n]).all(), "the window is too small"
        return grid

    def places(self, forms: Sequence[Form], points: np.ndarray) -> list[tuple[int, ...]]:
        """Where some index expressions point, for each index set."""
        columns = [(v // d).tolist() for v, d in (form.numerators(points) for form in forms)]
        return list(zip(*columns, strict=True)) if columns else [()] * points.shape[1]

    def compute(self, arrays: Sequence[np.ndarray], points: np.ndarray) -> np.ndarray:
        """Return what the contraction computes of arrays of int64."""
        read = [
            [int(array[place]) for place in self.places(forms, points)]
            for forms, array in zip(self.reads, arrays, strict=True)
        ]
        written: dict[tuple[int, ...], list[int]] = {}
        for place, *values in zip(self.places(self.output, points), *read, strict=True):
            written.setdefault(place, []).append(COMBINE[self.combination](*values))
        result = np.zeros(self.output_shape, np.int64)
        for place, values in written.items():
            total = AGGREGATE[self.aggregation](values)
            result[place] = (total + 2**63) % 2**64 - 2**63
        return result


def rank(rows: list[list[Fraction]]) -> int:
    """Return the rank of a matrix."""
    found = 0
    while rows and rows[0]:
        pivot = next((row for row in rows if row[0]), None)
        if pivot is not None:
            found += 1
            rows = [
                [a - b * row[0] / pivot[0] for a, b in zip(row, pivot, strict=True)]
                for row in rows
                if row is not pivot
            ]
        rows = [row[1:] for row in rows]
    return found


def random_case(rng: random.Random) -> Case:
    """Return a contraction of up to four indices and three tensors."""
    n = rng.choice([1, 1, 2, 2, 2, 3, 3, 4])
    combination = rng.choice(["", "", "*", "*", "+", "?"])
    ranks = [rng.randint(0, 2) for _ in range({"": 1, "?": 3}.get(combination, 2))]
    output_rank, constraints = rng.randint(0, 2), rng.choice([0, 0, 1, 2])
    slots = output_rank + sum(ranks) + constraints
    if n >= 3 and slots < n:
        constraints += n - slots
        slots = n
    forms = _forms(rng, n, slots)
    largest = LARGEST_SIZE[n]
    shapes = tuple(tuple(rng.randint(1, largest) for _ in range(rank)) for rank in ranks)
    output_shape = tuple(rng.randint(1, largest) for _ in range(output_rank))
    taken = iter(forms)
    output = tuple(itertools.islice(taken, output_rank))
    reads = tuple(tuple(itertools.islice(taken, rank)) for rank in ranks)
    limits = tuple((form, rng.randint(1, largest)) for form in taken)
    names = "".join(NAMES[k] for k in range(n) if any(f.coefficients[k] for f in forms))
    if len(names) < n:
        return random_case(rng)  # an index that nothing mentions is none
    aggregation = rng.choice("+*><=")
    code = _code(rng, aggregation, combination, output, output_shape, reads, shapes, limits)
    return Case(
        code, names, shapes, aggregation, combination, output, output_shape, reads, limits
    )


def _forms(rng: random.Random, n: int, slots: int) -> list[Form]:
    """Return index expressions; from three indices on each index has one of its own."""
    forms = []
    for slot in range(slots):
        coefficients = [Fraction(0)] * n
        if n >= 3 and slot < n:
            coefficients[slot] = rng.choice([Fraction(1)] * 4 + [Fraction(c) for c in (-1, 2)]
                                            + [Fraction(1, 2)])  # fmt: skip
        else:
            for k in rng.sample(range(n), rng.randint(1, min(n, 2))):
                bottom = rng.choice([1, 1, 1, 2])
                coefficients[k] = Fraction(rng.choice([1, 1, 1, 2, 3, -1, -2]), bottom)
        largest = LARGEST_OFFSET[n]
        constant = Fraction(rng.choice([0, 0, rng.randint(-largest, largest)]))
        if rng.random() < 0.05:
            constant += Fraction(1, 2)
        forms.append(Form(tuple(coefficients), constant))
    rng.shuffle(forms)
    return forms


def _code(
    rng: random.Random,
    aggregation: str,
    combination: str,
    output: Iterable[Form],
    output_shape: Sequence[int],
    reads: Iterable[Iterable[Form]],
    shapes: Sequence[Sequence[int]],
    limits: Iterable[tuple[Form, int]],
) -> str:
    dims = {f"N{t}{d}": size for t, shape in enumerate(shapes) for d, size in enumerate(shape)}

    def number(value: int) -> str:
        """Spell a size: as a number, or by a dimension of an input."""
        name = rng.choice(list(dims)) if dims else ""
        if not name or rng.random() < 0.5:
            return str(value)
        rest = value - dims[name]
        return name if rest == 0 else f"{name} {'+' if rest > 0 else '-'} {abs(rest)}"

    inputs = ", ".join(
        f"T{t}[{', '.join(f'N{t}{d}' for d in range(len(shape)))}]"
        for t, shape in enumerate(shapes)
    )
    accesses = [
        f"T{t}[{', '.join(form.text(rng) for form in forms)}]" for t, forms in enumerate(reads)
    ]
    if combination == "?":
        combined = f"{accesses[0]} == {accesses[1]} ? {accesses[2]}"
    else:
        combined = f" {combination} ".join(accesses)
    sizes = f": {', '.join(map(number, output_shape))}" if output_shape else ""
    constraints = "".join(f", {form.text(rng)} < {number(bound)}" for form, bound in limits)
    indices = ", ".join(form.text(rng) for form in output)
    return (
        f"function ({inputs}) -> (O) {{\n"
        f"    O[{indices}{sizes}] = {aggregation}({combined}){constraints};\n}}\n"
    )
