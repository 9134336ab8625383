"""Builds and runs candidates in the process of the test, as builders and runners do in theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from autotune.measure.build_bench import BuildBench
from autotune.measure.run_bench import RunBench
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime.cpu.compiled_kernel import Kernel
from autotune.runtime.cpu.cpu_device import CpuDevice
from autotune.runtime.cpu.llvm_compiler import LoadedBinary
from autotune.task.task import Task

ONCE = TimingPolicy(warmup=1, repeats=1, min_repeat_ms=0.0)


class Fake:
    """A compiled function that runs Python instead."""

    def __init__(self, kernel: Callable[..., None]) -> None:
        self.kernel = kernel

    def __call__(self, *arrays: Any) -> None:
        self.kernel(*arrays)

    def bind(self, *arrays: Any) -> Callable[[], None]:
        """Return a call with these arrays."""
        return lambda: self.kernel(*arrays)


class Quiet:
    """What is known of a machine that does nothing else."""

    noise, noisy = 0.0, False

    def sample(self) -> None:
        """Nothing changes."""

    def is_quiet_now(self) -> bool:
        """Nothing ever disturbs it."""
        return True


def run_bench(task: Task, policy: TimingPolicy, seed: int = 0) -> RunBench:
    """Return a bench on which candidates of a task are run."""
    subject, unscheduled = BuildBench(task).subject()
    program = None if unscheduled is None else unscheduled.loaded(LoadedBinary)
    device = CpuDevice(task.target)
    return RunBench(device, subject, task.reference, program, policy, seed)


def answers_bench(task: Task, seed: int = 0) -> RunBench:
    """Return a bench that checks answers, and times once, whatever else the machine does."""
    bench = run_bench(task, ONCE, seed)
    bench._monitor = Quiet()  # type: ignore[assignment]
    # What is so much slower than the fastest so far is not timed again.
    bench.run = partial(bench.run, incumbent_s=1e-12)  # type: ignore[method-assign]
    return bench


def built(task: Task, values: Mapping[str, Any]) -> Kernel:
    """Return the kernel of a candidate."""
    binary = BuildBench(task).build(values).binary
    assert binary is not None
    return LoadedBinary(binary)
