"""The built-in templates on other types than float32: default configurations, checked answers."""

from __future__ import annotations

from typing import Any

import pytest
from support.benches import built, run_bench

from autotune.ir import dtypes
from autotune.measure.timing_policy import TimingPolicy
from autotune.task.task import Task

ONCE = TimingPolicy(warmup=1, repeats=1, min_repeat_ms=0.0)
SIZES: dict[str, dict[str, Any]] = {
    "broadcast_add": {"n": 70},
    "matmul": {"m": 13, "n": 70, "k": 50},
    "softmax": {"m": 5, "n": 150},
    "conv2d_nchw": {"n": 1, "c": 3, "h": 9, "w": 9, "o": 5, "kh": 3, "kw": 3, "pad": 1},
}
TYPES = ("float16", "bfloat16", "int8", "uint16", "uint64")


@pytest.mark.parametrize(
    ("template", "dtype"),
    [
        (template, dtype)
        for template in SIZES
        for dtype in TYPES
        if template != "softmax" or dtypes.is_float(dtype)
    ],
)
def test_a_template_computes_its_reference_on_other_types(template: str, dtype: str) -> None:
    task = Task.from_reference(template, {**SIZES[template], "dtype": dtype})
    bench = run_bench(task, ONCE)
    assert bench.reference == "given"
    assert {argument.dtype for argument in task.arguments} == {dtype}
    kernel = built(task, task.space.config(task.default_index).values)
    assert bench.run(kernel).max_error is not None
