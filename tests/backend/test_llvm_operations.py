"""Conditions, and extremes beside a NaN or a constant, compiled by LLVM against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from support.llvm_kernels import (
    LANES,
    SERIAL,
    VECTORIZED,
    check,
    compiled,
    elementwise,
    poisoned,
    values,
)
from support.numpy_operations import NUMPY

from autotune.ir import ops
from autotune.ir.stmt import LoopKind


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("op", ["and", "or", "==", "!=", "<", ">="])
def test_conditions_agree_with_numpy(op: str, kind: LoopKind) -> None:
    a, b = values("bool", seed=3), values("bool", seed=4)
    expected = NUMPY[op](a, b)
    check(
        elementwise(lambda x, y: ops.binary(op, x, y), ("bool", "bool"), "bool", kind),
        [a, b],
        expected,
    )


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("constant", [None, 0.0])
@pytest.mark.parametrize("op", ["min", "max"])
def test_min_and_max_hand_on_a_nan_as_numpy_does(
    op: str, constant: float | None, kind: LoopKind
) -> None:
    a = np.resize(np.array([np.nan, 1.0, np.nan, -np.inf, 2.0, -3.0], "float32"), 2 * LANES)
    b = np.resize(np.array([1.0, np.nan, np.nan, 0.0, np.inf], "float32"), 2 * LANES)
    if constant is not None:
        b[:] = constant
    kernel = compiled(
        elementwise(
            lambda x, y: ops.binary(op, x, y if constant is None else constant),
            ("float32", "float32"),
            "float32",
            kind,
        )
    )
    out = poisoned("float32", 2 * LANES)
    kernel(a, b, out)
    np.testing.assert_array_equal(out, NUMPY[op](a, b))
