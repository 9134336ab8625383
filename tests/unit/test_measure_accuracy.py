"""What is drawn, what is poisoned, and which errors a kernel may make."""

import math

import numpy as np
import pytest

from autotune.ir import dtypes
from autotune.measure.accuracy import Comparison, draw, poison

DTYPES = dtypes.ALL


@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_have_both_signs_and_are_never_zero(dtype):
    values = draw((40, 50), dtype, np.random.default_rng(0))
    assert values.dtype == dtypes.numpy_dtype(dtype)
    assert values.shape == (40, 50)
    assert values.flags.c_contiguous
    if dtype == "bool":
        assert 0.4 < values.mean() < 0.6
        return
    assert 0.4 < (values < 0).mean() < 0.6 or dtypes.is_unsigned(dtype)
    magnitudes = np.abs(values.astype(np.float64))
    least, most = (1, 8) if dtypes.is_integer(dtype) else (0.099, 1.0)
    assert least <= magnitudes.min()
    assert magnitudes.max() <= most
    different = 8 if dtypes.is_integer(dtype) else 200 if dtype == "bfloat16" else 1000
    assert len(np.unique(magnitudes)) >= different


def test_unsigned_inputs_are_positive_and_a_seed_gives_the_same_again():
    first = draw((100,), "float32", np.random.default_rng(3), signed=False)
    assert (first > 0).all()
    again = draw((100,), "float32", np.random.default_rng(3), signed=False)
    assert np.array_equal(first, again)


@pytest.mark.parametrize("dtype", DTYPES)
def test_poison_is_wrong_in_every_element(dtype):
    expected = draw((3000,), dtype, np.random.default_rng(0))
    if dtypes.is_float(dtype):
        expected[5] = np.nan
    output = expected.copy()
    poison(output, expected)
    assert Comparison(expected).check(output).wrong == expected.size


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_single_wrong_element_is_found_and_located(dtype):
    expected = draw((300, 500), dtype, np.random.default_rng(0))
    output = expected.copy()
    output[211, 17] = not output[211, 17] if dtype == "bool" else output[211, 17] + 1
    verdict = Comparison(expected, 500, dtypes.accumulator(dtype)).check(output)
    assert (verdict.wrong, verdict.first) == (1, (211, 17))
    assert verdict.max_error == pytest.approx(1, rel=0.01 if dtypes.is_half(dtype) else 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [1, 30, 1000])
def test_rounding_passes_and_one_forgotten_term_does_not(dtype, length):
    rng = np.random.default_rng(length)
    a, b = draw((64, length), dtype, rng), draw((length, 64), dtype, rng)
    exact = (a.astype(np.longdouble) @ b.astype(np.longdouble)).astype(dtype)
    comparison = Comparison(exact, length)
    in_order = np.zeros_like(exact)
    for k in range(length):  # one term after the other: the largest errors
        in_order += np.outer(a[:, k], b[k])
    fine = comparison.check(in_order)
    assert fine.wrong == 0
    assert fine.max_error <= comparison.tolerance.absolute / 3  # far from the edge
    in_order[7, 9] -= a[7, 0] * b[0, 9]
    assert comparison.check(in_order).first == (7, 9)


@pytest.mark.parametrize("dtype", dtypes.HALVES)
def test_half_floats_summed_in_float32_may_be_off_by_their_rounding_only(dtype):
    rng = np.random.default_rng(0)
    a, b = draw((64, 1000), dtype, rng), draw((1000, 64), dtype, rng)
    kind = dtypes.numpy_dtype(dtype)
    exact = (a.astype(np.float64) @ b.astype(np.float64)).astype(kind)
    close = Comparison(exact, 1000, "float32")
    assert close.tolerance.relative == pytest.approx(8 * dtypes.epsilon(dtype), rel=0.01)
    assert close.check((a.astype(np.float32) @ b.astype(np.float32)).astype(kind)).wrong == 0
    rounded_every_time = np.zeros_like(exact)
    for k in range(1000):
        rounded_every_time += np.outer(a[:, k], b[k])
    assert close.check(rounded_every_time).wrong > 0
    assert Comparison(exact, 1000, dtype).check(rounded_every_time).wrong == 0


def test_large_elements_may_be_off_by_more_than_small_ones():
    expected = np.array([1.0] * 1000 + [1e6], dtype=np.float32)
    comparison = Comparison(expected)
    nearly = expected.copy()
    nearly[-1] += 1.0
    assert comparison.check(nearly).wrong == 0
    nearly[0] += 1.0
    assert comparison.check(nearly).first == (0,)


def test_integers_must_be_equal_however_large():
    expected = np.array([2**62, -(2**62)], dtype=np.int64)
    verdict = Comparison(expected, 10**6).check(np.array([2**62 + 1, -(2**62)]))
    assert (verdict.wrong, verdict.first, verdict.max_error) == (1, (0,), 1.0)


def test_infinities_and_nan_count_as_right_only_where_they_are_expected():
    expected = np.array([np.inf, -np.inf, np.nan, 1.0], dtype=np.float32)
    comparison = Comparison(expected)
    right = comparison.check(expected.copy())
    assert (right.wrong, right.max_error) == (0, 0.0)
    wrong = comparison.check(np.array([-np.inf, -np.inf, 1.0, np.nan], dtype=np.float32))
    assert wrong.wrong == 3
    assert wrong.first == (0,)
    assert not math.isfinite(wrong.max_error)


def test_nothing_to_compare_is_right():
    empty = np.zeros((0, 3), dtype=np.float32)
    assert Comparison(empty).check(empty).wrong == 0
    poison(empty, empty)


def test_a_zero_dimensional_output_is_compared():
    expected = np.array(2.0, dtype=np.float32)
    assert Comparison(expected).check(np.array(2.0, dtype=np.float32)).wrong == 0
    assert Comparison(expected).check(np.array(3.0, dtype=np.float32)).first == ()


@pytest.mark.parametrize("place", [5, 99_999])
@pytest.mark.parametrize(
    ("dtype", "value"),
    [(d, v) for d in dtypes.FLOATS for v in (np.nan, np.inf, -np.inf)],
)
def test_one_nan_or_infinity_anywhere_is_a_wrong_answer_whose_largest_error_tells(
    dtype, value, place
):
    expected = draw((100_000,), dtype, np.random.default_rng(0))
    output = expected.copy()
    output[50_000] += dtypes.numpy_dtype(dtype).type(0.5)
    output[place] = value
    verdict = Comparison(expected).check(output)
    assert verdict.wrong == 2
    assert math.isnan(verdict.max_error) if math.isnan(value) else verdict.max_error == math.inf


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if dtypes.is_integer(d)])
def test_the_largest_error_of_integers_is_exact_at_the_ends_of_their_range(dtype):
    least, most = dtypes.min_value(dtype), dtypes.max_value(dtype)
    expected = np.array([least, most, 3], dtype)
    verdict = Comparison(expected).check(np.array([most, most - 1, 3], dtype))
    assert (verdict.wrong, verdict.first) == (2, (0,))
    assert verdict.max_error == float(most - least)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_neither_tiny_nor_huge_values_hide_an_error(scale):
    expected = draw((1000,), "float64", np.random.default_rng(0)) * scale
    output = expected * (1 + 1e-16)
    assert Comparison(expected).check(output).wrong == 0
    output[3] *= 1.001
    assert Comparison(expected).check(output).first == (3,)


def test_an_output_of_zeros_must_be_zeros():
    expected = np.zeros(10, np.float32)
    output = expected.copy()
    output[4] = -0.0
    assert Comparison(expected).check(output).wrong == 0
    output[4] = 1e-30
    assert Comparison(expected).check(output).first == (4,)
