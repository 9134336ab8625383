"""Runs candidates that work for any size on several shapes; a cost is the geometric mean."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean
from typing import Any

from autotune.measure.candidate import CandidateError
from autotune.measure.roofline import Ceiling
from autotune.measure.run_bench import RunBench, RunResult, largest
from autotune.runtime.callable_function import CallableFunction
from autotune.runtime.device import Binary


class SeveralShapes:
    """A `RunBench` for a list of shapes: it does everything for each of them.

    Costs are geometric means, so that the ratio of the costs of two candidates is the mean of their
    ratios on each shape, however different the times are. Nothing is raced, as a candidate that is
    slow on one shape may be fast on another.

    benches: one for each shape, on the same device.
    """

    def __init__(self, benches: Sequence[RunBench]) -> None:
        self._benches = tuple(benches)
        first = benches[0]
        self.reference = first.reference
        self.notes = first.notes
        self.checks = list(dict.fromkeys(line for bench in benches for line in bench.checks))

    def load(self, binary: Binary) -> Any:
        """Load a candidate as `RunBench` does."""
        return self._benches[0].load(binary)

    def call_first(self, loaded: CallableFunction) -> None:
        """Call a Python callable on each shape as `RunBench` does."""
        for bench in self._benches:
            bench.call_first(loaded)

    def run(self, loaded: Any, incumbent_s: float | None = None) -> RunResult:
        """Check and time a candidate on each shape; CandidateError as `RunBench.run`."""
        found = []
        for bench in self._benches:
            try:
                found.append(bench.run(loaded))
            except CandidateError as error:
                shapes = [p.shape for p in bench.subject.signature.parameters]
                error.message = f"with arrays of {', '.join(map(str, shapes))}: {error.message}"
                raise
        repeats = min(len(result.costs_s) for result in found)
        costs = [geometric_mean([result.costs_s[n] for result in found]) for n in range(repeats)]
        noise = max((r.noise for r in found if r.noise is not None), default=None)
        worst = largest(result.max_error for result in found)
        return RunResult(tuple(costs), worst, False, noise, found[-1].clocks)

    def enter(self, loaded: Any) -> float | None:
        """Check a kernel that is to be timed beside others; return its largest error."""
        return largest([bench.enter(loaded) for bench in self._benches])

    def round(self, loaded: Sequence[Any], seconds: float, seed: int) -> RunResult:
        """Time kernels that have been entered in turns, on one shape after the other."""
        share_s = seconds / len(self._benches)
        found = [bench.round(loaded, share_s, seed) for bench in self._benches]
        costs = map(geometric_mean, zip(*(result.costs_s for result in found), strict=True))
        return RunResult(tuple(costs), noise=found[-1].noise, clocks=found[-1].clocks)

    def ceiling(self) -> Ceiling:
        """Measure what the device can do at best: the mean of what it can on each shape."""
        found = [bench.ceiling() for bench in self._benches]
        kinds = found[0].peak_flops
        peaks = {kind: geometric_mean([c.peak_flops[kind] for c in found]) for kind in kinds}
        libraries = [c.library_s for c in found if c.library_s is not None]
        library_s = geometric_mean(libraries) if len(libraries) == len(found) else None
        return Ceiling(peaks, geometric_mean([c.copy_bytes_s for c in found]), library_s)

    def baseline(self) -> tuple[float, ...] | None:
        """Time the reference itself on each shape; None if there is none."""
        every = [bench.baseline() for bench in self._benches]
        found = [costs for costs in every if costs is not None]
        if len(found) < len(every):
            return None
        repeats = min(map(len, found))
        return tuple(geometric_mean([costs[n] for costs in found]) for n in range(repeats))
