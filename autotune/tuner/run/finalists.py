"""Chooses the configuration that a run ends with, from rounds of times; no measuring here.

In a round each finalist is timed in turns with the others, in one process on one set of arrays.
What differs from round to round, such as where the arrays lie or who else uses the machine, affects
all of them equally. So only the ratio of two costs of the same round is used, never a cost alone.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

# Two configurations whose ratio is nearer to 1 than this count as equally fast: the place of the
# arrays alone changes a ratio between processes, usually by up to so much, at worst by twice that.
TIE = 0.02
MIN_ROUNDS = 3  # With fewer rounds nothing is decided.
ENOUGH_ROUNDS = 5  # After this number of rounds the comparison may end early.
MAX_ROUNDS = 30  # Most rounds, if their range is not narrow before.

# Confidence level of a range: the probability that it holds the true median of the rounds.
CONFIDENCE = 0.8

# A range whose upper end over its lower end is at most this is narrow enough to be stated.
NARROW = 0.05

# A trial whose fastest repeat is more than so many times the fastest of all is no finalist. A trial
# lasts a few hundredths of a second. Another program that had one of two cores for that long was
# seen to make short kernels up to six times slower: their threads wait for each other.
NEAR = 8.0

# A finalist that is this many times slower than the fastest after one round, or after two, is
# dropped.
FAR = (2.0, 1.5)

FEW = 4  # So many finalists, without the default, are left for the rounds.

# The screening keeps one in this many (successive halving; Jamieson and Talwalkar, 2016).
KEPT = 4


@dataclass(frozen=True)
class ConfidenceInterval:
    """How many times as fast as another a configuration is."""

    value: float  # The median of the rounds' ratios.
    # Two of the rounds' ratios, the same number of others below and above. They are as near to each
    # other as `CONFIDENCE` allows: by the sign test the median of n independent numbers lies
    # between the (j+1)-th and the (n-j)-th with a probability of 1 - 2 P(X <= j), X binomial of n
    # and 1/2. So it takes no shape of the noise for granted, and from seven rounds on one that was
    # disturbed does not count. Up to six rounds they are the extremes.
    low: float
    high: float
    rounds: int  # How many rounds it is made of.

    @classmethod
    def of(cls, ratios: Sequence[float]) -> ConfidenceInterval | None:
        """Return the ratio and its range from some rounds; None if there are none."""
        if not ratios:
            return None
        ordered = sorted(ratios)
        left_out = _left_out(len(ordered))
        ends = ordered[left_out], ordered[len(ordered) - 1 - left_out]
        return cls(statistics.median(ordered), *ends, len(ordered))

    @property
    def clear(self) -> bool:
        """Whether it is clearly faster, and by more than a tie."""
        return self.rounds >= MIN_ROUNDS and self.low > 1.0 and self.value > 1.0 + TIE

    @property
    def narrow(self) -> bool:
        """Whether its range is narrow enough to be stated."""
        return self.high <= (1.0 + NARROW) * self.low


@functools.cache
def _left_out(rounds: int) -> int:
    """Return how many of the ratios at either end a range may leave out."""
    below, count = 0.0, 0
    for number in range(rounds // 2):
        below += math.comb(rounds, number) / 2.0**rounds
        if 1.0 - 2.0 * below < CONFIDENCE:
            break
        count = number
    return count


@dataclass
class FinalistComparison:
    """The finalists of a workload, and the results of the rounds so far."""

    finalists: list[int]  # Configurations, without those that have failed since.
    # The default configuration, which is one of them; None if it does not work.
    default: int | None
    # Seconds of each configuration that was timed in a round, earlier comparisons first.
    rounds: list[Mapping[int, float]] = field(default_factory=list)

    def ratio(self, faster: int, slower: int) -> ConfidenceInterval | None:
        """Return how many times as fast one is as another; None if no round had both."""
        both = [costs for costs in self.rounds if faster in costs and slower in costs]
        return ConfidenceInterval.of([costs[slower] / costs[faster] for costs in both])

    def over_default(self, index: int) -> ConfidenceInterval | None:
        """Return how many times as fast as the default a configuration is."""
        default = self.default
        return None if default is None or default == index else self.ratio(index, default)

    def beats(self, faster: int, slower: int) -> bool:
        """Whether one is clearly faster than another."""
        ratio = self.ratio(faster, slower)
        return ratio is not None and ratio.clear

    @property
    def anchor(self) -> int:
        """The configuration to compare with: the default, or else the lowest index."""
        return min(self.finalists) if self.default is None else self.default

    def speed(self, index: int) -> float:
        """Return how fast a configuration seems, the anchor's speed being 1."""
        if index == self.anchor:
            return 1.0
        ratio = self.ratio(index, self.anchor)
        return 0.0 if ratio is None else ratio.value

    @property
    def leader(self) -> int:
        """The one that seems fastest; the lower index of two that seem alike."""
        return max(sorted(self.finalists), key=self.speed)

    @property
    def remaining(self) -> list[int]:
        """Those still to be timed: the default, the two fastest, and whoever may be the fastest.

        After enough rounds only the first three are left: the others' time makes their ranges
        narrower.
        """
        leader = self.leader
        fastest = sorted(sorted(self.finalists), key=self.speed, reverse=True)[:2]
        kept = {self.anchor, *fastest} | {i for i in self.finalists if not self._is_out(i, leader)}
        return [index for index in self.finalists if index in kept]

    def _is_out(self, index: int, leader: int) -> bool:
        ratio = self.ratio(leader, index)
        if ratio is None:
            return False
        early = ratio.rounds <= len(FAR) and ratio.value > FAR[ratio.rounds - 1]
        return ratio.clear or early or ratio.rounds >= ENOUGH_ROUNDS

    @property
    def settled(self) -> bool:
        """Whether more rounds would hardly change the order, or the range of the ratio."""
        if len(self.finalists) < 2:
            return True
        leader = self.leader
        rivals = [index for index in self.remaining if index != leader]
        ratios = [ratio for i in rivals if (ratio := self.ratio(leader, i)) is not None]
        if len(ratios) < len(rivals) or any(r.rounds < ENOUGH_ROUNDS for r in ratios):
            return False
        return all(r.narrow and (r.clear or r.high < 1.0 + 1.5 * TIE) for r in ratios)

    @property
    def decided(self) -> bool:
        """Whether there were rounds enough to choose by."""
        ratio = self.ratio(self.leader, self.anchor) if self.finalists else None
        return ratio is not None and ratio.rounds >= MIN_ROUNDS

    @property
    def winner(self) -> int:
        """The configuration to build.

        The default wins unless another one is clearly faster. Of the clearly faster ones it
        is the fastest, or the lowest index of those that are equally fast.
        """
        default = self.default
        better = [i for i in self.finalists if default is None or self.beats(i, default)]
        if not better:
            assert self.default is not None
            return self.default
        best = max(sorted(better), key=self.speed)
        return min(i for i in better if self.speed(i) * (1.0 + TIE) >= self.speed(best))

    @property
    def ranking(self) -> list[int]:
        """All finalists, the winner first, then as fast as they seem."""
        winner = self.winner
        rest = sorted(i for i in self.finalists if i != winner)
        return [winner, *sorted(rest, key=self.speed, reverse=True)]

    def fail(self, index: int) -> None:
        """Remove a finalist that gave a wrong answer or none."""
        self.finalists = [i for i in self.finalists if i != index]
        if index == self.default:
            self.default = None


def screening_sizes(finalists: int) -> list[int]:
    """Return the number of finalists at each pass of a screening; empty if they are few already."""
    sizes: list[int] = []
    while finalists > FEW + 1:
        sizes.append(finalists)
        finalists = max(FEW + 1, finalists // KEPT)
    return sizes


def screened(
    passes: Sequence[Mapping[int, float]], always: Collection[int], count: int
) -> list[int]:
    """Return the finalists that a screening keeps, in their order; of equal ones the first.

    passes: costs of each pass; the finalists of the last one are in all of them.
    always: finalists that are always kept.
    count: number of finalists to keep, including these.
    """
    last = passes[-1]
    total = {index: sum(math.log(costs[index]) for costs in passes) for index in last}
    order = sorted(last, key=lambda index: (index not in always, total[index]))
    kept = set(order[:count])
    return [index for index in last if index in kept]


@dataclass(frozen=True)
class Tried:
    """A trial that worked."""

    index: int  # Its configuration.
    costs_s: Sequence[float]  # Its times, in seconds, one per repeat.
    code: str | None = None  # Digest of its code: equal for one and the same kernel.


def choose_finalists(
    trials: Sequence[Tried],
    default: int | None,
    champion: int | None,
    most: int,
    beaten: Collection[int] = (),
) -> list[int]:
    """Return the configurations to compare: the default, the champion, and the fastest trials.

    A trial counts by its fastest repeat, because disturbances only make repeats slower; whether it
    was fast by chance is seen in the next round.

    default: the default configuration; None if there is none.
    champion: who was chosen in an earlier comparison.
    most: how many there may be.
    beaten: who lost in an earlier comparison.

    Of trials that are one and the same kernel only the first named, or the lowest index.
    """
    known = {trial.index: trial for trial in trials}
    found: list[int] = []
    codes: set[str] = set()
    fastest = sorted(trials, key=lambda trial: (min(trial.costs_s), trial.index))
    near_s = NEAR * min(fastest[0].costs_s) if fastest else 0.0
    others = [t.index for t in fastest if min(t.costs_s) <= near_s and t.index not in beaten]
    for index in [default, champion, *others]:
        if index not in known or index in found or known[index].code in codes:
            continue
        found.append(index)
        codes |= {known[index].code or f"{index}"}
        if len(found) >= most:
            break
    return found
