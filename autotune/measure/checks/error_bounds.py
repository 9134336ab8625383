"""Bounds of the rounding error of each output element, estimated from the reference alone.

The sensitivity of an element to its inputs is found by small random changes of them in float64
(small-sample statistical condition estimation: Kenney and Laub, Small-sample statistical condition
estimates for general matrix functions, SIAM J. Sci. Comput. 15, 1994). For a sum of products that
is the root of the sum of their squares. Rounding errors of n terms in any order grow like sqrt(n)
times that (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2, errors taken as
independent).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.ir import dtypes
from autotune.measure.checks.check_inputs import Array
from autotune.measure.checks.reference import Reference, is_floating

SAFETY = 4.0  # Ratio of the allowed error to the expected error.
LARGEST_SHARE = 1 / 8  # Largest allowed error, as a share of the element's own scale.

# Relative change of the inputs; larger for types that are less precise than this.
CHANGE = 2.0**-12

# Sums of up to this many terms are assumed to have all of them, without a call of the reference.
_FEW = 4

# A change of an output is a jump if it is larger than this many times what may come of rounding.
_JUMP = 8

_ROUNDED = 2  # How often the reference computes in the accumulator's type.
_CHUNK = 1 << 15  # Elements that are worked on together; a multiple of `BLOCK`.

# Parts of an output; the elements that depend on some inputs are counted in each.
_GROUPS = 64


@dataclass(frozen=True)
class Allowance:
    """The allowed error of each element of one output."""

    # Absolute errors of the output's shape, float64 if that is its type and float32 otherwise, or
    # one for all; infinite for elements of which nothing can be said (integers that rounding
    # decides).
    errors: Array | float = 0.0
    share: float = 0.0  # Median of errors over the elements' scales; 0 where answers must be equal.

    @property
    def is_tight(self) -> bool:
        """Whether the bounds are tight: few elements may have a large relative error."""
        return self.share <= LARGEST_SHARE


@dataclass(frozen=True)
class Precision:
    """The assumed precision of candidates."""

    accumulator: str  # Float type in which sums are computed.
    # Float type that other intermediate values are rounded to: the accumulator's, or narrower.
    intermediate: str
    # Whether the template says so; otherwise each element is computed from a few inputs alone.
    is_declared: bool
    # Terms of the longest sum, as the owner says; the reference may show that it is shorter.
    terms: int
    # How often inputs are changed at random: twice at least. Where neighbours change together, as
    # in scans, inputs are changed more often.
    samples: int

    @property
    def epsilon(self) -> float:
        """Distance from 1 to the next number of the accumulator."""
        return dtypes.epsilon(self.accumulator)


def allowances(
    reference: Reference,
    inputs: Sequence[Array],
    expected: Sequence[Array],
    types: Sequence[str],
    precision: Precision,
    rng: np.random.Generator,
) -> list[Allowance]:
    """Return the allowed error of each element of each output.

    With y the right answer, s what it changes by, relative to the change of its inputs, and m the
    middle magnitude among its neighbours, an element may be off by ::

        (eps + eps_ref) |y| + SAFETY (eps_acc (sqrt(n) (s + |y|) + m) + d + t)

    eps and t, the least positive number, are those of the output's type, eps_ref of the type that
    the reference returns, and eps_acc of the accumulator; d is by how much the reference itself is
    off when it computes in the accumulator's type, or twice that of the template's own program.
    Where intermediate values are of a narrower type, SAFETY eps_mid (s + |y|) is added, and with m
    if that is declared. All that is at most `LARGEST_SHARE` of the largest of s, |y| and m, and at
    least the smallest numbers of the types. Where the program in its own types is off by more at
    these inputs, SAFETY times that is allowed. Where it compares floats or makes integers of them,
    so that outputs jump at inputs that differ by rounding, the height of the jump is added.

    Where the reference computes in the types of its inputs, d is not known: twice the largest
    magnitude among many neighbours takes the place of m. So what cancels inside of an element has
    room, which its inputs do not show: x (1 + tanh(x)) is next to nothing for x = -5, and off by a
    rounding of -5, in the reference as well.

    expected: what the reference returns for them.
    types: types of the outputs.
    rng: draws the changes.
    """
    study = _SensitivityAnalysis(reference, inputs, expected, types, precision, rng)
    return [study.allowance(number, dtype) for number, dtype in enumerate(types)]


class _SensitivityAnalysis:
    """Measures how the outputs of the reference change with its inputs."""

    def __init__(
        self,
        reference: Reference,
        inputs: Sequence[Array],
        expected: Sequence[Array],
        types: Sequence[str],
        precision: Precision,
        rng: np.random.Generator,
    ) -> None:
        self._reference = reference
        self._inputs = inputs
        self._expected = expected
        self._types = types
        self._precision = precision
        self._rng = rng
        floats = [a.dtype.name for a in inputs if is_floating(a)]
        self._own = max(map(dtypes.epsilon, floats), default=0.0)
        self._moved = [np.zeros(a.shape if is_floating(a) else 0) for a in expected]
        self._off = [np.zeros(a.shape if is_floating(a) else 0) for a in expected]
        self._undecided = [np.zeros(0 if is_floating(a) else a.shape, bool) for a in expected]
        # By how much a program's own types are off at the inputs themselves, and by how much its
        # outputs jump near them.
        self._here = [np.zeros(0) for _ in expected]
        self._jumps = [np.zeros(0) for _ in expected]
        self._samples = precision.samples
        if reference.is_program and reference.takes_wide:
            self._observe_rounding(inputs, expected)
            self._here = [off.copy() for off in self._off]
        if floats and reference.jumps and reference.takes_wide:
            self._observe_jumps()
        if floats:
            self._observe()
        self._terms = self._dependences() if floats else [1 for _ in expected]

    # -- what the reference is asked -------------------------------------------------------

    def _observe(self) -> None:
        """Change all inputs at random, and add up the effects, until scales are known."""
        blocks: list[list[Array]] = [[] for total in self._moved if total.size]
        sample = 0
        while sample < self._samples:
            # A program is asked in its own types, too: its inputs are of these then.
            is_rounded = sample < _ROUNDED
            wide = not (is_rounded and self._reference.is_program)
            change = self._change(wide)
            changed = self._changed(change, wide=wide)
            found = self._reference(changed)
            triples = zip(self._moved, found, self._expected, strict=True)
            floats = [triple for triple in triples if triple[0].size]
            for (total, now, before), known in zip(floats, blocks, strict=True):
                for part in _parts(total.size):
                    with np.errstate(all="ignore"):
                        moved = (_flat(now)[part] - _flat(before)[part]) / change
                        np.hypot(_flat(total)[part], moved, out=_flat(total)[part])
                if sample < 2:
                    known.append(sampled_blocks(now, before))
            if is_rounded:
                self._observe_rounding(changed, found)
                self._observe_ties()
            sample += 1
            if sample == 2:
                self._samples = max([self._samples, *(changes_needed(*pair) for pair in blocks)])

    def _observe_rounding(self, changed: Sequence[Array], precise: Sequence[Array]) -> None:
        """Measure the error of the reference when it computes in the accumulator's type."""
        if not self._reference.takes_wide:
            return
        accumulator = self._precision.accumulator
        narrow, computed = self._reference.narrow(changed, accumulator)
        finer = self._precision.epsilon / dtypes.epsilon(computed)
        for off, now, right, dtype in zip(self._off, narrow, precise, self._types, strict=True):
            # A program rounds its outputs, too: that is allowed for already.
            rounds = self._reference.is_program and dtypes.is_half(dtype)
            rounding = dtypes.epsilon(dtype) / 2 if rounds else 0.0
            for part in _parts(off.size):
                magnitude = np.abs(_flat(now)[part])
                with np.errstate(all="ignore"):
                    error = finer * np.abs(_flat(now)[part] - _flat(right)[part])
                    error = np.maximum(error - rounding * magnitude, 0)
                is_lost = magnitude < least_normal(computed)
                if computed == accumulator:  # else it has not the range
                    is_lost &= np.abs(_flat(right)[part]) < least_normal(computed)
                error[is_lost] = 0
                np.maximum(_flat(off)[part], error, out=_flat(off)[part])
        if computed == accumulator:
            self._mark_undecided(narrow, precise)

    def _observe_ties(self) -> None:
        """Find integers and bools that change as soon as the inputs do, by as much as rounding."""
        if self._reference.takes_wide and self._precision.accumulator != "float64":
            return
        if any(undecided.size for undecided in self._undecided):
            changed = self._changed(8 * self._precision.epsilon)
            self._mark_undecided(self._expected, self._reference(changed))

    def _observe_jumps(self) -> None:
        """Find where outputs jump at changes of the inputs of the size of rounding.

        All inputs change at random, and then the other way.
        """
        change = SAFETY * math.sqrt(self._precision.terms) * self._precision.epsilon
        seed = self._rng.integers(2**32)
        self._jumps = [np.zeros_like(moved) for moved in self._moved]
        for one in (change, -change):
            rng = np.random.default_rng(seed)
            found = self._reference(perturbed_inputs(self._inputs, one, rng, wide=True))
            self._mark_undecided(self._expected, found)
            for jump, now, right in zip(self._jumps, found, self._expected, strict=True):
                for part in _parts(jump.size):
                    with np.errstate(all="ignore"):
                        moved = np.abs(_flat(now)[part] - _flat(right)[part])
                    np.maximum(_flat(jump)[part], moved, out=_flat(jump)[part])

    def _mark_undecided(self, found: Sequence[Array], others: Sequence[Array]) -> None:
        for undecided, now, other in zip(self._undecided, found, others, strict=True):
            if undecided.size:
                undecided |= now != other

    def _changed(self, change: float, density: float = 1.0, wide: bool = True) -> list[Array]:
        wide = wide and self._reference.takes_wide
        return perturbed_inputs(self._inputs, change, self._rng, wide, density)

    def _change(self, wide: bool = True) -> float:
        """Return by which share inputs are changed: by more than their own types round.

        wide: whether they are changed in float64 where the reference takes that.
        """
        return CHANGE if wide and self._reference.takes_wide else max(CHANGE, 4 * self._own)

    def _dependences(self) -> list[int]:
        """Return the number of input elements that each output element depends on, at most `terms`.

        If a share of 1/n of all elements is changed, most outputs change that depend on n or more.
        """
        terms = [1 for _ in self._expected]
        count = self._precision.terms
        while count > _FEW:
            found = self._reference(self._changed(self._change(), 1 / count))
            pairs = list(zip(found, self._expected, strict=True))
            terms = [
                max(known, count if _share_changed(*pair) > 0.3 else 1)
                for known, pair in zip(terms, pairs, strict=True)
            ]
            if min(terms) > 1:
                return terms
            count //= 16
        return [max(known, min(_FEW, self._precision.terms)) for known in terms]

    # -- what follows ----------------------------------------------------------------------

    def allowance(self, number: int, dtype: str) -> Allowance:
        """Return the allowed error of each element of an output."""
        right, undecided = self._expected[number], self._undecided[number]
        if not is_floating(right):
            if not undecided.any():
                return Allowance()
            errors = np.where(undecided, np.float32(np.inf), np.float32(0))
            return Allowance(errors, float(undecided.mean()))
        errors = np.empty(right.shape, np.float64 if dtype == "float64" else np.float32)
        shares = []
        for part in _parts(right.size):
            magnitude = np.abs(_flat(right)[part])
            spread = _flat(self._moved[number])[part] / math.sqrt(self._samples)
            off = _flat(self._off[number])[part]
            allowed, typical = self._allowed(magnitude, spread, off, number, dtype)
            here, jump = (_flat(of[number])[part] for of in (self._here, self._jumps))
            if here.size:
                np.maximum(allowed, SAFETY * here, out=allowed, where=np.isfinite(here))
            if jump.size:
                is_jump = np.isfinite(jump) & (jump > _JUMP * allowed)
                np.add(allowed, jump, out=allowed, where=is_jump)
            _flat(errors)[part] = allowed
            some = typical > 0
            shares.append((allowed[some] / typical[some])[:: max(1, right.size >> 20)])
        share = np.concatenate(shares) if shares else np.zeros(0)
        return Allowance(errors, float(np.median(share)) if share.size else 0.0)

    def _allowed(
        self, magnitude: Array, spread: Array, off: Array, number: int, dtype: str
    ) -> tuple[Array, Array]:
        """Return the allowed errors of some elements, and their typical magnitudes."""
        for values in (magnitude, spread, off):
            values[~np.isfinite(values)] = 0.0
        middle = of_neighbours(magnitude)
        scale = middle if self._reference.takes_wide else 2.0 * largest_nearby(magnitude)
        own = spread
        spread = np.maximum(spread, of_neighbours(spread))
        # One rounding may be small by chance, also where many of the neighbours' are.
        np.maximum(off, of_neighbours(off, 0.9), out=off)
        growth = math.sqrt(self._terms[number])
        summed = self._precision.epsilon * (growth * (spread + magnitude) + scale)
        if self._precision.intermediate != self._precision.accumulator:
            nearby = spread + middle if self._precision.is_declared else own
            summed += dtypes.epsilon(self._precision.intermediate) * (nearby + magnitude)
        rounded = dtypes.epsilon(dtype) + self._reference.own_precision
        # A program has one order of many; in another one more may be rounded.
        off = 2.0 * off if self._reference.is_program else off
        errors = SAFETY * (summed + off + dtypes.least_positive(dtype)) + rounded * magnitude
        typical = np.maximum(magnitude, middle)
        most = np.minimum(LARGEST_SHARE * np.maximum(typical, spread), dtypes.max_value(dtype))
        least = dtypes.least_positive(dtype) + least_normal(self._precision.accumulator)
        return np.maximum(np.minimum(errors, most), least), typical


def least_normal(dtype: str) -> float:
    """Return the smallest normal number of a type; smaller ones have fewer bits, or become 0."""
    return float(2 * (2 - dtypes.epsilon(dtype)) / dtypes.max_value(dtype))


def _flat(array: Array) -> Array:
    """Return a view of all elements of a C-contiguous array."""
    return array.reshape(-1)


def _parts(size: int) -> Iterator[slice]:
    """Yield parts of an array that are small enough for the cache."""
    for begin in range(0, size, _CHUNK):
        yield slice(begin, begin + _CHUNK)


def perturbed_inputs(
    inputs: Sequence[Array],
    change: float,
    rng: np.random.Generator,
    wide: bool,
    density: float = 1.0,
) -> list[Array]:
    """Return inputs with floats changed, up or down by a share of themselves.

    change: that share.
    rng: draws which way.
    wide: whether floats are returned as float64; they keep their type otherwise.
    density: share of the elements that are changed.
    """
    return [
        _perturbed(array, density, change, rng, wide) if is_floating(array) else array
        for array in inputs
    ]


def _perturbed(
    array: Array, density: float, change: float, rng: np.random.Generator, wide: bool
) -> Array:
    values = array.astype(np.float64)
    flat, factors = _flat(values), np.array([1 - change, 1 + change])
    if density == 1:
        for part in _parts(flat.size):
            flat[part] *= factors[rng.integers(0, 2, flat[part].size, np.uint8)]
    elif flat.size:
        which = rng.integers(0, flat.size, rng.binomial(flat.size, density))
        flat[which] *= factors[rng.integers(0, 2, which.size, np.uint8)]
    return values if wide else values.astype(array.dtype)


def is_elementwise(
    reference: Reference,
    inputs: Sequence[Array],
    expected: Sequence[Array],
    rng: np.random.Generator,
) -> bool:
    """Whether most elements of all outputs depend on few elements of the inputs."""
    found = reference(perturbed_inputs(inputs, CHANGE, rng, reference.takes_wide, 1 / 16))
    changed = [_changed(*pair) for pair in zip(found, expected, strict=True)]
    return all(float(part.mean()) < 1 / 4 for part in changed if part.size)


def _share_changed(now: Array, before: Array) -> float:
    """Return the share of elements that changed, in that part of an output where it is largest."""
    changed = _changed(now, before).reshape(-1)
    if not changed.size:
        return 0.0
    parts = np.array_split(changed, min(_GROUPS, max(1, changed.size // BLOCK)))
    return max(float(part.mean()) for part in parts)


def _changed(now: Array, before: Array) -> Array:
    if not is_floating(before):
        return np.asarray(now != before)
    with np.errstate(all="ignore"):
        return np.asarray(np.abs(now - before) > 1e-13 * np.abs(before))


# Number of neighbours whose median replaces an element's own value if that is smaller.
BLOCK = 16

WIDE_BLOCK = 256  # Number of neighbours among which some show how large an element may be.

_ENOUGH = 8
"""Independent changes that the scale of an element is estimated from.

Their root mean square is below a fifteenth of the scale for one element in 10^8. That of 2 changes
is for one in 200, and a scan of 10^7 steps has whole stretches of such elements.
"""

_COMPARED_BLOCKS = 1 << 12  # Most blocks of an output in which changes are compared.


def of_neighbours(values: Array, share: float = 0.5) -> Array:
    """Return for each element of a row a quantile of its block of neighbours, zeros left out.

    `share`: how much of the block is below; by default the median.
    """
    whole = values.size // BLOCK * BLOCK
    found = np.empty_like(values)
    if whole:
        blocks = values[:whole].reshape(-1, BLOCK)
        found[:whole].reshape(-1, BLOCK)[:] = _quantiles(blocks, share)
    if whole < values.size:
        found[whole:] = _quantiles(values[max(0, values.size - BLOCK) :][np.newaxis], share)
    return found


def largest_nearby(values: Array) -> Array:
    """Return for each element of a row the largest of a wide block of neighbours."""
    starts = np.arange(0, values.size, WIDE_BLOCK)
    largest = np.maximum.reduceat(values, starts) if values.size else values
    return np.repeat(largest, WIDE_BLOCK)[: values.size]


def changes_needed(first: Array, second: Array) -> int:
    """Return after how many random changes of the inputs the scale of each element is known.

    The changes of neighbours that depend on the same inputs are proportional: in a scan, all of
    them are small at once. Where neighbours change independently, as in a matrix product, at least
    some of them show the scale. With u and v the first and second changes in a block, each divided
    by the root of u^2 + v^2, the square of their cosine is 1 for neighbours that change together,
    and between 1/(2 r) and 1/r for r independent ones.

    first, second: what `sampled_blocks` returns for an output after two changes of the inputs.
    """
    with np.errstate(all="ignore"):
        size = np.hypot(first, second)
        u, v = (np.nan_to_num(change / size) for change in (first, second))
        cosines = (u * v).sum(axis=1) ** 2 / ((u * u).sum(axis=1) * (v * v).sum(axis=1))
    cosines = cosines[np.isfinite(cosines)]
    if not cosines.size:
        return _ENOUGH
    return math.ceil(_ENOUGH * min(1.0, 2 * float(cosines.mean())))


def sampled_blocks(now: Array, before: Array) -> Array:
    """Return by how much the elements of an output have changed, in some blocks, a row for each."""
    blocks = now.size // BLOCK
    step = max(1, blocks // _COMPARED_BLOCKS)
    new, old = (
        array.reshape(-1)[: blocks * BLOCK].reshape(-1, BLOCK)[::step] for array in (now, before)
    )
    with np.errstate(all="ignore"):
        return np.asarray(new - old)


def _quantiles(blocks: Array, share: float) -> Array:
    """Return a quantile of the numbers above 0 in each row, as a column."""
    ordered, size = np.sort(blocks, axis=1), blocks.shape[1]
    zeros = (ordered == 0).sum(axis=1, keepdims=True)
    place = np.minimum(zeros + (share * (size - zeros)).astype(int), size - 1)
    return np.take_along_axis(ordered, place, axis=1)
