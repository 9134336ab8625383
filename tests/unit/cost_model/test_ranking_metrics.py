"""The measures of a ranking, against values worked out by hand."""

import numpy as np
import pytest

from autotune.cost_model.ranking_metrics import average_ranks, rank_correlation, recall_at_k, top_k


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_equal_values_share_their_mean_rank():
    assert average_ranks(array(5.0, 1.0, 5.0, 2.0)).tolist() == [3.5, 1.0, 3.5, 2.0]


def test_rank_correlation_sees_order_only():
    throughput = array(1.0, 2.0, 3.0, 4.0)
    assert rank_correlation(array(1.0, 10.0, 100.0, 1000.0), throughput) == pytest.approx(1.0)
    assert rank_correlation(-throughput, throughput) == pytest.approx(-1.0)
    # One swap of neighbours: 1 - 6 * 2 / (4 * 15).
    assert rank_correlation(array(1.0, 2.0, 4.0, 3.0), throughput) == pytest.approx(0.8)


def test_rank_correlation_with_a_constant_is_zero():
    assert rank_correlation(array(1.0, 1.0, 1.0), array(1.0, 2.0, 3.0)) == 0.0


def test_recall_counts_the_picked_that_are_among_the_best():
    throughput = array(4.0, 3.0, 2.0, 1.0)
    assert recall_at_k(array(4.0, 0.0, 3.0, 1.0), throughput, 2) == 0.5
    assert recall_at_k(throughput, throughput, 3) == 1.0


def test_recall_takes_a_tie_with_the_kth_best_as_a_hit():
    assert recall_at_k(array(0.0, 1.0, 2.0), array(5.0, 5.0, 1.0), 1) == 0.0
    assert recall_at_k(array(0.0, 3.0, 2.0), array(5.0, 5.0, 1.0), 1) == 1.0


def test_top_k_takes_equal_scores_in_row_order():
    assert top_k(array(1.0, 2.0, 2.0, 2.0), 2).tolist() == [1, 2]
    assert top_k(array(1.0, 2.0), 9).tolist() == [1, 0]


def test_shapes_and_k_are_checked():
    with pytest.raises(ValueError, match="both have shape"):
        rank_correlation(array(1.0), array(1.0, 2.0))
    with pytest.raises(ValueError, match="at least 1"):
        recall_at_k(array(1.0), array(1.0), 0)
