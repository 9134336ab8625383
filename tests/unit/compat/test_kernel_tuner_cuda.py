"""Kernels in CUDA C++ of Kernel Tuner's calls: their launches, texts, machine code, and runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cuda_compiler import needs_nvrtc
from support.fake_machine import COMPILER, FakeMachine

from autotune.compat.kernel_tuner.kernels import KernelArguments
from autotune.compat.kernel_tuner.launches import LaunchArguments, block_size_names_of
from autotune.compat.kernel_tuner.problem import Problem
from autotune.compat.kernel_tuner.sources import nvrtc_flags
from autotune.errors import TargetError
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
    from autotune.compat.kernel_tuner import measuring, tune_kernel

    def refused(_: object) -> None:
        raise TargetError("target 'cuda' cannot be measured here: no driver; with -on=cpu in it")

    monkeypatch.setattr(measuring, "gpu_facts", refused)
    arguments = [np.zeros_like(X), X, X, np.int32(N)]
    with pytest.raises(TargetError, match=r"needs a GPU, and none can be used: no driver$"):
        tune_kernel("add", ADD, N, arguments, PARAMETERS)


PROGRAM = f"""
import numpy as np
from autotune.compat.kernel_tuner import run_kernel, tune_kernel
TEXT = {ADD!r}.replace("c[i] =", "c[i] +=")
x, c = np.arange({N}, dtype="float32"), np.full({N}, 5, "float32")
arguments = [c, x, x, np.int32({N})]
options = dict(grid_div_x=["block_size_x", "items"])
after = run_kernel("add", TEXT, {N}, arguments, dict(block_size_x=64, items=2), **options)
np.testing.assert_array_equal(after[0], 5 + 2 * x)
assert c[0] == 5 and after[3] == {N}
parameters = dict(block_size_x=[32, 64, 2048], items=[1, 2])
results, env = tune_kernel("add", TEXT, {N}, arguments, parameters, answer=[5 + 2 * x],
    iterations=3, quiet=True, cache="c", **options)
print(sorted((r["block_size_x"], r["items"], type(r["time"]).__name__) for r in results))
print(env["device_name"], env["compute_capability"], {{len(r["times"]) for r in results}})
wrong, _ = tune_kernel("add", TEXT, {N}, arguments, dict(block_size_x=[32], items=[1]),
    answer=[2 * x], quiet=True, **options)
print(wrong[0]["time"], wrong[0]["error"]["message"][:40])
"""


@needs_nvrtc
@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_a_kernel_that_adds_to_its_output_is_tuned(tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    (tmp_path / "program.py").write_text(PROGRAM)
    machine = FakeMachine.make(tmp_path / "machine")
    done = machine.run("program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == str([(b, i, "float") for b in (32, 64) for i in (1, 2)])
    assert second == "Fake GPU 90 {3}"
    assert third.startswith("RuntimeFailedConfig 1000 of 1000 elements")


@pytest.mark.gpu
def test_a_kernel_is_tuned_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    exec(PROGRAM.replace("print(", "(lambda *_: None)("), {})
