"""What inputs are used for, as tensor expressions say it."""

from __future__ import annotations

import pickle

from autotune import te
from autotune.measure.checks.input_uses import InputUse, input_uses


def uses(inputs, *results):
    """Return the uses of inputs in what results are computed from."""
    return input_uses(inputs, [tensor.op for tensor in results])


def test_an_input_that_is_only_added_is_free():
    A = te.placeholder((9,), name="A")
    assert uses([A], te.compute((9,), lambda i: A[i] + 1)) == [InputUse()]


def test_an_index_is_smaller_than_what_it_selects_from():
    T, at = te.placeholder((37, 5), name="T"), te.placeholder((9,), "int32", name="I")
    C = te.compute((9, 5), lambda i, j: T[at[i], j])
    assert [use.limit for use in uses([T, at], C)] == [None, 37]


def test_an_index_that_is_computed_with_stays_small():
    T, at = te.placeholder((370,), name="T"), te.placeholder((9,), "int32", name="I")
    C = te.compute((9,), lambda i: T[at[i] * 2 + 1])
    assert uses([T, at], C)[1].limit == 8


def test_divisors_are_known():
    A, B = te.placeholder((9,), name="A"), te.placeholder((9,), name="B")
    assert [u.divides for u in uses([A, B], te.compute((9,), lambda i: A[i] / B[i]))] == [
        False, True,
    ]


def test_one_factor_of_each_product_in_a_sum_is_scaled_also_if_it_is_packed_before():
    A, B = te.placeholder((4, 90), name="A"), te.placeholder((90, 4), name="B")
    P = te.compute((4, 90), lambda j, k: B[k, j], name="P")
    k = te.reduce_axis((0, 90), name="k")
    C = te.compute((4, 4), lambda i, j: te.sum(A[i, k] * P[j, k], axis=k))
    assert [use.factors for use in uses([A, B], P, C)] == [1, 90]


def test_integers_that_are_converted_to_floats_are_known_to_be():
    A = te.placeholder((9,), "int32", name="A")
    half = te.compute((9,), lambda i: (A[i].astype("float32") * 0.5).astype("int32"))
    assert uses([A], half) == [InputUse(converted=True)]
    assert uses([A], te.compute((9,), lambda i: A[i] * 2)) == [InputUse()]


def test_a_use_survives_the_pipe():
    use = InputUse(5, True, 9, True)
    assert pickle.loads(pickle.dumps(use)) == use
