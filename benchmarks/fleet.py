"""Measures what several devices gain a search, on recorded spaces; and how large jobs may be.

    python benchmarks/fleet.py [--data DIR] [--jobs 2] [--repeats 10] [--save]

Simulated devices answer as was recorded. For the wall time they take the recorded seconds, scaled
to 0.3 s on average: sessions run as they are, with their logs. For the number of measurements to
within 5 % of the optimum seconds pass on a virtual clock, so many searches take little time; one
device is measured twice, with one candidate in flight after the other, as several devices are, and
in batches, as runs without a fleet are. Without DIR, a folder of recorded spaces as
`benchmarks/search.py` reads it, the spaces are generated.

Jobs of up to 10,000 workloads say whether time and memory grow in proportion to them. `--scaling`,
`--quality` and `--workloads` measure one of the three alone.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import psutil
from common import Row, parser, report, row
from search import find_workloads
from simulated_fleet import Clock, RecordedTask, SimulatedAnswers, SimulatedFleet, VirtualClock

from autotune.measure.measurer import Measurer
from autotune.measure.recorded_measurer import RecordedKnob, Recording, ReplayMeasurer
from autotune.measure.result import MeasureError, MeasureErrorNo, MeasureResult
from autotune.report.replay_scores import NEAR
from autotune.system.environment_variables import changed_environment
from autotune.tuner.factory import make_tuner
from autotune.tuner.replay.compare_tuners import find_recording
from autotune.tuner.run.limits import Goal, Limits
from autotune.tuner.run.parallel.parallel_session import new_session
from autotune.tuner.run.portfolio import Portfolio
from autotune.tuner.run.session import Session
from records import RecordStore
from search_spaces import ListedSpace

WIDTHS = (1, 2, 4, 8, 32)
JUDGED = 8  # Devices that the aims are for.
SPEED_UP, MORE = 6.5, 1.3  # Times as fast at least, and as many measurements at most.
MEAN_S = 0.3
BUDGET = 200  # Measurements of a search at most.
JOBS = (100, 1000, 10_000)  # Workloads of a job.
GROWTH = 1.5  # What a workload may take in the largest job, as a multiple of one in the middle one.
MEMORY = "/dev/shm"  # Where the log of a large job is: the disk is not what is measured.

GENERATED = ("generated:0", "generated:1", "generated:2")
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

BATCHES = 0  # As a number of devices: one, by the session of runs without a fleet.

Space = tuple[str, str]
"""File and name of a recorded space; or no file, and one of `GENERATED`."""


# -- spaces ------------------------------------------------------------------------------------


@lru_cache
def recording_of(space: Space) -> Recording:
    """Return a recorded space."""
    path, name = space
    return find_recording(path, name) if path else generated(int(name.partition(":")[2]))


def generated(seed: int) -> Recording:
    """Return a space of some thousand configurations like those of GPU kernels.

    Tiles must fit each other and into the threads; a share fails; building takes long where there
    is much code.
    """
    rng = np.random.default_rng([seed, 57])
    sizes = [2**k for k in range(3, 8)], [2**k for k in range(8)], [2**k for k in range(8)]
    knobs = [
        *(RecordedKnob(name, values) for name, values in zip("xyz", sizes, strict=True)),
        RecordedKnob("unroll", [1, 2, 4, 8]),
        RecordedKnob("vector", [1, 2, 4]),
        RecordedKnob("cached", [0, 1]),
    ]
    grids = np.meshgrid(*(np.arange(len(knob)) for knob in knobs), indexing="ij")
    rows = np.stack([grid.ravel() for grid in grids], axis=1)
    rows = rows[rows[:, :3].sum(axis=1) <= 10]
    place, curve = rng.uniform(0.2, 0.8, 6), rng.uniform(0.5, 3.0, 6)
    at = rows / np.array([len(knob) - 1 for knob in knobs])
    log_s = ((at - place) ** 2 * curve).sum(axis=1) + 0.8 * np.abs(at[:, 0] - at[:, 1] * at[:, 5])
    log_s += 0.5 * at[:, 3] * at[:, 4] + 0.05 * rng.standard_normal(len(rows))
    fails = at[:, 2] + at[:, 4] + 0.3 * rng.random(len(rows)) > 1.7
    build_s = 0.5 + 2.0 * at[:, 3] + rng.random(len(rows))
    space = ListedSpace(knobs, rows)
    error = MeasureError(MeasureErrorNo.RUNTIME_DEVICE, "run", "too many resources requested")
    results = {
        index: MeasureResult(error=error, build_s=slow, timestamp=0.0)
        if failing
        else MeasureResult(costs_s=(1e-3 * cost,), build_s=slow, run_s=0.5 + cost, timestamp=0.0)
        for index, cost, slow, failing in zip(
            space.indices_of(rows).tolist(),
            np.exp(log_s).tolist(),
            build_s.tolist(),
            fails.tolist(),
            strict=True,
        )
    }
    return Recording(f"generated:{seed}", space, results)


# -- searches ----------------------------------------------------------------------------------


class OneDevice(ReplayMeasurer):
    """A measurer of one device, as runs without a fleet have it, which takes its time."""

    def __init__(self, recording: Recording, answers: SimulatedAnswers, clock: Clock) -> None:
        super().__init__(recording)
        self._answers, self._clock = answers, clock
        self.busy_s = 0.0

    def run(self, candidate):  # type: ignore[no-untyped-def]
        """Wait, and return the recorded result."""
        self._clock.sleep(self._answers.seconds(candidate))
        self.busy_s += self._answers.seconds(candidate)
        return super().run(candidate)


def session_of(
    recording: Recording, width: int, seed: int, limits: Limits, clock: Clock, log: Path
) -> Session:
    """Return a session of the model tuner on so many devices."""
    answers = SimulatedAnswers.of(recording, MEAN_S)
    measurer: Measurer = SimulatedFleet(width, answers, clock)
    if width == BATCHES:
        measurer = OneDevice(recording, answers, clock)
    tuner = make_tuner("model", recording.space, seed)
    store = RecordStore(log)
    return new_session(RecordedTask(recording), measurer, tuner, store, seed, limits, clock=clock)


def run_to_end(session: Session) -> None:
    """Run a session that is alone."""
    Portfolio([session]).run()


def wall_times(
    space: Space, trials: int, widths: Sequence[int], seed: int
) -> dict[int, tuple[float, float]]:
    """Return the seconds that so many measurements take, by the number of devices.

    With them come the seconds that the devices have measured in all.
    """
    found = {}
    for width in widths:
        with tempfile.TemporaryDirectory() as folder:
            recording, log = recording_of(space), Path(folder, "log.jsonl")
            session = session_of(recording, width, seed, Limits(trials), Clock(), log)
            begin = time.monotonic()
            run_to_end(session)
            measurer = session.measurer
            assert isinstance(measurer, SimulatedFleet | OneDevice)
            found[width] = time.monotonic() - begin, measurer.busy_s
            assert len(session.trials) == trials
    return found


def to_near(space: Space, width: int, seed: int) -> tuple[int, float]:
    """Return the measurements and the virtual seconds to within 5 % of the optimum."""
    recording, clock = recording_of(space), VirtualClock()
    assert recording.optimum_s is not None
    near_s = recording.optimum_s / NEAR
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        limits = Limits(BUDGET, goal=Goal(near_s, "s"))
        session = session_of(recording, width, seed, limits, clock, Path(folder, "log.jsonl"))
        portfolio = Portfolio([session], lambda _: seconds.append(clock()))
        portfolio.run()
    # The first event is that of the beginning.
    bests = enumerate(session.trials.bests_s, 1)
    number = next((n for n, best_s in bests if best_s is not None and best_s <= near_s), BUDGET)
    return number, seconds[min(number, len(seconds) - 1)]


Near = dict[int, dict[Space, tuple[float, float]]]
"""Median measurements and seconds to within 5 %, by number of devices and space."""


def all_to_near(
    spaces: Sequence[Space], widths: Iterable[int], repeats: int, seed: int, processes: int
) -> Near:
    """Return the medians over some searches."""
    found: Near = {}
    with processes_of_one_thread(processes) as pool:
        for width in widths:
            runs = {
                space: pool.map(partial(to_near, space, width), range(seed, seed + repeats))
                for space in spaces
            }
            found[width] = {space: medians(list(pairs)) for space, pairs in runs.items()}
    return found


def medians(pairs: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Return the median of the first and of the second of some pairs."""
    first, second = zip(*pairs, strict=True)
    return statistics.median(first), statistics.median(second)


def mean(values: Iterable[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log([*values]))))


# -- large jobs --------------------------------------------------------------------------------


def job(workloads: int) -> tuple[float, float]:
    """Return seconds of a CPU and bytes that a job takes for each of its workloads.

    Each has 18 trials in batches of 6, on devices that answer at once, and the log is in memory:
    what remains is the work of the scheduler, of the sessions, and of writing the log.
    """
    few = Recording("few", *_few_of(generated(0)))
    clock = VirtualClock()
    with tempfile.TemporaryDirectory(dir=MEMORY if Path(MEMORY).is_dir() else None) as folder:
        store = RecordStore(Path(folder, "log.jsonl"))
        before = psutil.Process().memory_info().rss
        begin = time.process_time()
        sessions = []
        for number in range(workloads):
            recording = replace(few, name=f"workload {number}")
            measurer = SimulatedFleet(4, SimulatedAnswers.of(recording), clock)
            tuner = make_tuner("random", recording.space, number)
            sessions.append(
                new_session(
                    RecordedTask(recording), measurer, tuner, store, 0, Limits(18, batch=6),
                    job=recording.name, clock=clock,
                )
            )  # fmt: skip
        Portfolio(sessions).run()
        seconds = time.process_time() - begin
    assert all(len(session.trials) == 18 for session in sessions)
    memory = psutil.Process().memory_info().rss - before
    return seconds / workloads, memory / workloads


def _few_of(recording: Recording) -> tuple[ListedSpace, Mapping[int, MeasureResult]]:
    """Return a space of 64 of the configurations, and their results."""
    some = sorted(recording.results)[:: len(recording.results) // 64][:64]
    space = ListedSpace(recording.space.knobs, recording.space.positions(some))
    return space, {index: recording.results[index] for index in some}


def job_rows(sizes: Sequence[int]) -> list[Row]:
    """Return what a workload takes in jobs of these sizes, each in a process of its own."""
    rows = []
    found = {}
    for size in sizes:
        with processes_of_one_thread(1) as pool:
            found[size] = pool.submit(job, size).result()
        seconds, memory = found[size]
        rows.append(row(f"{size} workloads: CPU time of each", 1e3 * seconds, "ms"))
        rows.append(row(f"{size} workloads: memory of each", memory / 2**10, "KiB"))
    *_, usual, most = sizes
    for name, place in (("CPU time", 0), ("memory", 1)):
        ratio = found[most][place] / found[usual][place]
        what = f"{name} of each, {most} over {usual}"
        rows.append(row(what, ratio, "ratio", GROWTH, lower_is_better=True))
    return rows


@contextlib.contextmanager
def processes_of_one_thread(count: int) -> Iterator[ProcessPoolExecutor]:
    """Start processes whose libraries use one thread each, as the process of a run does."""
    with (
        changed_environment(dict.fromkeys(ONE_THREAD, "1")),
        ProcessPoolExecutor(count, multiprocessing.get_context("spawn")) as pool,
    ):
        yield pool


# -- rows --------------------------------------------------------------------------------------


def scaling_rows(spaces: Sequence[Space], trials: int, seed: int) -> list[Row]:
    """Return wall times, and how many times as fast several devices are."""
    widths = (BATCHES, *WIDTHS)
    with processes_of_one_thread(1) as pool:
        found = [pool.submit(wall_times, space, trials, widths, seed).result() for space in spaces]
    rows = [
        row(f"{_of(width)}: {trials} measurements", mean(t[width][0] for t in found), "s")
        for width in widths
    ]
    for width in WIDTHS[1:]:
        aim = SPEED_UP if width == JUDGED else None
        ratio = mean(times[1][0] / times[width][0] for times in found)
        rows.append(row(f"{_of(width)}: times as fast as one", ratio, "ratio", aim))
        # Which candidates are measured, and how long these take, is not the same.
        seconds, busy_s = zip(*(times[width] for times in found), strict=True)
        ratio = sum(busy_s) / sum(seconds)
        rows.append(row(f"{_of(width)}: of them busy on average", ratio, "devices", aim))
    return rows


def quality_rows(found: Near) -> list[Row]:
    """Return the measurements to within 5 %, beside those of one device."""
    means = {
        width: tuple(mean(pair[place] for pair in of.values()) for place in (0, 1))
        for width, of in found.items()
    }
    rows = []
    for width, (count, _) in means.items():
        rows.append(row(f"{_of(width)}: to 5 %", count, "runs"))
    for width in WIDTHS[1:]:
        if width not in means:
            continue
        aim = MORE if width == JUDGED else None
        count, seconds = means[width]
        for one in (1, BATCHES):
            what = f"{_of(width)}: measurements over {_of(one)}"
            mine = aim if one == 1 else None
            rows.append(row(what, count / means[one][0], "ratio", mine, lower_is_better=True))
        rows.append(row(f"{_of(width)}: times as soon within 5 %", means[1][1] / seconds, "ratio"))
    return rows


def _of(width: int) -> str:
    if width == BATCHES:
        return "one in batches"
    return "one device" if width == 1 else f"{width} devices"


def main() -> None:
    """Measure what is asked for."""
    found = parser((__doc__ or "").split("\n")[0])
    found.add_argument("--data", help="folder of recorded spaces")
    found.add_argument("--repeats", type=int, default=10, help="searches for each space")
    found.add_argument("--seed", type=int, default=0)
    found.add_argument("--jobs", type=int, default=1, help="processes")
    found.add_argument("--trials", type=int, default=BUDGET, help="measurements for the wall time")
    found.add_argument("--timed", type=int, default=2, help="spaces for the wall time")
    found.add_argument("--scaling", action="store_true", help="only wall times")
    found.add_argument("--quality", action="store_true", help="only measurements to 5 %%")
    found.add_argument("--workloads", action="store_true", help="only large jobs")
    options = found.parse_args()
    spaces = [("", name) for name in GENERATED]
    if options.data is not None:
        spaces = find_workloads(options.data)
    every = not (options.scaling or options.quality or options.workloads)
    rows: list[Row] = []
    more = {}
    if options.workloads or every:
        rows += job_rows(JOBS)
    if options.quality or every:
        runs = (options.repeats, options.seed, options.jobs)
        near = all_to_near(spaces, (BATCHES, *WIDTHS), *runs)
        rows += quality_rows(near)
        more["to_5_percent"] = {
            _of(width): {name: pair for (_, name), pair in of.items()} for width, of in near.items()
        }
    if options.scaling or every:
        rows += scaling_rows(spaces[: options.timed], options.trials, options.seed)
    report("fleet", rows, options.json, options.save, more=more)


if __name__ == "__main__":
    main()
