"""Gaussian process regression: predicts mean and variance of values from few measurements.

It is exact and uses NumPy only, so it is meant for some hundred measurements.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.cost_model.base import FloatVector, IndexVector
from autotune.system.available_cpus import run_in_threads

# Twice the parameter nu of the possible Matérn kernels; the first is used before any data.
SMOOTHNESS = (5, 3, 1)

JITTER = 1e-8  # Added to the kernel's diagonal because of rounding.
CHUNK = 1024  # Number of places predicted at a time, so that intermediate values fit in a cache.
ROOM = 0.25  # Extra space for later measurements, as a share of the present ones.
THREADS = 2  # Of them at a time, and of the kernels that are fitted.
# So many covariances of places and new measurements take one thread no longer than two.
ALONE = 1 << 14


# The prior of the kernel's parameters is normal in their logarithms: where the variance of the
# noise is centred, relative to that of the values, and how far the noise may be from it. All the
# others may be 1 from where they are centred; the variances of signal and trends are so on 1.
LOG_NOISE = -3.9
NOISE_SPREAD = 1.5


class GaussianProcess:
    """Regression with a Matérn kernel, a length scale per group, and noise.

    The caller standardises `y`; the prior's mean is 0 and its variance about 1. Parameters maximise
    the posterior density. They are found by resilient propagation from the previous ones
    (Riedmiller and Braun, 1993). The smoothness of the kernel is one of them.

    groups: int64 (d,); group of each coordinate; a group has one length scale.
    log_lengths: float64 (g,); centres of the groups' length scales.
    trends: number of functions that the values may depend on linearly.
    """

    def __init__(
        self,
        groups: IndexVector,
        log_lengths: FloatVector,
        trends: int = 0,
        log_noise: float = LOG_NOISE,
    ) -> None:
        self._groups = groups
        self._count = len(log_lengths)
        self._centre = np.concatenate([log_lengths, [0.0, log_noise], np.zeros(trends)])
        self._spread = np.ones(len(self._centre))
        self._spread[self._count + 1] = NOISE_SPREAD
        self._smoothness = SMOOTHNESS[0]
        self._thetas = dict.fromkeys(SMOOTHNESS, self._centre)

    # -- parameters ------------------------------------------------------------------------

    def learn(
        self, x: FloatVector, y: FloatVector, trends: FloatVector | None = None, steps: int = 20
    ) -> None:
        """Fit the parameters to data.

        x: float64 (n, d).
        y: float64 (n,); about standardised.
        trends: float64 (n, t), optional; functions of the inputs that `y` may depend on linearly;
            needed if the prior has any.
        """
        basis = np.zeros((len(x), 0)) if trends is None else trends
        distances = self._group_distances(x)

        def climb(smoothness: int) -> tuple[float, FloatVector]:
            return self._climb(smoothness, distances, y, basis, steps)

        climbs = run_in_threads([partial(climb, smoothness) for smoothness in SMOOTHNESS], THREADS)
        found = dict(zip(SMOOTHNESS, climbs, strict=True))
        self._thetas = {smoothness: theta for smoothness, (_, theta) in found.items()}
        self._smoothness = max(found, key=lambda smoothness: found[smoothness][0])

    @property
    def _theta(self) -> FloatVector:
        """Logarithms of the length scales, and of the variances of signal, noise and trends."""
        return self._thetas[self._smoothness]

    def _climb(
        self,
        smoothness: int,
        distances: FloatVector,
        y: FloatVector,
        basis: FloatVector,
        steps: int,
    ) -> tuple[float, FloatVector]:
        """Return the greatest density found with this smoothness, and its parameters."""
        theta = best = self._thetas[smoothness]
        density = -np.inf
        step = np.full(theta.shape, 0.15)
        before = np.zeros(theta.shape)
        for _ in range(steps):
            value, slope = self._posterior(smoothness, theta, distances, y, basis)
            if value > density:
                best, density = theta, value
            slope[np.abs(slope) < 1e-6] = 0.0  # not a sign that rounding decides
            sign = np.sign(slope)
            agree = sign * before
            step = np.where(agree > 0, np.minimum(1.3 * step, 0.6), step)
            step = np.where(agree < 0, 0.5 * step, step)
            before = sign
            theta = theta + sign * step
        return density, best

    def _group_distances(self, x: FloatVector) -> FloatVector:
        """Return squared distances per group, float64 (g, n, n)."""
        out = np.zeros((self._count, len(x), len(x)))
        for column, group in zip(x.T, self._groups, strict=True):
            out[group] += np.square(column[:, None] - column[None, :])
        return out

    def _posterior(
        self,
        smoothness: int,
        theta: FloatVector,
        distances: FloatVector,
        y: FloatVector,
        basis: FloatVector,
    ) -> tuple[float, FloatVector]:
        """Return the log density of parameters, up to a constant, and its slope."""
        count, n = self._count, len(y)
        weights = np.exp(-2.0 * theta[:count])
        signal, noise, *tilts = np.exp(theta[count:])
        shape, steepness = matern(np.tensordot(weights, distances, 1), smoothness)
        kernel = signal * shape + (basis * np.array(tilts)) @ basis.T
        kernel[np.diag_indices(n)] += noise + JITTER
        lower = np.linalg.cholesky(kernel)
        half = inverse_of_lower(lower)
        inverse = half.T @ half
        weighted = inverse @ y
        offset = (theta - self._centre) / self._spread
        value = -0.5 * (y @ weighted) - np.log(np.diag(lower)).sum() - 0.5 * (offset @ offset)
        outer = np.outer(weighted, weighted) - inverse
        slope = np.zeros(theta.shape)
        inner = signal * steepness * outer
        slope[:count] = 0.5 * weights * (distances.reshape(count, -1) @ inner.ravel())
        slope[count] = 0.5 * signal * (outer * shape).sum()
        slope[count + 1] = 0.5 * noise * np.trace(outer)
        slope[count + 2 :] = 0.5 * np.array(tilts) * ((basis.T @ outer).T * basis).sum(axis=0)
        return float(value), slope - offset / self._spread

    # -- the kernel with the present parameters ----------------------------------------

    @property
    def noise(self) -> float:
        """Variance of the noise."""
        return float(np.exp(self._theta[self._count + 1]))

    @property
    def trend_scales(self) -> FloatVector:
        """Standard deviations of the weights of the trends, (t,)."""
        out: FloatVector = np.exp(0.5 * self._theta[self._count + 2 :])
        return out

    def scaled(self, x: FloatVector) -> FloatVector:
        """Return coordinates in units of their length scales, float64 (n, d)."""
        out: FloatVector = x * np.exp(-self._theta[: self._count])[self._groups]
        return out

    def kernel(self, one: FloatVector, other: FloatVector) -> FloatVector:
        """Return the covariances of scaled coordinates (n, d) and (m, d): float64 (n, m)."""
        squared = (one * one).sum(1)[:, None] + (other * other).sum(1)[None, :]
        squared -= 2.0 * (one @ other.T)
        shape, _ = matern(np.maximum(squared, 0.0), self._smoothness)
        out: FloatVector = self.signal * shape
        return out

    @property
    def signal(self) -> float:
        """Variance of the signal."""
        return float(np.exp(self._theta[self._count]))


def matern(squared: FloatVector, smoothness: int) -> tuple[FloatVector, FloatVector]:
    """Return a Matérn kernel of squared distances, and a factor of its slopes.

    The slope by the logarithm of a length scale is the second value times the part of the
    squared distance that this length scale has.

    smoothness: twice the parameter nu: 1, 3 or 5.
    """
    root = np.sqrt(smoothness * squared)
    decay = np.exp(-root)
    if smoothness == 1:
        return decay, decay / np.maximum(root, 1e-12)
    if smoothness == 3:
        return (1.0 + root) * decay, 3.0 * decay
    return (1.0 + root + root * root / 3.0) * decay, (5.0 / 3.0) * (1.0 + root) * decay


def inverse_of_lower(matrix: npt.NDArray[np.floating[Any]]) -> FloatVector:
    """Return the inverse of a lower triangular matrix, float64 (n, n), by halves.

    NumPy's own inverse takes several times as long, as it knows of no triangles.
    """
    n = len(matrix)
    if n <= 32:
        return np.tril(np.linalg.inv(matrix))
    half = n // 2
    out = np.zeros((n, n))
    first, last = inverse_of_lower(matrix[:half, :half]), inverse_of_lower(matrix[half:, half:])
    out[:half, :half], out[half:, half:] = first, last
    out[half:, :half] = -last @ (matrix[half:, :half] @ first)
    return out


class Posterior:
    """The posterior at fixed places, updated with each measurement.

    An update takes time in proportion to the places and the measurements so far; only new
    parameters need a full computation.

    places: float64 (m, d); where to predict.
    trends: float64 (m, t), optional; the trends' values there.
    """

    def __init__(
        self, process: GaussianProcess, places: FloatVector, trends: FloatVector | None = None
    ) -> None:
        self._process = process
        self._places = process.scaled(places)
        self._basis = self._scaled_trends(trends, len(places))
        self._x = np.zeros((0, places.shape[1]))
        self._known_basis = np.zeros((0, self._basis.shape[1]))
        self._whitener = np.zeros((0, 0))  # inverse of the kernel's Cholesky factor
        self._columns = np.zeros((len(places), 0))  # with space for later measurements
        self._variance = process.signal + np.square(self._basis).sum(axis=1)

    def _scaled_trends(self, trends: FloatVector | None, n: int) -> FloatVector:
        if trends is None:
            return np.zeros((n, 0))
        out: FloatVector = trends * self._process.trend_scales
        return out

    @property
    def trends(self) -> int:
        """Number of trends."""
        return int(self._basis.shape[1])

    def fork(self) -> Posterior:
        """Return a copy of the posterior, to undo later updates.

        Only one of the two can be updated.
        """
        copied = copy.copy(self)
        copied._variance = self._variance.copy()
        return copied

    def among(self, rows: IndexVector) -> Posterior:
        """Return an independent posterior of some of the places."""
        part = copy.copy(self)
        part._places, part._basis = self._places[rows], self._basis[rows]
        part._columns, part._variance = self._reduced[rows], self._variance[rows]
        return part

    @property
    def _reduced(self) -> FloatVector:
        """Whitened covariances of the places with the measurements, (m, k)."""
        return self._columns[:, : len(self._whitener)]

    def add(self, x: FloatVector, trends: FloatVector | None = None) -> None:
        """Add the places of measurements, float64 (k, d), and the trends there (k, t)."""
        kernel, known = self._process.kernel, len(self._whitener)
        scaled, basis = self._process.scaled(x), self._scaled_trends(trends, len(x))
        cross = kernel(scaled, self._x) + basis @ self._known_basis.T
        own = kernel(scaled, scaled) + basis @ basis.T
        own[np.diag_indices(len(x))] += self._process.noise + JITTER
        left = cross @ self._whitener.T
        corner = inverse_of_lower(np.linalg.cholesky(own - left @ left.T))
        whitener = np.zeros((known + len(x), known + len(x)))
        whitener[:known, :known] = self._whitener
        whitener[known:, :known] = -corner @ left @ self._whitener
        whitener[known:, known:] = corner
        self._x = np.concatenate([self._x, scaled])
        self._known_basis = np.concatenate([self._known_basis, basis])
        self._make_room(len(whitener))
        reduced, fresh = self._columns[:, :known], self._columns[:, known : len(whitener)]

        def extend(starts: Sequence[int]) -> None:
            for start in starts:
                part = slice(start, start + CHUNK)
                places = kernel(self._places[part], scaled) + self._basis[part] @ basis.T
                fresh[part] = (places - reduced[part] @ left.T) @ corner.T
                self._variance[part] -= np.square(fresh[part]).sum(axis=1)

        starts = range(0, len(self._places), CHUNK)
        parts = min(THREADS, len(starts)) if len(x) * len(self._places) > ALONE else 1
        run_in_threads([partial(extend, starts[n::parts]) for n in range(parts)], THREADS)
        self._whitener = whitener

    def _make_room(self, count: int) -> None:
        """Ensure that there are columns for some number of measurements; they are rarely copied."""
        known, room = len(self._whitener), self._columns.shape[1]
        if count > room:
            columns = np.empty((len(self._columns), count + int(ROOM * count)))
            columns[:, :known] = self._columns[:, :known]
            self._columns = columns

    def predict(self, y: FloatVector) -> tuple[FloatVector, FloatVector]:
        """Return mean and standard deviation at each place, given the values measured, (m,)."""
        mean: FloatVector = self._reduced @ (self._whitener @ y)
        return mean, self.deviation

    @property
    def deviation(self) -> FloatVector:
        """Standard deviation of the signal at each place, (m,)."""
        out: FloatVector = np.sqrt(np.maximum(self._variance, 1e-10))
        return out

    def covariance(self, rows: IndexVector) -> FloatVector:
        """Return the covariances of some places, float64 (r, r)."""
        part, basis, reduced = self._places[rows], self._basis[rows], self._reduced[rows]
        out: FloatVector = self._process.kernel(part, part) + basis @ basis.T - reduced @ reduced.T
        return out

    def smoothed(self, y: FloatVector) -> FloatVector:
        """Return the signal's mean at each measurement, without noise, (k,)."""
        weighted = self._whitener.T @ (self._whitener @ y)
        out: FloatVector = y - (self._process.noise + JITTER) * weighted
        return out

    def left_out(self, y: FloatVector) -> tuple[FloatVector, FloatVector]:
        """Return the leave-one-out mean and variance of each measurement, (k,).

        Rasmussen and Williams, Gaussian Processes for Machine Learning, section 5.4.2.
        """
        inverse = self._whitener.T @ self._whitener
        variance = 1.0 / np.diag(inverse)
        mean: FloatVector = y - (inverse @ y) * variance
        return mean, variance
