"""`tvm.testing`: comparisons of arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.compat.arrays import NDArray


def assert_allclose(
    actual: NDArray | npt.ArrayLike,
    desired: NDArray | npt.ArrayLike,
    rtol: float = 1e-7,
    atol: float = 1e-7,
) -> None:
    """Compare arrays of the same shape: ``abs(actual - desired) <= atol + rtol * abs(desired)``.

    Raises
    ------
    AssertionError
        If they differ, with the numbers that do.
    """
    got, want = (
        each.numpy() if isinstance(each, NDArray) else np.asarray(each)
        for each in (actual, desired)
    )
    assert got.shape == want.shape, f"the shapes differ: {got.shape} and {want.shape}"
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
