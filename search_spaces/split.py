"""The split knob: the ways to cut a loop of known extent into a nest of smaller loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from search_spaces.knob import Column, Knob, KnobValue, SpaceError, checked_candidates

# Preferred inner size of a default: few threads and little memory, so nearly always legal.
DEFAULT_INNER_SIZE = 4


@dataclass(frozen=True)
class SplitKnob(Knob):
    """Sizes of the loops an axis is split into: tuples of ints, outermost first. Numeric.

    The outermost size is always ``ceil(extent / product of the inner sizes)``. Columns are
    NAME.0 (outermost), NAME.1, ... Neighbours differ by a prime factor, put on one inner size,
    taken off it, or moved between two of them; where values were listed or filtered, the
    neighbours in the list count too, which keeps every value within reach.

    Parameters
    ----------
    name : str
        Name of the knob.
    extent : int
        Length of the axis, at least 1.
    num_outputs : int
        Number of loops, at least 1.
    policy : {"factors", "power2", "candidates"}
        All ordered factorisations of the extent; inner sizes that are powers of two and whose
        product is at most the extent (AutoTVM's "power2"); or those listed.
    candidates : sequence of tuples of `num_outputs` ints
        For the policy "candidates" only; -1 as the outermost size stands for what is left.
    filter : callable, optional
        Takes a tuple of sizes and says whether it is a value of the knob.
    preferred : tuple of `num_outputs` ints, optional
        The default, one of the values; -1 as the outermost size stands for what is left. As for
        `ChoiceKnob`, it does not belong to the specification.
    """

    extent: int
    num_outputs: int
    policy: str = "factors"
    candidates: Sequence[Sequence[int]] | None = None
    filter: Callable[[tuple[int, ...]], bool] | None = None
    preferred: Sequence[int] | None = None

    def __post_init__(self) -> None:
        for field in ("extent", "num_outputs"):
            number = getattr(self, field)
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
                raise SpaceError(f"knob {self.name!r}: {field} must be an int >= 1, not {number!r}")
            object.__setattr__(self, field, int(number))
        others = ("factors", "power2")
        listed = checked_candidates(self.name, self.policy, others, self.candidates)
        if listed is not None:
            object.__setattr__(self, "candidates", tuple(self._covering(c) for c in listed))
        if self.preferred is not None:
            (sizes,) = checked_candidates(self.name, "candidates", (), [self.preferred]) or ()
            object.__setattr__(self, "preferred", self._covering(sizes))
        self._check()
        if self.preferred is not None:
            _ = self.default

    def _covering(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Fill in -1 and check that a candidate covers the extent."""
        if len(sizes) != self.num_outputs or any(size < 1 for size in sizes[1:]):
            raise SpaceError(
                f"knob {self.name!r}: candidate {sizes} is not {self.num_outputs} sizes >= 1"
            )
        outer = ceil_div(self.extent, math.prod(sizes[1:]))
        if sizes[0] not in (-1, outer):
            raise SpaceError(
                f"knob {self.name!r}: candidate {sizes} does not fit extent {self.extent}; "
                f"its outermost size must be {outer} (or -1)"
            )
        return (outer, *sizes[1:])

    @cached_property
    def _sizes(self) -> tuple[tuple[int, ...], ...]:
        return cast(tuple[tuple[int, ...], ...], self._values)

    def _enumerate(self) -> Iterable[KnobValue]:
        splits: Iterable[tuple[int, ...]]
        if self.candidates is not None:
            splits = (tuple(candidate) for candidate in self.candidates)
        elif self.policy == "power2":
            splits = power2_splits(self.extent, self.num_outputs)
        else:
            splits = ordered_factorisations(self.extent, self.num_outputs)
        keep = self.filter
        return splits if keep is None else (sizes for sizes in splits if keep(sizes))

    @property
    def numeric(self) -> bool:
        """True: sizes are quantities."""
        return True

    @cached_property
    def default(self) -> int:
        """Position of the preferred value.

        Without one it is that of the inner sizes nearest to 4, less where the extent is small.
        """
        if self.preferred is not None:
            return self.index_of(self.preferred)
        aim = min(DEFAULT_INNER_SIZE, self.extent ** (1 / self.num_outputs))

        def distance(i: int) -> tuple[float, int]:
            inner = self._sizes[i][1:]
            off = sum(abs(math.log2(size / aim)) for size in inner)
            return round(off, 9), math.prod(inner)

        return min(range(len(self)), key=distance)

    @cached_property
    def tables(self) -> Mapping[str, Column]:
        """Columns NAME.0, NAME.1, ...: the sizes, outermost first."""
        sizes = np.array(self._sizes, dtype=np.int64)
        return {
            f"{self.name}.{k}": np.ascontiguousarray(sizes[:, k]) for k in range(self.num_outputs)
        }

    @cached_property
    def _primes(self) -> list[int]:
        """Primes by which neighbouring values may differ."""
        if self.policy == "power2":
            return [2]
        if self.policy == "factors":
            return primes_of(self.extent)
        sizes = {size for value in self._sizes for size in value[1:]}
        return sorted({p for size in sizes for p in primes_of(size)})

    def neighbors(self, i: int) -> list[int]:
        """Values one prime factor away (and beside it, where values were listed or filtered)."""
        inner = self._sizes[i][1:]
        places = range(len(inner))
        moves = []
        for p, k in itertools.product(self._primes, places):
            moves.append(_with(inner, k, inner[k] * p))
            if inner[k] % p == 0:
                less = _with(inner, k, inner[k] // p)
                moves += [less, *(_with(less, j, less[j] * p) for j in places if j != k)]
        found = {self._by_inner.get(move, i) for move in moves}
        if self.filter is not None or self.policy == "candidates":
            found |= {max(i - 1, 0), min(i + 1, len(self) - 1)}
        return sorted(found - {i})

    @cached_property
    def _by_inner(self) -> dict[tuple[int, ...], int]:
        return {sizes[1:]: i for i, sizes in enumerate(self._sizes)}

    def spec(self) -> dict[str, Any]:
        """Kind, name, extent and policy, and the values where these do not determine them."""
        spec: dict[str, Any] = {
            "kind": "split",
            "name": self.name,
            "extent": self.extent,
            "num_outputs": self.num_outputs,
            "policy": self.policy,
        }
        if self.filter is not None or self.policy == "candidates":
            spec["values"] = [list(sizes) for sizes in self._sizes]
        return spec


def _with(sizes: tuple[int, ...], k: int, size: int) -> tuple[int, ...]:
    return (*sizes[:k], size, *sizes[k + 1 :])


def ceil_div(a: int, b: int) -> int:
    """Quotient of `a` and `b`, rounded up."""
    return -(-a // b)


def divisors(n: int) -> list[int]:
    """All divisors of `n` >= 1, ascending."""
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    large = [n // d for d in reversed(small) if d * d != n]
    return small + large


def primes_of(n: int) -> list[int]:
    """Distinct prime factors of `n` >= 1, ascending."""
    primes = []
    p = 2
    while p * p <= n:
        if n % p == 0:
            primes.append(p)
            while n % p == 0:
                n //= p
        p += 1
    return [*primes, n] if n > 1 else primes


def ordered_factorisations(extent: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Every tuple of `parts` positive integers whose product is `extent`, lexicographically."""
    all_divisors = divisors(extent)

    def cut(rest: int, left: int) -> Iterator[tuple[int, ...]]:
        if left == 1:
            yield (rest,)
            return
        for head in all_divisors:
            if rest % head == 0:
                for tail in cut(rest // head, left - 1):
                    yield (head, *tail)

    return cut(extent, parts)


def power2_splits(extent: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Tuples with inner sizes 1, 2, 4, ... of product <= `extent`; the outermost covers the rest.

    AutoTVM's "power2" policy, with its -1 for the outermost size replaced by what it stands for,
    ``ceil(extent / product of the inner sizes)``.
    """

    def inner(limit: int, left: int) -> Iterator[tuple[int, ...]]:
        if left == 0:
            yield ()
            return
        for exponent in range(limit.bit_length()):
            head = 1 << exponent
            for tail in inner(limit // head, left - 1):
                yield (head, *tail)

    for sizes in inner(extent, parts - 1):
        yield (ceil_div(extent, math.prod(sizes)), *sizes)
