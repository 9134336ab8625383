"""CUDA sources as files, to be read by people; compilers take them, and threads of a CPU run them.

`pytest --update-golden` rewrites the files, which are then to be read before they are committed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.cuda_compiler import needs_nvrtc
from support.gpu_cases import Case, broadcast_add, matmul, relu_tail, row_sums, softmax, transpose
from support.te_reference import Reference, random_array

import autotune
from autotune.codegen.cuda.cuda_source import emit
from autotune.lowering.finalise import analyse
from autotune.lowering.gpu.finalise_kernels import finalise_kernels
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.runtime.cuda.nvrtc import compile_cubin
from autotune.te.tensor import PlaceholderOp

CASES: dict[str, Callable[[], Case]] = {
    "broadcast_add": broadcast_add,
    "relu_tail_float16": relu_tail,
    "transpose": transpose,
    "row_sums": row_sums,
    "softmax": softmax,
    "matmul": matmul,
    "matmul_through_registers": lambda: matmul(32, "float32", (1, 4, 4), 4, 4, "registers"),
    "matmul_through_copies": lambda: matmul(32, "float32", (1, 4, 4), 4, 4, "copies"),
    "matmul_int8_ahead": lambda: matmul(64, "int8", (1, 8, 4), 16, 4, ahead=True),
}


def source_of(name: str) -> str:
    schedule, tensors = CASES[name]()
    analysed = analyse(lower_schedule(schedule, tensors, name.split("_float16")[0]))
    return emit(finalise_kernels(analysed)).text


@pytest.mark.parametrize("name", CASES)
def test_the_source_reads_as_the_file(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"cuda/{name}.cu", source_of(name))


@needs_nvrtc
@pytest.mark.parametrize("name", CASES)
def test_the_source_compiles(name: str) -> None:
    for arch in ("sm_80", "sm_90", "sm_100"):
        cubin = compile_cubin(source_of(name), arch)
        assert "warning" not in cubin.log
        assert all(usage.stack_bytes == 0 for usage in cubin.kernels.values())


@pytest.mark.parametrize("name", CASES)
def test_threads_on_the_cpu_compute_what_numpy_does(name: str) -> None:
    schedule, tensors = CASES[name]()
    rng = np.random.default_rng(0)
    given = {
        t: random_array(rng, t.shape, t.dtype) for t in tensors if isinstance(t.op, PlaceholderOp)
    }
    (out,) = (t for t in tensors if t not in given)
    result = np.full(out.shape, 77, out.dtype)
    autotune.build(schedule, tensors, "cuda -on=cpu")(*given.values(), result)
    wanted = Reference(given).array(out)
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)
