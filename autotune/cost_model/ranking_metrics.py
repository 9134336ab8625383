"""How well scores order candidates: rank correlation, recall at k.

All take scores (higher is better) and true throughputs (0 for failures), both of shape (n,).
Equal scores are taken in row order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.cost_model.base import FloatVector


def average_ranks(values: FloatVector) -> FloatVector:
    """Return the ranks 1..n of ``values``, ascending; equal values share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean_rank = last - (counts - 1) / 2.0
    ranks: FloatVector = mean_rank[inverse.reshape(-1)]
    return ranks


def rank_correlation(scores: FloatVector, throughput: FloatVector) -> float:
    """Return Spearman's rank correlation in [-1, 1]; 0 where either side is constant."""
    _check(scores, throughput)
    a = average_ranks(scores) - (scores.size + 1) / 2.0
    b = average_ranks(throughput) - (scores.size + 1) / 2.0
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norm if norm > 0.0 else 0.0


def recall_at_k(scores: FloatVector, throughput: FloatVector, k: int) -> float:
    """Return the share of the k best scored candidates that are truly among the best k.

    A candidate as fast as the k-th fastest counts as among the best k, whatever its row.
    """
    picked = top_k(scores, k)
    _check(scores, throughput)
    kth = np.sort(throughput)[-picked.size]
    return float(np.mean(throughput[picked] >= kth))


def top_k(scores: FloatVector, k: int) -> npt.NDArray[np.intp]:
    """Return the rows of the k highest scores, best first; all rows if k exceeds them."""
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    return np.argsort(-scores, kind="stable")[:k]


def _check(scores: FloatVector, throughput: FloatVector) -> None:
    if scores.shape != throughput.shape or scores.ndim != 1 or scores.size == 0:
        raise ValueError(
            f"scores and throughput must both have shape (n,) with n >= 1, "
            f"got {scores.shape} and {throughput.shape}"
        )
