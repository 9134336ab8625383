"""The templates for GPUs: random legal configurations on the CPU, and through CUDA's compiler."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.benches import answers_bench, built
from support.cuda_compiler import needs_nvrtc
from support.slow_cases import slow_if, slow_names
from support.verify import verify

from autotune.codegen.cuda.cuda_source import emit
from autotune.errors import InstantiationError, UsageError
from autotune.lowering.finalise import listing
from autotune.operators.template_lookup import list_templates
from autotune.runtime.cuda.gpu_source import gpu_source
from autotune.task.task import Task

ARCH = "sm_90"

#: The first workloads of a template are those that CI tries; nothing divides in some of them.
CASES: dict[str, list[dict[str, Any]]] = {
    "broadcast_add": [
        {"n": 70, "pattern": "column"},
        {"n": 33, "pattern": "outer", "dtype": "float16"},
        {"n": 64, "pattern": "row", "dtype": "int8"},
        {"n": 96, "pattern": "scalar"},
    ],
    "matmul": [
        {"m": 40, "n": 72, "k": 24},
        {"m": 33, "n": 50, "k": 19},
        {"m": 40, "n": 72, "k": 24, "dtype": "float16"},
        {"m": 64, "n": 16, "k": 32, "dtype": "int8"},
    ],
    "transpose": [{"m": 40, "n": 72}, {"m": 37, "n": 65, "dtype": "float16"}],
    "reduce": [
        {"m": 5, "n": 300},
        {"m": 3, "n": 131, "how": "max", "dtype": "bfloat16"},
        {"m": 4, "n": 96, "how": "min", "dtype": "int8"},
        {"m": 4, "n": 96, "how": "sum", "dtype": "float16"},
    ],
    "softmax": [{"m": 5, "n": 300}, {"m": 3, "n": 131, "dtype": "float16"}],
    "cumsum": [
        {"m": 37, "n": 70},
        {"m": 20, "n": 3, "dtype": "int32"},
        {"m": 3, "n": 1203, "axis": 1},
        {"m": 70, "n": 33, "axis": 1, "dtype": "int64"},
    ],
    "linear_recurrence": [{"m": 37, "n": 40}],
    "rnn_cell": [{"steps": 4, "batch": 3, "units": 21}],
    "lstm_cell": [{"steps": 3, "batch": 3, "units": 33}],
    "attention": [
        {"b": 1, "heads": 2, "s": 77, "d": 9},
        {"b": 2, "heads": 1, "s": 40, "d": 16, "causal": True},
    ],
}
#: Templates whose spaces take seconds to trace; `test_operator_answers` has their defaults.
LARGE = {"attention"}
WORKLOADS = [(name, args) for name, workloads in CASES.items() for args in workloads]


def _words(value: Any) -> str:
    return value if isinstance(value, str) else "-".join(map(str, value.values()))


def _task(name: str, args: dict[str, Any], on_cpu: bool) -> Task:
    return _traced(name, tuple(args.items()), f"cuda -arch={ARCH}{' -on=cpu' * on_cpu}")


@functools.cache  # Several tests look at one task, and tracing it takes longer than what they do.
def _traced(name: str, args: tuple[tuple[str, Any], ...], target: str) -> Task:
    return Task.from_reference(name, dict(args), target)


def _sample(task: Task, count: int) -> Iterator[int]:
    """Yield random legal configurations, all of them if they are fewer; of several the default."""
    if count > 1:
        yield task.default_index
    for index in task.space.sample(max(1, count - 1), np.random.default_rng(0)):
        assert task.refusal(int(index)) == ""
        yield int(index)


def compute(name: str, args: dict[str, Any], count: int) -> None:
    """Run configurations with the meaning of their threads kept, as the measurer does."""
    task = _task(name, args, on_cpu=True)
    bench = answers_bench(task)
    assert bench.reference == "given"
    for index in _sample(task, count):
        verify(task.final(index))
        measured = bench.run(built(task, task.space.config(index).values))
        assert measured.max_error is not None, task.space.config(index).values


def compile_for_a_gpu(name: str, args: dict[str, Any], count: int) -> None:
    task = _task(name, args, on_cpu=False)
    for index in _sample(task, count):
        cubin = gpu_source(task.final(index)).compiled(ARCH).cubin
        assert "warning" not in cubin.log, task.space.config(index).values


@pytest.mark.parametrize(
    ("name", "args"),
    slow_if(lambda case: case[0] in LARGE or case[1].get("dtype") == "int64", WORKLOADS),
    ids=_words,
)
def test_configurations_compute_their_reference(name: str, args: dict[str, Any]) -> None:
    compute(name, args, 2 if args is CASES[name][0] else 1)


@needs_nvrtc
@pytest.mark.parametrize("name", slow_names(LARGE, CASES))
def test_configurations_compile(name: str) -> None:
    compile_for_a_gpu(name, CASES[name][0], 1)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "args"), WORKLOADS, ids=_words)
def test_many_configurations_compute_their_reference(name: str, args: dict[str, Any]) -> None:
    compute(name, args, 200)


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize(("name", "args"), WORKLOADS, ids=_words)
def test_many_configurations_compile(name: str, args: dict[str, Any]) -> None:
    compile_for_a_gpu(name, args, 200)


@needs_nvrtc
@pytest.mark.parametrize("name", LARGE)
def test_the_default_of_a_template_with_a_large_space_compiles(name: str) -> None:
    final = _task(name, CASES[name][0], on_cpu=False).final_of({})
    assert "warning" not in gpu_source(final).compiled(ARCH).cubin.log


@pytest.mark.parametrize("name", slow_names(LARGE, CASES))
def test_a_gpu_and_the_cpu_in_its_place_get_the_same_function(name: str) -> None:
    gpu, cpu = (_task(name, CASES[name][0], on_cpu) for on_cpu in (False, True))
    assert gpu.fingerprints == cpu.fingerprints
    assert len(gpu.space) == len(cpu.space)
    index = gpu.default_index
    assert index == cpu.default_index
    assert gpu.fingerprints_of(index) == cpu.fingerprints_of(index)
    assert str(gpu.final(index)) == str(cpu.final(index))


def test_every_template_by_hand_for_gpus_is_tried_here() -> None:
    own = {entry.name for entry in list_templates() if entry.location.startswith("autotune.")}
    gpu = {entry.name for entry in list_templates() if entry.target == "cuda"} & own
    assert gpu <= set(CASES)


# -- broadcast_add ---------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["continuous", "alternate"])
def test_broadcast_add_is_scheduled_as_in_the_seed(schedule: str, golden: Any) -> None:
    """The same files as `test_listings`, which holds them against the seed's own text."""
    task = Task.from_reference("broadcast_add", {"n": 256}, "cuda")
    knobs = {"schedule": schedule, "nt": 64, "nb": 256, "lanes": 1}
    golden(f"listings/broadcast_add_{schedule}.txt", str(listing(task.function_of(knobs))))


@pytest.mark.parametrize("schedule", ["continuous", "alternate"])
def test_small_broadcast_add_gives_each_thread_one_element(schedule: str, golden: Any) -> None:
    task = Task.from_reference("broadcast_add", {"n": 32}, "cuda")
    knobs = {"schedule": schedule, "nt": 64, "nb": 256, "lanes": 1}
    golden("listings/broadcast_add_small.txt", str(listing(task.function_of(knobs))))


def test_more_threads_than_a_block_can_have_are_refused_by_name() -> None:
    task = Task.from_reference("broadcast_add", {"n": 64}, "cuda")
    knobs = {"schedule": "alternate", "nt": 2048, "nb": 256, "lanes": 1}
    with pytest.raises(InstantiationError, match=r"^nt is at most 1024, the threads a block can"):
        task.function_of(knobs)
    counted = {rule.name: rule for rule in task.tally().rules}
    assert counted["nt is at most 1024, the threads a block can have"].first > 0
    assert counted["a block has at most 1024 threads"].first == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"n": 8, "pattern": "diagonal"}, "pattern must be one of column, row, outer, scalar"),
        ({"n": 50_000}, "n * n must be at most"),
        ({"n": 8, "dtype": "text"}, "dtype must be one of"),
    ],
)
def test_broadcast_add_says_what_it_cannot_add(args: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        _ = Task.from_reference("broadcast_add", args, "cuda").space
    assert words in str(caught.value)


# -- matmul ----------------------------------------------------------------------------------


def test_the_default_matmul_loads_ahead_in_one_loop_with_one_barrier() -> None:
    task = _task("matmul", {"m": 2048, "n": 2048, "k": 2048}, on_cpu=False)
    text = emit(task.final_of({})).text
    assert "__launch_bounds__(256, 2)" in text
    assert text.count("k_o = 0;") == text.count("__syncthreads();") == 1
    loop = text.partition("k_o = 0;")[2]
    assert loop.index("A0_shared_next[") < loop.index("__syncthreads();")
    assert loop.index("__syncthreads();") < loop.index("C_total[i1_1] +=")
