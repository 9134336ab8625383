"""Measures what searches for several kinds of devices, at the same time, gain from each other.

    python benchmarks/kinds.py --data DIR [--jobs 2] [--repeats 20] [--scaling] [--save]

DIR holds recorded spaces, as for `benchmarks/search.py`; those of one kernel on several cards are
tuned together, on simulated devices and a virtual clock: 8 of each card; then one of one card in
turn beside 8 of each other. Figures are the measurements of a card to within 5 % of its optimum,
with ranks shared and without, geometric means over the cards of medians over the searches.
`--scaling` measures something else: by the clock of the machine, how much faster searches for two
cards are at the same time than one after the other.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from common import Row, parser, report, row
from fleet import BUDGET, MEAN_S, Space, mean, processes_of_one_thread, recording_of, wall_times
from search import find_workloads
from simulated_fleet import (
    Clock,
    CommonClock,
    RecordedTask,
    SimulatedAnswers,
    SimulatedFleet,
    VirtualClock,
)

from autotune.report.replay_scores import NEAR
from autotune.tuner.factory import make_tuner
from autotune.tuner.run.events import ignore_event
from autotune.tuner.run.limits import Deadline, Limits
from autotune.tuner.run.parallel.kinds_at_once import tune_sessions
from autotune.tuner.run.parallel.parallel_session import new_session
from autotune.tuner.run.session import Session
from records import RecordStore

MANY, FEW = 8, 4  # Devices of a card; for the wall time of two.
TRIALS = 100  # Of a search; what takes more counts as `BUDGET`.
FASTER = 1.6  # Times as fast at least that two cards at the same time are.


def together(
    cards: Sequence[Space], widths: Sequence[int], shares: bool, seed: int
) -> tuple[int, ...]:
    """Return the measurements to within 5 %, by card, of searches that go on at the same time."""
    sessions = searches(cards, widths, shares, seed, CommonClock(VirtualClock()))
    return tuple(_near(session, card) for session, card in zip(sessions, cards, strict=True))


def wall_s(cards: Sequence[Space], width: int, seed: int) -> tuple[float, float]:
    """Return the seconds of searches on some cards at the same time, and one after the other."""
    alone = [wall_times(card, TRIALS, [width], seed)[width] for card in cards]
    begin = time.monotonic()  # by now the spaces are loaded
    searches(cards, [width] * len(cards), True, seed, CommonClock(Clock()))
    return time.monotonic() - begin, sum(seconds for seconds, _ in alone)


def searches(
    cards: Sequence[Space], widths: Sequence[int], shares: bool, seed: int, clock: CommonClock
) -> list[Session]:
    """Search on several cards at the same time; return the sessions."""
    sessions: list[Session] = []
    with tempfile.TemporaryDirectory() as folder:
        store = RecordStore(Path(folder, "log.jsonl"))
        for number, (card, width) in enumerate(zip(cards, widths, strict=True)):
            recording = recording_of(card)
            answers = SimulatedAnswers.of(recording, MEAN_S)
            measurer = SimulatedFleet(width, answers, clock, name=f"card {number}")
            tuner = make_tuner("model", recording.space, seed)
            tuner.learns_from_others = shares
            session = new_session(
                RecordedTask(replace(recording, name="kernel")), measurer, tuner, store, seed,
                Limits(TRIALS), job=str(number), clock=clock,
            )  # fmt: skip
            sessions.append(session)
        tune_sessions(sessions, ignore_event, Deadline(), clock.run_together)
    return sessions


def _near(session: Session, card: Space) -> int:
    optimum_s = recording_of(card).optimum_s
    assert optimum_s is not None
    for number, best_s in enumerate(session.trials.bests_s, 1):
        if best_s is not None and best_s <= optimum_s / NEAR:
            return number
    return BUDGET


def by_kernel(spaces: Sequence[Space]) -> dict[str, list[Space]]:
    """Return the cards of each kernel that several have, by the name of the file up to "_"."""
    found: dict[str, list[Space]] = {}
    seen = set()
    for path, name in spaces:
        card = os.path.basename(path).partition(".")[0].removesuffix("_T4")
        if card not in seen:
            seen.add(card)
            found.setdefault(card.partition("_")[0], []).append((path, name))
    return {kernel: cards for kernel, cards in found.items() if len(cards) > 1}


def medians(
    pool: ProcessPoolExecutor, cards: Sequence[Space], widths: Sequence[int], shares: bool,
    seeds: Sequence[int],
) -> list[float]:  # fmt: skip
    """Return the medians over some searches, by card."""
    runs = pool.map(partial(together, cards, widths, shares), seeds)
    return [statistics.median(numbers) for numbers in zip(*runs, strict=True)]


def rows_of(
    pool: ProcessPoolExecutor, kernels: Mapping[str, Sequence[Space]], seeds: Sequence[int]
) -> tuple[list[Row], dict[str, dict[str, list[float]]]]:
    """Return the rows, and the medians of each kernel."""
    details: dict[str, dict[str, list[float]]] = {}
    means: dict[str, float] = {}
    for shares in (False, True):
        how = "ranks shared" if shares else "each alone"
        even, lone = dict[str, list[float]](), dict[str, list[float]]()
        for kernel, cards in kernels.items():
            even[kernel] = medians(pool, cards, [MANY] * len(cards), shares, seeds)
            lone[kernel] = []
            for number in range(len(cards)):
                widths = [1 if i == number else MANY for i in range(len(cards))]
                lone[kernel].append(medians(pool, cards, widths, shares, seeds)[number])
        for what, found in ((f"{MANY} devices of each", even), ("one beside many", lone)):
            details[f"{what}, {how}"] = found
            means[f"{what}, {how}"] = mean(n for own in found.values() for n in own)
    rows = [row(f"{what}: to 5 %", value, "runs") for what, value in means.items()]
    for what in (f"{MANY} devices of each", "one beside many"):
        ratio = means[f"{what}, ranks shared"] / means[f"{what}, each alone"]
        rows.append(row(f"{what}: shared over alone", ratio, "ratio", 1.0, lower_is_better=True))
    return rows, details


def scaling_rows(kernels: Mapping[str, Sequence[Space]], seed: int) -> list[Row]:
    """Return how much faster searches for two cards of a kernel are at the same time."""
    with processes_of_one_thread(1) as pool:
        pairs = [cards[:2] for cards in kernels.values()]
        walls = [pool.submit(wall_s, cards, FEW, seed).result() for cards in pairs]
    ratio = mean(in_turn / at_once for at_once, in_turn in walls)
    what = f"2 cards of {FEW} devices: times as fast as one after the other"
    return [row(what, ratio, "ratio", FASTER)]


def main() -> None:
    """Measure with and without."""
    found = parser((__doc__ or "").split("\n")[0])
    found.add_argument("--data", required=True, help="folder of recorded spaces")
    found.add_argument("--repeats", type=int, default=20, help="searches for each kernel")
    found.add_argument("--seed", type=int, default=0)
    found.add_argument("--jobs", type=int, default=1, help="processes")
    found.add_argument("--scaling", action="store_true", help="only wall times")
    options = found.parse_args()
    kernels = by_kernel(find_workloads(options.data))
    if not kernels:
        sys.exit(f"--data {options.data}: no two cards measured the same kernel")
    if options.scaling:
        report("kinds_scaling", scaling_rows(kernels, options.seed), options.json, options.save)
        return
    with processes_of_one_thread(options.jobs) as pool:
        seeds = range(options.seed, options.seed + options.repeats)
        rows, details = rows_of(pool, kernels, seeds)
    report("kinds", rows, options.json, options.save, more={"to_5_percent": details})


if __name__ == "__main__":
    main()
