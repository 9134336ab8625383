"""Ranking a space: the same as predicting everything, whatever the parts, threads and columns."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from autotune.cost_model.base import CostModel
from autotune.cost_model.xgboost_model import XGBCostModel, XGBSettings
from autotune.feature import TaskFeatures
from autotune.task.task import Task
from autotune.tuner.base import Observation
from autotune.tuner.model.model_tuner import ModelTuner
from autotune.tuner.model.ranking import (
    RANKINGS,
    Candidates,
    CandidateSettings,
    PopulationSettings,
    RankingSettings,
    SpaceRanker,
    columns_read,
    evolve,
    score,
    top_rows,
    without,
)
from search_spaces import ChoiceKnob, Constraint, Space

FEW = RankingSettings(pool_share=0.1, pool_min=3, kept=40)

HUGE = PopulationSettings(scored=5000, draws=500, parents=64, children=2000, generations=32)


def grid_space(side: int, knobs: int = 2) -> Space:
    return Space([ChoiceKnob(f"k{i}", list(range(side))) for i in range(knobs)])


class SumModel(CostModel):
    """Scores a row by the sum of some columns, without learning."""

    def __init__(self, columns: Sequence[int] | None = None) -> None:
        self._columns = None if columns is None else np.array(columns, dtype=np.int64)

    @property
    def columns(self) -> np.ndarray | None:
        return self._columns

    def fit(self, features: np.ndarray, throughput: np.ndarray) -> None:
        pass

    def predict(self, features: np.ndarray) -> np.ndarray:
        read = features if self._columns is None else features[:, self._columns]
        return read.sum(axis=1).astype(np.float64)


class Columns:
    """The plain knob values as features; counts the rows and notes the names it was asked for."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self.names = space.column_names
        self.rows = self.most = self.expected = 0
        self.asked: set[str] = set()

    def prepare(self, n: int) -> None:
        self.expected += n

    def matrix(self, indices: np.ndarray, names: Sequence[str] | None = None) -> np.ndarray:
        names = self.names if names is None else names
        self.rows += len(indices)
        self.most = max(self.most, len(indices))
        self.asked.update(names)
        out = np.zeros((len(indices), len(names)), np.float32)
        for place, column in enumerate(self._space.columns(indices, names).values()):
            out[:, place] = column
        return out


def best(
    ranker: SpaceRanker, known: int, seen: Sequence[int] = (), model: CostModel | None = None
) -> list[int]:
    """Return what is ranked highest by a new model, unless one is given.

    Known are as many of the first candidates.
    """
    ranker.rank([model or SumModel()], np.arange(known), np.random.default_rng(known))
    return ranker.best(np.array(seen, dtype=np.int64)).tolist()


def sums(space: Space, indices: Sequence[int] | np.ndarray) -> np.ndarray:
    return space.positions(np.asarray(indices)).sum(axis=1)


# -- scores --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted() -> tuple[Space, TaskFeatures, list[CostModel]]:
    """Return a template's space and features, and models fitted to made-up throughputs."""
    task = Task.from_reference("matmul", {"m": 24, "n": 40, "k": 12}, "llvm -mcpu=skylake-avx512")
    features = TaskFeatures(task, sample=256)
    told = np.sort(task.space.sample(60, np.random.default_rng(1)))
    matrix = features.matrix(told)
    models: list[CostModel] = []
    for seed in range(2):
        model = XGBCostModel(seed, XGBSettings(columns_per_tree=30))
        model.fit(matrix, 1.0 + np.random.default_rng(seed).random(len(told)))
        models.append(model)
    return task.space, features, models


def test_scores_from_the_columns_a_model_reads_are_those_from_all_columns(fitted):
    space, features, models = fitted
    indices = space.feasible_indices()
    everything = features.matrix(indices)
    assert len(columns_read(models, len(features.names))) < len(features.names)
    expected = np.stack([model.predict(everything) for model in models])
    assert np.array_equal(score(models, features, indices), expected)


def test_scores_do_not_depend_on_parts_nor_on_threads(fitted):
    space, features, models = fitted
    indices = space.feasible_indices()
    expected = score(models, features, indices, part_rows=len(indices), threads=1)
    for part_rows, threads in ((1000, 1), (777, 2), (2048, 2)):
        assert np.array_equal(score(models, features, indices, part_rows, threads), expected)


@pytest.mark.parametrize(("whole", "expected"), [(1000, 700), (100, 500)])
def test_features_are_made_ready_for_all_that_will_be_scored(whole: int, expected: int):
    space = Space(grid_space(30).knobs, [Constraint("few", lambda c: c["k0"] * 30 + c["k1"] < 700)])
    features = Columns(space)
    ranking = RankingSettings(whole=whole, population=PopulationSettings(scored=500))
    for small in (1000, 100):  # up to so many a space is judged without ranking
        Candidates(space, features, CandidateSettings(whole=small, ranking=ranking)).prepare()
        assert features.expected == (0 if small == 1000 else RANKINGS * expected)


def test_the_best_64_are_those_of_predicting_everything(fitted):
    space, features, models = fitted
    indices = space.feasible_indices()
    scores = models[0].predict(features.matrix(indices))
    seen = indices[np.argsort(-scores)[:50:7]]
    settings = RankingSettings(kept=64)
    ranker = SpaceRanker(space, features, settings)
    ranker.rank(models[:1], np.sort(seen), np.random.default_rng(0))
    ranked = ranker.best(np.sort(seen))
    scores[np.isin(indices, seen)] = -np.inf
    assert len(ranked) == 64
    assert not np.isin(ranked, seen).any()
    of_ranked = np.sort(scores[np.searchsorted(indices, ranked)])
    assert np.array_equal(of_ranked, np.sort(scores)[-64:])


def test_no_candidates_have_no_scores():
    space = grid_space(4)
    scores = score([SumModel(), SumModel([0])], Columns(space), np.zeros(0, np.int64))
    assert scores.shape == (2, 0)


def test_only_the_columns_that_the_models_read_are_evaluated():
    space = grid_space(5, knobs=4)
    features = Columns(space)
    scores = score([SumModel([3]), SumModel([1, 3])], features, np.arange(625))
    assert features.asked == {"k1", "k3"}
    positions = space.positions(np.arange(625))
    assert np.array_equal(scores, [positions[:, 3], positions[:, 1] + positions[:, 3]])


def test_features_are_held_of_one_part_at_a_time():
    space = grid_space(20, knobs=3)
    features = Columns(space)
    score([SumModel()], features, np.arange(8000), part_rows=512, threads=1)
    assert features.rows == 8000
    assert features.most == 512


def test_trees_read_the_columns_they_split_on_and_no_others():
    rng = np.random.default_rng(0)
    features = rng.random((200, 9), dtype=np.float32)
    model = XGBCostModel(0, XGBSettings(columns_per_tree=9))
    assert model.columns is None
    model.fit(features, 1.0 + features[:, 2] + 2.0 * (features[:, 5] > 0.5))
    read = model.columns
    assert read is not None
    assert {2, 5} <= set(read.tolist())
    changed = features.copy()
    others = np.setdiff1d(np.arange(9), read)
    changed[:, others] = np.nan
    assert np.array_equal(model.predict(changed), model.predict(features))


def test_a_model_that_tells_nothing_apart_reads_nothing():
    model = XGBCostModel()
    model.fit(np.ones((4, 3), np.float32), np.arange(4.0))
    space = grid_space(3, knobs=3)
    features = Columns(space)
    assert len(set(score([model], features, np.arange(27))[0].tolist())) == 1
    assert not features.asked


def test_the_highest_are_all_above_the_edge_and_ties_at_it_by_lot():
    scores = np.array([1.0, 3.0, 2.0, 2.0, 0.0, 2.0])
    picked = [top_rows(scores, 3, np.random.default_rng(seed)).tolist() for seed in range(20)]
    assert all(1 in rows and rows == sorted(rows) and len(rows) == 3 for rows in picked)
    assert {row for rows in picked for row in rows} == {1, 2, 3, 5}
    assert top_rows(scores, 9, np.random.default_rng(0)).tolist() == [0, 1, 2, 3, 4, 5]


def test_barred_indices_are_left_out():
    assert without(np.arange(6), np.array([0, 4, 9])).tolist() == [1, 2, 3, 5]
    assert without(np.arange(3), np.zeros(0, np.int64)).tolist() == [0, 1, 2]


# -- the pool ------------------------------------------------------------------------------------


def test_the_pool_is_the_best_scored_share_of_the_whole_space():
    space = grid_space(20)
    pool = best(SpaceRanker(space, Columns(space), FEW), known=8)
    assert len(pool) == 40
    assert sums(space, pool).min() >= np.sort(sums(space, np.arange(400)))[-40]


def test_a_measured_candidate_is_not_ranked_and_the_next_best_takes_its_place():
    space, nothing = grid_space(20), np.zeros(0, np.int64)
    ranker = SpaceRanker(space, Columns(space), FEW)
    assert 399 in best(ranker, known=0)
    ranker.rank([SumModel()], np.array([399]), np.random.default_rng(0))
    again = ranker.best(nothing).tolist()
    assert 399 not in again
    assert len(again) == 40
    assert ranker.best(np.array(again[:3])).tolist() == again[3:]


def test_infeasible_candidates_are_never_ranked():
    knobs = [ChoiceKnob(f"k{i}", list(range(20))) for i in range(2)]
    space = Space(knobs, [Constraint("low", lambda c: c["k0"] + c["k1"] < 10)])
    pool = best(SpaceRanker(space, Columns(space), FEW), known=0)
    assert sums(space, pool).tolist() == [9] * 6


def test_the_same_models_score_nothing_twice():
    space, model = grid_space(20), SumModel()
    features = Columns(space)
    ranker = SpaceRanker(space, features, FEW)
    first = best(ranker, 8, model=model)
    assert features.rows == 392 + 40  # everything, and the pool
    assert best(ranker, 9, model=model, seen=(first[0],)) == first[1:]
    assert features.rows == 392 + 40


def test_the_same_models_breed_one_population():
    space, model = grid_space(10, knobs=9), SumModel()
    features = Columns(space)
    settings = RankingSettings(whole=10**6, population=HUGE, pool_min=50, kept=50)
    ranker = SpaceRanker(space, features, settings)
    first = best(ranker, 8, model=model)
    rows = features.rows
    assert {*first[1:]} < {*best(ranker, 9, model=model, seen=(first[0],))}
    assert features.rows == rows


def test_all_models_choose_among_the_best_of_the_first():
    space = grid_space(40)
    settings = RankingSettings(pool_min=200, kept=20)
    ranker = SpaceRanker(space, Columns(space), settings)
    models = [SumModel(), SumModel([0]), SumModel([0])]
    nothing = np.zeros(0, np.int64)
    ranker.rank(models, nothing, np.random.default_rng(0))
    ranked = ranker.best(nothing)
    high, low = space.positions(ranked).mean(axis=0)
    assert high > 36
    assert low < high
    assert sums(space, ranked).min() >= np.sort(sums(space, np.arange(1600)))[-200]


# -- populations ---------------------------------------------------------------------------------


def test_a_huge_space_is_searched_by_a_population_that_improves():
    space = grid_space(10, knobs=9)
    features = Columns(space)
    settings = RankingSettings(whole=10**6, population=HUGE, pool_min=50, kept=50)
    ranker = SpaceRanker(space, features, settings)
    means = []
    for known in (8, 9, 10):
        before = features.rows
        means.append(sums(space, best(ranker, known, model=SumModel([0, 1, 2, 3, 4]))).mean())
        assert features.rows - before >= 5000
    assert means[0] > 55  # 40.5 for random ones, and 63 at most
    assert means[2] > means[0]


def test_a_population_is_distinct_feasible_scored_once_and_the_same_every_time():
    knobs = [ChoiceKnob(f"k{i}", list(range(10))) for i in range(9)]
    space = Space(knobs, [Constraint("odd", lambda c: (c["k0"] + c["k1"]) % 2 == 1)])
    scored: list[int] = []

    def remembered(indices: np.ndarray) -> np.ndarray:
        scored.extend(indices.tolist())
        return sums(space, indices).astype(np.float64)

    first = space.sample(20, np.random.default_rng(1))
    indices, scores = evolve(space, first, remembered, np.random.default_rng(0), HUGE)
    assert len(indices) == 5000
    assert sorted(scored) == indices.tolist() == sorted(set(scored))
    assert np.isin(first, indices).all()
    assert space.feasible(indices).all()
    assert np.array_equal(scores, sums(space, indices))
    again = evolve(space, first, remembered, np.random.default_rng(0), HUGE)
    assert np.array_equal(indices, again[0])


def test_a_large_space_with_few_feasible_candidates_is_ranked_whole():
    knobs = [ChoiceKnob(f"k{i}", list(range(20))) for i in range(4)]
    space = Space(knobs, [Constraint("low", lambda c: c["k0"] + c["k1"] < 2)])
    features = Columns(space)
    settings = RankingSettings(whole=1500, pool_min=10, kept=10)
    assert sums(space, best(SpaceRanker(space, features, settings), 0)).min() >= 36
    assert features.rows == 1200 + 24
    features.rows = 0
    settings = RankingSettings(whole=1000, population=HUGE)
    best(SpaceRanker(space, features, settings), 0)
    assert features.rows != 1224


def test_a_population_ends_where_little_or_nothing_is_feasible():
    knobs = [ChoiceKnob(f"k{i}", list(range(20))) for i in range(6)]
    few = Space(knobs, [Constraint("all low", lambda c: sum(c.values()) <= 1)])
    nothing = np.zeros(0, np.int64)

    def by_sum(indices: np.ndarray) -> np.ndarray:
        return sums(few, indices).astype(np.float64)

    start = few.indices_of([[0] * 6])
    indices, _ = evolve(few, start, by_sum, np.random.default_rng(0), HUGE)
    assert len(indices) == 7
    none = Space(knobs[:2], [Constraint("never", lambda c: c["k0"] < 0)])
    assert not len(evolve(none, nothing, by_sum, np.random.default_rng(0), HUGE)[0])


# -- in the model tuner --------------------------------------------------------------------------


def large_space_tuner(seed: int) -> tuple[ModelTuner, Columns]:
    """Return a tuner that takes a space of 20^4 configurations for one too large to rank whole."""
    space = grid_space(20, knobs=4)
    population = PopulationSettings(
        scored=8000, draws=800, parents=64, children=8000, generations=32
    )
    ranking = RankingSettings(whole=1000, population=population, pool_min=256, kept=200)
    candidates = CandidateSettings(whole=1000, random=200, incumbents=2, ranking=ranking)
    features = Columns(space)
    return ModelTuner(space, seed, features, candidates=candidates), features


def run(tuner: ModelTuner, asks: int, before_telling: Callable[[], object]) -> list[int]:
    proposed: list[int] = []
    for _ in range(asks):
        asked = tuner.ask(8)
        before_telling()
        far = np.abs(tuner.space.positions(asked) - 9).sum(axis=1)
        tuner.tell(Observation(i, 1.0 + d) for i, d in zip(asked, far.tolist(), strict=True))
        proposed += asked
    return proposed


def test_ranking_beside_the_builds_changes_no_proposal():
    first, second, other = (large_space_tuner(seed)[0] for seed in (0, 0, 1))
    proposed = run(first, 4, first.think)
    assert run(second, 4, lambda: None) == proposed
    assert run(other, 4, lambda: None) != proposed


def test_a_population_evolves_once_for_each_model():
    tuner, features = large_space_tuner(0)
    run(tuner, 3, lambda: None)
    ranked, learned = [], []
    for _ in range(6):
        before, models = features.rows, tuner._trees.models
        tuner.expected_gain()
        asked = tuner.ask(8)
        tuner.think()
        ranked.append(8000 <= features.rows - before < 16000)
        learned.append(tuner._trees.models != models)
        tuner.tell(Observation(i, 1.0 + n) for n, i in enumerate(asked))
    assert ranked == learned
    assert 2 <= sum(learned) < 6
