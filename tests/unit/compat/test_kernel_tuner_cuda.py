"""Kernels in CUDA C++ of Kernel Tuner's calls: their launches, texts, machine code, and runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cuda_compiler import needs_nvrtc

from autotune.compat.kernel_tuner import tune_kernel
from autotune.compat.kernel_tuner.kernels import KernelArguments
from autotune.compat.kernel_tuner.launches import LaunchArguments, block_size_names_of
from autotune.compat.kernel_tuner.problem import Problem
from autotune.compat.kernel_tuner.runners import single_run
from autotune.compat.kernel_tuner.sources import nvrtc_flags, with_constants
from autotune.errors import TargetError, UsageError
from autotune.runtime.cuda.gpu_program import GpuSource
from autotune.runtime.cuda.gpu_source import raw_source

ADD = """
__global__ void add(float *c, const float *a, const float *b, int n) {
  int i = blockIdx.x * block_size_x * items + threadIdx.x;
#pragma unroll
  for (int k = 0; k < items; ++k, i += block_size_x)
    if (i < n) c[i] = a[i] + b[i];
}
"""
N = 1000
X = np.ones(N, "float32")
PARAMETERS = {"block_size_x": [64, 128], "items": [1, 2]}


def given(**changed: Any) -> KernelArguments:
    own = {
        "kernel_name": "add", "kernel_source": ADD, "problem_size": N,
        "arguments": [np.zeros_like(X), X, X, np.int32(N)], "grid_div_x": ["block_size_x", "items"],
        "grid_div_y": None, "grid_div_z": None, "lang": None, "device": 0, "smem_args": None,
        "cmem_args": None, "texmem_args": None, "compiler": None, "compiler_options": None,
        "defines": None, "block_size_names": None,
    }  # fmt: skip
    return KernelArguments(**{**own, **changed})


def described(parameters: dict[str, list[Any]] = PARAMETERS, **changed: Any) -> Problem:
    arguments = given(**changed)
    whole = arguments.with_text(arguments.problem(parameters), [])
    return Problem(**{**vars(whole), "outputs": [0]})


def source_of(problem: Problem, **values: Any) -> GpuSource:
    return raw_source(problem.kernel(values, times_itself=False).lowered("f"))


def launched(names: list[str] | None = None, **changed: Any) -> Any:
    size, params = changed.pop("problem_size", N), changed.pop("params")
    divisors = [changed.pop(f"grid_div_{axis}", None) for axis in "xyz"]
    own = LaunchArguments(size, divisors, block_size_names_of(names, params), **changed)
    return own.launch(params, params).at(params)


@pytest.mark.parametrize(
    ("changed", "grid", "block"),
    [
        ({}, [8, 1, 1], [128, 1, 1]),
        ({"grid_div_x": []}, [1000, 1, 1], [128, 1, 1]),
        ({"problem_size": 1e3, "grid_div_y": 1.0}, [8, 1, 1], [128, 1, 1]),
        ({"grid_div_x": "block_size_x * items"}, [4, 1, 1], [128, 1, 1]),
        ({"grid_div_x": ["block_size_x", "items"]}, [4, 1, 1], [128, 1, 1]),
        ({"grid_div_x": lambda p: p["items"] * 100}, [5, 1, 1], [128, 1, 1]),
        ({"problem_size": ("100 * items", 30)}, [2, 8, 1], [128, 1, 1]),
        ({"problem_size": lambda p: (p["items"], 4), "grid_div_y": 3}, [1, 2, 1], [128, 1, 1]),
        ({"names": ["items", "block_size_y"]}, [500, 1, 1], [2, 1, 1]),
    ],
)
def test_a_launch_is_that_of_the_arguments(
    changed: dict[str, Any], grid: list[int], block: list[int]
) -> None:
    params = {"block_size_x": 128, "items": 2}
    if "problem_size" in changed and "grid_div_y" not in changed:
        params["block_size_y"], block = 4, [128, 4, 1]
    assert launched(params=params, **changed) == (grid, block, 0)


def test_blocks_have_256_threads_by_default_and_names_in_any_case() -> None:
    assert launched(params={"a": 1}) == ([1000, 1, 1], [256, 1, 1], 0)
    assert launched(params={"BLOCK_SIZE_X": 32}) == ([32, 1, 1], [32, 1, 1], 0)
    assert launched(params={"a": 3}, smem_args={"size": "4 * a"})[2] == 12


def test_the_text_of_a_configuration_has_the_macros_of_kernel_tuner() -> None:
    source = source_of(described(), block_size_x=128, items=2)
    lines = set(source.text.splitlines())
    assert lines >= {
        "#define block_size_x 128", "#define items 2", "#define grid_size_x 4",
        "#define block_size_y 1", "#define kernel_tuner 1",
    }  # fmt: skip
    (launch,) = source.launches
    assert (launch.grid, launch.block) == ((4, 1, 1), (128, 1, 1))
    # What is checked is an output that begins as its input; others are copies; n is by value.
    assert launch.arguments == (3, 1, 2, ("int32", N))
    assert (source.copied, source.scratch) == (((0, 3),), (1, 2))


def test_a_number_of_an_unroll_directive_is_a_constant_and_0_is_none() -> None:
    text = ADD.replace("#pragma unroll", "#pragma unroll loop_unroll_factor")
    own = described({**PARAMETERS, "loop_unroll_factor": [0, 4]}, kernel_source=text)
    four = source_of(own, block_size_x=64, items=2, loop_unroll_factor=4).text
    none = source_of(own, block_size_x=64, items=2, loop_unroll_factor=0).text
    assert "constexpr int loop_unroll_factor = 4;" in four
    assert "#pragma unroll loop_unroll_factor" in four
    assert "#pragma" not in none


def test_options_of_nvcc_that_nvrtc_lacks_are_told() -> None:
    options = ["-O3", "-arch=sm_80", "--use_fast_math", "-Xcompiler", "-Wall", "-Iinc", "-DA=1"]
    with pytest.warns(UserWarning, match="-O3 -arch=sm_80 -Xcompiler -Wall say nothing to NVRTC"):
        found = nvrtc_flags(options, "/here")
    assert found == ["--use_fast_math", "-I/here/inc", "-DA=1"]


@needs_nvrtc
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"defines": {"block_size_x": "block_size_x", "items": lambda p: p["items"]}},
        {"kernel_source": lambda p: ADD.replace("items", str(p["items"])), "lang": "CUDA"},
        {"grid_div_x": lambda p: p["block_size_x"] * p["items"]},
        {"compiler_options": ["--use_fast_math", "-std=c++17"]},
        {"kernel_name": "add<items>", "kernel_source": "template <int m>" + ADD, "lang": "cupy"},
    ],
    ids=["macros", "defines", "generated", "functions", "options", "template"],
)
def test_a_configuration_compiles_for_a_gpu(changed: dict[str, Any]) -> None:
    program = source_of(described(**changed), block_size_x=128, items=2).compiled("sm_90")
    (launch,) = program.launches
    assert launch.grid == (4, 1, 1)
    assert len(program.cubin.kernels[launch.symbol].parameter_bytes) == 4


def test_without_a_gpu_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> None:
        raise TargetError("target 'cuda' cannot be measured here: no driver; with -on=cpu in it")

    monkeypatch.setattr(single_run, "gpu_facts", refused)
    arguments = [np.zeros_like(X), X, X, np.int32(N)]
    with pytest.raises(TargetError, match=r"needs a GPU, and none can be used: no driver$"):
        tune_kernel("add", ADD, N, arguments, PARAMETERS)


def test_a_cache_of_a_gpu_is_simulated_without_one(tmp_path: Path) -> None:
    entries = {
        f"{block},2": {"block_size_x": block, "items": 2, "time": 100 / block}
        for block in PARAMETERS["block_size_x"]
    }
    document = {
        "device_name": "Some GPU", "kernel_name": "add", "problem_size": N,
        "tune_params_keys": list(PARAMETERS), "cache": entries,
    }  # fmt: skip
    (tmp_path / "c.json").write_text(json.dumps(document))
    results, env = tune_kernel(
        "add", ADD, N, [np.zeros_like(X), X, X, np.int32(N)], PARAMETERS, cache=tmp_path / "c",
        simulation_mode=True, restrictions=["items == 2"], quiet=True,
    )  # fmt: skip
    assert [result["block_size_x"] for result in results] == [64, 128]
    assert (env["best_config"]["block_size_x"], env["device_name"]) == (128, "Some GPU")


# -- constant memory -------------------------------------------------------------------------------

CONSTANTS = """
// __constant__ float weights[3];
__device__ const char *said() { return "__constant__ float weights[3];"; }
__constant__ float weights[2 * (1 + 1)][2],
    bias;
extern "C" { __device__ __constant__ long long seed; }
__global__ void add(float *c, const float *a, const float *b, int n) {
  int i = blockIdx.x * block_size_x * items + threadIdx.x;
  if (i < n) c[i] = a[i] * weights[1][0] + b[i] + bias + seed;
}
"""
VALUES = {
    "weights": np.array([[0.1, -2], [3e20, 4]], "float32"),
    "bias": np.float32(0.5),
    "seed": np.int64(-(2**63)),
}


def test_values_of_constant_memory_stand_in_the_text() -> None:
    lines = with_constants(CONSTANTS, VALUES).splitlines()
    assert lines[1:3] == CONSTANTS.splitlines()[1:3]
    first = ", ".join(map(repr, VALUES["weights"].ravel().tolist()))
    assert lines[3] == f"__constant__ float weights[2 * (1 + 1)][2] = {{{first}}},"
    assert lines[4] == "    bias = {0.5};"
    assert "long long seed = {(-9223372036854775807 - 1)};" in lines[5]
    assert lines[6:] == CONSTANTS.splitlines()[6:]
    assert with_constants("__constant__ bool on;", {"on": np.bool_(True)}).endswith("on = {1};")


@pytest.mark.parametrize("name", ["weight", "c", "n", "said"])
def test_a_text_that_declares_no_such_constant_is_told(name: str) -> None:
    with pytest.raises(UsageError, match=f"does not declare '__constant__ ... {name}'"):
        with_constants(CONSTANTS, {name: np.float32(1)})


@needs_nvrtc
@pytest.mark.parametrize("defines", [None, {"block_size_x": "block_size_x", "items": "items"}])
def test_a_text_with_values_in_constant_memory_compiles(defines: Any) -> None:
    own = described(kernel_source=CONSTANTS, cmem_args=VALUES, defines=defines)
    program = source_of(own, block_size_x=128, items=2).compiled("sm_90")
    assert VALUES["weights"].tobytes() in program.cubin.code
