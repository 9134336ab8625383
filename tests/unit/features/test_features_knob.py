"""Knob features, and the names and explanations of feature columns."""

import re

import numpy as np
import pytest

from features import (
    FEATURE_VERSION,
    BufferAccess,
    FeatureError,
    KnobStatistics,
    Loop,
    LoopNest,
    describe,
    explain,
    itervar_columns,
    knob_features,
    knob_matrix,
    patterns,
    versioned,
)


def test_numeric_knobs_give_their_value_and_its_logarithm():
    names, matrix = knob_matrix({"tile.0": np.array([1, 3, 7])}, 3)
    assert names == ["tile.0", "tile.0/log2"]
    assert matrix.dtype == np.float32
    assert matrix.tolist() == [[1, 1], [3, 2], [7, 3]]


def test_small_categorical_knobs_are_one_hot_and_large_ones_keep_their_position():
    columns = {"order": np.array([2, 0]), "layout": np.array([40, 1])}
    names, matrix = knob_matrix(columns, 2, {"order": 3, "layout": 50}, order="C")
    assert names == ["order/is_0", "order/is_1", "order/is_2", "layout/position"]
    assert matrix.tolist() == [[0, 0, 1, 40], [1, 0, 0, 1]]


def test_knob_features_of_no_candidate_have_the_usual_columns():
    names, features = knob_features({"a": np.empty(0, np.int64), "b": np.empty(0)}, {"b": 2})
    assert names == ["a", "a/log2", "b/is_0", "b/is_1"]
    assert [np.shape(column) for column in features] == [(0,)] * 4


@pytest.mark.parametrize("position", [-1, 3])
def test_a_position_outside_its_knob_is_refused(position):
    with pytest.raises(FeatureError, match="knob 'order': a position lies outside its 3 values"):
        knob_features({"order": np.array([position])}, {"order": 3})


def test_a_category_without_a_column_is_refused():
    with pytest.raises(FeatureError, match="categorical knob 'order' has no column"):
        knob_features({}, {"order": 3})


def test_every_itervar_column_can_be_explained():
    loop = Loop("k.outer", "SERIAL", 4, -1, 1, 0, 0, 0)
    access = BufferAccess("A.shared", 1, (0,), (1,), (-1,), 4, False)
    for layout in ("itervar", "autotvm08"):
        names, _ = itervar_columns(LoopNest((loop,), (access,)), layout=layout)
        texts = [describe(versioned(layout, name)) for name in names]
        assert len(set(texts)) == len(names)
        assert all(text.startswith("loop k.outer (row 0)") for text in texts)
    assert describe("0/k.outer/A.shared_1/stride") == (
        "loop k.outer (row 0), access A.shared_1: elements between two iterations of the loop,"
        " 0 if the index does not use it"
    )


def test_exported_names_carry_the_layout_and_the_version():
    assert versioned("itervar", "0/i/attr/length") == f"itervar.v{FEATURE_VERSION}:0/i/attr/length"


@pytest.mark.parametrize("name", ["length", "0/i/attr/width"])
def test_a_name_that_is_no_itervar_column_is_refused(name):
    with pytest.raises(FeatureError, match="is not an itervar column"):
        describe(name)


def layout_of(*configs):
    log_index = KnobStatistics()
    for values in configs:
        log_index.add(values)
    return log_index.layout()


def test_configurations_of_any_origin_share_columns_and_lack_some():
    ours = {"tile": (4, 2), "pack": True, "order": "nm", "bias": None}
    theirs = {"tile": [8, 1, 3], "pack": False, "order": "mn", "ratio": 0.5}
    layout = layout_of(ours, theirs)
    rows = [dict(zip(layout.names, row, strict=True)) for row in layout.matrix([ours, theirs])]
    assert rows[0]["tile.0"] == 4
    assert rows[0]["tile.0/log2"] == np.float32(np.log2(5))
    assert np.isnan([rows[0][name] for name in ("tile.2", "tile.2/log2", "ratio")]).all()
    assert [row["pack"] for row in rows] == [1, 0]
    assert "pack/log2" not in layout.names
    assert [(row["order=mn"], row["order=nm"]) for row in rows] == [(0, 1), (1, 0)]
    assert [row["bias=null"] for row in rows] == [1, 0]


def test_a_knob_of_many_texts_gives_their_sorted_position():
    configs = [{"kind": f"k{i:02}"} for i in reversed(range(20))]
    layout = layout_of(*configs)
    assert layout.names == ("kind/position",)
    assert layout.matrix(configs)[:, 0].tolist() == list(range(19, -1, -1))


def test_a_knob_that_is_a_flag_here_and_a_number_there_has_one_column():
    layout = layout_of({"u": True}, {"u": 3})
    assert layout.names == ("u", "u/log2")
    assert layout.matrix([{"u": True}, {"u": 3}])[:, 0].tolist() == [1, 3]


def test_knobs_whose_columns_would_share_a_name_have_columns_of_their_own():
    values = {"x": 3, "x/log2": 7, "a": "b", "a=b": 5}
    log_index = KnobStatistics()
    log_index.add(values)
    layout = log_index.layout()
    row = dict(zip(layout.names, layout.matrix([values])[0].tolist(), strict=True))
    assert (row["x"], row["x/log2"], row["x/log2#2"]) == (3, 2, 7)
    assert (row["a=b"], row["a=b#2"]) == (5, 1)


def test_a_number_beyond_all_floats_is_infinite():
    values = {"seed": 10**400, "low": -(10**50)}
    layout = layout_of(values)
    row = dict(zip(layout.names, layout.matrix([values])[0], strict=True))
    assert row["seed"] == np.inf
    assert row["low"] == -np.inf


def test_a_value_that_the_layout_has_no_column_for_is_refused():
    with pytest.raises(FeatureError, match="no column for knob 'order' = 'mn'"):
        layout_of({"order": "nm"}).matrix([{"order": "mn"}])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("knob.v1:order=nm", "1 if knob order is nm"),
        ("knob.v1:tile.0/log2", r"log2\(1 \+ \|x\|\) of knob tile.0"),
        ("curve.v1:stride/accesses/64", "64 bytes or less apart"),
        ("autotvm08.v1:0/i/A_0/stride", "elements between two iterations"),
    ],
)
def test_columns_of_every_layout_are_explained_by_their_exported_names(name, words):
    meaning, unit = explain(name)
    assert re.search(words, meaning)
    assert unit


@pytest.mark.parametrize("name", ["0/i/attr/length", "curve.v9:length/SERIAL", "kerf.v1:x"])
def test_a_name_of_no_layout_or_another_version_is_refused(name):
    with pytest.raises(FeatureError, match="is not a feature column: expected one of"):
        explain(name)


@pytest.mark.parametrize("name", ["curve.v1:bytes/reuse/257", "itervar.v1:length"])
def test_a_column_that_its_layout_lacks_is_refused(name):
    with pytest.raises(FeatureError, match="column"):
        explain(name)


def test_patterns_of_a_layout_cover_its_columns():
    assert ("itervar.v1:ROW/LOOP/ACCESS/stride", "elements") in {
        (name, unit) for name, _, unit in patterns("itervar")
    }
    assert len(patterns("knob")) == 4
    with pytest.raises(FeatureError, match="unknown layout 'curv'"):
        patterns("curv")
