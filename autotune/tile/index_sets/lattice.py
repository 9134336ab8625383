"""Integer matrices: echelon forms by unimodular column operations, and systems of congruences.

Matrices are lists of rows of Python ints, so nothing overflows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Matrix = list[list[int]]


def identity(n: int) -> Matrix:
    """Return the n x n identity."""
    return [[int(i == j) for j in range(n)] for i in range(n)]


def product(a: Sequence[Sequence[int]], b: Sequence[Sequence[int]]) -> Matrix:
    """Return the product of two matrices."""
    columns = list(zip(*b, strict=True))
    return [[sum(x * y for x, y in zip(row, c, strict=True)) for c in columns] for row in a]


def echelon(rows: Sequence[Sequence[int]], n: int) -> tuple[Matrix, Matrix]:
    """Return H and a unimodular U with ``rows @ U == H`` in column echelon form.

    In H, each row that is independent of those above it has its last entry that is not 0 in the
    next column; it is positive.

    `rows`: m rows of n integers.
    `n`: number of columns, needed if there are no rows.
    """
    h, u = [list(row) for row in rows], identity(n)
    done = 0
    for row in h:
        for column in range(done + 1, n):
            if row[column]:
                _eliminate(h, u, row, done, column)
        if done < n and row[done]:
            if row[done] < 0:
                _combine((h, u), done, done, -1, 0, 0, 1)
            done += 1
    return h, u


def _eliminate(h: Matrix, u: Matrix, row: list[int], pivot: int, column: int) -> None:
    """Make row[column] 0 and row[pivot] the greatest common divisor of both."""
    a, b = row[pivot], row[column]
    if a and b % a == 0:
        _combine((h, u), pivot, column, 1, 0, -(b // a), 1)
        return
    g, x, y = _bezout(a, b)
    _combine((h, u), pivot, column, x, y, -(b // g), a // g)


def _combine(
    matrices: tuple[Matrix, Matrix], i: int, j: int, a: int, b: int, c: int, d: int
) -> None:
    """Replace columns i and j by ``a*i + b*j`` and ``c*i + d*j`` (column i alone if i == j)."""
    for matrix in matrices:
        for row in matrix:
            if i == j:
                row[i] = a * row[i]
            else:
                row[i], row[j] = a * row[i] + b * row[j], c * row[i] + d * row[j]


def _bezout(a: int, b: int) -> tuple[int, int, int]:
    """Return g = gcd(a, b) > 0 and x, y with ``a*x + b*y == g``."""
    x0, x1, y0, y1 = 1, 0, 0, 1
    while b:
        q = a // b
        a, b = b, a - q * b
        x0, x1 = x1, x0 - q * x1
        y0, y1 = y1, y0 - q * y1
    return (a, x0, y0) if a > 0 else (-a, -x0, -y0)


def independent(rows: Sequence[Sequence[int]], n: int) -> list[bool]:
    """Whether each row is linearly independent of those above it."""
    found: list[bool] = []
    for row in echelon(rows, n)[0]:
        found.append(any(row[sum(found) :]))
    return found


def is_primitive(rows: Sequence[Sequence[int]], n: int) -> bool:
    """Whether independent rows can be extended to a unimodular matrix."""
    h, _ = echelon(rows, n)
    return len(rows) <= n and all(h[k][k] == 1 for k in range(len(rows)))


def inverse(rows: Sequence[Sequence[int]]) -> Matrix:
    """Return the inverse of a unimodular matrix."""
    n = len(rows)
    h, u = echelon(rows, n)
    # rows @ u is lower triangular with ones: back-substitute columns from the right.
    for i in range(n):
        for j in range(i):
            _combine((h, u), j, i, 1, -h[i][j], 0, 1)
    return u


def completed(rows: Sequence[Sequence[int]], n: int) -> Matrix:
    """Return a unimodular matrix that begins with these rows, which are primitive."""
    _, u = echelon(rows, n)
    return [list(row) for row in rows] + inverse(u)[len(rows) :]


def congruent(
    congruences: Sequence[tuple[Sequence[int], int, int]], n: int
) -> tuple[list[int], Matrix] | None:
    """Return all integer solutions x of ``row @ x + constant == 0 (mod modulus)``.

    `congruences`: row, constant and modulus of each.

    Returns offset and basis (as columns): the solutions are ``offset + basis @ y`` for all integer
    y, each once. None if there are none.
    """
    offset, basis = [0] * n, identity(n)
    for row, constant, modulus in congruences:
        (own,) = product([row], basis) if n else ([],)
        rest = sum(a * x for a, x in zip(row, offset, strict=True)) + constant
        (reduced,), u = echelon([own], n)
        lead = reduced[0] if n else 0
        g = math.gcd(lead, modulus)
        if rest % g:
            return None
        basis = product(basis, u) if n else basis
        if modulus == g:
            continue
        # lead * z + rest == 0 (mod modulus): z = first + (modulus // g) * t.
        period = modulus // g
        first = -(rest // g) * pow(lead // g, -1, period) % period
        offset = [x + first * vector[0] for x, vector in zip(offset, basis, strict=True)]
        for vector in basis:
            vector[0] *= period
    return offset, basis
