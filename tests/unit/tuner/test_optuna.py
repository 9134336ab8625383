"""Optuna as a tuner: what its study sees, two objectives, and a mirrored storage."""

import gc

import numpy as np
import pytest

from autotune.errors import UsageError
from autotune.tuner.base import Observation
from autotune.tuner.factory import make_tuner
from autotune.tuner.search.optuna import OptunaTuner
from search_spaces import AnnotateKnob, ChoiceKnob, Constraint, Space

optuna = pytest.importorskip("optuna")
sqlalchemy = pytest.importorskip("sqlalchemy")
STATE = optuna.trial.TrialState


def space() -> Space:
    knobs = [
        ChoiceKnob("x", [64, 1, 8, 4, 2]),  # not in order of size
        ChoiceKnob("y", [1, 2, 4, 8]),
        AnnotateKnob("how", ["i"], ["none", "unroll"]),
    ]
    return Space(knobs, [Constraint("small", lambda c: c["x"] * c["y"] <= 128)])


def cost(space: Space, index: int) -> float:
    config = space.config(index)
    return float(abs(config["x"] - 4) + config["y"])


def test_the_study_holds_what_was_measured_and_what_was_refused():
    tuner = OptunaTuner(space(), 0, "random")
    for _ in range(20):
        tuner.tell([Observation(index, cost(tuner.space, index)) for index in tuner.ask(1)])
    trials = tuner.study.trials
    measured = [t for t in trials if t.state == STATE.COMPLETE]
    refused = [t for t in trials if t.state == STATE.PRUNED]
    assert len(measured) == 20
    assert len({t.user_attrs["index"] for t in measured}) == 20
    assert refused
    assert {t.user_attrs["refused"] for t in refused} <= {"seen", "infeasible"}
    assert tuner.best is not None
    assert tuner.study.best_value == tuner.best.cost_s
    assert tuner.space.config(tuner.study.best_trial.user_attrs["index"])["x"] == 4


def test_a_knob_of_numbers_is_an_ordered_range_and_a_category_is_none():
    tuner = OptunaTuner(space(), 0, "random")
    (index,) = tuner.ask(1)
    config = tuner.space.config(index)
    params = tuner.study.trials[-1].params
    assert [1, 2, 4, 8, 64][params["x"]] == config["x"]
    kinds = tuner.study.trials[-1].distributions
    assert isinstance(kinds["x"], optuna.distributions.IntDistribution)
    assert isinstance(kinds["how"], optuna.distributions.CategoricalDistribution)


def test_a_failure_is_a_trial_without_a_value_that_says_why():
    tuner = OptunaTuner(space(), 0, "tpe")
    (index,) = tuner.ask(1)
    tuner.tell([Observation(index, None, "RUN_TIMEOUT")])
    trial = tuner.study.trials[-1]
    assert trial.state == STATE.PRUNED
    assert trial.user_attrs["error"] == "RUN_TIMEOUT"


def test_measurements_of_an_earlier_log_are_trials_too():
    tuner = OptunaTuner(space(), 0, "tpe")
    index = tuner.space.index_of({"x": 8, "y": 2, "how": ["unroll"]})
    tuner.tell([Observation(index, 0.5)])
    (trial,) = tuner.study.trials
    assert trial.value == 0.5
    assert trial.params == {"x": 3, "y": 1, "how": 1}


def test_with_two_objectives_the_front_holds_what_nothing_betters_in_both():
    room = space()
    tuner = OptunaTuner(room, 0, "nsgaii", second=lambda index: float(room.config(index)["y"]))
    while asked := tuner.ask(4):
        tuner.tell([Observation(index, 9.0 - room.config(index)["y"]) for index in asked])
    front = [(o.cost_s, room.config(o.index)["y"]) for o in tuner.pareto()]
    assert front == [(1.0, 8), (5.0, 4), (7.0, 2), (8.0, 1)]
    assert len(tuner.study.directions) == 2
    assert len(OptunaTuner(room, 0, "random").pareto()) == 0


def test_trials_are_mirrored_to_a_storage_as_they_happen(tmp_path):
    url = f"sqlite:///{tmp_path}/run.db"
    tuner = make_tuner("optuna:tpe", space(), 3, storage=url)
    asked = tuner.ask(3)
    tuner.tell([Observation(asked[0], 0.25)])
    storage = optuna.storages.RDBStorage(url)
    (study,) = storage.get_all_studies()
    states = [trial.state for trial in storage.get_all_trials(study._study_id)]
    storage.engine.dispose()
    assert states.count(STATE.COMPLETE) == 1
    assert states.count(STATE.RUNNING) == 2


def test_a_storage_is_closed_when_its_tuner_is_gone(tmp_path):
    connections = []

    def opened(connection, _):
        connections.append(connection)

    def closed(connection, _):
        connections.remove(connection)

    sqlalchemy.event.listen(sqlalchemy.pool.Pool, "connect", opened)
    sqlalchemy.event.listen(sqlalchemy.pool.Pool, "close", closed)
    try:
        tuner = OptunaTuner(space(), 0, "tpe", storage=f"sqlite:///{tmp_path}/run.db")
        tuner.ask(2)
        assert connections
        del tuner
        gc.collect()
        assert not connections
    finally:
        sqlalchemy.event.remove(sqlalchemy.pool.Pool, "connect", opened)
        sqlalchemy.event.remove(sqlalchemy.pool.Pool, "close", closed)


def test_what_cannot_be_used_is_one_clear_line():
    with pytest.raises(UsageError, match="unknown Optuna sampler 'tea': expected one of cmaes"):
        OptunaTuner(space(), 0, "tea")
    with pytest.raises(UsageError, match="cannot make an Optuna study"):
        OptunaTuner(space(), 0, "tpe", storage="nowhere://x")
    with pytest.raises(UsageError, match=r"study: unable to open database file$"):
        OptunaTuner(space(), 0, "tpe", storage="sqlite:////no/such/folder/run.db")
    with pytest.raises(UsageError, match="does not use a storage"):
        make_tuner("model", space(), 0, storage="sqlite:///x.db")


def test_two_objectives_need_a_sampler_for_two_and_numbers():
    pytest.importorskip("cmaes")
    with pytest.raises(UsageError, match="'cmaes' takes one objective: choose 'nsgaii'"):
        OptunaTuner(space(), 0, "cmaes", second=float)
    tuner = OptunaTuner(space(), 0, "nsgaii", second=lambda index: float("nan"))
    with pytest.raises(UsageError, match=r"second objective of Config.* is not a number"):
        tuner.tell(Observation(index, 1.0) for index in tuner.ask(1))


def test_a_storage_that_fails_on_the_way_is_one_clear_line(tmp_path):
    tuner = OptunaTuner(space(), 0, "tpe", storage=f"sqlite:///{tmp_path}/run.db")
    tuner.ask(2)
    (tmp_path / "run.db").unlink()
    with pytest.raises(UsageError, match=r"Optuna's storage failed: .*database"):
        tuner.ask(2)


def test_a_space_of_a_million_combinations_with_few_legal_ones_is_searched_legally():
    knobs = [ChoiceKnob(f"k{i}", list(range(10))) for i in range(6)]
    room = Space(knobs, [Constraint("sum", lambda c: sum(c[f"k{i}"] for i in range(6)) == 5)])
    tuner = OptunaTuner(room, 0, "tpe")
    asked = tuner.ask(12)
    assert len(set(asked)) == 12
    assert room.feasible(np.array(asked)).all()
