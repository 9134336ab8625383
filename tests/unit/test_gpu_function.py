"""What is built for GPUs on a machine without one: source and machine code, and clear refusals."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_compiler import needs_nvrtc

import autotune
from autotune import te
from autotune.errors import SaveError, TargetError
from autotune.runtime.cuda import driver_version


def doubled(target: str) -> autotune.builder.BuiltFunction:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    return autotune.build(s, [A, B], target, name="doubled")


def test_the_source_is_there_without_a_device() -> None:
    source = doubled("cuda -arch=sm_90").source
    assert 'extern "C" __global__ void __launch_bounds__(64) doubled_kernel(' in source
    assert "B[tx] = A[tx] * 2.0f;" in source


@needs_nvrtc
def test_machine_code_is_made_for_the_architecture_that_the_target_names() -> None:
    cubin = doubled("cuda -arch=sm_80")._compiled.cubin  # type: ignore[union-attr]
    assert cubin.arch == "sm_80"
    assert list(cubin.kernels) == ["doubled_kernel"]


@pytest.mark.skipif(driver_version() is not None, reason="there is a driver")
def test_a_call_without_a_gpu_says_so_in_one_line() -> None:
    arrays = np.zeros(64, "float32"), np.zeros(64, "float32")
    with pytest.raises(TargetError) as error:
        doubled("cuda -arch=sm_90")(*arrays)
    assert "\n" not in str(error.value)


def test_a_function_for_gpus_is_not_saved(tmp_path: object) -> None:
    with pytest.raises(SaveError, match="is built for a GPU, which is not saved"):
        doubled("cuda -arch=sm_90").save(f"{tmp_path}/doubled.so")
