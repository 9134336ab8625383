"""Decorated functions and times on a GPU that there is not: see `fake_machine`."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cuda_compiler import needs_nvrtc
from support.fake_machine import COMPILER, FakeMachine

CALLS = """
import warnings
import autotune, cupy, numpy as np
from autotune import te

warnings.simplefilter("ignore")  # nothing is tuned

@autotune.autotuned(log="log.jsonl", when="default", target="cuda -arch=sm_90")
def doubled(n: int, dtype: str = "float32"):
    A = te.placeholder((n,), dtype, name="A")
    return te.compute((n,), lambda i: A[i] * 2, name="B")

for dtype in ("f4", "f8"):
    a = cupy.asarray(np.arange(300, dtype=dtype))
    b = doubled(a)
    assert type(b) is cupy.ndarray and b.dtype == dtype
    np.testing.assert_array_equal(b.get(), 2 * np.arange(300))
    c = cupy.asarray(np.zeros(300, dtype))
    assert doubled(a, c) is None
    np.testing.assert_array_equal(c.get(), b.get())
timing = doubled.built(a).time(a, c, repeats=2)
assert timing.repeats == 2 and 0 < timing.low <= timing.high < 1, timing
print("right")
"""


@needs_nvrtc
@pytest.mark.skipif(COMPILER is None, reason="no C compiler is on this machine")
def test_arrays_of_a_gpu_are_read_returned_and_timed(tmp_path: Path) -> None:
    done = FakeMachine.make(tmp_path).run("-c", CALLS, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
