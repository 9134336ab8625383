"""Every guard left in the final form makes a difference: an iteration that reaches it fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.guards import Guards
from support.slow_cases import slow, slow_if
from support.verify import verify

from autotune.task.task import Task

CASES: list[tuple[str, dict[str, Any]]] = [
    ("matmul", {"m": 13, "n": 37, "k": 10}),
    ("matmul", {"m": 32, "n": 32, "k": 16}),
    ("matmul", {"m": 33, "n": 50, "k": 9}),
    ("conv2d_nchw", {"n": 1, "c": 3, "h": 9, "w": 11, "o": 5, "kh": 3, "kw": 3, "pad": 1}),
    ("conv2d_nchw", {"n": 2, "c": 2, "h": 8, "w": 8, "o": 16, "kh": 3, "kw": 3, "stride": 2}),
    ("conv2d_nchw", {"n": 1, "c": 2, "h": 7, "w": 7, "o": 9, "kh": 2, "kw": 3, "pad": 2}),
    ("softmax", {"m": 5, "n": 37}),
    ("softmax", {"m": 16, "n": 64}),
    ("broadcast_add", {"n": 37}),
    ("broadcast_add", {"n": 64}),
]


@pytest.mark.parametrize("count", [3, slow(60)])
@pytest.mark.parametrize(
    ("cpu", "template", "args"),
    [("skylake-avx512", *case) for case in CASES]
    + slow_if(lambda case: case[1] == "conv2d_nchw", [("haswell", *case) for case in CASES]),
)
def test_no_guard_is_left_that_always_holds(
    template: str, args: dict[str, Any], cpu: str, count: int
) -> None:
    task = Task.from_reference(template, args, f"llvm -mcpu={cpu}")
    indices = task.space.sample(min(count, len(task.space)), np.random.default_rng(0))
    for index in indices:
        final = verify(task.final(int(index)))
        assert Guards(final).idle() == [], f"config {index}:\n{final}"
