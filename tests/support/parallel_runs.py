"""Small recorded spaces and simulated devices, for tests of searches on several devices."""

from __future__ import annotations

from autotune.measure.recorded_measurer import RecordedKnob, Recording
from autotune.measure.result import MeasureError, MeasureErrorNo, MeasureResult
from autotune.tuner.run.limits import Deadline, Limits
from autotune.tuner.run.parallel.parallel_session import new_session
from autotune.tuner.run.portfolio import Portfolio
from autotune.tuner.search.baselines import GridTuner
from benchmarks.simulated_fleet import RecordedTask, SimulatedAnswers, SimulatedFleet, VirtualClock
from search_spaces import ListedSpace


def recording(count=40, name="bowl", failing=(), seconds=lambda index: 1.0, best=17):
    """Return configurations 0, 1, ...; the time of each grows with its distance from the best."""
    error = MeasureError(MeasureErrorNo.RUNTIME_DEVICE, "run", "launch")
    space = ListedSpace([RecordedKnob("x", list(range(count)))], [[x] for x in range(count)])
    return Recording(
        name,
        space,
        {
            index: MeasureResult(
                costs_s=None if index in failing else (1.0 + abs(index - best),),
                error=error if index in failing else None,
                build_s=0.0,
                run_s=float(seconds(index)),
                timestamp=0.0,
            )
            for index in range(count)
        },
    )


def fleet(recorded, width, clock, **options):
    """Return devices that answer as recorded, after the recorded seconds."""
    spent = {index: result.run_s for index, result in recorded.results.items()}
    answers = SimulatedAnswers(
        lambda candidate: recorded.results[candidate.config.index],
        lambda candidate: spent[candidate.config.index],
    )
    return SimulatedFleet(width, answers, clock, **options)


class Search:
    """One search on several devices, and what came of it."""

    def __init__(self, store, recorded=None, width=4, limits=None, tuner=None, **options):
        self.recorded = recorded or recording()
        self.clock = VirtualClock()
        self.measurer = options.pop("measurer", None) or fleet(
            self.recorded, width, self.clock, lost_s=options.pop("lost_s", None)
        )
        self.task = options.pop("task", None) or RecordedTask(self.recorded)
        self.tuner = tuner or GridTuner(self.task.space, 0)
        self.events = []
        self.session = new_session(
            self.task,
            self.measurer,
            self.tuner,
            store,
            0,
            limits or Limits(),
            clock=self.clock,
        )
        self.seconds = options.pop("seconds", None)
        assert not options

    def run(self):
        """Search to the end; return the summary."""
        deadline = Deadline(self.seconds, self.clock)
        (summary,) = Portfolio([self.session], self.events.append, deadline).run()
        return summary
