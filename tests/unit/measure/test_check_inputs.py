"""What inputs are drawn: signs, zeros, magnitudes, ranges, and the same ones for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.ir import dtypes
from autotune.measure.checks.check_inputs import (
    InputSpec,
    MagnitudeRange,
    draw_all,
    largest_integers,
    powers_of_two,
    realistic,
    saturated,
    saturated_along,
    whole_numbers,
    whole_range,
)
from autotune.measure.checks.input_uses import InputUse

SHAPE = (40, 200)
DRAWS = {
    "realistic": realistic(),
    "whole range": whole_range,
    "largest": largest_integers,
    "whole numbers": whole_numbers(100),
    "powers of two": powers_of_two,
    "saturated": saturated(1024.0),
    "saturated along": saturated_along(1, shifted=True),
}


def drawn(draw, dtype="float32", shape=SHAPE, use=None, seed=0):
    """Return one input, as float64 if it is one of floats."""
    (values,) = draw_all([InputSpec(shape, dtype, use or InputUse())], draw, [seed])
    assert values.dtype == dtypes.numpy_dtype(dtype)
    assert values.shape == shape
    assert values.flags.c_contiguous
    return values.astype(np.float64) if dtypes.is_float(dtype) else values


@pytest.mark.parametrize("dtype", dtypes.ALL)
@pytest.mark.parametrize("name", DRAWS)
def test_inputs_are_finite_and_the_same_for_the_same_seed(name, dtype):
    first, again, other = (drawn(DRAWS[name], dtype, seed=seed) for seed in (1, 1, 2))
    assert np.isfinite(first).all()
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 3), (1, 1, 5)])
@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint64", "bool"])
@pytest.mark.parametrize("name", DRAWS)
def test_inputs_of_few_elements_or_none_are_drawn(name, dtype, shape):
    drawn(DRAWS[name], dtype, shape)


@pytest.mark.parametrize("dtype", dtypes.FLOATS)
def test_realistic_floats_are_of_both_signs_and_all_magnitudes(dtype):
    values = drawn(realistic(), dtype)
    magnitudes = np.abs(values)
    assert 0.05 < (values == 0).mean() < 0.2
    assert 0.3 < (values < 0).mean() < 0.6
    assert magnitudes[magnitudes > 0].min() < 1e-3
    assert magnitudes.max() > 100
    assert ((magnitudes > 0.01) & (magnitudes < 0.09)).any()
    assert 1 < np.sqrt((np.sort(magnitudes.reshape(-1))[:-80] ** 2).mean()) < 3


def test_huge_values_stand_at_ends_of_rows_too():
    at = np.argwhere(np.abs(drawn(realistic(), shape=(50, 60))) > 20)
    assert {0, 59} <= set(at[:, 1])


def test_zeros_negative_and_extreme_values_are_left_out_when_they_should_be():
    plain = drawn(
        realistic(zeros=False, signed=False, magnitudes=MagnitudeRange(False, False, 1 / 4))
    )
    assert plain.min() >= 2**-5 / 8
    assert plain.max() <= 16 / 2


def test_what_is_multiplied_in_long_sums_is_divided_by_the_root_of_their_length():
    values = drawn(realistic(), use=InputUse(factors=10_000))
    assert np.abs(values).max() <= 16 * 2 / 100
    assert np.abs(values).max() > 4 / 100


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_indices_stay_in_their_range(name, dtype):
    values = drawn(DRAWS[name], dtype, use=InputUse(limit=7))
    assert set(np.unique(values)) == set(range(7))


@pytest.mark.parametrize("name", ["realistic", "whole range", "largest", "whole numbers"])
@pytest.mark.parametrize("dtype", dtypes.NUMBERS)
def test_nothing_is_divided_by_zero_and_integers_not_by_large_ones(name, dtype):
    values = drawn(DRAWS[name], dtype, use=InputUse(divides=True))
    assert (values != 0).all()
    if dtypes.is_integer(dtype):
        assert np.abs(values.astype(np.int64)).max() <= 8


@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
def test_integers_come_in_all_sizes_but_the_most_negative_one(dtype):
    values = drawn(whole_range, dtype)
    bits = {int(value).bit_length() for value in values.reshape(-1)}
    assert bits >= set(range(1, dtypes.bits(dtype) - 1))
    assert values.min() > dtypes.min_value(dtype) or dtypes.is_unsigned(dtype)
    assert (values.min() < 0) != dtypes.is_unsigned(dtype)
    large = drawn(largest_integers, dtype)
    assert large.min() >= 0
    assert large.mean() > dtypes.max_value(dtype) / 3


@pytest.mark.parametrize(("dtype", "most"), [("float32", 1000), ("bfloat16", 256), ("int8", 127)])
def test_whole_numbers_are_no_larger_than_their_type_has_them_all(dtype, most):
    values = drawn(whole_numbers(1000), dtype, (200, 200)).astype(np.float64)
    assert (values == np.rint(values)).all()
    assert np.abs(values).min() == 1
    assert most / 2 < np.abs(values).max() <= most


def test_parts_of_ones_leave_no_element_out_together():
    parts = [drawn(whole_numbers(1, part, 4)) for part in range(4)]
    assert (np.abs(parts).sum(axis=0) == 1).mean() > 0.2
    for part in parts:
        assert 0.1 < (part != 0).mean() < 0.4


@pytest.mark.parametrize("dtype", dtypes.FLOATS)
def test_along_an_axis_powers_of_two_are_ones_after_exp_and_the_others_zeros(dtype):
    for axis in (0, 1):
        values = np.moveaxis(drawn(saturated_along(axis, shifted=True), dtype), axis, -1)
        largest = values.max(axis=-1, keepdims=True)
        with np.errstate(under="ignore"):
            exps = np.exp(values - largest)
        assert set(np.unique(exps)) == {0.0, 1.0}
        counts = exps.sum(axis=-1)
        assert (np.log2(counts) % 1 == 0).all()
        assert {0, values.shape[-1] - 1} <= set(exps[counts == 1].argmax(axis=-1))
        assert largest.max() > 100
    assert drawn(saturated_along(1, shifted=False), dtype).max() == 0


@pytest.mark.parametrize("draw", [whole_numbers(100), whole_numbers(2), whole_range])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_extremes_of_rows_and_columns_are_at_ends_and_of_one_sign_in_some(draw, axis, sign):
    values = -sign * drawn(draw, "int32", (64, 20), InputUse(sign=sign))
    most = values.max(axis)
    assert (most < 0).any()
    for end in (0, -1):
        assert (np.delete(values, end, axis).max(axis) < most).any()
