"""The same kernel on both targets: `cuda` and `cuda -on=cpu` differ in the machine alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autotune.ir.printer import stmt_text
from autotune.target import Target
from autotune.task import Task

STRUCTURES = Path(__file__).parents[2] / "benchmarks" / "structures.py"


@pytest.mark.parametrize("arch", ["", " -arch=sm_80"])
@pytest.mark.parametrize(("template", "n"), [("matmul_cuda", 24), ("broadcast_add_cuda", 256)])
def test_both_targets_have_the_same_space_and_the_same_functions(
    template: str, n: int, arch: str
) -> None:
    gpu, cpu = (
        Task.from_reference(f"{STRUCTURES}:{template}", {"n": n}, f"cuda{arch}{on}")
        for on in ("", " -on=cpu")
    )
    assert len(gpu.space) == len(cpu.space)
    assert gpu.default_index == cpu.default_index
    assert gpu.fingerprints == cpu.fingerprints
    indices = np.random.default_rng(0).integers(len(gpu.space), size=200)
    legal = gpu.space.feasible(indices)
    assert legal.sum() > 0
    np.testing.assert_array_equal(legal, cpu.space.feasible(indices))
    assert gpu.space.rejections(indices) == cpu.space.rejections(indices)
    for index in indices[legal][:5]:
        assert gpu.fingerprints_of(index) == cpu.fingerprints_of(index)
        assert stmt_text(gpu.final(index).body) == stmt_text(cpu.final(index).body)


def test_limits_are_those_of_the_gpu_on_both() -> None:
    assert Target("cuda", {"on": "cpu"}).gpu == Target("cuda").gpu
    assert Target.of("cuda -arch=sm_90 -on=cpu").gpu == Target.of("cuda -arch=sm_90").gpu
    assert Target.of("cuda -on=cpu").vector_bytes == Target.of("cuda").vector_bytes


def test_the_processor_runs_llvm_and_cuda_on_cpu() -> None:
    assert [Target.of(text).on_cpu for text in ("llvm", "cuda -on=cpu", "cuda")] == [
        True,
        True,
        False,
    ]
    assert Target.of("llvm -threads=1").host == Target.of("llvm -threads=1")
    assert Target.of("cuda -on=cpu").host == Target.of("llvm")
