"""Events of runs that never took place, for tests of what shows them."""

from dataclasses import replace

from autotune.measure.result import MeasureResult
from autotune.measure.roofline import Ceiling
from autotune.report.progress import RunProgress, WorkloadInfo
from autotune.report.units import Work
from autotune.task.workload import Workload
from autotune.tuner.run.events import End, Finished, MachineKnown, Measured, Started, TuneSummary
from records import Record

WORK = Work(1e9, 8e6)


def record(index=0, cost_s=None, error="RUN_TIMEOUT", timestamp=0.0, costs_s=None):
    outcome = {"costs_s": costs_s or (cost_s,)}
    if cost_s is None and costs_s is None:
        outcome = {"error": {"code": error, "stage": "run", "message": "m"}}
    return Record(
        workload={"template": "t", "args": {"n": 4}},
        target="llvm",
        config={"index": index, "values": {"k": index}},
        seed=0,
        timestamp=timestamp,
        **outcome,
    )


def job(label="", work=WORK, **more):
    return WorkloadInfo(Workload("t", {"n": 4}), "llvm", "t.jsonl", 7, work, label, **more)


def run_events(outcomes, recorded=0, trials=None, label="", gain=None, left_s=None):
    """Events of a run whose candidates took these seconds; a text is the code of a failure."""
    total = trials or recorded + len(outcomes)
    best = None
    events = [Started(total, recorded, None, label)]
    for number, outcome in enumerate(outcomes, recorded + 1):
        if isinstance(outcome, str):
            new = record(number, error=outcome)
        else:
            new = record(number, outcome)
            best = new if best is None or outcome < best.cost_s else best
        result = MeasureResult(costs_s=(1.0,))
        events.append(Measured(number, total, new, result, best, label, gain, left_s))
    return events


def machine(ceiling_s, label="", library_s=None):
    """What a machine can do, whose copying takes 1 ms for the 8 MB of `job`."""
    return MachineKnown(Ceiling({"float32": 1e12}, 8e9, library_s), ceiling_s, label)


def final(index, costs_s, over_default=None, ends=None, rank=0, comparison="c"):
    """What a final comparison logs of a configuration."""
    about = {"comparison": comparison, "rank": rank, "over_default": over_default, "range": ends}
    return replace(record(index, costs_s=costs_s), final=about)


def summary(best_costs_s=(0.49, 0.5, 0.52), **changes):
    """What a run came to whose best took so long, one time per repeat."""
    values = {
        "trials": 64, "measured": 64, "failures": {}, "best": record(7, costs_s=best_costs_s),
        "default_costs_s": (0.9, 1.0, 1.2), "ended": End.TRIALS, "elapsed_s": 75.0, **changes,
    }  # fmt: skip
    return TuneSummary(**values)


def finished(work=WORK, label="", default_index=None, **changes):
    """Standing of a workload that was tuned to its end."""
    progress = RunProgress()
    progress.open(job(label, work, default_index=default_index))
    return progress.take(Finished(summary(**changes), label))


def followed(events, clock=lambda: 0.0, jobs=None):
    """Progress of a run after these events."""
    progress = RunProgress(clock)
    for one in jobs or [job()]:
        progress.open(one)
    for event in events:
        progress.take(event)
    return progress
