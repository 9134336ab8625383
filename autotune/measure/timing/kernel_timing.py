"""Timing one kernel: a loop of calls around one clock, long enough for the clock and the caches."""

from __future__ import annotations

import contextlib
import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat

from autotune.measure.timing.noise_monitor import NOISY, NoiseMonitor, WaitingShare
from autotune.measure.timing_policy import TimingPolicy
from autotune.system.number_text import time_text
from records import relative_spread

Loop = Callable[[Callable[[], object], int], float]  # Makes a number of calls; seconds.

# A loop grows at most by this factor at once: one call may have been far faster than the next.
_GROWTH = 100

# A sample is a loop of calls that takes about so long, or one call that takes longer.
SAMPLE_S = 5e-4

# Repeats that a candidate gets before it may lose a race: one alone may have been disturbed.
RACED_AFTER = 2

RETRIES = 2  # How often disturbed repeats are taken anew.

# A candidate that is so many times slower than the incumbent is slow, whoever uses the machine. On
# two cores a neighbour on one of them was seen to make short kernels up to six times slower: their
# threads wait for each other, and for time slices.
HOPELESS = 8.0

PAUSE_S = 0.06  # Seconds until then where a neighbour has disturbed them, who may be gone.


@dataclass(frozen=True)
class TimedRepeats:
    """The times of a kernel."""

    costs_s: tuple[float, ...]  # Seconds per call, one number per repeat.
    # Whether it stopped early, as the kernel was clearly slower than the incumbent.
    raced: bool = False

    @property
    def spread(self) -> float:
        """Relative spread of the costs; 0 if one repeat is all there is."""
        return relative_spread(self.costs_s) or 0.0


@dataclass(frozen=True)
class Timing:
    """How long one call takes, in seconds: the median of some repeats, and their quartiles."""

    seconds: float
    low: float  # Lower quartile.
    high: float  # Upper quartile.
    repeats: int  # Each of as many calls as fill some milliseconds.

    @classmethod
    def of(cls, costs_s: Sequence[float]) -> Timing:
        """Return the timing of the seconds per call of one or more repeats."""
        several = [*costs_s, costs_s[0]] if len(costs_s) == 1 else costs_s
        low, middle, high = statistics.quantiles(several, n=4, method="inclusive")
        return cls(middle, low, high, len(costs_s))

    def __repr__(self) -> str:
        quartiles = f"{time_text(self.low)} to {time_text(self.high)}"
        return f"<{time_text(self.seconds)}, quartiles {quartiles}, {self.repeats} repeats>"


def time_kernel(
    call: Callable[[], object],
    policy: TimingPolicy,
    incumbent_s: float | None = None,
    flush: Callable[[], object] | None = None,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
    loop: Loop | None = None,
) -> TimedRepeats:
    """Time a kernel that has been called once.

    A candidate that may be the fastest so far, as its fastest repeat is faster than the incumbent,
    but whose repeats differ by more than a machine at rest makes them, is timed again, `RETRIES`
    times at most; of all tries the one whose repeats differ least counts, fast or slow.

    call: runs the kernel once.
    incumbent_s: seconds per call of the fastest candidate so far; without it nothing is raced or
        retried.
    flush: empties the caches; a policy that flushes needs it.
    clock_ns: monotonic time in nanoseconds.
    loop: makes a number of calls in a row and returns the seconds they take; by the clock, if it is
        not given.
    """
    loop = loop or partial(timed_loop, clock_ns=clock_ns)
    for _ in range(policy.warmup - 1):
        call()
    cold = flush if policy.flush == "repeats" else None
    with gc_disabled():
        timed = _repeats(call, policy, incumbent_s, cold, loop)
        for _ in range(RETRIES):
            if not _is_disturbed(timed, incumbent_s):
                break
            again = _repeats(call, policy, incumbent_s, cold, loop)
            timed = min(timed, again, key=lambda tried: tried.spread)
    return timed


def retry_if_disturbed(
    timed: Callable[[bool], TimedRepeats],
    monitor: NoiseMonitor,
    incumbent_s: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
    waiting_share: Callable[[], WaitingShare] = WaitingShare,
) -> TimedRepeats:
    """Time a kernel at a moment when nobody else uses the machine, if one comes soon.

    A neighbour that has a core for a while slows every repeat of whoever is timed just then, and a
    search takes that for the candidate's fault. So a candidate that may be among the fastest, but
    was not, is timed again after a pause if its threads had to wait for a processor, or if the
    reference kernel takes longer than it should right afterwards, where the machine is noisy also
    before: `RETRIES` times at most. Of all tries the fastest counts.

    timed: times the kernel; told whether the machine is noisy.
    incumbent_s: seconds per call of the fastest candidate so far.
    sleep: waits for so many seconds.
    waiting_share: begins to count how long threads wait for a processor.
    """
    tries: list[TimedRepeats] = []
    noisy = monitor.noisy
    for _ in range(1 + RETRIES):
        if tries:
            sleep(PAUSE_S)
        before = not noisy or monitor.is_quiet_now()
        waiting = waiting_share()
        tries.append(timed(noisy))
        if _is_certain(tries[-1], incumbent_s):
            break
        if before and not waiting.disturbed and monitor.is_quiet_now():
            break
        noisy = True
    return min(tries, key=lambda tried: statistics.median(tried.costs_s))


def _is_certain(timed: TimedRepeats, incumbent_s: float | None) -> bool:
    """Whether a candidate is the fastest, or so slow that no neighbour can be the reason."""
    if incumbent_s is None:
        return False
    fastest_s = min(timed.costs_s)
    return fastest_s <= incumbent_s or fastest_s > HOPELESS * incumbent_s


def _is_disturbed(timed: TimedRepeats, incumbent_s: float | None) -> bool:
    """Whether a candidate that may be the fastest was timed too badly to tell."""
    if incumbent_s is None or timed.raced:
        return False
    return timed.spread > NOISY and min(timed.costs_s) < incumbent_s


def _repeats(
    call: Callable[[], object],
    policy: TimingPolicy,
    incumbent_s: float | None,
    flush: Callable[[], object] | None,
    loop: Loop,
) -> TimedRepeats:
    """Take the costs. Loops too short for the policy are run again, longer, and do not count."""
    shortest_s = 0.0 if flush is not None else policy.min_repeat_ms * 1e-3
    costs: list[float] = []
    number, spent_s = 1, 0.0
    while len(costs) < policy.repeats and (not costs or spent_s < policy.budget_ms * 1e-3):
        if flush is not None:
            flush()
        seconds = loop(call, number)
        if not costs and seconds < shortest_s:
            number = _longer(number, seconds, shortest_s)
            continue
        costs.append(seconds / number)
        spent_s += seconds
        if _has_lost(costs, policy, incumbent_s):
            return TimedRepeats(tuple(costs), raced=True)
    return TimedRepeats(tuple(costs))


def _has_lost(costs: list[float], policy: TimingPolicy, incumbent_s: float | None) -> bool:
    """Whether even the fastest repeat is slower than a race allows, and others were to come."""
    if incumbent_s is None or not policy.race:
        return False
    enough = RACED_AFTER <= len(costs) < policy.repeats
    return enough and min(costs) > policy.race * incumbent_s


@contextlib.contextmanager
def gc_disabled() -> Iterator[None]:
    """Keep Python from collecting garbage while a kernel is timed."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def timed_loop(call: Callable[[], object], number: int, clock_ns: Callable[[], int]) -> float:
    """Return the seconds that `number` calls take, at least one nanosecond."""
    begin = clock_ns()
    for _ in repeat(None, number):
        call()
    return max(clock_ns() - begin, 1) * 1e-9


def own_time_loop(
    call: Callable[[], object],
    number: int,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
) -> float:
    """Return the seconds that `number` calls say they take; by the clock, if they do not say it."""
    seconds = 0.0
    for _ in repeat(None, number):
        begin = clock_ns()
        taken_ms = call()
        if isinstance(taken_ms, float):
            seconds += taken_ms * 1e-3
        else:
            seconds += max(clock_ns() - begin, 1) * 1e-9
    return seconds


def lower_quartile_loop(
    call: Callable[[], object],
    number: int,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
) -> float:
    """Return the seconds that `number` calls would take if nobody else used the machine.

    They are made in pieces of half a millisecond or more; the lower quartile of their times per
    call counts for all of them.
    """
    size, done = 1, 0
    short: list[float] = []
    samples: list[float] = []
    while done < number:
        size = min(size, number - done)
        seconds = timed_loop(call, size, clock_ns)
        done += size
        (short if seconds < SAMPLE_S / 2 else samples).append(seconds / size)
        size *= 1 if seconds >= SAMPLE_S / 2 else 2
    return lower_quartile(samples or short[-1:]) * number


def lower_quartile(samples: Sequence[float]) -> float:
    """Return the lower quartile of some samples, of fewer than four the smallest."""
    if len(samples) < 4:
        return min(samples)
    return statistics.quantiles(samples, n=4, method="inclusive")[0]


def _longer(number: int, seconds: float, wanted_s: float) -> int:
    """Return a number of calls that should last `wanted_s` and a little more."""
    wanted = math.ceil(number * 1.1 * wanted_s / seconds)
    return min(max(wanted, number + 1), number * _GROWTH)
