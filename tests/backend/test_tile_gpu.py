"""Tile functions on GPUs: every configuration computes what the function means, as templates do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import QUICK
from support.cuda_compiler import needs_nvrtc
from support.fake_machine import COMPILER, FakeMachine
from support.slow_cases import slow
from support.tile_gpu_cases import CASES, gpu_task, gradient_of
from support.tile_programs import PROGRAMS
from support.tile_tools import bound, floats

from autotune import tile
from autotune.builder import BuiltFunction
from autotune.codegen.cuda.cuda_source import emit
from autotune.rules.gpu.fusion_plan import plan
from autotune.runtime.cuda.nvrtc import compile_cubin
from autotune.task.task import Task
from autotune.tile import Function
from autotune.tile.to_te.program_to_te import to_te

ON_CPU, ON_GPU = "cuda -arch=sm_90 -on=cpu", "cuda -arch=sm_90"
GRADIENTS = [name for name in PROGRAMS if name != "argmax"]  # whose result is an integer

#: Sizes of real work, to be compiled and not run.
LARGE = {
    "matmul": ((512, 512), (512, 512)),
    "padded convolution": ((4, 64, 56, 56), (64, 64, 3, 3)),
    "softmax of several rows": ((12, 512, 1024),),
    "pooling": ((8, 112, 112, 64),),
}


def sampled(task: Task, count: int) -> Iterator[int]:
    """Yield the default configuration and random ones."""
    yield task.default_index
    yield from map(int, task.space.sample(count, np.random.default_rng(0)))


#: Small tiles, for the product of most work.
TILES = {
    "warps_m": 1, "warps_n": 2, "lanes_m": 4, "own_m": 2, "own_n": 4,
    "virtual_m": 2, "virtual_n": 1, "depth": 4, "unroll": 2, "fetch": 1, "pad": 1,
    "group": 1, "resident": 0,
}  # fmt: skip


class Computed:
    """What a function means, to hold configurations against."""

    def __init__(self, code: str | Function, arrays: list[Any]) -> None:
        self.task, self.arrays = gpu_task(code, arrays, ON_CPU), arrays
        assert self.task.reference is not None
        expected = self.task.reference(*arrays)
        self.expected = expected if isinstance(expected, tuple) else (expected,)

    def check(self, values: Mapping[str, object]) -> None:
        """Run a configuration with the meaning of its threads kept."""
        results = [np.full_like(e, np.nan if e.dtype.kind == "f" else 77) for e in self.expected]
        BuiltFunction(self.task.final_of(values), self.task.target)(*self.arrays, *results)
        for result, value in zip(results, self.expected, strict=True):
            np.testing.assert_allclose(result, value, rtol=1e-4, atol=1e-4, err_msg=str(values))


def compute(code: str | Function, arrays: list[Any], count: int) -> None:
    """Run the default configuration and random ones."""
    computed = Computed(code, arrays)
    task = computed.task
    for index in sampled(task, count):
        assert task.refusal(index) == ""
        computed.check(task.space.config(index).values)
    assert task.untraceable == ""


@pytest.mark.parametrize("name", CASES)
def test_functions_compute_what_they_mean(name: str) -> None:
    case, product = CASES[name], CASES[name].product
    Computed(case.code, case.arrays()).check(TILES if product else {})


@pytest.mark.parametrize("name", ["softmax", "batch norm"])
def test_gradients_compute_what_they_mean(name: str) -> None:
    Computed(*gradient_of(name)).check({})


@pytest.mark.parametrize("ahead", ["copies", "shared", "no"])
def test_windows_may_be_fetched_ahead_in_every_way(ahead: str) -> None:
    case = CASES["padded convolution"]
    Computed(case.code, case.arrays()).check({**TILES, "ahead": ahead})


@pytest.mark.parametrize(("threads", "rows"), [(1, 32), (8, 8)])
def test_windows_are_reduced_by_one_thread_or_several(threads: int, rows: int) -> None:
    case = CASES["pooling"]
    Computed(case.code, case.arrays()).check({"threads": threads, "rows": rows, "each": 4})


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_many_configurations_compute_what_the_function_means(name: str) -> None:
    compute(CASES[name].code, CASES[name].arrays(), 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_realistic_programs_compute_what_they_mean(name: str) -> None:
    program = PROGRAMS[name]
    for shapes in program.cases:
        compute(program.code, program.arrays(shapes), 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_realistic_programs_compute_what_they_mean(name: str) -> None:
    compute(*gradient_of(name), 4)


def test_half_floats_and_integers_are_summed_wide() -> None:
    rng = np.random.default_rng(0)
    for dtype in ("float16", "int8"):
        a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((20, 40), (40, 24)))
        Computed(CASES["matmul"].code, [a, b]).check({"group": 1, "fetch": 4})


# -- loops -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_what_follows_a_contraction_or_goes_with_rows_is_in_its_kernel(name: str) -> None:
    case = CASES[name]
    kernels = plan(to_te(bound(case.code, *case.arrays())).outputs).kernels
    assert tuple(tail.name for tail in kernels) == case.kernels


#: Names that two kernels which do the same have in common.
SHARED = {"for", "int", "float", "const", "auto", "__shared__", "pack", "A", "B", "C", "__half"}


def without_names(text: str) -> list[str]:
    """Return a source's words, without layout; names of loops and temporaries are all the same."""
    words = re.findall(r"[A-Za-z_]\w*|[\d.]+f?|\S", text)
    return ["name" if w[0].isalpha() and w not in SHARED else w for w in words]


@pytest.mark.parametrize("sizes", [(512, 256, 384), slow(((33, 50, 19),))])
def test_a_product_gets_the_very_kernel_of_the_operator(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    template = Task.from_reference("matmul", {"m": m, "n": n, "k": k}, ON_GPU)
    ours = gpu_task(CASES["matmul"].code, [np.empty(s, "f4") for s in ((m, k), (k, n))], ON_GPU)
    for knobs in (TILES, {**TILES, "own_m": 4, "depth": 16, "ahead": "copies"}):
        texts = emit(template.final_of(knobs)).text, emit(ours.final_of(knobs)).text
        assert without_names(texts[0]) == without_names(texts[1])


def test_a_softmax_reads_its_rows_once_and_keeps_them() -> None:
    task = gpu_task(CASES["softmax of several rows"].code, [np.empty((2, 8, 512), "f4")], ON_GPU)
    text = emit(task.final_of({})).text
    assert text.count("__global__") == 1
    assert text.count("&X[") == 1
    assert "__shfl" in text


def test_a_convolution_fetches_windows_and_tests_them_there_only() -> None:
    case = CASES["padded convolution"]
    task = gpu_task(case.code, [np.empty(s, "f4") for s in LARGE["padded convolution"]], ON_GPU)
    text = emit(task.final_of({"group": 1})).text
    product = next(line for line in text.splitlines() if "+=" in line)
    assert "?" not in product
    assert text.count("__global__") == 1
    assert len(case.kernels) == 1


# -- compilation -------------------------------------------------------------------------------


def no_spills(function: Any) -> bool:
    """Whether a configuration compiles without memory in place of registers."""
    cubin = compile_cubin(emit(function).text, "sm_90")
    return all(usage.stack_bytes == 0 for usage in cubin.kernels.values())


@needs_nvrtc
@pytest.mark.parametrize("name", LARGE)
def test_usual_configurations_compile_without_spills(name: str) -> None:
    task = gpu_task(CASES[name].code, [np.empty(s, "f4") for s in LARGE[name]], ON_GPU)
    product = CASES[name].product
    assert no_spills(task.final_of({"group": 1} if product else {}))


def test_a_product_has_the_space_of_the_operator() -> None:
    template = Task.from_reference("matmul", {"m": 64, "n": 48, "k": 32}, ON_GPU)
    ours = gpu_task(CASES["matmul"].code, [np.empty(s, "f4") for s in ((64, 32), (32, 48))], ON_GPU)
    assert len(ours.space) == len(template.space)
    assert ours.default_index == template.default_index


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", LARGE)
def test_nearly_all_configurations_compile_without_spills(name: str) -> None:
    task = gpu_task(CASES[name].code, [np.empty(s, "f4") for s in LARGE[name]], ON_GPU)
    assert np.mean([no_spills(task.final(index)) for index in sampled(task, 200)]) >= 0.95


# -- use ---------------------------------------------------------------------------------------

CALLS = """
import cupy
import numpy as np

from autotune import tile


class Lent:
    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, f"torch.{array.dtype}"
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


a, b = np.random.default_rng(0).normal(size=(2, 24, 24)).astype("f4")
product = tile.compile(
    "function (A[M, K], B[K, N]) -> (C, D) { C[i, j: M, N] = +(A[i, k] * B[k, j]); D = C * 2; }",
    "cuda -arch=sm_90",
)
for first in (cupy.asarray(a), Lent(cupy.asarray(a))):
    c, d = product(first, cupy.asarray(b))
    assert type(c) is type(d) is cupy.ndarray
    np.testing.assert_allclose(c.get(), a @ b, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(d.get(), 2 * (a @ b), rtol=1e-4, atol=1e-4)
print("right")
try:
    product(a, cupy.asarray(b))
except ValueError as error:
    print(error)
"""


@needs_nvrtc
@pytest.mark.skipif(COMPILER is None, reason="no C compiler is on this machine")
def test_arrays_of_a_gpu_go_in_and_come_out(tmp_path: Path) -> None:
    done = FakeMachine.make(tmp_path).run("-c", CALLS)
    assert done.returncode == 0, done.stderr
    right, refused = done.stdout.splitlines()
    assert right == "right"
    assert "'A', must be in the memory of cuda:0, got ndarray in the CPU's" in refused


@pytest.mark.slow  # files are tuned for CPUs in test_tile_space, operators for GPUs elsewhere
def test_a_file_is_tuned_for_a_gpu_and_what_was_found_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = CASES["matmul"].code
    Path("product.tile").write_text(code)
    sizes = ["--set", "M=24", "--set", "L=16", "--set", "N=32"]
    words = [*sizes, "--target", ON_CPU, "--log", "log.jsonl"]
    done = call("run", "product.tile", *words, "--trials", 2, "--seed", 1, *QUICK)
    assert done.code == 0, done.err
    assert "warps_m" in call("best", "product.tile", *words).out
    compiled = tile.compile(code, ON_CPU, records="log.jsonl")
    a, b = floats(24, 16), floats(16, 32)
    np.testing.assert_allclose(compiled(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert compiled.built(a, b)[1].record is not None
