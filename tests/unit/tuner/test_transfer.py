"""Learning from other measurements: which knobs count, what is refused, and what it is worth."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from support.measured import measured

from autotune.errors import UsageError
from autotune.measure.recorded_measurer import Recording
from autotune.reuse.valid_records import least_costs
from autotune.task.task import Task
from autotune.tuner.base import Observation
from autotune.tuner.factory import make_tuner
from autotune.tuner.model.transfer import TransferPrior
from autotune.tuner.replay.replay_tuner import replay
from records import Record

SIZES = [16, 32, 64, 128, 256]


def records(best: int, slower: float = 1.0, knobs: tuple[str, str] = ("x", "y")) -> list[Record]:
    """Return the records of a card on which x = `best`, y = 4 is fastest and x = 256 fails."""
    found = []
    for (a, x), y in itertools.product(enumerate(SIZES), [1, 2, 4, 8]):
        time = slower * (1 + abs(a - SIZES.index(best)) + 0.5 * abs(np.log2(y) - 2))
        outcome = (
            {"error": {"code": "RUNTIME_DEVICE", "stage": "run", "message": "launch"}}
            if x == 256
            else {"costs_s": (float(time),)}
        )
        values = dict(zip(knobs, (x, y), strict=True))
        found.append(
            Record(
                workload={"template": "k", "args": {}},
                target=f"card {best} {slower}",
                config={"index": 0, "values": values},
                seed=0,
                **outcome,
            )
        )
    return found


def test_throughput_counts_by_rank_within_each_source():
    space = Recording.of(records(64), "here").space
    prior = TransferPrior.of(records(64) + records(64, slower=100.0), space)
    assert (prior.sources, prior.measurements) == (2, 40)
    slow = prior.at(space.feasible_indices())
    by_values = {
        (space.config(int(i))["x"], space.config(int(i))["y"]): s
        for i, s in zip(space.feasible_indices(), slow, strict=True)
    }
    assert min(by_values, key=by_values.__getitem__) == (64, 4)
    assert by_values[256, 1] > by_values[64, 1]


def test_the_first_proposals_are_the_favourites_of_the_others():
    recording = Recording.of(records(64), "here")
    prior = TransferPrior.of(records(64, slower=3.0), recording.space)
    trace = replay(recording, make_tuner("model", recording.space, 0, prior=prior), budget=3)
    assert trace.best_s[0] == recording.optimum_s


def test_a_search_finds_its_own_optimum_though_the_others_point_elsewhere():
    recording = Recording.of(records(16), "here")
    prior = TransferPrior.of(records(128), recording.space)
    trace = replay(recording, make_tuner("model", recording.space, 0, prior=prior), budget=16)
    assert trace.best_s[-1] == recording.optimum_s


def test_knobs_are_matched_by_name_and_what_a_source_lacks_is_missing():
    space = Recording.of(records(64), "here").space
    prior = TransferPrior.of(records(64, knobs=("x", "other")), space)
    assert np.isfinite(prior.at(space.feasible_indices())).all()
    with pytest.raises(UsageError, match="its knobs are x, y"):
        TransferPrior.of(records(64, knobs=("a", "b")), space)
    with pytest.raises(UsageError, match="at least 16 measurements"):
        TransferPrior.of(records(64)[:15], space)


def test_measurements_that_are_too_fast_to_be_true_are_left_out_and_counted():
    space = Recording.of(records(64), "here").space
    absurd = [replace(r, costs_s=(1e-12,)) for r in records(16) if r.ok]
    failed = [replace(r, target=absurd[0].target) for r in records(16) if not r.ok]
    prior = TransferPrior.of([*records(64), *absurd, *failed], space, least_s=lambda _: 1e-9)
    assert (prior.sources, prior.measurements, prior.doubted) == (1, 20, 16)
    with pytest.raises(UsageError, match="16 measurements to learn from do not"):
        TransferPrior.of([*absurd, *failed], space, least_s=lambda _: 1e-9)


def test_what_other_workloads_need_at_least_is_told_of_templates_that_are_known():
    task = Task.from_reference("reduce", {"m": 64, "n": 64}, "llvm")
    own = measured(task, task.default_index)
    least_s = least_costs(task)

    def of(template, target="llvm", **args):
        workload = {"template": template, "args": args}
        return least_s(replace(own, workload=workload, target=target))

    assert 0 < of("reduce", **own.args) < of("reduce", **{**own.args, "m": 2**20})
    assert of("matmul", m=1024, n=1024, k=1024) > of("matmul", m=4, n=4, k=4) > 0
    assert of("matmul", "cuda -arch=sm_90", m=4, n=4, k=4) > 0
    assert of("reduce", m=2**70, n=1) == of("matmul", rows=3) == of("former", m=1) == 0


# -- in the middle of a search --------------------------------------------------------------------


def _searched(tuner, recording, trials):
    """Let a tuner measure, one candidate at a time; return which."""
    found = []
    while len(found) < trials and (batch := tuner.ask(1)):
        found += batch
        result = recording.results[batch[0]]
        cost_s = None if result.error is not None else result.costs_s[0]
        tuner.tell([Observation(batch[0], cost_s)])
    return found


def test_what_others_have_measured_meanwhile_guides_the_first_proposals():
    recording = Recording.of(records(64), "here")
    tuner = make_tuner("model", recording.space, 0)
    _searched(tuner, recording, 1)
    tuner.transfer(TransferPrior.of(records(64, slower=3.0), recording.space))
    costs_s = [recording.results[index].costs_s[0] for index in _searched(tuner, recording, 2)]
    assert costs_s == [1.5, 1.5]  # the next fastest: the default is the optimum itself


def test_what_others_have_measured_changes_guesses_that_were_made_before():
    recording = Recording.of(records(64), "here")
    tuner = make_tuner("model", recording.space, 0)
    _searched(tuner, recording, 9)
    acquisition = tuner._acquisition
    before = acquisition.predict_log_times(np.arange(len(recording.space)))
    prior = TransferPrior.of(records(16), recording.space)
    tuner.transfer(prior)
    assert tuner._surrogate.prior is None  # its guesses are those without it until the next results
    _searched(tuner, recording, 1)
    tuner.ask(1)
    assert tuner._surrogate.prior is prior
    after = acquisition.predict_log_times(np.arange(len(recording.space)))
    assert not np.allclose(before, after)


def test_a_later_prior_takes_the_place_of_the_earlier_one():
    recording = Recording.of(records(64), "here")
    tuner = make_tuner("model", recording.space, 0)
    first, second = (TransferPrior.of(records(best), recording.space) for best in (16, 64))
    tuner.transfer(first)
    tuner.transfer(second)
    assert tuner._surrogate.prior is second
    found = _searched(tuner, recording, 12)
    assert min(recording.results[i].cost_s for i in found) == recording.optimum_s
