"""Knob features, and the names and explanations of feature columns."""

import numpy as np
import pytest

from features import (
    FEATURE_VERSION,
    BufferAccess,
    FeatureError,
    Loop,
    LoopNest,
    describe,
    itervar_columns,
    knob_features,
    knob_matrix,
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
    assert versioned("itervar", "0/i/attr/length") == f"itervar{FEATURE_VERSION}:0/i/attr/length"


@pytest.mark.parametrize("name", ["length", "0/i/attr/width"])
def test_a_name_that_is_no_itervar_column_is_refused(name):
    with pytest.raises(FeatureError, match="is not an itervar column"):
        describe(name)
