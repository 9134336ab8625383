"""Scans as text: what they compute, however blocks take turns, and what their compiler says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cuda_compiler import needs_nvrtc
from support.host_cuda import needs_host_compiler
from support.text_on_host import HostError, TextOnHost

from autotune.errors import UsageError
from autotune.runtime.cuda.gpu_source import gpu_source
from autotune.task.task import Task

ARCH = "sm_90"
ROWS = ("look-back", "phases", "alone")
SMALL = {"threads": 32, "vectors": 1, "groups": 2, "length": 8}


def task_of(name: str, **args: Any) -> Task:
    return Task.from_reference(name, args, f"cuda -arch={ARCH}")


def values_of(task: Task, **knobs: Any) -> dict[str, Any]:
    """Return the default configuration with some other knobs; those that it has not are left."""
    default = task.space.config(task.default_index).values
    return {name: knobs.get(name, value) for name, value in default.items()}


def texts_of(task: Task, rng: np.random.Generator, count: int) -> list[dict[str, Any]]:
    """Return random legal configurations that are kernels as text."""
    drawn = (task.space.config(int(i)).values for i in task.space.sample(20 * count, rng))
    return [dict(v) for v in drawn if v["how"] not in ("blocks", "steps")][:count]


def inputs_of(task: Task, seed: int = 0) -> list[Any]:
    """Return whole numbers, whose sums are exact; weights are powers of two."""
    rng = np.random.default_rng(seed)
    given = [a for a in task.arguments if not a.is_output]
    arrays = [rng.integers(-9, 9, a.shape).astype(a.dtype) for a in given]
    if len(arrays) > 1:
        arrays[0] = rng.choice([-1.0, 0.5, 0.0, 1.0], given[0].shape).astype(given[0].dtype)
    return arrays


def check(
    task: Task, values: dict[str, Any], folder: Path, seeds: range = range(2), **more
) -> None:
    """Hold a configuration against the reference, in some orders; nothing around is touched."""
    kernel = TextOnHost(task.final_of(values), folder, **more)
    given = inputs_of(task)
    expected = task.reference(*given)
    for seed in seeds:
        for resident in (1, 3, 8):
            memory = np.full(expected.size + 64, 77, expected.dtype)
            start = -memory.ctypes.data % 64 // memory.itemsize + 16
            found = memory[start : start + expected.size].reshape(expected.shape)
            kernel([*given, found], seed, resident)
            about = f"{task.workload} {values} {seed} {resident}"
            if len(given) > 1:
                np.testing.assert_allclose(found, expected, 1e-4, 1e-5, err_msg=about)
            else:
                np.testing.assert_array_equal(found, expected, err_msg=about)
            assert (memory[:start] == 77).all(), about
            assert (memory[start + expected.size :] == 77).all(), about


# -- what they compute ---------------------------------------------------------------------------


@needs_host_compiler
@pytest.mark.parametrize(
    ("how", "m", "n", "dtype", "knobs"),
    [
        ("look-back", 1, 1, "int32", {}),
        ("look-back", 3, 129, "float32", {}),
        ("look-back", 1, 2203, "float64", {"threads": 64, "pause": 64}),
        ("phases", 2, 31, "float64", {}),
        ("phases", 5, 1203, "float32", {"threads": 64, "vectors": 2, "lanes": 2}),
        ("alone", 3, 129, "int32", {}),
        ("alone", 5, 1203, "float32", {"threads": 64, "vectors": 2, "together": 4}),
    ],
)
def test_rows_are_summed(
    how: str, m: int, n: int, dtype: str, knobs: dict[str, Any], tmp_path: Path
) -> None:
    task = task_of("cumsum", m=m, n=n, axis=1, dtype=dtype)
    check(task, values_of(task, how=how, **(SMALL | knobs)), tmp_path)


@needs_host_compiler
@pytest.mark.parametrize(
    ("m", "n", "dtype", "lanes"),
    [(1, 1, "int32", 1), (97, 3, "float64", 1), (40, 70, "float32", 2)],
)
def test_columns_are_summed(m: int, n: int, dtype: str, lanes: int, tmp_path: Path) -> None:
    task = task_of("cumsum", m=m, n=n, dtype=dtype)
    check(task, values_of(task, how="look-back", lanes=lanes, **SMALL), tmp_path)


@needs_host_compiler
def test_recurrences_look_back(tmp_path: Path) -> None:
    task = task_of("linear_recurrence", m=61, n=68, dtype="float64")
    check(task, values_of(task, how="look-back", lanes=2, **SMALL), tmp_path)


@needs_host_compiler
def test_every_order_of_many_blocks_gives_the_sums(tmp_path: Path) -> None:
    """Rows have more tiles than a warp looks at together."""
    task = task_of("cumsum", m=2, n=1300, axis=1, dtype="int64")
    check(task, values_of(task, how="look-back", lanes=1, **SMALL), tmp_path, range(4))


@needs_host_compiler
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("how", ROWS)
def test_rows_of_any_length_are_summed(how: str, dtype: str, tmp_path: Path) -> None:
    for m, n in ((1, 1), (1, 997), (3, 129), (2, 31), (7, 4096)):
        task = task_of("cumsum", m=m, n=n, axis=1, dtype=dtype)
        check(task, values_of(task, how=how, **SMALL), tmp_path)


@needs_host_compiler
@pytest.mark.slow
def test_random_configurations_compute_their_reference(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, args in (
        ("cumsum", {"m": 3, "n": 4099, "axis": 1}),
        ("cumsum", {"m": 1, "n": 20_001, "axis": 1, "dtype": "float64"}),
        ("cumsum", {"m": 300, "n": 132}),
        ("linear_recurrence", {"m": 150, "n": 260}),
    ):
        task = task_of(name, **args)
        for values in texts_of(task, rng, 15):
            check(task, values, tmp_path)


# -- that mistakes would be noticed --------------------------------------------------------------


MISTAKES = {
    "halves": ("float64", "if (uint32(read[i] >> 32) != status) status = kNothing;", ""),
    "silence": ("float32", "if ((silent & needed) == 0) break;", "break;"),
    "too far back": ("float32", "if ((needed >> lane_of_warp() & 1) == 0) told = 0;", ""),
    "not cleared": ("float32", "if (at < WORDS)", "if (at < kHead)"),
    "in order of blocks": ("float32", "return drawn;", "return blockIdx.x;"),
    "no barrier": ("float32", "__syncthreads();\n  own.store", "own.store"),
}


@needs_host_compiler
@pytest.mark.parametrize(
    "mistake",
    [pytest.param(m, marks=[] if m in ("halves", "silence") else pytest.mark.slow)
     for m in MISTAKES],
)  # fmt: skip
def test_a_mistake_in_looking_back_is_noticed(mistake: str, tmp_path: Path) -> None:
    dtype, old, new = MISTAKES[mistake]
    task = task_of("cumsum", m=1, n=2600, axis=1, dtype=dtype)
    values = values_of(task, how="look-back", threads=64, vectors=1, lanes=1)
    with pytest.raises((AssertionError, HostError)):
        check(task, values, tmp_path, range(12), changes={old: new})


@needs_host_compiler
def test_a_vector_that_is_not_aligned_is_noticed(tmp_path: Path) -> None:
    task = task_of("cumsum", m=3, n=1203, axis=1)
    with pytest.raises(HostError, match="an access was not aligned"):
        check(
            task, values_of(task, how="alone", threads=32), tmp_path,
            changes={" - row_at % LANES": ""},
        )  # fmt: skip


# -- compiled ------------------------------------------------------------------------------------


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_texts_compile_and_spill_nothing(arch: str) -> None:
    cases: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        *(("cumsum", {"m": 1, "n": 1 << 26, "axis": 1}, {"how": how}) for how in ROWS),
        ("cumsum", {"m": 3, "n": 1001, "axis": 1, "dtype": "float64"}, {"how": "look-back"}),
        ("cumsum", {"m": 4096, "n": 4096}, {"how": "look-back", "lanes": 4}),
        ("linear_recurrence", {"m": 4096, "n": 4096}, {"how": "look-back", "lanes": 2}),
    ]
    for name, args, knobs in cases:
        task = task_of(name, **args)
        program = gpu_source(task.final_of(values_of(task, **knobs))).compiled(arch)
        assert program.launches[-1].symbol.startswith("scan")
        for usage in program.cubin.kernels.values():
            assert usage.spill_store_bytes == 0
            assert usage.registers <= 128


@needs_nvrtc
@pytest.mark.slow
def test_what_fits_by_estimate_spills_four_words_at_most() -> None:
    """As many the compiler spills of its own accord, so that more blocks run at a time."""
    rng = np.random.default_rng(1)
    for name, args in (
        ("cumsum", {"m": 1, "n": 1 << 26, "axis": 1}),
        ("cumsum", {"m": 4096, "n": 4096, "dtype": "float64"}),
        ("linear_recurrence", {"m": 4096, "n": 4096}),
        ("linear_recurrence", {"m": 1000, "n": 4096, "dtype": "float64"}),
    ):
        task = task_of(name, **args)
        for values in texts_of(task, rng, 25):
            program = gpu_source(task.final_of(values)).compiled(ARCH)
            spilled = max(u.spill_store_bytes for u in program.cubin.kernels.values())
            assert spilled <= 16, (task.workload, values)


def test_a_pass_has_memory_that_is_cleared_before_it() -> None:
    task = task_of("cumsum", m=3, n=5000, axis=1, dtype="float64")
    source = gpu_source(task.final_of(values_of(task, how="look-back", threads=256, vectors=4,
                                                lanes=2)))  # fmt: skip
    tiles = 3 * -(-5000 // 2048)
    assert [(each.symbol, each.grid[0]) for each in source.launches] == [
        ("clear", 1), ("scan_look_back", tiles),
    ]  # fmt: skip
    (told,) = source.workspace
    assert (told.dtype, told.shape) == ("uint64", (16 + 2 * tiles,))
    assert {each.arrays for each in source.launches} == {(0, 1, 2)}


# -- where there is no GPU -----------------------------------------------------------------------


def test_the_processor_takes_the_schedules_of_a_space_and_refuses_its_texts() -> None:
    task = Task.from_reference("cumsum", {"m": 9, "n": 8}, "cuda -on=cpu")
    gpu = task_of("cumsum", m=9, n=8)
    assert len(task.space) == len(gpu.space)
    values = values_of(gpu, how="look-back")
    assert gpu.refusal(gpu.space.index_of(values)) == ""
    refused = task.refusal(task.space.index_of(values))
    assert refused == "a kernel as text, which runs on GPUs only, not on 'cuda -on=cpu'"
    assert task.refusal(task.default_index) == ""
    with pytest.raises(UsageError, match="returns a kernel as text, which runs on GPUs only"):
        _ = Task.from_reference("cumsum", {"m": 9, "n": 8, "axis": 1}, "cuda -on=cpu").space


def test_an_axis_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="cumsum: axis must be one of 0, 1, got 2"):
        _ = task_of("cumsum", m=2, n=2, axis=2).space
