"""The model tuner's parts: keeping batches diverse, believing, finding the optimum."""

import math

import numpy as np
import pytest

from autotune.tuner.base import Observation
from autotune.tuner.encoding import KnobDistances, KnobFeatures, max_min_subset, pick_diverse
from autotune.tuner.model import model_tuner
from autotune.tuner.model.acquisition import Acquisition
from autotune.tuner.model.model_tuner import ImprovementTracker, ModelTuner
from autotune.tuner.model.surrogate import Audit, AuditResult, Surrogate
from autotune.tuner.model.transfer import TransferPrior
from search_spaces import AnnotateKnob, ChoiceKnob, Space


def grid_space(side: int, knobs: int = 2) -> Space:
    return Space([ChoiceKnob(f"k{i}", list(range(side))) for i in range(knobs)])


def test_spreading_out_takes_the_far_corners():
    space = grid_space(5)
    picked = max_min_subset(KnobDistances(space), list(range(25)), taken=[0], n=2)
    assert picked[0] == 24
    assert picked[1] in (4, 20)


def test_categories_are_equally_far_and_numbers_are_far_on_a_logarithmic_scale():
    knobs = [ChoiceKnob("size", [0, 1, 3, 7]), AnnotateKnob("how", ["i"], ["none", "a", "b"])]
    space = Space(knobs)
    knobs = KnobDistances(space)
    positions = knobs.positions([space.index_of({"size": 0, "how": ["none"]}), *range(12)])
    distances = knobs.distance(positions[0], positions[1:]).reshape(4, 3)
    assert distances[:, 0].tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert distances[0].tolist() == [0.0, 1.0, 1.0]


def test_near_copies_are_passed_over_until_nothing_else_is_left():
    space = grid_space(5)
    ranked = np.array([12, 13, 18, 0])  # 13 differs from 12 in one knob
    scores = np.array([[4.0, 3.0, 2.0, 1.0]])
    assert pick_diverse(KnobDistances(space), ranked, scores, 2) == [12, 18]
    assert pick_diverse(KnobDistances(space), ranked, scores, 4) == [12, 18, 0, 13]


def test_candidates_that_no_member_tells_apart_count_as_copies():
    space = grid_space(5)
    scores = np.array([[4.0, 4.0, 2.0], [1.0, 1.0, 1.0]])
    assert pick_diverse(KnobDistances(space), np.array([0, 6, 12]), scores, 2) == [0, 12]


def test_the_first_proposal_is_the_default_configuration():
    space = grid_space(9)
    assert ModelTuner(space, seed=7).ask(8)[0] == space.default_index


def test_knob_features_name_their_columns():
    space = Space([ChoiceKnob("nt", [32, 64]), AnnotateKnob("how", ["i"], ["none", "unroll"])])
    source = KnobFeatures(space)
    matrix = source.matrix(np.arange(4))
    assert matrix.dtype == np.float32
    assert matrix.shape == (4, len(source.names))
    assert matrix[:, source.names.index("nt")].tolist() == [32, 32, 64, 64]
    assert matrix[:, source.names.index("how/is_1")].tolist() == [0, 1, 0, 1]


def told_bowl(space: Space, tuner: ModelTuner, count: int) -> None:
    """Tell a tuner of random configurations that are the faster the nearer to the middle."""
    middle = len(space.knobs[0]) // 2
    for index in space.sample(count, np.random.default_rng(0)).tolist():
        far = np.abs(space.positions([index])[0] - middle).sum()
        tuner.tell([Observation(index, cost_s=1.0 + far)])


def test_proposals_go_where_the_measurements_point():
    space = grid_space(20, knobs=3)
    tuner = ModelTuner(space, 0)
    told_bowl(space, tuner, 40)
    far = np.abs(space.positions(tuner.ask(8)) - 10).sum(axis=1)
    assert far.mean() < 8  # 15 for random ones


def test_a_region_that_fails_is_left():
    space = grid_space(20)
    tuner = ModelTuner(space, 0)
    for index in space.sample(60, np.random.default_rng(0)).tolist():
        a, b = space.positions([index])[0].tolist()
        failed = a >= 10
        cost = None if failed else 20.0 - a + b
        tuner.tell([Observation(index, cost, "launch" if failed else None)])
    assert space.positions(tuner.ask(1))[0, 0] < 10


def test_a_model_whose_guesses_mean_nothing_shares_with_moves_that_need_none(
    monkeypatch: pytest.MonkeyPatch,
):
    space = grid_space(20, knobs=3)
    tuner = ModelTuner(space, 0)
    rng = np.random.default_rng(1)
    while tuner.audit.outcomes < 16:
        tuner.tell(Observation(index, 1.0 + rng.random()) for index in tuner.ask(8))
    assert abs(tuner.audit.rank_correlation) < 0.6
    monkeypatch.setattr(model_tuner, "AUDIT_FROM", 0)
    monkeypatch.setattr(model_tuner, "TRUSTED", 1.1)
    other = ModelTuner(space, 0)
    other.tell(tuner.observations)
    best = min(tuner.observations, key=lambda o: o.order)
    assert set(space.neighbors(best.index).tolist()) & set(other.ask(8))


def test_the_audit_compares_guesses_with_outcomes():
    audit = Audit()
    audit.expect({index: float(index) for index in range(8)})
    told = {i: Observation(i, math.exp(i)) for i in range(8)}
    assert audit.result(told) == AuditResult(8, pytest.approx(1.0))
    told[3] = Observation(3, None, "launch")
    assert audit.result(told).outcomes == 7
    backwards = {i: Observation(i, math.exp(-i)) for i in range(8)}
    assert audit.result(backwards) == AuditResult(8, pytest.approx(-1.0))


def test_the_expected_gain_falls_as_the_optimum_is_approached():
    space = grid_space(12)
    tuner = ModelTuner(space, 0)
    assert tuner.expected_gain() is None
    told_bowl(space, tuner, 10)
    before = tuner.expected_gain()
    told_bowl(space, tuner, 144)
    after = tuner.expected_gain()
    assert before is not None
    assert before > 0.0
    assert after == 0.0  # nothing is left


def test_a_prior_proposes_first_and_is_dropped_when_it_hurts():
    space = grid_space(15)

    class Misleading(TransferPrior):
        """Likes what is slow."""

        def __init__(self) -> None:
            pass

        def at(self, indices: np.ndarray) -> np.ndarray:
            return -space.positions(indices).sum(axis=1) / 7.0

    tuner = ModelTuner(space, 0, prior=Misleading())
    assert space.positions(tuner.ask(1)).sum() == 28
    while len(tuner.observations) < 40:
        asked = tuner.ask(1)
        tuner.tell([Observation(i, 1.0 + space.positions([i]).sum()) for i in asked])
    assert tuner.best is not None
    assert tuner.best.cost_s == 1.0


def test_the_optimum_of_a_space_with_a_cliff_is_found_in_few_measurements():
    space = grid_space(16, knobs=3)

    def measure(index: int) -> Observation:
        a, b, c = space.positions([index])[0].tolist()
        if a * b > 120:
            return Observation(index, None, "launch")
        return Observation(index, 1.0 + abs(a - 9) + 2 * abs(b - 12) + (c - 4) ** 2)

    within = []
    for seed in range(3):
        tuner = ModelTuner(space, seed)
        while len(tuner.observations) < 80:
            tuner.tell(map(measure, tuner.ask(8)))
        assert tuner.best is not None
        within.append(tuner.best.cost_s)
    # The optimum is 1; random search needs some 4,096 / 27 measurements to come below 5.
    assert np.mean(within) <= 2.5


def test_progress_is_a_clearly_better_time_and_what_came_since_was_in_vain():
    progress = ImprovementTracker()
    looks = [(1.0, 8), (1.0, 9), (1.01, 10), (1.019, 12), (1.03, 13), (1.03, 20)]
    assert [progress.in_vain(best, known) for best, known in looks] == [0, 1, 2, 4, 0, 7]


def test_a_bold_proposal_lies_farther_from_what_is_known():
    space = Space([ChoiceKnob("k", [2**i for i in range(50)])])
    surrogate = Surrogate(space)
    told = [Observation(i, 1.0 + 0.1 * abs(i - 20)) for i in range(0, 32, 4)]
    rng = np.random.default_rng(0)
    surrogate.take(told, rng)
    surrogate.learn(rng)
    acquisition = Acquisition(surrogate, np.arange(50))
    free = ~np.isin(acquisition.candidates, [o.index for o in told])
    timid, bold = (acquisition.select_batch([margin], free)[0] for margin in (0.0, 1.0))
    assert abs(timid - 20) < 4
    assert bold > 32
