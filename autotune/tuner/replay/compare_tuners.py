"""Runs tuners on recorded files, each a number of times, on several processes if asked to."""

from __future__ import annotations

import functools
import multiprocessing
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from autotune.errors import UsageError
from autotune.measure.recorded_measurer import Recording, recordings
from autotune.system.environment_variables import changed_environment
from autotune.system.processes import die_with
from autotune.tuner.factory import make_tuner
from autotune.tuner.model.transfer import TransferPrior
from autotune.tuner.replay.replay_tuner import REPLAY_BATCH, Trace, replay
from records import Record, config_key, workload_key
from records.log_set import stream_logs
from search_spaces import SpaceError

_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


# A file of measurements or a folder of logs, or several that count as one file.
Files = str | tuple[str, ...]


@dataclass(frozen=True)
class ReplayJob:
    """One tuner on one recorded workload, `repeats` times with the seeds `seed`, `seed` + 1, ..."""

    path: Files
    # Name of the recording in it; see :func:`~autotune.measure.recorded_measurer.recordings`.
    name: str
    tuner: str
    budget: int
    repeats: int
    seed: int
    batch: int = REPLAY_BATCH
    patience: float | None = None
    # Files or folders that the tuner may learn from beforehand.
    transfer: tuple[str, ...] = ()


def short_name(path: Files) -> str:
    """Return the (first) file's name without folder and suffixes: "a/b.json.gz" -> "b"."""
    name = os.path.basename(path if isinstance(path, str) else path[0])
    for suffix in (".gz", ".jsonl", ".json", ".log"):
        name = name.removesuffix(suffix)
    return name


@functools.lru_cache(maxsize=8)
def load_records(path: Files) -> tuple[Record, ...]:
    """Return the measurements in a file; kept, as files do not change while they are replayed."""
    return tuple(stream_logs(path))


@functools.lru_cache(maxsize=8)
def load_recordings(path: Files) -> tuple[Recording, ...]:
    """Return the recordings in a file, the largest first.

    UsageError if it holds none, or one that makes no space.
    """
    try:
        found = tuple(recordings(load_records(path), short_name(path)))
    except SpaceError as error:
        raise UsageError(f"{_named(path)}: {error}") from error
    if not found:
        raise UsageError(f"{_named(path)} holds no measurements to replay")
    return found


def find_recording(path: Files, name: str) -> Recording:
    """Return the recording of this name in a file; UsageError if there is none."""
    found = load_recordings(path)
    for recording in found:
        if recording.name == name:
            return recording
    names = ", ".join(recording.name for recording in found)
    raise UsageError(f"{_named(path)} has no workload {name!r}: it has {names}")


def _named(path: Files) -> str:
    return path if isinstance(path, str) else " and ".join(path)


def run_job(job: ReplayJob) -> list[Trace]:
    """Run a job here."""
    recording = find_recording(job.path, job.name)
    prior = TransferPrior.of(_others(job), recording.space) if job.transfer else None
    return [
        replay(
            recording,
            make_tuner(job.tuner, recording.space, job.seed + number, prior=prior),
            job.budget,
            job.batch,
            job.patience,
        )
        for number in range(job.repeats)
    ]


def _others(job: ReplayJob) -> list[Record]:
    """Return the measurements that a job may learn from, without its own.

    Those of one workload and device are left out together if most of what worked is the same.
    """
    own = {(config_key(r), r.costs_s) for r in load_records(job.path)}
    groups: dict[str, list[Record]] = {}
    for record in (r for path in job.transfer for r in load_records(path)):
        groups.setdefault(f"{workload_key(record)} {record.device}", []).append(record)
    found: list[Record] = []
    for group in groups.values():
        known = [(config_key(r), r.costs_s) in own for r in group if r.ok]
        if 2 * sum(known) <= len(known):
            found += group
    return found


def run_jobs(jobs: Sequence[ReplayJob], processes: int = 1) -> Iterator[list[Trace]]:
    """Yield the traces of each job, in order; results do not depend on the number of processes."""
    if processes <= 1 or len(jobs) <= 1:
        yield from map(run_job, jobs)
        return
    context = multiprocessing.get_context("spawn")
    with (
        changed_environment(dict.fromkeys(_ONE_THREAD, "1")),
        ProcessPoolExecutor(
            min(processes, len(jobs)), context, initializer=die_with, initargs=(os.getpid(),)
        ) as pool,
    ):
        yield from pool.map(run_job, jobs)


def distinct(recorded: Iterable[tuple[str, Recording]]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return (path, name) of recordings that differ, and a line per one that repeats another."""
    seen: dict[object, str] = {}
    kept: list[tuple[str, str]] = []
    repeated: list[str] = []
    for path, recording in recorded:
        content = frozenset((i, r.costs_s) for i, r in recording.results.items())
        key = (recording.space.fingerprint(), content)
        if key in seen:
            repeated.append(f"{path}: the same measurements as {seen[key]}")
            continue
        seen[key] = recording.name
        kept.append((path, recording.name))
    return kept, repeated
