"""Runs of the final comparison against a simulated clock: nothing is built or timed."""

from __future__ import annotations

from autotune.measure.measurer import Measurer
from autotune.measure.result import MeasureError, MeasureErrorNo, MeasureResult
from autotune.measure.timing_policy import TimingPolicy
from autotune.tuner.run.limits import Deadline, Limits
from autotune.tuner.run.portfolio import Portfolio
from autotune.tuner.run.session import Session
from autotune.tuner.search.baselines import GridTuner

LUCKY, FASTER = 1, 2
TRUTH = {0: 1.0e-3, LUCKY: 1.1e-3, FASTER: 0.8e-3}
ALIKE = {index: 1.0e-3 + 1e-6 * index for index in range(40)}


class Simulated(Measurer):
    """Trials take a second, and one of them is lucky; rounds show what configurations really take.

    Its process needs `opening_s` to begin if it checks answers, and a finalist `build_s` to be
    built. `spoil` may change the results of a round by its number.
    """

    policy = TimingPolicy()

    def __init__(
        self, opening_s=0.2, truth=TRUTH, pace_s=1.0, spoil=lambda number, costs: costs, build_s=0.0
    ):
        self.now = 0.0
        self.opening_s, self.starting_s = opening_s, 0.0
        self.truth = truth
        self.pace_s = pace_s
        self.build_s = build_s
        self.built = ()
        self.spoil = spoil
        self.asked = []
        self.rounds = []
        self.compared_s = 0.0

    def clock(self):
        return self.now

    def cost(self, index):
        return self.truth.get(index, 20e-3)

    def run(self, candidate):
        index = candidate.config.index
        self.asked.append(index)
        self.now += self.pace_s
        costs_s = (0.7e-3 if index == LUCKY else self.cost(index),)
        return MeasureResult(costs_s=costs_s, code_hash=f"{index}", build_s=self.build_s)

    def compare(self, configs, seconds, seed, fresh, check):
        begin, indices = self.now, [config.index for config in configs]
        self.now += self.build_s * len(set(indices) - {i for held in self.rounds for i in held[0]})
        self.rounds.append((indices, fresh, check))
        self.now += (self.opening_s * (1 if check else 1 / 8) + 0.05 if fresh else 0.01) + seconds
        self.compared_s += self.now - begin
        found = {i: MeasureResult(costs_s=(self.cost(i),), code_hash=f"{i}") for i in indices}
        return [self.spoil(len(self.rounds), found)]


def failure(code=MeasureErrorNo.WRONG_ANSWER):
    return MeasureResult(error=MeasureError(code, "check", "it is wrong"))


def failing(index, code=MeasureErrorNo.WRONG_ANSWER):
    """Return what lets a configuration fail in every round."""
    return lambda number, found: found | {index: failure(code)} if index in found else found


def run(task, store, measurer, trials=40, seconds=None, events=None, **limits):
    session = Session(
        task, measurer, GridTuner(task.space, 0), store, 0, Limits(trials, **limits),
        clock=measurer.clock,
    )  # fmt: skip
    told = [] if events is None else events
    (found,) = Portfolio([session], told.append, Deadline(seconds, measurer.clock)).run()
    return found


def logged_finals(store):
    return [record for record in store.load() if not record.is_trial]
