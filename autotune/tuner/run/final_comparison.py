"""The end of a search: the finalists and the default are timed in turns, and that is logged.

Decisions by the rounds are made in `autotune.tuner.run.finalists`; this module plans and runs the
rounds.
"""

from __future__ import annotations

import logging
import secrets
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from autotune.errors import AutotuneError
from autotune.measure.measurer import SupportsComparison
from autotune.measure.result import MeasureResult
from autotune.system.interrupts import restoring
from autotune.task.task import Task
from autotune.tuner.run.finalists import (
    FEW,
    MAX_ROUNDS,
    MIN_ROUNDS,
    FinalistComparison,
    Tried,
    choose_finalists,
    screened,
    screening_sizes,
)
from autotune.tuner.run.trials import Trials

SHARE = 0.15  # Share of a run that its final comparison may take.

# Finalists, the default included, at most. A trial is short, and the machine was slower at some
# trials than at others: the fastest configuration was seen to be the fortieth of the trials.
MOST = 48

# Rounds that the time is planned for if each has a new process, and if they share one. Fewer are
# run if the order is settled earlier.
PLANNED_FRESH, PLANNED = 12, 20

# Share of the time after a comparison's process has started that is left for the rounds if there is
# a screening before them.
ROUNDS_SHARE = 0.5

LOST = 2  # The comparison ends after this number of rounds failed without a finalist's fault.

# Seconds that each finalist is timed for in a round, at least and at most.
SHORTEST_S, LONGEST_S = 0.012, 0.3

SCREENING_S = 0.004  # Seconds that each is timed for in a pass of the screening.

# Assumed seconds for a new process to start, without the arrays, before one was started.
FRESH_S = 0.1

# Computing the right answers is assumed to take this many times as long as drawing the inputs.
CHECKING = 8

BEGIN_S = 0.01  # Assumed seconds to begin a round.
ENTER_S = 0.002  # Assumed seconds to load one finalist.
BUILDERS = 2  # This number of finalists is assumed to be built at the same time.

# Bytes of constant inputs that are assumed to be laid out anew in a second, into new pages. That is
# done for each finalist, when it is loaded and in each round.
PREPARED_BYTES_S = 5e8

# Checking one finalist is assumed to take this share of the time that the right answers take.
ENTER_SHARE = 0.05

# Least calls of a finalist in a round: to estimate its time, then in its turns.
CALLS = 6

# Safety factor of the planned time of a round, when it must fit into the time that is left.
CAREFUL = 1.2

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ComparisonRound:
    """One round of a final comparison."""

    number: int  # Counted from 1.
    costs_s: Mapping[int, float]  # Seconds of each configuration that was timed.
    remaining: tuple[int, ...]  # Those that may still be the fastest, and the default.


@dataclass
class FinalComparison:
    """Runs the final comparison of one workload.

    measurer: a measurer that is not `SupportsComparison` has no final comparison.
    trials: what the search has found; the comparison is logged there.
    budget_s: seconds that it may take.
    tell: told each round.
    clock: returns monotonic seconds.
    """

    task: Task
    measurer: object
    trials: Trials
    budget_s: float
    seed: int = 0
    tell: Callable[[ComparisonRound], object] = lambda found: None
    clock: Callable[[], float] = time.monotonic
    # Why there was no comparison, in words; empty if there was, or nothing to compare.
    why_not: str = field(default="", init=False)
    rounds: int = field(default=0, init=False)  # Completed rounds.

    def run(self) -> None:
        """Time the finalists until their order is settled or the budget is spent; log that.

        An interrupt ends the comparison, and what is decided until then is logged. If no worker
        can run a round, a warning says so, and the search keeps its result.
        """
        if not isinstance(self.measurer, SupportsComparison):
            return
        self._begin = self.clock()
        self._measurer = self.measurer
        self._results: dict[int, dict[int, MeasureResult]] = {}  # of each finalist, by round
        self._worked: dict[int, list[MeasureResult]] = {}  # the same, including the screening
        self._failed: dict[int, MeasureResult] = {}
        self._tries = self._lost = 0
        opening_s = self._measurer.opening_s or 0.0
        # What is compared was checked before: it is checked once more if there is time for it.
        self._checks = opening_s <= self.budget_s / 3
        self._later_s = FRESH_S + self._measurer.starting_s + opening_s / CHECKING
        self._first_s = self._later_s + (opening_s * (1 - 1 / CHECKING) if self._checks else 0.0)
        self._earlier = earlier_rounds(self.trials)
        self._comparison = comparison = self._finalists()
        if comparison.settled:
            return
        try:
            restoring(self._conclude, self._run_rounds)
        except AutotuneError as error:
            _log.warning("%s: the final comparison has failed: %s", self.task.workload, error)

    # -- who, and when ---------------------------------------------------------------------

    @property
    def _left_s(self) -> float:
        return self.budget_s - (self.clock() - self._begin)

    @property
    def _fresh_s(self) -> float:
        """Seconds that a new process takes, as far as is known; the first one checks answers."""
        return self._later_s if self._worked else self._first_s

    def _finalists(self) -> FinalistComparison:
        """Return the comparison to run: its finalists, and the earlier rounds."""
        default = self.trials.default
        known = sorted({index for costs in self._earlier for index in costs})
        before = FinalistComparison(known, default if default in known else None, self._earlier)
        beaten = [i for i in known if any(before.beats(j, i) for j in known)]
        chosen = self.trials.chosen
        champion = next((i for i, record in self.trials.finals if record is chosen), None)
        self._always = {index for index in (default, champion) if index is not None}
        tried = [
            Tried(index, record.costs_s or (), (record.fingerprints or {}).get("code"))
            for index, record in self.trials.by_index.items()
            if record.ok
        ]
        found = choose_finalists(tried, default, champion, MOST, beaten)
        while len(found) > 2 and not self._fits(found):
            found.pop()
        if len(found) == 2 and not self._fits(found):
            self.why_not = "too little time for a final comparison"
            found = []
        return FinalistComparison(found, default if default in found else None, list(self._earlier))

    def _fits(self, finalists: list[int]) -> bool:
        """Whether these finalists leave enough of the time for the rounds that decide."""
        count = len(finalists)
        enter_s = count * (ENTER_S + 2 * self._call_s + self._prepare_s)
        enter_s += len({*finalists} - {*self._measurer.built}) * self._build_s / BUILDERS
        if self._checks:
            enter_s += count * ENTER_SHARE * (self._measurer.opening_s or 0.0)
        sizes, few = screening_sizes(count), min(count, FEW + 1)
        screening_s = sum(self._least_s(n, SCREENING_S) + n * self._prepare_s for n in sizes)
        first_s = CAREFUL * (self._fresh_s + enter_s + screening_s)
        rounds_s = CAREFUL * MIN_ROUNDS * (self._begin_s(few) + self._least_s(few))
        if count > FEW + 1:
            rounds_s = max(rounds_s, ROUNDS_SHARE * (self.budget_s - CAREFUL * self._fresh_s))
        return first_s + rounds_s <= self.budget_s

    @property
    def _build_s(self) -> float:
        """Seconds that it takes to build a finalist."""
        found = [record.build_s for record in self.trials.recorded if record.build_s is not None]
        return statistics.median(found or [0.0])

    @property
    def _prepare_s(self) -> float:
        """Seconds that it takes to lay out the constant inputs for a finalist."""
        return self.task.constant_bytes / PREPARED_BYTES_S

    def _begin_s(self, count: int) -> float:
        """Seconds to begin a round of so many finalists in a process that knows them."""
        return BEGIN_S + count * self._prepare_s

    @property
    def _call_s(self) -> float:
        return self.trials.best_s or 0.0

    def _least_s(self, count: int, each_s: float = SHORTEST_S) -> float:
        """Least seconds that a round of `count` finalists takes."""
        return count * max(each_s, CALLS * self._call_s)

    # -- rounds ----------------------------------------------------------------------------

    def _run_rounds(self) -> None:
        comparison = self._comparison
        self._screen()
        while self.rounds < MAX_ROUNDS and not comparison.settled and self._lost <= LOST:
            configs = comparison.remaining
            seconds, fresh = self._plan(len(configs))
            if not seconds or len(configs) < 2:
                break
            for results in self._time(configs, seconds, fresh):
                self.rounds += 1
                for index, result in results.items():
                    self._results.setdefault(index, {})[self.rounds] = result
                costs_s = _costs_s(results)
                comparison.rounds.append(costs_s)
                self.tell(ComparisonRound(self.rounds, costs_s, tuple(comparison.remaining)))

    def _screen(self) -> None:
        """Leave only the fastest of many finalists for the rounds.

        It ends early if it would take the time that the rounds need.
        """
        comparison, passes = self._comparison, list[Mapping[int, float]]()
        while (sizes := screening_sizes(len(comparison.finalists))) and self._lost <= LOST:
            seconds = self._least_s(sizes[0], SCREENING_S)
            begin_s = self._begin_s(sizes[0]) if passes else self._fresh_s
            rounds_s = MIN_ROUNDS * (self._begin_s(FEW + 1) + self._least_s(FEW + 1))
            count = sizes[1] if len(sizes) > 1 else FEW + 1
            if CAREFUL * (begin_s + seconds + rounds_s) > self._left_s:
                count = FEW + 1
            else:
                found = self._time(comparison.finalists, seconds, fresh=not passes)
                if not found:
                    continue
                passes += map(_costs_s, found)
            # Without a pass they are in the order of their trials.
            order = passes or [dict.fromkeys(comparison.finalists, 1.0)]
            comparison.finalists = screened(order, self._always, count)

    def _plan(self, count: int) -> tuple[float, bool]:
        """Return how long to time in the next round, 0 if it does not fit, and if it is fresh.

        A new process is worth its time if there can still be enough rounds.
        """
        least_s = self._least_s(count)
        share_s = self._left_s / max(1, PLANNED_FRESH - self.rounds)
        fresh = not self._worked or self._fresh_s + least_s <= share_s
        if not fresh:
            share_s = self._left_s / max(1, PLANNED - self.rounds)
        begin_s = self._fresh_s if fresh else self._begin_s(count)
        seconds = min(max(share_s - begin_s, least_s), max(count * LONGEST_S, least_s))
        return (seconds if CAREFUL * (begin_s + seconds) <= self._left_s else 0.0), fresh

    def _time(
        self, indices: list[int], seconds: float, fresh: bool
    ) -> list[Mapping[int, MeasureResult]]:
        """Time finalists in turns; return a round of each device that does so.

        There is none of a device that was lost, and none at all if a finalist failed, which is then
        removed.
        """
        configs = [self.task.space.config(index) for index in indices]
        opening_s = self._measurer.opening_s or 0.0
        check = (self._checks and not self._worked) or opening_s < seconds / 4
        is_first, begin, seed = not self._worked, self.clock(), self.seed + self._tries
        self._tries += 1
        found = self._measurer.compare(configs, seconds, seed, fresh, check)
        if fresh and not is_first:  # finalists are built, and their answers checked, only once
            timed_s = max((_timed_s(results, seconds) for results in found), default=seconds)
            self._later_s = max(self.clock() - begin - timed_s, BEGIN_S)
        failed = {i: r for results in found for i, r in results.items() if r.error is not None}
        for index, result in failed.items():
            assert result.error is not None
            self._failed[index] = result
            told = f"{result.error.code}: {result.error.message}"
            _log.warning(
                "%s: configuration %d worked before and has failed in the final comparison: %s",
                self.task.workload,
                index,
                told,
            )
            self._comparison.fail(index)
        whole = [results for results in found if len(_costs_s(results)) == len(indices)]
        if failed or not whole:
            self._lost += not failed  # else the others begin anew without it
            return []
        for results in whole:
            for index, result in results.items():
                self._worked.setdefault(index, []).append(result)
        return whole

    # -- the result ------------------------------------------------------------------------

    def _conclude(self) -> None:
        """Log the comparison, if it decides anything, and who has failed in any case."""
        comparison = self._comparison
        ranks: dict[int, int] = {}
        if self._results and comparison.decided:
            ranks = {index: rank for rank, index in enumerate(comparison.ranking)}
        elif self._failed and comparison.settled:
            self.why_not = "too few finalists worked in the final comparison"
        else:
            self.why_not = "the final comparison was too short to decide anything"
        # Rank 0 belongs to the chosen configuration, also if the comparison chose none.
        ranks |= {i: rank for rank, i in enumerate(sorted(self._failed), max(1, len(ranks)))}
        name = secrets.token_hex(8)
        found = []
        for index, rank in ranks.items():
            about: dict[str, object] = {"comparison": name, "rank": rank, **self._ratio(index)}
            if index in self._failed:
                found.append((index, self._failed[index], about))
            elif index in self._results:
                results = self._results[index]
                about["rounds"] = [*results]
                nodes = _nodes(results.values())
                if len(set(nodes)) > 1:
                    about["nodes"] = nodes
                found.append((index, _together([*results.values()], self._worked[index]), about))
        self.trials.add_finals(found)

    def _ratio(self, index: int) -> dict[str, object]:
        ratio = self._comparison.over_default(index)
        if ratio is None or index in self._failed:
            return {"over_default": None, "range": None}
        return {"over_default": ratio.value, "range": [ratio.low, ratio.high]}


def earlier_rounds(trials: Trials) -> list[Mapping[int, float]]:
    """Return the rounds of earlier comparisons that were timed as they would be now."""
    comparisons: dict[str, dict[int, dict[int, float]]] = {}
    for index, record in trials.finals:
        if record.ok and record.final is not None and trials.comparable(record):
            rounds = comparisons.setdefault(record.final["comparison"], {})
            costs_s = record.costs_s or ()
            numbers = record.final.get("rounds") or range(1, len(costs_s) + 1)
            for number, cost_s in zip(numbers, costs_s, strict=True):
                rounds.setdefault(number, {})[index] = cost_s
    return [rounds[number] for rounds in comparisons.values() for number in sorted(rounds)]


def _costs_s(results: Mapping[int, MeasureResult]) -> dict[int, float]:
    """Return the cost of each finalist that worked."""
    return {i: result.cost_s for i, result in results.items() if result.cost_s is not None}


def _timed_s(results: Mapping[int, MeasureResult], planned_s: float) -> float:
    """Return how long a round has timed, in seconds; the planned time if the results lack it."""
    spans = [result.run_span for result in results.values() if result.run_span is not None]
    return max((end - begin for begin, end in spans), default=planned_s)


def _together(results: list[MeasureResult], checked: list[MeasureResult]) -> MeasureResult:
    """Return the results of some rounds as one, with the greatest error of all that was checked."""
    noise = [result.noise for result in results if result.noise is not None]
    errors = [result.max_error for result in checked if result.max_error is not None]
    is_one = len(set(_nodes(results))) == 1
    return replace(
        results[-1],
        device=results[-1].device if is_one else None,
        costs_s=tuple(cost for result in results for cost in result.costs_s or ()),
        noise=statistics.median(noise) if noise else None,
        max_error=max(errors, default=None),
        timestamp=time.time(),
        run_span=None,
    )


def _nodes(results: Iterable[MeasureResult]) -> list[str]:
    """Return the nodes of some results; "" where it is not said."""
    return [str((result.device or {}).get("node", "")) for result in results]
