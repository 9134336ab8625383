"""What is poisoned, and which elements of an output are wrong."""

import math

import numpy as np
import pytest
from support.random_values import draw

from autotune.ir import dtypes
from autotune.measure.checks import compare_outputs
from autotune.runtime.cpu.cpu_device import CpuDevice
from autotune.target import Target

DTYPES = dtypes.ALL
CPU = CpuDevice(Target("llvm"))


def OutputCheck(expected, allowed=0.0):
    return compare_outputs.OutputCheck(CPU, expected, allowed)


def poison(output, expected):
    OutputCheck(expected).poison(output)


@pytest.mark.parametrize("dtype", DTYPES)
def test_poison_is_wrong_in_every_element(dtype):
    expected = draw((3000,), dtype, np.random.default_rng(0))
    if dtypes.is_float(dtype):
        expected[5] = np.nan
    output = expected.copy()
    poison(output, expected)
    assert OutputCheck(expected).check(output).wrong == expected.size


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_single_wrong_element_is_found_and_located(dtype):
    expected = draw((300, 500), dtype, np.random.default_rng(0))
    output = expected.copy()
    output[211, 17] = not output[211, 17] if dtype == "bool" else output[211, 17] + 1
    verdict = OutputCheck(expected, 1e-3).check(output)
    assert (verdict.wrong, verdict.first) == (1, (211, 17))
    assert verdict.max_error == pytest.approx(1, rel=0.01 if dtypes.is_half(dtype) else 1e-5)


def test_each_element_may_be_off_by_its_own_error():
    expected = np.array([1.0] * 1000 + [1e6], dtype=np.float32)
    comparison = OutputCheck(expected, np.abs(expected) * np.float32(1e-5))
    nearly = expected.copy()
    nearly[-1] += 1.0
    assert comparison.check(nearly).wrong == 0
    nearly[0] += 1.0
    verdict = comparison.check(nearly)
    assert (verdict.wrong, verdict.first) == (1, (0,))
    assert verdict.allowed == pytest.approx(1e-5)


def test_an_element_of_which_nothing_can_be_said_is_right_whatever_it_is():
    expected = np.array([3, 4], np.int32)
    allowed = np.array([np.inf, 0], np.float32)
    assert OutputCheck(expected, allowed).check(np.array([9, 4], np.int32)).wrong == 0
    assert OutputCheck(expected, allowed).check(np.array([9, 5], np.int32)).first == (1,)


def test_integers_must_be_equal_however_large():
    expected = np.array([2**62, -(2**62)], dtype=np.int64)
    verdict = OutputCheck(expected).check(np.array([2**62 + 1, -(2**62)]))
    assert (verdict.wrong, verdict.first, verdict.max_error) == (1, (0,), 1.0)


def test_infinities_and_nan_count_as_right_only_where_they_are_expected():
    expected = np.array([np.inf, -np.inf, np.nan, 1.0], dtype=np.float32)
    comparison = OutputCheck(expected)
    right = comparison.check(expected.copy())
    assert (right.wrong, right.max_error) == (0, 0.0)
    wrong = comparison.check(np.array([-np.inf, -np.inf, 1.0, np.nan], dtype=np.float32))
    assert wrong.wrong == 3
    assert wrong.first == (0,)
    assert not math.isfinite(wrong.max_error)


def test_nothing_to_compare_is_right():
    empty = np.zeros((0, 3), dtype=np.float32)
    assert OutputCheck(empty).check(empty).wrong == 0
    poison(empty, empty)


def test_a_zero_dimensional_output_is_compared():
    expected = np.array(2.0, dtype=np.float32)
    assert OutputCheck(expected).check(np.array(2.0, dtype=np.float32)).wrong == 0
    assert OutputCheck(expected).check(np.array(3.0, dtype=np.float32)).first == ()


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
    verdict = OutputCheck(expected).check(output)
    assert verdict.wrong == 2
    assert math.isnan(verdict.max_error) if math.isnan(value) else verdict.max_error == math.inf


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if dtypes.is_integer(d)])
def test_the_largest_error_of_integers_is_exact_at_the_ends_of_their_range(dtype):
    least, most = dtypes.min_value(dtype), dtypes.max_value(dtype)
    expected = np.array([least, most, 3], dtype)
    verdict = OutputCheck(expected).check(np.array([most, most - 1, 3], dtype))
    assert (verdict.wrong, verdict.first) == (2, (0,))
    assert verdict.max_error == float(most - least)


def test_an_output_of_zeros_must_be_zeros():
    expected = np.zeros(10, np.float32)
    output = expected.copy()
    output[4] = -0.0
    assert OutputCheck(expected).check(output).wrong == 0
    output[4] = 1e-30
    assert OutputCheck(expected).check(output).first == (4,)
