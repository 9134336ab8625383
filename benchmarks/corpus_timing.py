"""Times a workload of the corpus: default, tuned and libraries, in one process on the same arrays.

`corpus.py` runs this file with a request in JSON and reads the answer. A kernel that crashes ends
this process alone.

The threads of a library spin for a while after a call, so contenders do not take turns call by
call. Each is called for a block of a quarter of a second, then all threads sleep for a moment; the
first third of a block is not counted. The figure is the median over the rounds of the medians of
the blocks.

Other programs, and other guests of the host, slow down seconds: the threads of a virtual machine
may share one core of the host for a while, at half speed, and no clock of the machine shows it. So
a reference kernel runs between blocks. A block does not count if it is slower than it has been: the
next one waits until the speed is back, for at most `PATIENCE_S` in all.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import here  # noqa: F401 - finds autotune
import numpy as np
from corpus_report import ROOF

from autotune.builder import BuiltFunction, build_task
from autotune.cli.options.task_arguments import task_with, template_of
from autotune.ir import dtypes
from autotune.measure.roofline import fastest
from autotune.reuse import choose
from autotune.runtime.cpu.aligned_arrays import aligned_copy, aligned_zeros
from autotune.runtime.cpu.benchmark_kernels import multiply_adds
from autotune.runtime.cpu.cpu_device import CpuDevice
from autotune.system.available_cpus import thread_count
from autotune.target import Target
from autotune.task.task import Task
from records import RecordStore
from records.formats import load_own

Array = np.ndarray[Any, np.dtype[Any]]
Call = Callable[[], object]

BLOCK_S = 0.25
NOT_COUNTED = 1 / 3
"""Share of a block that is not counted: threads start, and the others' fall asleep."""

SLEEP_S = 0.05
PATIENCE_S = 30.0
"""Seconds to wait for a machine that is slow, and to repeat blocks, during a workload's timing."""

SLOW = 1.25
"""Share of its least time that the reference kernel takes where the machine is slow."""

TOLERANCES = {"float64": 1e-9, "float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}
"""Share of an element, and of a tenth of the largest element, by which results may differ."""

REFERENCE_STEPS, REFERENCE_CALLS = 1 << 16, 8
"""The reference kernel: a quarter of a millisecond, and how often it runs."""

RECURRENT = ("rnn_cell", "lstm_cell")

ROOF_S = 0.05
"""Seconds for each of the calls of which the slowest part of a roofline is found."""


class Contenders(Protocol):
    """A device, and what runs there.

    Attributes
    ----------
    sample_s : float
        Shorter calls are timed in loops that take so long.
    """

    sample_s: float

    def clock(self, call: Call, number: int) -> float:
        """Return the seconds that so many calls in a row take."""

    def ours(self, built: BuiltFunction) -> Call:
        """Return a call of a built function."""

    def libraries(self) -> dict[str, Call | str]:
        """Return calls of the libraries by their names; for one that is left out, why."""

    def roof(self) -> tuple[Call, float] | None:
        """Return what bounds the work (roofline): a call, and how many of it the work is.

        None if tuning measures it as well as it can be.
        """

    def clear(self) -> None:
        """Spoil the outputs."""

    def results(self, made: object) -> list[Array]:
        """Return copies of the results of a call that has returned `made`."""

    def is_slow(self) -> bool:
        """Whether the device is slower now than it has been."""


@dataclass(frozen=True)
class Request:
    """One workload to be timed.

    Attributes
    ----------
    template, target, log : str
    settings, shapes : mapping of str to str
        Arguments as words of a command line.
    constant : list of int
        Positions of the inputs that may be laid out before timing.
    rounds : int
    """

    template: str
    target: str
    log: str
    settings: Mapping[str, str]
    shapes: Mapping[str, str]
    constant: Sequence[int]
    rounds: int


class DifferentResultError(Exception):
    """Two of the contenders do not compute the same."""


def compare(request: Request) -> dict[str, Any]:
    """Build, check and time the contenders of a workload.

    Returns
    -------
    dict
        "seconds" of a call, and those of all rounds ("rounds_s"), by contender; "ceiling_s", the
        least seconds (roofline), from rates in the same rounds; libraries that are "left_out",
        with the reason; "config" and "default_config", the knobs' values.

    Raises
    ------
    DifferentResultError
        If the results differ.
    AutotuneError
        If the log holds no valid record of the workload.
    """
    settings = request.settings, request.shapes
    target = Target.parse(request.target)
    template = template_of(request.template, target)
    task = task_with(template, request.template, *settings, target, constant=request.constant)
    records = load_own(RecordStore(request.log), must_exist=True)
    if choose(task, records) is None:
        raise LookupError("the log holds no valid record")
    inputs, outputs = arrays_of(task)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the default has no record, and is meant
        tuned, default = (
            build_task(task, known, constants={n: inputs[n] for n in task.constant})
            for known in (records, None)
        )
    contenders = contenders_of(task, inputs, outputs)
    calls: dict[str, Call] = {"tuned": contenders.ours(tuned)}
    assert default.config is not None
    assert tuned.config is not None
    same = default.config.index == tuned.config.index
    if not same:
        calls["default"] = contenders.ours(default)
    found = contenders.libraries()
    calls |= {name: call for name, call in found.items() if not isinstance(call, str)}
    left_out = {name: why for name, why in found.items() if isinstance(why, str)}
    check_results(calls, contenders, expected_of(task, inputs))
    roof = contenders.roof()
    rounds_s = timed(calls | ({} if roof is None else {ROOF: roof[0]}), contenders, request.rounds)
    if same:
        rounds_s["default"] = rounds_s["tuned"]
    seconds = {name: statistics.median(times) for name, times in rounds_s.items()}
    ceiling_s = {} if roof is None else {"ceiling_s": roof[1] * seconds.pop(ROOF)}
    return {
        "seconds": seconds,
        **ceiling_s,
        "rounds_s": rounds_s,
        "left_out": left_out,
        "config": dict(tuned.config.values),
        "default_config": dict(default.config.values),
    }


# -- arrays and results ------------------------------------------------------------------------


def arrays_of(task: Task) -> tuple[list[Array], list[Array]]:
    """Return inputs with random values, and outputs; each begins at a cache line."""
    rng = np.random.default_rng(0)
    arguments = task.arguments
    if task.inputs is None:
        given = [_drawn(rng, a.shape, a.dtype) for a in arguments if not a.is_output]
        if task.workload.template in RECURRENT:  # large weights would magnify rounding step by step
            given[1] /= math.sqrt(given[1].shape[-1])
    else:
        given = [np.asarray(array) for array in task.inputs(rng)]
    outputs = [(a.shape, dtypes.numpy_dtype(a.dtype)) for a in arguments if a.is_output]
    return [aligned_copy(array) for array in given], [aligned_zeros(*each) for each in outputs]


def varying(task: Task, inputs: Sequence[Any]) -> list[Any]:
    """Return the inputs that are not constant: those that a built function takes."""
    return [array for number, array in enumerate(inputs) if number not in task.constant]


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    kind = np.dtype(dtypes.numpy_dtype(dtype))
    if dtypes.is_float(dtype):
        return rng.uniform(-1, 1, shape).astype(kind)
    return rng.integers(0, 2 if kind.kind == "b" else 8, shape).astype(kind)


def expected_of(task: Task, inputs: Sequence[Array]) -> list[Array] | None:
    """Return what the template's reference gives; None if it has none."""
    if task.reference is None:
        return None
    found = task.reference(*inputs)
    return list(found) if isinstance(found, tuple | list) else [found]


def check_results(
    calls: Mapping[str, Call], contenders: Contenders, expected: Sequence[Array] | None
) -> None:
    """Raise DifferentResultError unless all contenders compute the same."""
    whose = "the reference"
    for name, call in calls.items():
        contenders.clear()
        found = contenders.results(call())
        if expected is None:
            expected, whose = found, name
        for number, (result, right) in enumerate(zip(found, expected, strict=True)):
            if why := difference(result, np.asarray(right)):
                raise DifferentResultError(f"{name} differs from {whose} in output {number}: {why}")


def difference(result: Array, right: Array) -> str:
    """Return how a result differs from the right one; empty if rounding explains it."""
    if result.shape != right.shape:
        return f"its shape is {result.shape}, not {right.shape}"
    tolerance = TOLERANCES.get(result.dtype.name, 0.0)
    a, b = result.astype(np.float64), right.astype(np.float64)
    finite = b[np.isfinite(b)]
    most = 0.1 * tolerance * float(np.abs(finite).max(initial=0.0))
    wrong = ~np.isclose(a, b, rtol=tolerance, atol=most, equal_nan=True)
    if not wrong.any():
        return ""
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{wrong.sum()} of {wrong.size} elements, such as {a[place]:g} for {b[place]:g}"


# -- timing ------------------------------------------------------------------------------------


def timed(calls: Mapping[str, Call], contenders: Contenders, rounds: int) -> dict[str, list[float]]:
    """Return the median seconds of each contender's call in each round, in their order.

    A round calls each for a block; the next round begins with another contender. A block before or
    after which the machine is slow is repeated when the speed is back. Once patience is at an end,
    such blocks are kept; they count if one of the contenders has no others, for all of them.
    """
    found: dict[str, dict[int, float]] = {name: {} for name in calls}
    disturbed: dict[str, dict[int, float]] = {name: {} for name in calls}
    numbers = {name: _calls_of_a_sample(call, contenders) for name, call in calls.items()}
    names = list(calls)
    slow, left_s = contenders.is_slow(), PATIENCE_S
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            while True:
                begin = time.perf_counter()
                seconds = _block(calls[name], contenders.clock, numbers[name])
                before, slow = slow, contenders.is_slow()
                if not (before or slow) or left_s <= 0:
                    break
                while slow and time.perf_counter() - begin < left_s:
                    slow = contenders.is_slow()
                left_s -= time.perf_counter() - begin
            (disturbed if before or slow else found)[name][number] = seconds
    if not all(found.values()):
        found = {name: found[name] | disturbed[name] for name in names}
    return {name: [times[number] for number in sorted(times)] for name, times in found.items()}


def _calls_of_a_sample(call: Call, contenders: Contenders) -> int:
    seconds = min(contenders.clock(call, 1) for _ in range(4))
    return max(1, math.ceil(contenders.sample_s / max(seconds, 1e-9)))


def _block(call: Call, clock: Callable[[Call, int], float], number: int) -> float:
    """Return the median seconds of a call within one block."""
    time.sleep(SLEEP_S)
    begin = time.perf_counter()
    times: list[tuple[float, float]] = []
    while (at := time.perf_counter() - begin) < BLOCK_S or len(times) < 2:
        times.append((at, clock(call, number) / number))
    counted = [seconds for at, seconds in times if at >= NOT_COUNTED * BLOCK_S]
    return statistics.median(counted or [times[-1][1]])


# -- contenders --------------------------------------------------------------------------------


def contenders_of(task: Task, inputs: Sequence[Array], outputs: Sequence[Array]) -> Contenders:
    """Return the contenders on the device of a task."""
    if task.target.on_cpu:
        return OnCpu(task, inputs, outputs)
    from corpus_torch import OnGpu

    return OnGpu(task, inputs, outputs)


class OnCpu:
    """The processor with NumPy and ONNX Runtime; a `Contenders`."""

    sample_s = 20e-6

    def __init__(self, task: Task, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self._task = task
        self._inputs, self._outputs = inputs, outputs
        self._reference, _ = multiply_adds(task.target, "float32", REFERENCE_STEPS)
        self._least_s = math.inf

    def clock(self, call: Call, number: int) -> float:
        """Return the wall time of so many calls."""
        begin = time.perf_counter()
        for _ in itertools.repeat(None, number):
            call()
        return time.perf_counter() - begin

    def ours(self, built: BuiltFunction) -> Call:
        """Return a call of a built function."""
        return built.bind(*varying(self._task, self._inputs), *self._outputs)

    def libraries(self) -> dict[str, Call | str]:
        """Return calls of NumPy and of ONNX Runtime, or why one is left out."""
        return {"NumPy": _found(self._numpy), "ONNX Runtime": _found(self._onnx)}

    def _numpy(self) -> Call | None:
        from corpus_numpy import numpy_call

        workload = self._task.workload
        return numpy_call(workload.template, self._task.args, self._inputs, self._outputs)

    def _onnx(self) -> Call | None:
        from corpus_onnx import onnx_call

        workload, threads = self._task.workload, thread_count(self._task.target.threads)
        given = workload.template, self._task.args, self._inputs, self._outputs
        return onnx_call(*given, self._task.constant, threads)

    def roof(self) -> tuple[Call, float] | None:
        """Return multiply-adds, or the fastest way to copy, and how many of it the work is."""
        task, device = self._task, CpuDevice(self._task.target)

        def least_s(way: tuple[Call, float]) -> float:
            return way[1] * fastest(way[0], ROOF_S, device=device)

        ways = [(call, task.bytes / moved) for call, moved in device.copies(task.bytes)]
        roofs = [min(ways, key=least_s)]
        kind = task.arguments[-1].dtype
        if task.flops is not None and dtypes.is_float(kind):
            call, count = device.multiply_adds(dtypes.accumulator(kind))
            roofs.append((call, task.flops / (2 * count)))
        return max(roofs, key=least_s)

    def clear(self) -> None:
        """Spoil the outputs."""
        for array in self._outputs:
            array[...] = 77

    def results(self, made: object) -> list[Array]:
        """Return copies of the outputs, into which every call writes."""
        return [array.copy() for array in self._outputs]

    def is_slow(self) -> bool:
        """Whether multiply-adds with all threads take longer than they have."""
        time.sleep(SLEEP_S)  # the threads of a library spin
        seconds = min(self.clock(self._reference, 1) for _ in range(REFERENCE_CALLS))
        self._least_s = min(self._least_s, seconds)
        return seconds > SLOW * self._least_s


def _found(make: Callable[[], Call | None]) -> Call | str:
    """Return a library's call that has worked once, or why it is left out."""
    try:
        call = make()
        if call is None:
            return "it has no counterpart"
        call()
    except Exception as error:  # such as a type that the library does not compute with
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return call


def main() -> None:
    """Answer the request on the command line."""
    request = Request(**json.loads(sys.argv[1]))
    try:
        answer = compare(request)
    except Exception as error:
        answer = {"error": " ".join(f"{type(error).__name__}: {error}".split())}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
