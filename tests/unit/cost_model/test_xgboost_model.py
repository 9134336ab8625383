"""The XGBoost ranking model: what it learns, what it promises, what it refuses."""

import subprocess
import sys

import numpy as np
import pytest

from autotune.cost_model.ranking_metrics import recall_at_k
from autotune.cost_model.xgboost_model import XGBCostModel, XGBSettings
from autotune.errors import AutotuneError
from autotune.testing.cost_model_suite import CostModelSuite, problem


class TestXGBoost(CostModelSuite):
    cost_model = "xgboost"
    least_correlation = 0.7


@pytest.fixture(scope="module")
def fitted() -> XGBCostModel:
    model = XGBCostModel(seed=3)
    model.fit(*problem(300))
    return model


def test_the_fastest_candidates_are_found(fitted: XGBCostModel):
    features, throughput = problem(2000, seed=1)
    scores = fitted.predict(features)
    assert recall_at_k(scores, throughput, 100) > 0.6


def test_failures_are_ranked_below_what_works(fitted: XGBCostModel):
    features, throughput = problem(2000, seed=2)
    scores = fitted.predict(features)
    assert np.median(scores[throughput == 0.0]) < np.quantile(scores[throughput > 0.0], 0.05)


def test_scores_are_standardised_over_the_training_rows(fitted: XGBCostModel):
    scores = fitted.predict(problem(300)[0])
    assert scores.mean() == pytest.approx(0.0, abs=1e-5)
    assert scores.std() == pytest.approx(1.0, abs=1e-5)


def test_scores_depend_on_the_seed_but_not_on_threads():
    features, throughput = problem(80, width=30)
    scores = []
    for seed, threads in ((5, 1), (5, 2), (6, 1)):
        model = XGBCostModel(seed, XGBSettings(threads=threads, columns_per_tree=10))
        model.fit(features, throughput)
        scores.append(model.predict(features).tolist())
    assert scores[0] == scores[1]
    assert scores[0] != scores[2]


def test_only_the_ratio_of_throughputs_matters():
    features, throughput = problem(60)
    one, other = XGBCostModel(), XGBCostModel()
    one.fit(features, throughput)
    other.fit(features, throughput * 1024.0)
    assert one.predict(features).tolist() == other.predict(features).tolist()


def test_predicting_before_fitting_is_refused():
    with pytest.raises(RuntimeError, match="before it was fitted"):
        XGBCostModel().predict(problem(3)[0])


def test_importing_tuners_and_models_does_not_load_xgboost():
    code = (
        "import sys, autotune.tuner.factory, autotune.cost_model.xgboost_model as home\n"
        "home.XGBCostModel()\n"
        "assert not {'xgboost', 'pandas', 'scipy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_xgboost_is_loaded_without_scikit_learn_and_works():
    code = (
        "import sys; import numpy as np; from autotune.cost_model.xgboost_model import *\n"
        "load_alone(); assert 'sklearn' not in sys.modules\n"
        "model = XGBCostModel(); rows = np.arange(8, dtype=np.float32)[:, None]\n"
        "model.fit(rows, np.arange(8.0)); assert np.argmax(model.predict(rows)) == 7\n"
        "assert 'sklearn' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_library_that_cannot_be_loaded_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    model = XGBCostModel()
    with pytest.raises(
        AutotuneError, match=r"^.*XGBoost cannot be loaded \(.*\).*such as local$"
    ):
        model.prepare()
    with pytest.raises(AutotuneError, match="XGBoost cannot be loaded"):
        model.fit(*problem(8))


@pytest.mark.parametrize(("method", "doing"), [("train", "training"), ("predict", "predicting")])
def test_what_xgboost_fails_at_is_told_in_one_line(monkeypatch, method, doing):
    import xgboost

    def fail(*_args, **_options):
        raise xgboost.core.XGBoostError("[04:12:00] check failed: 1 < 0\nStack trace:\n  [bt] (0)")

    model = XGBCostModel()
    model.fit(*problem(40))
    if method == "train":
        monkeypatch.setattr(xgboost, "train", fail)
    else:
        monkeypatch.setattr(xgboost.Booster, "inplace_predict", fail)
    with pytest.raises(AutotuneError) as told:
        model.fit(*problem(40)) if method == "train" else model.predict(problem(40)[0])
    message = str(told.value)
    assert message.startswith(
        f"the model tuner cannot rank: XGBoost fails at {doing} ([04:12:00] check failed: 1 < 0"
    )
    assert message.endswith("; reinstall it, or take another tuner, such as local")
    assert "\n" not in message
