"""What the built-in templates refuse: one line that names the argument, for all configurations."""

from __future__ import annotations

from typing import Any

import pytest

from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.task.task import Task

SIZES: dict[str, dict[str, Any]] = {
    "broadcast_add": {"n": 8},
    "matmul": {"m": 8, "n": 8, "k": 8},
    "softmax": {"m": 8, "n": 8},
    "conv2d_nchw": {"n": 1, "c": 2, "h": 8, "w": 8, "o": 2, "kh": 3, "kw": 3, "stride": 1},
}


def refusal(template: str, **changes: Any) -> str:
    task = Task.from_reference(template, {**SIZES[template], **changes})
    with pytest.raises(UsageError) as caught:
        _ = task.space
    return str(caught.value)


@pytest.mark.parametrize(
    ("template", "name"), [(template, name) for template, sizes in SIZES.items() for name in sizes]
)
def test_a_size_below_one_is_refused_by_its_name(template: str, name: str) -> None:
    assert refusal(template, **{name: 0}) == f"{template}: {name} must be at least 1, got 0"
    assert refusal(template, **{name: -3}) == f"{template}: {name} must be at least 1, got -3"


@pytest.mark.parametrize("template", SIZES)
@pytest.mark.parametrize("dtype", ["bool", "float8", "", "int"])
def test_an_unsupported_dtype_is_refused_with_those_that_are(template: str, dtype: str) -> None:
    known = ", ".join(dtypes.FLOATS if template == "softmax" else dtypes.NUMBERS)
    assert refusal(template, dtype=dtype) == (
        f"{template}: dtype must be one of {known}, got {dtype!r}"
    )


def test_softmax_is_of_floats_only() -> None:
    assert "float32, float64, got 'int32'" in refusal("softmax", dtype="int32")


def test_negative_padding_is_refused() -> None:
    assert refusal("conv2d_nchw", pad=-1) == "conv2d_nchw: pad must be at least 0, got -1"


@pytest.mark.parametrize("pad", [2**30, 2**62])
def test_padding_that_cannot_be_counted_is_refused(pad: int) -> None:
    assert refusal("conv2d_nchw", pad=pad) == (
        f"conv2d_nchw: pad must be at most {2**30 - 5}, got {pad}"
    )
