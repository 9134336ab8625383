"""Random values of each type, none of them zero, for tests of what arrays hold."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.ir import dtypes


def draw(shape: Sequence[int], dtype: str, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Return floats of magnitude 0.1 to 1, integers of 1 to 8, of both signs; or bools."""
    kind = dtypes.numpy_dtype(dtype)
    if dtype == dtypes.BOOL:
        return rng.random(shape) < 0.5
    if dtypes.is_float(dtype):
        values = rng.random(shape) * 0.9 + 0.1
    else:
        values = rng.integers(1, 9, shape)
    signs = 1 if dtypes.is_unsigned(dtype) else rng.choice([-1, 1], shape)
    return np.asarray(values * signs, dtype=kind)
