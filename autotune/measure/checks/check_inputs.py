"""Inputs that candidates are checked on, drawn at random: realistic ones, and exact ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.measure.checks.input_uses import InputUse
from autotune.system.plugins import errors_of

Array = npt.NDArray[Any]

# Integers of realistic inputs are at most this large: sums of many products stay small.
LARGEST_INTEGER = 8

# exp of minus this is 0 in every type; tanh and sigmoid of it are 1 and of minus it -1 and 0.
SATURATED = 1024.0


@dataclass(frozen=True)
class InputSpec:
    """An input of a workload."""

    shape: tuple[int, ...]
    dtype: str
    use: InputUse  # What its values are used for.

    @property
    def is_float(self) -> bool:
        """Whether its elements are floats."""
        return dtypes.is_float(self.dtype)


_HUGE = 8  # Elements of realistic inputs that are far larger than the others.

# Realistic inputs that a template draws itself.
Given = Callable[[np.random.Generator], Sequence[Array]]

# Returns one input, C-contiguous, of its shape and type.
Draw = Callable[[InputSpec, np.random.Generator], Array]


def draw_all(specs: Sequence[InputSpec], draw: Draw, seed: Sequence[int]) -> list[Array]:
    """Return all inputs of a workload; the same seed gives the same values in any process."""
    found = []
    for number, spec in enumerate(specs):
        filled = spec if spec.shape else replace(spec, shape=(1,))
        values = draw(filled, np.random.default_rng([*seed, number]))
        found.append(np.asarray(values, order="C").reshape(spec.shape))
    return found


def given_inputs(given: Given, specs: Sequence[InputSpec], seed: Sequence[int]) -> list[Array]:
    """Return realistic inputs that a template draws itself.

    AutotuneError if that fails, or they are not of the inputs' number, shapes and types.
    """
    with errors_of("inputs= of the template fails"):
        arrays = list(given(np.random.default_rng(list(seed))))
        found = [(np.shape(array), np.asarray(array).dtype.name) for array in arrays]
    wanted = [(spec.shape, spec.dtype) for spec in specs]
    if found != wanted:
        words = f"{_words(found)}, but its inputs are {_words(wanted)}"
        raise UsageError(f"inputs= of the template returned {words}")
    return [np.asarray(array, order="C") for array in arrays]


def _words(arrays: Sequence[tuple[tuple[int, ...], str]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in arrays) or "nothing"


# -- realistic -----------------------------------------------------------------------------


@dataclass(frozen=True)
class MagnitudeRange:
    """Which magnitudes realistic floats have."""

    # Whether a few are far smaller (from 2^-15), or far larger (up to 384) than the others.
    tiny: bool = True
    huge: bool = True
    scale: float = 1.0  # What all are multiplied with.


def realistic(
    zeros: bool = True, signed: bool = True, magnitudes: MagnitudeRange | None = None
) -> Draw:
    """Return how realistic inputs are drawn.

    The magnitude of a float is 2^u with u uniform from -5 to 2; of one in 64 u is from 2 to 4, of
    another one in 64 from -15 to -8. Eight elements, some at ends of rows, are from 32 to 384, and
    every row is scaled by 1/2, 1 or 2. One in 8 is 0 and half of the others are negative. What is
    multiplied in sums of n terms has no such eight elements, and is divided by sqrt(n). Integers
    are from -8 to 8.

    zeros, signed: whether there are zeros, and negative values.
    """
    wanted = magnitudes or MagnitudeRange()

    def draw(spec: InputSpec, rng: np.random.Generator) -> Array:
        if not spec.is_float:
            return _small(spec, rng, zeros, signed)
        size = spec.shape
        kind = np.float64 if spec.dtype == "float64" else np.float32
        values = np.exp2(rng.random(size, dtype=kind) * kind(7) - kind(5))
        if zeros and not spec.use.divides:
            values[rng.random(size, dtype=np.float32) < 1 / 8] = 0
        if signed:
            np.negative(values, out=values, where=rng.random(size, dtype=np.float32) < 0.5)
        _put_extremes(values, spec.use, wanted, signed, rng)
        if len(size) > 1:
            values *= np.exp2(rng.integers(-1, 2, size[:-1]).astype(kind))[..., np.newaxis]
        values *= kind(wanted.scale / math.sqrt(spec.use.factors))
        return values.astype(_kind(spec))

    return draw


def _put_extremes(
    values: Array, use: InputUse, wanted: MagnitudeRange, signed: bool, rng: np.random.Generator
) -> None:
    """Put small and large values in place of others, of both signs."""
    flat = values.reshape(-1)
    length = values.shape[-1]
    some = max(min(8, flat.size // 8), flat.size // 64)
    few = _HUGE if wanted.huge and use.factors == 1 and flat.size >= 32 else 0
    where = rng.integers(0, max(1, flat.size), 2 * some + few)
    exponents = rng.random(where.size) * 2 + 2
    if wanted.tiny and not use.divides:
        exponents[some : 2 * some] = rng.random(some) * 7 - 15
    exponents[2 * some :] = np.arange(few) // 2 + 5 + rng.random(few) * 0.5
    extremes = np.exp2(exponents)
    if signed:
        extremes[1::2] *= -1
    if few:  # two begin a row each, two end one
        ends = where[2 * some :]
        ends[:4] -= ends[:4] % length
        ends[2:4] += length - 1
    if flat.size == length:  # exp of the only last element should not vanish
        np.abs(extremes, out=extremes, where=(where == 0) | (where == length - 1))
    flat[where] = extremes


def _small(spec: InputSpec, rng: np.random.Generator, zeros: bool, signed: bool) -> Array:
    """Return small integers or bools."""
    if spec.dtype == dtypes.BOOL:
        return rng.random(spec.shape) < 0.5
    if spec.use.limit is not None:
        return rng.integers(0, max(spec.use.limit, 1), spec.shape).astype(_kind(spec))
    first = 0 if zeros and not spec.use.divides else 1
    values = rng.integers(first, LARGEST_INTEGER + 1, spec.shape).astype(_kind(spec))
    if signed and not dtypes.is_unsigned(spec.dtype):
        np.negative(values, out=values, where=rng.random(spec.shape) < 0.5)
    return values


# -- exact ---------------------------------------------------------------------------------


def whole_range(spec: InputSpec, rng: np.random.Generator) -> Array:
    """Draw integers of all magnitudes that their type has, so that sums and products wrap around.

    Each is drawn with a random number of bits, as small ones are where most mistakes show. What is
    divided by or converted to a float, an index or a number of bits to shift stays small, and the
    most negative integer is left out: divided by -1 it would overflow.
    """
    return _integers(spec, rng, lambda bits: rng.integers(0, bits, spec.shape), signed=True)


def largest_integers(spec: InputSpec, rng: np.random.Generator) -> Array:
    """Draw positive integers near the largest of their type, for sums of terms of one sign."""
    signed = int(not dtypes.is_unsigned(spec.dtype))
    return _integers(spec, rng, lambda _: np.full(spec.shape, signed), signed=False)


def _integers(
    spec: InputSpec, rng: np.random.Generator, unused: Callable[[int], Array], signed: bool
) -> Array:
    """Draw integers whose upper bits are 0, a random number of them."""
    use = spec.use
    small = use.limit is not None or use.divides or use.converted
    if spec.is_float or spec.dtype == dtypes.BOOL or small:
        return realistic(signed=not use.divides)(spec, rng)
    info = np.iinfo(_kind(spec))
    bits = np.uint64(64 - info.bits) + unused(info.bits).astype(np.uint64)
    values = rng.integers(0, 2**64 - 1, spec.shape, dtype=np.uint64, endpoint=True)
    drawn = (values >> bits).astype(_kind(spec))
    if signed and info.min < 0:
        np.negative(drawn, out=drawn, where=rng.random(spec.shape) < 0.5)
        drawn[drawn == info.min] = info.max
    if signed:
        _put_ends(drawn, info.max, spec.use.sign, rng)
    return drawn


def whole_numbers(largest: int, part: int = 0, parts: int = 1) -> Draw:
    """Return how whole numbers are drawn, of magnitudes from 1 to `largest`, most of them small.

    largest: types that do not have all whole numbers up to it get fewer.
    part, parts: all elements but those of one of `parts` random parts are 0.
    """

    def draw(spec: InputSpec, rng: np.random.Generator) -> Array:
        if spec.use.limit is not None or spec.dtype == dtypes.BOOL:
            return _small(spec, rng, zeros=True, signed=True)
        if spec.use.divides:
            return powers_of_two(spec, rng)
        most = min(largest, _whole_up_to(spec.dtype))
        values = np.exp2(rng.random(spec.shape) * math.log2(max(most, 2))).astype(np.int64)
        if not dtypes.is_unsigned(spec.dtype):
            np.negative(values, out=values, where=rng.random(spec.shape) < 0.5)
        _put_ends(values, most, spec.use.sign, rng)
        if parts > 1:
            values[rng.integers(0, parts, spec.shape) != part] = 0
        return values.astype(_kind(spec))

    return draw


def _put_ends(values: Array, largest: int, sign: int, rng: np.random.Generator) -> None:
    """Put the largest magnitude at some ends of each axis, and one sign into a slice of each.

    So the maximum of some rows and columns is at an end, and the maximum of others is below 0.
    """
    signed = bool(values.min(initial=0) < 0)
    along = [np.moveaxis(values, n, 0) for n, length in enumerate(values.shape) if length > 1]
    for slices in along:
        turn = (np.arange(slices[0].size) + rng.integers(7)).reshape(slices.shape[1:]) % 7
        for at, kind, own in ((-1, 1, 0), (-1, -1, 1), (0, 1, 2), (0, -1, 3)):
            if kind > 0 or signed:
                slices[at, ...][turn == own] = kind * largest
    for slices in along if signed and values.ndim > 1 else ():
        one = slices[rng.integers(len(slices)), ...]
        one[...] = sign * np.maximum(np.abs(one), 1)


def powers_of_two(spec: InputSpec, rng: np.random.Generator) -> Array:
    """Draw floats that are 1/2, 1 or 2, of both signs: also dividing by them is exact."""
    if not spec.is_float:
        return _small(spec, rng, zeros=False, signed=True)
    values = np.exp2(rng.integers(-1, 2, spec.shape).astype(np.float32))
    np.negative(values, out=values, where=rng.random(spec.shape) < 0.5)
    return values.astype(_kind(spec))


def saturated_along(axis: int, shifted: bool) -> Draw:
    """Return how inputs are drawn whose exp is 1 or 0, with a power of two of ones along an axis.

    So sums of it along that axis are powers of two, and dividing by them is exact. In some rows
    the largest value stands alone, at an end.

    shifted: whether something is added to all along that axis, as softmax allows for.
    """

    def draw(spec: InputSpec, rng: np.random.Generator) -> Array:
        if not spec.is_float or axis >= len(spec.shape) or not math.prod(spec.shape):
            return realistic()(spec, rng)
        length = spec.shape[axis]
        moved = spec.shape[:axis] + spec.shape[axis + 1 :]
        chance = rng.random((*moved, length), dtype=np.float32)
        ones = 1 << rng.integers(0, length.bit_length(), (*moved, 1))
        for first, end in ((1, -1), (3, 0)):
            chance.reshape(-1, length)[first::4, end] = -1
            ones.reshape(-1)[first::4] = 1
        order = chance.argsort(axis=-1).argsort(axis=-1)
        steps = rng.integers(-4, 5, (*moved, 1)).astype(np.float32)
        shift = steps * np.float32(SATURATED / 4 * shifted)
        values = np.where(order < ones, shift, shift - np.float32(SATURATED))
        return np.moveaxis(values, -1, axis).astype(_kind(spec))

    return draw


def saturated(size: float) -> Draw:
    """Return how 0 and floats of a size are drawn, for which tanh and sigmoid are constant."""

    def draw(spec: InputSpec, rng: np.random.Generator) -> Array:
        if not spec.is_float:
            return realistic()(spec, rng)
        values = np.float32(size) * rng.integers(-1, 2, spec.shape).astype(np.float32)
        return values.astype(_kind(spec))

    return draw


def _whole_up_to(dtype: str) -> int:
    """Return up to which whole number a type has all."""
    if not dtypes.is_float(dtype):
        return int(dtypes.max_value(dtype))
    return round(2 / dtypes.epsilon(dtype))


def _kind(spec: InputSpec) -> np.dtype[Any]:
    return np.dtype(dtypes.numpy_dtype(spec.dtype))
