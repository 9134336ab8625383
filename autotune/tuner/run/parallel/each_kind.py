"""A request for each kind of device in the cluster, in place of one for all kinds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from autotune.fleet.kinds import EACH, kind_names
from autotune.fleet.roster import kinds_of
from autotune.target import Target
from autotune.tuner.run.tuning_job import TuningRequest


@contextlib.contextmanager
def each_kind(requests: Sequence[TuningRequest]) -> Iterator[list[tuple[int, TuningRequest]]]:
    """Expand the requests of a run: one for "each" kind of device becomes one per kind.

    Each comes with its position among the given requests. If there are several kinds, the label
    names the kind. Facts by which rules choose schedules are added to the target, if they differ
    from this machine's. The fleet stays connected until the block ends.

    UsageError if the fleet has no device for a target, or cannot be used.
    """
    fleets = dict.fromkeys(request.fleet for request in requests if request.devices == EACH)
    with contextlib.ExitStack() as around:
        for fleet in filter(None, fleets):
            around.enter_context(fleet)
        yield _numbered(requests)


def _numbered(requests: Sequence[TuningRequest]) -> list[tuple[int, TuningRequest]]:
    """Return the requests of each kind, with their positions among those given."""
    found: list[tuple[int, TuningRequest]] = []
    known: dict[str, list[tuple[dict[str, Any], Target]]] = {}
    for number, request in enumerate(requests):
        if request.devices != EACH or request.fleet is None:
            found.append((number, request))
            continue
        target = str(request.task.target)
        if target not in known:
            known[target] = kinds_of(request.fleet, request.task.target)
        found += [(number, own) for own in _requests(request, known[target])]
    return found


def _requests(
    request: TuningRequest, kinds: Sequence[tuple[dict[str, Any], Target]]
) -> list[TuningRequest]:
    """Return a request for each of some kinds of devices, each with its target."""
    made = []
    task, label = request.task, request.label or request.task.workload.template
    names = kind_names([device for device, _ in kinds])
    for (device, target), name in zip(kinds, names, strict=True):
        own = task if target == task.target else task.with_target(target)
        title = f"{label} on {name}" if len(kinds) > 1 else request.label
        made.append(replace(request, task=own, devices=device, label=title))
    return made
