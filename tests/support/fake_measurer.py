"""A measurer that measures nothing, for tests of what is made of measurements."""

from __future__ import annotations

from autotune.measure.measurer import Measurer
from autotune.measure.result import MeasureError, MeasureErrorNo, MeasureResult
from autotune.measure.timing_policy import TimingPolicy
from autotune.tuner.run.events import ignore_event
from autotune.tuner.run.limits import BATCH, Deadline, Limits
from autotune.tuner.run.parallel.parallel_session import new_session
from autotune.tuner.run.portfolio import Portfolio
from autotune.tuner.search.baselines import GridTuner


class FakeMeasurer(Measurer):
    """Costs are 1 + index seconds; some candidates fail; remembers what it was asked.

    `cost` gives other times, in seconds, from index and number of measurements.
    """

    policy = TimingPolicy()

    def __init__(self, failing=(), interrupt_at=None, cost=lambda index, calls: 1.0 + index):
        self.failing = failing
        self.interrupt_at = interrupt_at
        self.cost = cost
        self.asked = []
        self.remembered = []
        self.compared = []

    opening_s = 0.0
    starting_s = 0.0
    built = ()

    def remember(self, result):
        self.remembered.append(result)

    def compare(self, configs, seconds, seed, fresh, check):
        """Every round gives what a measurement would."""
        self.compared.append([config.index for config in configs])
        return [{config.index: self.timed(config.index) for config in configs}]

    def timed(self, index):
        if index in self.failing:
            error = MeasureError(MeasureErrorNo.RUN_TIMEOUT, "run", "slow")
            return MeasureResult(error=error, code_hash=f"{index:x}")
        costs_s = (self.cost(index, len(self.asked)),)
        return MeasureResult(costs_s=costs_s, build_s=0.5, code_hash=f"{index:x}")

    def run(self, candidate):
        index = candidate.config.index
        if len(self.asked) == self.interrupt_at:
            raise KeyboardInterrupt
        self.asked.append(index)
        return self.timed(index)


def tune(
    task, measurer, tuner, store, trials, seed, on_event=ignore_event, batch=BATCH, patience=None,
    goal=None, time_s=None,
):  # fmt: skip
    """Tune one workload, and compare its finalists; return the summary."""
    deadline = Deadline(time_s)
    session = new_session(task, measurer, tuner, store, seed, Limits(trials, goal, patience, batch))
    (summary,) = Portfolio([session], on_event, deadline).run()
    return summary


def run(task, store, trials, measurer=None, tuner=None, **kwargs):
    """Tune, by default from the first index on; return the summary and the measurer."""
    measurer = measurer or FakeMeasurer()
    return tune(
        task, measurer, tuner or GridTuner(task.space, 0), store, trials, seed=0, **kwargs
    ), measurer
