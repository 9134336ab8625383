"""Integer arithmetic behind split knobs: divisors, primes, and the ways to cut an extent.

Everything is lazy, so that a caller can stop an enumeration that grows too long.
"""

import math
from collections.abc import Iterator


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
