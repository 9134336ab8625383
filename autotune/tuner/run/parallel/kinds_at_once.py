"""Workloads on several kinds of devices: those of one kind get turns, and all kinds are busy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from autotune.cost_model.xgboost_model import load_alone
from autotune.fleet.kinds import same_kind
from autotune.tuner.model.transfer import LEAST, TransferError, TransferPrior
from autotune.tuner.run.events import Event, EventCallback, Measured, TuneSummary
from autotune.tuner.run.limits import Deadline
from autotune.tuner.run.portfolio import Portfolio
from autotune.tuner.run.session import Session

# A search learns the other kinds' measurements again when their number has grown by `GROWTH`. After
# `ENOUGH` trials of its own it stops, since their weight is small then (see `Surrogate.expected`).
GROWTH, ENOUGH = 2, 200

# Calls functions at the same time, of which each goes on until it waits; see `Fleet.run_together`.
RunTogether = Callable[[Sequence[Callable[[], object]]], object]


def tune_sessions(
    sessions: Sequence[Session],
    on_event: EventCallback,
    deadline: Deadline,
    run_together: RunTogether | None = None,
) -> list[TuneSummary]:
    """Tune the workloads of a run, until each has reached a limit; return the result of each.

    Workloads that are measured on the same devices get turns. Others go on at the same time, and
    searches of one workload on several kinds of devices learn from each other which configurations
    are fast. One that cannot be measured is given up, and its summary says so.

    run_together: lets several kinds go on at the same time; None if there is one device.

    AutotuneError if the only workload cannot be measured, or one does not fit its goal.
    """
    groups = [] if run_together is None else _groups(sessions)
    if run_together is None or len(groups) < 2:
        return Portfolio(sessions, on_event, deadline).run()
    relay, kinds = _Relay(on_event, len(groups)), []
    for number, group in enumerate(groups):
        for session in group:
            session.learner.in_thread = False  # another kind's search goes on meanwhile
            others = [other for other in sessions if _is_other_kind(session, other)]
            session.trials.beside = [other.measurer.device or {} for other in others]
            if others and session.learner.learns_from_others:
                session.learner.others = OtherKinds(session, others)
        portfolio = Portfolio(group, partial(relay.take, number), deadline, is_whole=False)
        kinds.append(partial(relay.run, number, portfolio, group))
    run_together(kinds)
    return [session.summary for session in sessions if session.summary is not None]


def _groups(sessions: Sequence[Session]) -> list[list[Session]]:
    """Return sessions with those that share devices with them, directly or by others."""
    by_places: dict[frozenset[str], list[int]] = {}  # of thousands of sessions few differ
    for number, session in enumerate(sessions):
        by_places.setdefault(frozenset(session.measurer.places), []).append(number)
    groups: list[tuple[frozenset[str], list[int]]] = []
    for places, numbers in by_places.items():
        for group in [group for group in groups if group[0] & places]:
            groups.remove(group)
            places |= group[0]
            numbers = [*group[1], *numbers]
        groups.append((places, numbers))
    return [[sessions[number] for number in sorted(numbers)] for _, numbers in groups]


def _is_other_kind(own: Session, other: Session) -> bool:
    """Whether two sessions have one workload, on different kinds of devices."""
    mine, its = own.measurer.device or {}, other.measurer.device or {}
    return own.task.workload == other.task.workload and not same_kind(mine, its)


class OtherKinds:
    """Makes a prior from the searches of the same workload on other kinds of devices.

    The prior (`TransferPrior`) learns ranks of throughput, not times.
    """

    def __init__(self, own: Session, others: Sequence[Session]) -> None:
        self._own = own
        self._others = others
        self._known = 0

    def __call__(self) -> TransferPrior | None:
        """Return what the others have measured so far; None if little of it is new."""
        counts = [len(other.trials) for other in self._others]
        known = sum(count for count in counts if count >= LEAST)
        if not known or known < GROWTH * self._known or len(self._own.trials) > ENOUGH:
            return None
        self._known = known
        load_alone()
        records = chain.from_iterable(other.trials.recorded for other in self._others)
        try:
            return TransferPrior.of(records, self._own.task.space, self._own.trials.seed)
        except TransferError:  # their templates have other knobs
            return None


class _Relay:
    """Hands events of several kinds on, with the time left for all of them."""

    def __init__(self, on_event: EventCallback, kinds: int) -> None:
        self._on_event = on_event
        self._left_s: list[float | None] = [None] * kinds

    def run(self, kind: int, portfolio: Portfolio, sessions: Sequence[Session]) -> None:
        """Tune the workloads of a kind, and let go of its devices."""
        portfolio.run()
        self._left_s[kind] = 0.0
        for session in sessions:
            session.measurer.close()

    def take(self, kind: int, event: Event) -> None:
        """Hand on an event of a kind; they go on at the same time, so the longest time counts."""
        if isinstance(event, Measured):
            self._left_s[kind] = event.left_s
            known = [left_s for left_s in self._left_s if left_s is not None]
            left_s = max(known) if len(known) == len(self._left_s) else None
            event = replace(event, left_s=left_s)
        self._on_event(event)
