import copy
import pickle
import time

import numpy as np
import pytest
from support.rejections import rejections

from search_spaces import (
    AnnotateKnob,
    ChoiceKnob,
    Config,
    Constraint,
    ReorderKnob,
    Space,
    SpaceError,
    SplitKnob,
)

THREADS = Constraint("threads", lambda c: c["nt"] * c["tile.1"] <= 256, "at most 256 threads")
MEMORY = Constraint("memory", lambda c: c["tile.1"] >= 2, "tiles of 2 or more")


def small_space(*constraints):
    return Space(
        [
            ChoiceKnob("nt", [32, 64, 128]),
            SplitKnob("tile", 8, 2),
            ChoiceKnob("fast", [False, True]),
        ],
        constraints,
    )


def huge_space(*constraints):
    return Space([ChoiceKnob(f"k{i}", range(100)) for i in range(6)], constraints)


def test_first_knob_is_the_most_significant_digit():
    space = small_space()
    assert len(space) == 3 * 4 * 2
    assert space.config(0).values == {"nt": 32, "tile": (1, 8), "fast": False}
    assert space.config(1).values["fast"] is True
    assert space.config(8).values == {"nt": 64, "tile": (1, 8), "fast": False}
    assert space.positions([23]).tolist() == [[2, 3, 1]]


def test_columns_of_positions_are_told_from_numbers():
    space = Space([*small_space().knobs, ChoiceKnob("layout", ["nchw", "nhwc"]),
                   ReorderKnob("order", ["i", "j", "k"])])  # fmt: skip
    assert space.categories == {"fast": 2, "layout": 2, "order": 6}


def test_index_of_takes_json_lists_for_tuples():
    assert small_space().index_of({"fast": True, "nt": 64, "tile": [2, 4]}) == 8 + 2 + 1


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"nt": 32, "fast": True}, "no value for tile; the knobs are nt, tile, fast"),
        ({"nt": 32, "fast": True, "tile": (1, 8), "nb": 1}, "no knob named nb"),
        ({"nt": 33, "fast": True, "tile": (1, 8)}, "'nt' does not take 33"),
        ({"nt": 32, "fast": True, "tile": (1, 4)}, r"'tile' does not take \(1, 4\)"),
    ],
)
def test_index_of_says_which_knob_is_wrong(values, said):
    with pytest.raises(SpaceError, match=said):
        small_space().index_of(values)


@pytest.mark.parametrize("indices", [[-1], [24], [0.5], 3, [[0]], ["a"]])
def test_indices_that_are_none_are_refused(indices):
    with pytest.raises(SpaceError):
        small_space().columns(indices)


def test_empty_index_arrays_give_empty_results():
    space = small_space(THREADS)
    assert space.positions([]).shape == (0, 3)
    assert space.indices_of(np.zeros((0, 3), dtype=int)).shape == (0,)
    assert all(len(column) == 0 for column in space.columns([]).values())
    assert space.feasible([]).shape == (0,)
    assert rejections(space, []) == {"threads": 0}


@pytest.mark.parametrize("rows", [[0, 0, 0], [[0, 0]], [[0, 4, 0]], [[-1, 0, 0]], [[0.0, 0, 0]]])
def test_positions_that_are_none_are_refused(rows):
    with pytest.raises(SpaceError, match="positions must"):
        small_space().indices_of(rows)


def test_columns_can_be_chosen_and_unknown_ones_are_named():
    space = small_space()
    assert space.column_names == ("nt", "tile.0", "tile.1", "fast")
    assert list(space.columns([0, 5], ["tile.1"])) == ["tile.1"]
    with pytest.raises(SpaceError, match=r"no column 'tile'; the columns are nt, tile\.0"):
        space.columns([0], ["tile"])


def test_a_space_without_knobs_has_one_empty_config():
    space = Space([])
    assert len(space) == 1
    assert space.config(0) == Config(0, {})
    assert space.feasible_indices().tolist() == [0]
    assert space.neighbors(0).tolist() == []
    assert space.index_of({}) == 0
    assert space.positions([0]).shape == (1, 0)


def test_names_must_differ():
    with pytest.raises(SpaceError, match="two knobs are named 'a'"):
        Space([ChoiceKnob("a", [1]), ChoiceKnob("a", [2])])
    with pytest.raises(SpaceError, match=r"two columns are named 'a\.0'"):
        Space([SplitKnob("a", 4, 2), ChoiceKnob("a.0", [2])])
    with pytest.raises(SpaceError, match="two constraints are named 'threads'"):
        small_space(THREADS, THREADS)


def test_a_space_beyond_64_bits_is_refused():
    with pytest.raises(SpaceError, match=r"at most 2\^63 - 1"):
        Space([ChoiceKnob(f"k{i}", range(100)) for i in range(10)])


def test_rejections_charge_the_first_rule_that_fails_and_add_up():
    space = small_space(THREADS, MEMORY)
    configs = [space.config(i).values for i in range(len(space))]
    too_many = sum(c["nt"] * c["tile"][1] > 256 for c in configs)
    too_small = sum(c["nt"] * c["tile"][1] <= 256 and c["tile"][1] < 2 for c in configs)
    assert rejections(space) == {"threads": too_many, "memory": too_small}
    assert len(space.feasible_indices()) == len(space) - too_many - too_small
    assert rejections(space, [0, 1]) == {"threads": 0, "memory": 0}


def test_a_rule_sees_only_what_earlier_rules_let_pass():
    seen = []

    def spy(columns):
        seen.append(columns["nt"].copy())
        return 128 // (columns["nt"] - 32) > 0  # would divide by zero at nt = 32

    space = small_space(Constraint("not32", lambda c: c["nt"] != 32), Constraint("spy", spy))
    assert len(space.feasible_indices()) == 16
    assert 32 not in np.concatenate(seen)


def test_rows_dropped_by_one_rule_keep_columns_aligned_for_the_next():
    space = small_space(
        Constraint("first", lambda c: (c["nt"] != 64) & (c["tile.1"] != 4)),
        Constraint("second", lambda c: (c["tile.0"] * c["tile.1"] == 8) & (c["nt"] != 64)),
    )
    assert rejections(space)["second"] == 0


def test_a_rule_that_answers_once_for_all_is_understood():
    assert len(small_space(Constraint("never", lambda c: False)).feasible_indices()) == 0
    assert len(small_space(Constraint("always", lambda c: True)).feasible_indices()) == 24


@pytest.mark.parametrize(
    ("predicate", "said"),
    [
        (lambda c: c["nb"] < 3, r"'rule' reads column 'nb'; the columns are nt, tile\.0"),
        (lambda c: c["nt"], "must return 24 bools, not int64"),
        (lambda c: np.ones(3, dtype=bool), r"must return 24 bools, not bool of shape \(3,\)"),
    ],
)
def test_a_wrong_rule_is_named(predicate, said):
    with pytest.raises(SpaceError, match=said):
        small_space(Constraint("rule", predicate)).feasible_indices()


def test_an_error_inside_a_rule_is_not_hidden():
    limits: dict[str, int] = {}
    with pytest.raises(SpaceError, match="constraint 'rule' failed: KeyError: 'other'"):
        small_space(Constraint("rule", lambda c: c["nt"] < limits["other"])).feasible_indices()


def test_feasibility_agrees_across_chunks():
    space = Space(
        [ChoiceKnob("a", range(300)), ChoiceKnob("b", range(300))],
        [
            Constraint("odd", lambda c: c["a"] % 2 == 1),
            Constraint("sum", lambda c: c["a"] + c["b"] < 300),
        ],
    )
    indices = np.arange(len(space))
    a, b = indices // 300, indices % 300
    expected = (a % 2 == 1) & (a + b < 300)
    assert np.array_equal(space.feasible(indices), expected)
    assert np.array_equal(space.feasible_indices(), indices[expected])
    assert np.array_equal(space.feasible(indices[::-1]), expected[::-1])


def test_feasible_indices_are_evaluated_once_and_read_only():
    calls = []
    space = small_space(Constraint("count", lambda c: calls.append(1) or True))
    found = space.feasible_indices()
    assert space.feasible_indices() is found
    assert len(calls) == 1
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1


def test_a_space_too_large_to_evaluate_says_so():
    with pytest.raises(SpaceError, match=r"1000000000000 configurations.*use sample"):
        huge_space().feasible_indices()
    with pytest.raises(SpaceError, match="limit 10"):
        small_space().feasible_indices(limit=10)


def test_sampling_all_gives_each_feasible_index_once():
    space = small_space(THREADS, MEMORY)
    feasible = space.feasible_indices().tolist()
    drawn = space.sample(10_000, np.random.default_rng(0))
    assert sorted(drawn.tolist()) == feasible
    assert drawn.tolist() != feasible
    rest = space.sample(10_000, np.random.default_rng(0), exclude=set(feasible[3:]) | {23, 10**15})
    assert sorted(rest.tolist()) == feasible[:3]
    assert space.sample(0, np.random.default_rng(0)).shape == (0,)


def test_a_negative_number_of_samples_is_refused():
    with pytest.raises(SpaceError, match="0 or more"):
        small_space().sample(-1, np.random.default_rng(0))


def test_samples_depend_on_the_seed_only_not_on_what_was_cached():
    fresh, used = small_space(THREADS), small_space(THREADS)
    used.feasible_indices()
    draws = [s.sample(5, np.random.default_rng(7)).tolist() for s in (fresh, used)]
    assert draws[0] == draws[1]
    assert draws[0] != fresh.sample(5, np.random.default_rng(8)).tolist()


def test_samples_are_spread_evenly():
    rng = np.random.default_rng(0)
    space = small_space()
    drawn = np.concatenate([space.sample(4, rng) for _ in range(3000)])
    counts = np.bincount(drawn, minlength=24)
    assert abs(counts - 500).max() < 100  # 4.5 standard deviations


def test_a_space_of_10_to_the_12_works():
    started = time.thread_time()
    space = huge_space(Constraint("sum", lambda c: c["k0"] + c["k1"] < 20))
    assert len(space) == 10**12
    last = 10**12 - 1
    assert space.config(last).values == {f"k{i}": 99 for i in range(6)}
    assert space.indices_of(space.positions([last, 1])).tolist() == [last, 1]
    drawn = space.sample(500, np.random.default_rng(0))
    assert len(np.unique(drawn)) == 500
    assert space.feasible(drawn).all()
    again = space.sample(500, np.random.default_rng(0), exclude=drawn)
    assert not set(again.tolist()) & set(drawn.tolist())
    assert space.default_index == 0
    assert time.thread_time() - started < 10


def test_a_rare_feasible_config_of_a_middle_sized_space_is_found():
    space = Space(
        [ChoiceKnob("a", range(1500)), ChoiceKnob("b", range(1500))],
        [Constraint("one", lambda c: (c["a"] == 700) & (c["b"] == 3))],
    )
    assert space.sample(2, np.random.default_rng(0)).tolist() == [700 * 1500 + 3]


def test_neighbors_are_feasible_moves_of_one_knob():
    space = small_space(THREADS)
    i = space.index_of({"nt": 64, "tile": (2, 4), "fast": False})
    near = [dict(space.config(j).values) for j in space.neighbors(i)]
    assert near == [
        {"nt": 32, "tile": (2, 4), "fast": False},  # nt = 128 has 512 threads, (1, 8) as many
        {"nt": 64, "tile": (4, 2), "fast": False},
        {"nt": 64, "tile": (2, 4), "fast": True},
    ]


def test_nearest_feasible_takes_the_fewest_steps():
    space = small_space(Constraint("one", lambda c: (c["nt"] == 128) | (c["tile.1"] == 1)))
    i = space.index_of({"nt": 32, "tile": (1, 8), "fast": True})
    found = space.nearest_feasible(i)
    assert dict(space.config(found).values) == {"nt": 128, "tile": (1, 8), "fast": True}
    assert space.nearest_feasible(found) == found
    assert small_space(Constraint("no", lambda c: False)).nearest_feasible(0) is None


def test_nearest_feasible_in_a_huge_space_searches_outward():
    space = huge_space(Constraint("sum", lambda c: c["k0"] + c["k5"] >= 5))
    found = space.config(space.nearest_feasible(0)).values
    assert sum(found.values()) == 5
    assert found == {"k0": 0, "k1": 0, "k2": 0, "k3": 0, "k4": 0, "k5": 5}


def test_nearest_feasible_far_away_in_a_huge_space_comes_from_a_sample():
    space = huge_space(Constraint("far", lambda c: c["k0"] > 60))
    found = space.nearest_feasible(0)
    assert found is not None
    assert space.feasible([found])[0]
    assert found == space.nearest_feasible(0)


def test_default_is_the_knobs_default_or_the_nearest_feasible():
    assert dict(small_space().config(small_space().default_index).values) == {
        "nt": 32,
        "tile": (4, 2),
        "fast": False,
    }
    space = small_space(Constraint("not32", lambda c: c["nt"] > 32))
    assert dict(space.config(space.default_index).values) == {
        "nt": 64,
        "tile": (4, 2),
        "fast": False,
    }


def test_an_empty_space_explains_itself_in_one_line():
    space = small_space(THREADS, Constraint("impossible", lambda c: c["nt"] > 128, "more than 128"))
    line = space.explain_empty()
    counts = rejections(space)
    assert counts["threads"] + counts["impossible"] == 24
    assert line.startswith(
        f"none of 24 configurations feasible: threads rejects {counts['threads']}"
    )
    assert f"impossible rejects {counts['impossible']} (more than 128)" in line
    assert "nearest is nt=32, tile=(4, 2), fast=False, stopped by impossible" in line
    assert "\n" not in line
    with pytest.raises(SpaceError, match="none of 24 configurations feasible"):
        _ = space.default_index


def test_an_explanation_of_a_space_that_is_not_empty_counts_too():
    assert small_space().explain_empty() == "24 of 24 configurations feasible"
    assert (
        small_space(MEMORY)
        .explain_empty()
        .startswith("18 of 24 configurations feasible: memory rejects 6")
    )


def test_an_empty_huge_space_is_explained_from_a_sample():
    line = huge_space(Constraint("no", lambda c: c["k0"] > 99)).explain_empty()
    assert "drawn from 1000000000000 feasible: no rejects 1048576" in line
    assert "nearest is k0=" in line


def test_fingerprint_changes_with_knobs_and_rules():
    prints = {
        small_space().fingerprint(),
        small_space(THREADS).fingerprint(),
        small_space(THREADS, MEMORY).fingerprint(),
        huge_space().fingerprint(),
    }
    assert len(prints) == 4
    assert small_space(THREADS).fingerprint() == small_space(THREADS).fingerprint()
    assert all(len(p) == 16 and int(p, 16) >= 0 for p in prints)


def test_fingerprint_is_pinned():
    # A change here orphans the records of every user: bump it knowingly.
    space = Space(
        [
            SplitKnob("tile", 8, 2),
            ChoiceKnob("nt", [32, 64]),
            ReorderKnob("order", ["i", "j"]),
            AnnotateKnob("ann", ["i"]),
        ],
        [Constraint("threads", lambda c: True)],
    )
    assert space.fingerprint() == "b5809f7338db11f3"


def test_a_million_configs_are_decoded_and_judged_quickly():
    space = Space(
        [SplitKnob("y", 512, 4), SplitKnob("x", 512, 4), SplitKnob("k", 512, 2),
         ChoiceKnob("unroll", [0, 64, 512]), AnnotateKnob("ann", ["i", "j"])],
        [Constraint("threads", lambda c: c["y.2"] * c["x.2"] <= 1024)],
    )  # fmt: skip
    indices = np.random.default_rng(0).integers(len(space), size=10**6)

    def fastest(action):
        times = []
        for _ in range(3):
            started = time.thread_time()
            action(indices)
            times.append(time.thread_time() - started)
        return min(times)

    assert fastest(space.columns) < 0.5  # about 0.05 s on an idle core
    assert fastest(space.feasible) < 0.5


def test_configs_are_immutable_hashable_and_survive_copying():
    config = small_space().config(5)
    assert config["nt"] == 32
    assert {config: 1}[Config(5, dict(config.values))] == 1
    assert config != small_space().config(6)
    assert pickle.loads(pickle.dumps(config)) == config
    assert copy.deepcopy(config) == config
    with pytest.raises(TypeError):
        config.values["nt"] = 64
    with pytest.raises(AttributeError):
        config.index = 3
    assert config.describe() == "nt=32, tile=(4, 2), fast=True"


def test_config_json_turns_lists_back_into_tuples():
    config = small_space().config(5)
    assert config.to_json() == {"index": 5, "values": {"nt": 32, "tile": [4, 2], "fast": True}}
    assert Config.from_json(config.to_json()) == config


@pytest.mark.parametrize("data", [None, {}, {"index": True, "values": {}}, {"index": 1}])
def test_json_that_is_no_config_is_refused(data):
    with pytest.raises(SpaceError, match="a config is"):
        Config.from_json(data)
