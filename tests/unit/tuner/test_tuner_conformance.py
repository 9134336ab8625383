"""Every built-in tuner passes the suite of tuners; what else the base class promises."""

import math
from collections.abc import Iterable
from typing import Any

import pytest
from support.slow_cases import slow

from autotune.errors import UsageError
from autotune.testing.tuner_suite import FAILURES, TunerSuite, mixed_space, run, works
from autotune.tuner.base import Observation
from autotune.tuner.factory import TUNERS, check_tuner, make_tuner
from search_spaces import ChoiceKnob, Constraint, Space


def runnable(name: str) -> Any:
    """Return a tuner's name as a parameter of tests, skipped where it lacks a package."""
    try:
        check_tuner(name)
    except UsageError as error:
        return pytest.param(name, marks=pytest.mark.skip(reason=str(error)))
    # Its other tests are in test_optuna; the samplers that take less time are tried here.
    return slow(name) if name in ("optuna:tpe", "optuna:qmc") else name


class TestEveryTuner(TunerSuite):
    @pytest.fixture(autouse=True, params=[runnable(name) for name in sorted(TUNERS)])
    def choose(self, request: pytest.FixtureRequest) -> None:
        self.tuner = request.param

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", FAILURES)
    def test_all_failing_in_one_way(self, kind: str) -> None:
        self.all_fail([kind])


@pytest.mark.parametrize("name", ["model", "random"])
def test_another_seed_proposes_other_candidates(name: str):
    one, other = (make_tuner(name, mixed_space(), seed).ask(8) for seed in (0, 1))
    assert one != other


def test_an_unknown_tuner_is_a_users_mistake():
    with pytest.raises(UsageError, match="'annealing': expected one of model, random"):
        make_tuner("annealing", mixed_space(), seed=0)


def test_asking_for_none_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        make_tuner("grid", mixed_space(), seed=0).ask(0)


def test_an_observation_outside_the_space_is_refused():
    with pytest.raises(ValueError, match="candidate 120, but the space has 120"):
        make_tuner("grid", mixed_space(), seed=0).tell([Observation(120, 1.0)])


@pytest.mark.parametrize("told", [[0.3, 0.2], [0.2, 0.3], [math.nan, 0.2], [0.2, math.nan]])
def test_of_two_observations_of_a_candidate_the_better_counts(told: Iterable[float]):
    tuner = make_tuner("grid", mixed_space(), seed=0)
    tuner.tell(Observation(5, cost) for cost in told)
    assert tuner.observations == [Observation(5, 0.2)]


def test_grid_goes_by_index():
    space = mixed_space()
    proposed = run(make_tuner("grid", space, seed=0), works)
    assert proposed == space.feasible_indices().tolist()


def test_grid_gives_up_after_a_long_infeasible_stretch_instead_of_walking_for_days():
    knobs = [ChoiceKnob(f"k{i}", list(range(1, 11))) for i in range(12)]
    space = Space(knobs, [Constraint("even", lambda c: c["k0"] % 2 == 0)])
    assert make_tuner("grid", space, seed=0).ask(8) == []
