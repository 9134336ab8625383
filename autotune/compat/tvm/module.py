"""`tvm.lower` and `tvm.build`: what they return is called, timed and printed as TVM's is."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat as repeated
from typing import Any

import autotune
from autotune.builder import BuiltFunction
from autotune.compat.arrays import NDArray
from autotune.compat.devices import Device, chosen_device, without_gpu
from autotune.compat.tvm.target import Target
from autotune.errors import UsageError
from autotune.ir.stmt import PrimFunc
from autotune.measure.timing.kernel_timing import time_kernel
from autotune.measure.timing_policy import TimingPolicy
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import Tensor

_ENTRY = "__tvm_main__"  # Name of a module's only function, whatever it is called.

_UNTIL_DONE_MS = 1e15  # As the time budget of all repeats: it ends none early.


@dataclass(frozen=True)
class LoweredFunction:
    """Loops of a schedule, which `str` and a notebook show.

    Attributes
    ----------
    function : PrimFunc
        As `autotune.lower` returns it.
    """

    function: PrimFunc

    def __repr__(self) -> str:
        return str(self.function)


def lower(
    sch: Schedule,
    args: Sequence[Tensor],
    name: str = "default_function",
    binds: None = None,
    simple_mode: bool = False,
) -> LoweredFunction:
    """Return the loops of a schedule; see `autotune.lower`.

    Raises
    ------
    UsageError
        With `binds`, or arguments of other kinds.
    LoweringError
        If the schedule has no loops.
    """
    _refuse_binds("lower", binds)
    return LoweredFunction(autotune.lower(sch, args, simple_mode=simple_mode, name=name))


@dataclass(frozen=True)
class ProfileResult:
    """Times of a function.

    Attributes
    ----------
    results : tuple of float
        Seconds per call, a number per repeat.
    """

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of the results."""
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        """Median of the results."""
        return statistics.median(self.results)


class Module:
    """A built function by TVM's names.

    Parameters
    ----------
    built : BuiltFunction
        What runs.
    device_source : str, optional
        Text of the kernels, if they are for GPUs.

    Attributes
    ----------
    built : BuiltFunction
        As given.
    entry_name : str
        Name of the function.
    imported_modules : list of Module
        What has the text of the kernels: itself if they are for GPUs, else none.
    """

    def __init__(self, built: BuiltFunction, device_source: str | None = None) -> None:
        self.built = built
        self._source = built.source if device_source is None else device_source
        self.imported_modules = [] if device_source is None else [self]

    @property
    def entry_name(self) -> str:
        """Name of the function."""
        return self.built.function.name

    def get_source(self) -> str:
        """Return the text that is compiled: LLVM assembly, or CUDA C++ of kernels for GPUs."""
        return self._source

    def __call__(self, *arrays: Any) -> None:
        """Run on arrays, inputs then outputs, which are written in place.

        Raises
        ------
        ArgumentError
            If an array is not as the function needs it.
        """
        self.built(*map(_plain, arrays))

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        *,
        ctx: Device | None = None,
    ) -> Callable[..., ProfileResult]:
        """Return a function that takes arrays and times calls with them, after a first one.

        Parameters
        ----------
        func_name : str
            `entry_name`.
        dev, ctx : Device
            What runs it and is waited for, under its two names; by default the processor.
        number : int
            Calls of a repeat.
        repeat : int
            Number of repeats.
        min_repeat_ms : float
            A repeat has more calls if that many take less than this.

        Raises
        ------
        UsageError
            If the module has no such function, it runs elsewhere, or a number is out of range.
        """
        if func_name not in (self.entry_name, _ENTRY):
            raise UsageError(
                f"time_evaluator: the module has only the function {self.entry_name!r}, "
                f"not {func_name!r}"
            )
        device = chosen_device("time_evaluator", dev, ctx)
        if device.device_type == "cpu" and not self.built.target.on_cpu:
            raise UsageError("time_evaluator: the function is for GPUs; give one, such as gpu(0)")
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise UsageError(f"time_evaluator: number must be a whole number >= 1, got {number!r}")
        policy = TimingPolicy(repeats=repeat, min_repeat_ms=min_repeat_ms, budget_ms=_UNTIL_DONE_MS)

        def timed(*arrays: Any) -> ProfileResult:
            call = self.built.bind(*map(_plain, arrays))
            call()
            device.sync()

            def seconds(_: object, times: int) -> float:
                begin = time.perf_counter_ns()
                for _ in repeated(None, times * number):
                    call()
                device.sync()
                return max(time.perf_counter_ns() - begin, 1) * 1e-9

            costs = time_kernel(call, policy, loop=seconds).costs_s
            return ProfileResult(tuple(cost / number for cost in costs))

        return timed


def build(
    inputs: Schedule,
    args: Sequence[Tensor] | None = None,
    target: str | autotune.Target | None = None,
    target_host: str | autotune.Target | None = None,
    name: str = "default_function",
    binds: None = None,
) -> Module:
    """Compile a schedule; see `autotune.build`.

    Parameters
    ----------
    inputs : Schedule
    args : sequence of Tensor
        Inputs, then outputs.
    target : str or Target, optional
        By default that of the ``with`` statement around the call, or "llvm". "cuda" becomes
        "cuda -on=cpu" where no GPU can be used, with a warning.
    target_host : str or Target, optional
        "llvm", if given.
    name : str
        Name of the function.

    Raises
    ------
    UsageError
        With `binds`, another host, or arguments of other kinds.
    TargetError
        If the target is not understood.
    LoweringError, CodegenError
        If the schedule cannot be built.
    """
    _refuse_binds("build", binds)
    if not isinstance(inputs, Schedule):
        raise UsageError(f"build: expected a schedule, got {type(inputs).__name__}")
    if target_host is not None and autotune.Target.of(target_host).kind != "llvm":
        raise UsageError(f"build: target_host must be 'llvm', got {str(target_host)!r}")
    if args is None:
        raise UsageError("build: give the schedule's tensors, as in build(s, [A, B])")
    given = autotune.Target.of(Target.current() or "llvm" if target is None else target)
    plain = autotune.Target(given.kind, given.options)
    built = autotune.build(inputs, args, plain, name)
    if plain.on_cpu:
        return Module(built)
    if not without_gpu():
        return Module(built, built.source)
    on_cpu = autotune.Target("cuda", {**plain.options, "on": "cpu"})
    return Module(autotune.build(inputs, args, on_cpu, name), built.source)


def _plain(array: Any) -> Any:
    """Return an array as functions of autotune take it."""
    return array.data if isinstance(array, NDArray) else array


def _refuse_binds(caller: str, binds: object) -> None:
    if binds is not None:
        raise UsageError(f"{caller}: buffers of one's own (binds) are not supported")
