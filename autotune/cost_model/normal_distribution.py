"""The normal distribution and the improvement to expect of a normally distributed time."""

from __future__ import annotations

import numpy as np

from autotune.cost_model.base import FloatVector

# Below this the asymptotic series of the tail is more exact than the difference of two terms.
_TAIL = -8.0

_ERFC = (
    0.17087277,
    -0.82215223,
    1.48851587,
    -1.13520398,
    0.27886807,
    -0.18628806,
    0.09678418,
    0.37409196,
    1.00002368,
    -1.26551223,
)


def density(z: FloatVector) -> FloatVector:
    """Return the standard normal density."""
    out: FloatVector = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    return out


def cumulative(z: FloatVector) -> FloatVector:
    """Return the standard normal distribution function, with a relative error below 1.2e-7.

    The Chebyshev fit of the complementary error function in Press et al., Numerical Recipes,
    section 6.2.
    """
    x = np.abs(z) / np.sqrt(2.0)
    t = 1.0 / (1.0 + 0.5 * x)
    series = np.zeros_like(t)
    for coefficient in _ERFC:
        series = series * t + coefficient
    upper = 0.5 * t * np.exp(-x * x + series)
    out: FloatVector = np.where(z >= 0.0, 1.0 - upper, upper)
    return out


def expected_improvement(mean: FloatVector, deviation: FloatVector, best: float) -> FloatVector:
    """Return how far below `best` a normally distributed value is expected to be, >= 0.

    Jones, Schonlau and Welch, "Efficient global optimization of expensive black-box functions",
    1998.
    """
    z = (best - mean) / deviation
    middle = density(z) + z * cumulative(z)
    square = np.maximum(z * z, 1.0)
    tail = density(z) / square * (1.0 - 3.0 / square + 15.0 / square**2)
    out: FloatVector = deviation * np.where(z < _TAIL, tail, np.maximum(middle, 0.0))
    return out


def log_density(values: FloatVector, mean: FloatVector, variance: FloatVector) -> float:
    """Return the mean logarithm of the normal density of values, up to a constant."""
    return float(np.mean(-0.5 * np.square(values - mean) / variance - 0.5 * np.log(variance)))
