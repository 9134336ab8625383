"""Whose turn it is among many workloads: the rules, and that a turn takes no longer for more."""

import random

import pytest
from support.parallel_runs import Search, recording

from autotune.tuner.run.limits import Limits
from autotune.tuner.run.portfolio import (
    FAIR,
    INFORMED,
    MAX_OPEN,
    Portfolio,
    Prospect,
    TimeLeft,
    Turns,
)
from records import RecordStore


def by_the_rules(prospects, turn):
    """Return the next workload by looking at all of them."""
    running = [i for i, prospect in enumerate(prospects) if prospect is not None]
    if not running:
        return None
    unknown = [
        i for i in running if prospects[i].pace_s is None or len(prospects[i].bests_s) < INFORMED
    ]
    if unknown:
        return min(unknown, key=lambda i: (prospects[i].served, len(prospects[i].bests_s)))
    if turn % FAIR == FAIR - 1:
        return min(running, key=lambda i: prospects[i].served)
    return max(running, key=lambda i: (prospects[i].rate, -prospects[i].served))


def some_prospect(rng, served):
    trials = rng.choice([0, 3, INFORMED, 40])
    bests_s = [rng.choice([1.0, 2.0, 3.0])] * trials
    pace_s = rng.choice([None, 0.5, 1.0, 2.0])
    return Prospect(rng.choice([1.0, 2.0]), bests_s, rng.choice([None, 0.1, 0.5]), pace_s, served)


@pytest.mark.parametrize("seed", range(20))
def test_the_next_workload_is_the_one_that_the_rules_name(seed):
    rng = random.Random(seed)
    prospects = [some_prospect(rng, -1) for _ in range(rng.randint(1, 8))]
    turns = Turns(prospects)
    for turn in range(60):
        number = turns.next(turn)
        assert number == by_the_rules(prospects, turn)
        if number is None:
            break
        for changed in {number, rng.randrange(len(prospects))}:
            if prospects[changed] is not None:
                served = turn if changed == number else prospects[changed].served
                over = rng.random() < 0.1
                prospects[changed] = None if over else some_prospect(rng, served)
                turns.update(changed, prospects[changed])


def test_of_equals_the_first_is_chosen():
    known = Prospect(1.0, [1.0] * INFORMED, 0.5, 1.0, 3)
    assert Turns([known, known, known]).next(0) == Turns([known, known]).next(FAIR - 1) == 0


def test_the_time_that_is_left_is_the_sum_once_all_is_known():
    left = TimeLeft(3)
    left.update(0, 0.1)
    left.update(1, 0.2)
    assert left.seconds is None
    left.update(2, 0.3)
    assert left.seconds == pytest.approx(0.6)
    for number in range(3):
        left.update(number, 0.0)
    assert left.seconds == 0.0
    left.update(1, None)
    assert left.seconds is None


def test_what_is_looked_at_in_a_turn_does_not_grow_with_the_number_of_workloads(
    tmp_path, monkeypatch
):
    looks = []
    own = Portfolio._prospect
    monkeypatch.setattr(
        Portfolio, "_prospect", lambda self, number: (looks.append(number), own(self, number))[1]
    )

    def looked_at(workloads):
        looks.clear()
        store = RecordStore(tmp_path / f"{workloads}.jsonl")
        searches = [
            Search(store, recording(12, f"w{n}"), 2, Limits(10, batch=5)) for n in range(workloads)
        ]
        closed = []
        for search in searches:
            search.measurer.close = lambda: closed.append(1)
        summaries = Portfolio([search.session for search in searches]).run()
        assert [summary.trials for summary in summaries] == [10] * workloads
        assert len(closed) <= 4 * workloads
        return len(looks) / workloads

    assert looked_at(30) <= 1.1 * looked_at(6) + 1


def test_only_the_latest_workloads_are_open(tmp_path):
    store = RecordStore(tmp_path / "log.jsonl")
    searches = [Search(store, recording(12, f"w{n}"), 2, Limits(10, batch=5)) for n in range(9)]
    at_once, is_open = [], set()
    for number, search in enumerate(searches):
        submit = search.measurer.submit
        search.measurer.submit = lambda c, n=number, s=submit: (is_open.add(n), s(c))
        search.measurer.close = lambda n=number: (at_once.append(len(is_open)), is_open.discard(n))
    Portfolio([search.session for search in searches]).run()
    assert max(at_once) <= MAX_OPEN + 1
