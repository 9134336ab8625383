"""Tile functions on GPUs: every configuration computes what the function means, as templates do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import QUICK
from support.cuda_compiler import needs_nvrtc
from support.fake_machine import COMPILER, FakeMachine
from support.slow_cases import slow
from support.tile_programs import PROGRAMS
from support.tile_tools import bound, floats

from autotune import tile
from autotune.builder import BuiltFunction
from autotune.codegen.cuda.cuda_source import emit
from autotune.operators.tile_template import arguments_of, tile_template
from autotune.rules.gpu.fusion_plan import plan
from autotune.runtime.cuda.nvrtc import compile_cubin
from autotune.task.task import Task
from autotune.tile import Function, bind, gradient, parse
from autotune.tile.binding.bound_program import TensorType
from autotune.tile.to_te.program_to_te import to_te

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class GpuCase:
    """A function for GPUs.

    Attributes
    ----------
    code, shapes
        Its text, and shapes of its inputs.
    kernels
        What its kernels store, in order.
    product
        Which of them is a product in tiles of its own size.
    """

    code: str
    shapes: Shapes
    kernels: tuple[str, ...]
    product: str = ""

    def arrays(self) -> list[Any]:
        """Return random inputs."""
        return [floats(*shape, seed=k) for k, shape in enumerate(self.shapes)]


CASES: dict[str, GpuCase] = {
    "matmul": GpuCase(PROGRAMS["matmul"].code, ((33, 19), (19, 50)), ("C",), "C"),
    "batched product, transposed, with what follows": GpuCase(
        """function (A[B, M, K], W[B, N, K], Bias[N]) -> (R) {
            C[b, i, j: B, M, N] = +(A[b, i, k] * W[b, j, k]);
            S = C + Bias;
            R = S > 0 ? S : 0.0;
        }""",
        ((2, 20, 16), (2, 24, 16), (24,)),
        ("R",),
        "R",
    ),
    "padded convolution": GpuCase(
        """function (I[N, C, Y, X], F[O, C, H, W]) -> (R) {
            S[n, o, y, x: N, O, Y, X] = +(I[n, c, y + h - 1, x + w - 1] * F[o, c, h, w]);
            R = S > 0 ? S : 0.0;
        }""",
        ((2, 3, 9, 7), (16, 3, 3, 3)),
        ("R",),
        "R",
    ),
    "strided convolution": GpuCase(
        """function (I[N, H, W, C], K[KH, KW, C, O]) -> (R) {
            R[n, y, x, o: N, (H - KH) / 2 + 1, (W - KW) / 2 + 1, O] =
                +(I[n, 2 * y + i, 2 * x + j, c] * K[i, j, c, o]);
        }""",
        ((2, 11, 9, 4), (3, 3, 4, 12)),
        ("R",),
        "R",
    ),
    "dilated convolution": GpuCase(
        """function (I[N, H, W, C], K[KH, KW, C, O]) -> (R) {
            R[n, y, x, o: N, H - 2 * (KH - 1), W - 2 * (KW - 1), O] =
                +(I[n, y + 2 * i, x + 2 * j, c] * K[i, j, c, o]);
        }""",
        ((1, 9, 9, 4), (3, 3, 4, 12)),
        ("R",),
        "R",
    ),
    "shortest ways": GpuCase(
        "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = <(A[i, k] + B[k, j]); }",
        ((33, 19), (19, 50)),
        ("C",),
        "C",
    ),
    "product within a band": GpuCase(
        "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]), i - j < 5; }",
        ((33, 19), (19, 50)),
        ("C",),
        "C",
    ),
    "attention": GpuCase(
        """function (Q[T, D], K[S, D], V[S, E]) -> (O) {
            Dot[t, s: T, S] = +(Q[t, d] * K[s, d]);
            Most[t, 0: T, 1] = >(Dot[t, s]);
            Exp = exp((Dot - Most) / sqrt(D));
            Sum[t, 0: T, 1] = +(Exp[t, s]);
            P = Exp / Sum;
            O[t, e: T, E] = +(P[t, s] * V[s, e]);
        }""",
        ((20, 16), (24, 16), (24, 12)),
        ("Dot", "P", "O"),
        "Dot",
    ),
    "softmax of several rows": GpuCase(
        """function (X[B, M, N]) -> (O) {
            Most[b, m, 0: B, M, 1] = >(X[b, m, n]);
            E = exp(X - Most);
            Sum[b, m, 0: B, M, 1] = +(E[b, m, n]);
            O = E / Sum;
        }""",
        ((2, 3, 64),),
        ("O",),
    ),
    "layer norm": GpuCase(PROGRAMS["layer norm"].code, ((3, 96), (96,), (96,)), ("O",)),
    "batch norm": GpuCase(
        PROGRAMS["batch norm"].code, ((3, 4, 5, 10), (10,), (10,)), ("Sum", "Squares", "O")
    ),
    "pooling": GpuCase(PROGRAMS["pooling with rounding up"].code, ((2, 7, 6, 6),), ("O",)),
    "argmax": GpuCase(PROGRAMS["argmax"].code, ((5, 70),), ("O",)),
    "lstm step": GpuCase(
        PROGRAMS["lstm step"].code,
        ((9, 12), (9, 8), (9, 8), (12, 32), (8, 32), (32,)),
        ("XW", "Z", "CNew", "HNew"),
        "XW",
    ),
}


def gpu_task(code: str | Function, arrays: list[Any], target: str) -> Task:
    """Return the task of a function for arrays like these."""
    function = parse(code) if isinstance(code, str) else code
    types = [TensorType(a.shape, a.dtype.name) for a in arrays]
    return Task(tile_template(function, "tile", "cuda"), arguments_of(function, types), target)


def gradient_of(name: str) -> tuple[Function, list[Any]]:
    """Return the gradient of a realistic program, and inputs for it."""
    program = PROGRAMS[name]
    function, arrays = parse(program.code), program.arrays(program.cases[0])
    names = [i.name.text for i in function.inputs]
    fixed = {position for position, _ in program.fixed}
    bound = bind(
        function,
        {n: a.shape for n, a in zip(names, arrays, strict=True)},
        {n: a.dtype.name for n, a in zip(names, arrays, strict=True)},
    )
    outputs = [floats(*bound.types[output].shape, seed=9) for output in bound.outputs]
    wrt = [n for position, n in enumerate(names) if position not in fixed]
    return gradient(function, wrt), [*arrays, *outputs]


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


@pytest.mark.parametrize(("lanes", "threads", "rows"), [(1, 1, 32), (1, 8, 8), (2, 8, 8)])
def test_windows_are_reduced_by_one_thread_or_several(lanes: int, threads: int, rows: int) -> None:
    case = CASES["pooling"]
    values = {"lanes": lanes, "threads": threads, "rows": rows, "each": 4}
    Computed(case.code, case.arrays()).check(values)


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
