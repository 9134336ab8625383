"""What error each element may have: it follows its own scale, the terms of sums, and the types."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.ir import dtypes
from autotune.measure.checks.error_bounds import LARGEST_SHARE, Precision, allowances
from autotune.measure.checks.reference import Reference
from autotune.runtime.signature import ArrayParameter


def errors(
    function, *arrays, terms=1, accumulator="float32", dtype="float32", samples=6, wide=True
):
    """Return the errors that the elements of a function's result may have.

    wide: whether it is computed in float64.
    """
    shape = np.shape(function(*arrays))
    parameters = [ArrayParameter("Y", dtype, shape, True)]
    reference = Reference(function, parameters, "t", only_own_types=not wide)
    expected = reference(arrays)
    precision = Precision(accumulator, accumulator, True, terms, samples)
    rng = np.random.default_rng(1)
    (found,) = allowances(reference, arrays, expected, [dtype], precision, rng)
    return found


def normal(*shape, dtype="float32"):
    """Return values of both signs."""
    return np.random.default_rng(0).standard_normal(shape).astype(dtypes.numpy_dtype(dtype))


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**40])
def test_what_is_allowed_scales_with_the_values(factor):
    x = normal(6, 64)
    once = errors(lambda a: a.sum(axis=1), x, terms=64).errors
    scaled = errors(lambda a: a.sum(axis=1), x * np.float32(factor), terms=64).errors
    np.testing.assert_allclose(scaled, once * factor, rtol=1e-3)


def test_one_large_element_does_not_widen_what_others_may_be_off_by():
    x = normal(4096)
    before = errors(lambda a: a * 3, x).errors
    x[77] = 1e8
    after = errors(lambda a: a * 3, x).errors
    np.testing.assert_allclose(np.delete(after, 77), np.delete(before, 77), rtol=0.5)
    assert after[77] > 1


def test_what_cancels_inside_of_an_element_may_be_off_by_its_rounding_in_a_narrow_reference_too():
    x = 0.2 * normal(4096)  # most are far smaller than what cancels
    x[5::256] = 1.0
    x[7::64] = np.linspace(-6, -4, 64)
    one = np.float32(1)

    def gelu(a):
        return np.float32(0.5) * a * (one + np.tanh(a * (one + a * a / 20)))

    allowed = errors(gelu, x, wide=False).errors
    next_to_one = 2.0**-24
    assert (allowed > 2.5 * 0.5 * np.abs(x) * next_to_one).all()
    assert (allowed < 2e-5).all()


def test_what_is_allowed_grows_like_the_root_of_the_terms():
    few, many = (
        np.median(errors(lambda a: a.sum(axis=1), normal(32, n), terms=n).errors) / np.sqrt(n)
        for n in (64, 4096)
    )
    assert 4 < many / few < 16


def test_terms_that_the_owner_claims_but_the_reference_has_not_allow_no_more():
    honest = errors(lambda a: a * 2, normal(4096), terms=1).errors
    claimed = errors(lambda a: a * 2, normal(4096), terms=10**6).errors
    assert np.median(claimed) < 4 * np.median(honest)


def test_sums_that_cancel_may_be_off_by_a_share_of_their_terms():
    x = normal(8, 64)
    x[:, 32:] = -x[:, :32]
    allowed = errors(lambda a: a.sum(axis=1), x, terms=64).errors
    assert (allowed > 1e-6).all()
    assert (allowed < 1e-3).all()


@pytest.mark.parametrize("dtype", dtypes.FLOATS)
def test_no_element_may_be_off_by_more_than_an_eighth_of_its_scale(dtype):
    x = normal(64, 256, dtype=dtype)
    y = x.astype(np.float64).sum(axis=1)
    allowed = errors(lambda a: a.sum(axis=1), x, terms=256, accumulator=dtype, dtype=dtype).errors
    scale = np.sqrt((x.astype(np.float64) ** 2).sum(axis=1))
    assert (allowed <= LARGEST_SHARE * 3 * np.maximum(scale, np.abs(y))).all()


def test_a_wide_accumulator_allows_half_floats_little_more_than_rounding_once():
    x = normal(64, 256, dtype="float16")
    narrow = errors(lambda a: a.sum(axis=1), x, terms=256, accumulator="float16", dtype="float16")
    wide = errors(lambda a: a.sum(axis=1), x, terms=256, dtype="float16")
    assert np.median(wide.errors) < np.median(narrow.errors) / 8
    assert wide.share < 3 * dtypes.epsilon("float16")


def test_doubles_far_from_one_have_errors_of_their_own_size():
    x = np.array([-400.0] * 48 + [400.0] * 48)
    allowed = errors(np.exp, x, accumulator="float64", dtype="float64").errors
    assert (allowed[:48] > 0).all()
    assert (allowed[:48] < 1e-184).all()
    assert np.isfinite(allowed).all()


def test_the_share_that_an_element_may_be_off_by_does_not_depend_on_how_small_it_is():
    x = np.full(64, -5.0)
    near = errors(lambda a: np.exp(100 * a), x, accumulator="float64", dtype="float64").errors
    far = errors(
        lambda a: 2.0**-200 * np.exp(100 * a), x, accumulator="float64", dtype="float64"
    ).errors
    np.testing.assert_allclose(far, 2.0**-200 * near)
    assert (near > 100 * dtypes.epsilon("float64") * np.exp(-500)).all()


def test_numbers_below_the_normal_ones_may_be_off_by_their_distance():
    x = np.full(64, 3 * 2.0**-24, np.float16)
    allowed = errors(lambda a: a * 1, x, dtype="float16").errors
    assert (allowed >= 2.0**-24).all()
    assert (allowed < 2.0**-22).all()


def test_integers_must_be_equal_where_rounding_does_not_decide_them():
    x = np.array([0.3, 7.7, 5.0, -2.4] * 8, np.float32)
    x[2] = 5 * (1 - 2.0**-30)
    found = errors(np.floor, x * np.float32(1), dtype="int32").errors
    assert (np.reshape(found, -1)[:2] == 0).all()


def test_every_element_of_a_long_scan_may_be_off_by_a_share_of_its_own_scale():
    x = np.ones(1 << 20)
    scale = np.sqrt(np.cumsum(x * x))
    x[1::2] = -1  # the sums themselves are 0 or 1
    found = errors(
        np.cumsum, x, terms=x.size, accumulator="float64", dtype="float64", samples=2
    ).errors
    likely = 4 * dtypes.epsilon("float64") * np.sqrt(x.size) * scale
    assert (found > likely / 10).all()
    assert (found < likely * 4).all()
