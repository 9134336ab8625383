"""What the machine can do at best, and the kernels that find it out."""

import json

import numpy as np
import pytest
from support.processors import AVX2, needs_avx2

from autotune.measure.roofline import Ceiling, fastest, measure_ceiling
from autotune.runtime.cpu import benchmark_kernels
from autotune.runtime.cpu.benchmark_kernels import (
    CHAINS,
    copy_function,
    copying,
    multiply_add_function,
)
from autotune.runtime.cpu.cpu_device import CpuDevice
from autotune.system.host import cache_bytes
from autotune.target import Target

TARGET = Target("llvm", {"threads": "2"})
MACHINE = Ceiling({"float32": 100e9}, 10e9)


pytestmark = pytest.mark.usefixtures("own_cache")


def test_work_takes_as_long_as_its_operations_or_its_bytes_whichever_is_more():
    assert MACHINE.of_work(200e9, 1e9, "float32") == 2.0
    assert MACHINE.of_work(200e9, 40e9, "float32") == 4.0
    assert MACHINE.of_work(None, 5e9, "float32") == 0.5
    assert MACHINE.of_work(200e9, 5e9, "int8") == 0.5


def test_a_ceiling_survives_json():
    assert Ceiling.from_json(json.loads(json.dumps(MACHINE.to_json()))) == MACHINE


class Clock:
    """A clock, and calls that take a time each."""

    def __init__(self, *seconds):
        self.seconds = list(seconds)
        self.now = 0.0
        self.calls = 0

    def __call__(self):
        return self.now

    def call(self):
        self.now += self.seconds[self.calls % len(self.seconds)]
        self.calls += 1


def test_the_fastest_call_in_the_time_counts_and_there_are_at_least_three():
    clock = Clock(3.0, 1.0, 2.0)
    assert fastest(clock.call, 12.0, clock) == 1.0
    assert clock.calls == 6
    clock = Clock(3.0, 2.0, 1.0)
    assert fastest(clock.call, 0.5, clock) == 1.0
    assert clock.calls == 3


@needs_avx2
@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 8), ("float64", 4)])
def test_the_kernel_of_the_peak_multiplies_and_adds_in_registers(dtype, lanes):
    target = Target("llvm", {"mcpu": AVX2, "threads": "2"})
    kernel = multiply_add_function(target, dtype, 3)
    operands = np.arange(CHAINS * lanes, dtype=dtype).reshape(CHAINS, lanes)
    results = np.empty((2, CHAINS, lanes), dtype)
    kernel(operands, results)
    assert np.array_equal(results, np.broadcast_to(operands * 1.75, results.shape))
    many = multiply_add_function(target, dtype, 1 << 20).assembly()
    loop = [line.split()[0] for line in many.splitlines() if "\tvfmadd" in line]
    assert len(loop) == CHAINS
    assert loop == [loop[0]] * CHAINS


@pytest.mark.parametrize("stream", [False, True])
def test_the_copying_kernel_copies(stream):
    source = np.arange(2 * 128, dtype=np.float32).reshape(2, 128)
    goal = np.zeros_like(source)
    copy_function(TARGET, 2, 128, 64, stream)(source, goal)
    assert np.array_equal(goal, source)


@pytest.mark.parametrize("touched", [1.0, 1e5, 3e6])
def test_about_as_many_bytes_are_copied_as_the_work_touches(touched):
    _, moved = copying(TARGET, touched)
    assert moved == pytest.approx(touched, rel=0.05, abs=2048)


def test_the_caches_are_emptied_by_copying_more_than_they_hold(monkeypatch):
    moved = []
    monkeypatch.setattr(benchmark_kernels, "cache_bytes", lambda: 10_000)
    monkeypatch.setattr(
        benchmark_kernels, "copying", lambda *args: (lambda: None, moved.append(args))
    )
    benchmark_kernels.cache_flusher(TARGET)
    assert moved == [(TARGET, 40_000)]


def test_a_ceiling_is_measured_for_the_types_that_have_one(monkeypatch):
    monkeypatch.setattr(benchmark_kernels, "STEPS", 64)
    device = CpuDevice(TARGET)
    kinds = ("int8", "bfloat16", "float16", "float64")
    found = measure_ceiling(device, kinds, touched_bytes=1e4, seconds=0.0)
    assert sorted(found.peak_flops) == ["bfloat16", "float16", "float64"]
    assert found.peak_flops["bfloat16"] == found.peak_flops["float16"] > 0
    assert found.copy_bytes_s > 0
    assert measure_ceiling(device, ("bool",), 1e4, seconds=0.0).peak_flops == {}


def test_the_largest_cache_is_what_the_system_says(tmp_path):
    for number, size in enumerate(["64K\n", "48M\n", "1024K\n", "odd\n"]):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "size").write_text(size)
    assert cache_bytes(str(tmp_path)) == 48 << 20
    assert cache_bytes(str(tmp_path / "nowhere")) == 32 << 20
