"""Where configurations lie: sizes, alignment, categories, members of tuples."""

import numpy as np
import pytest

from autotune.tuner.encoding import KnobEncoding
from search_spaces import AnnotateKnob, ChoiceKnob, Knob, ReorderKnob, Space, SplitKnob


def matrix(*knobs: Knob) -> np.ndarray:
    space = Space(knobs)
    return KnobEncoding(space).matrix(np.arange(len(space)))


def test_a_power_of_two_counts_by_its_logarithm():
    (x,) = matrix(ChoiceKnob("x", [32, 64, 128, 256, 512, 1024, 2048])).T
    assert x == pytest.approx(np.linspace(0, 1, 7))


def test_other_sizes_also_count_by_how_even_they_are():
    size, twos, power = matrix(ChoiceKnob("x", [16, 24, 32, 36, 40, 48, 64])).T
    assert (np.diff(size) > 0).all()
    assert twos == pytest.approx([0.5, 0.25, 0.75, 0, 0.25, 0.5, 1])
    assert power.tolist() == [1, 0, 1, 0, 0, 0, 1]


def test_a_few_numbers_may_be_mere_names():
    rows = matrix(ChoiceKnob("method", [0, 1, 2, 3]))
    assert rows.shape == (4, 1 + 4)
    corners = rows[:, 1:]
    apart = np.sqrt(((corners[:, None] - corners[None]) ** 2).sum(-1))
    assert apart == pytest.approx(1 - np.eye(4))


def test_two_values_need_one_coordinate_and_one_value_none():
    assert matrix(ChoiceKnob("flag", [0, 1]), ChoiceKnob("fixed", [5])).T.tolist() == [[0, 1]]
    assert matrix(ChoiceKnob("fixed", [5])).shape == (1, 0)
    assert matrix().shape == (1, 0)


def test_members_of_tuples_count_by_themselves():
    split = matrix(SplitKnob("tile", 8, 2))
    assert split.shape[1] >= 2
    annotated = matrix(AnnotateKnob("how", ["i", "j"], ["none", "unroll"]))
    assert annotated.shape == (4, 4)  # per axis, two corners
    recorded = matrix(ChoiceKnob("tile", [(1, 8), (2, 4), (4, 2), (8, 1)]))
    assert recorded[:, 0] == pytest.approx(np.linspace(0, 1, 4))
    assert matrix(ReorderKnob("order", ["i", "j", "k"])).shape[0] == 6


def test_one_length_scale_serves_all_corners_of_a_category():
    space = Space([ChoiceKnob("kind", ["a", "b", "c"]), ChoiceKnob("x", [1, 2])])
    encoding = KnobEncoding(space)
    assert encoding.groups.tolist() == [0, 0, 0, 1]
    assert len(encoding.log_lengths) == 2


def test_negative_and_mixed_values_stay_in_order():
    rows = matrix(ChoiceKnob("shift", [-8, -1, 0, 1, 8, 100, 7]))
    order = np.argsort([-8, -1, 0, 1, 8, 100, 7])
    assert (np.diff(rows[order, 0]) > 0).all()
    assert np.isfinite(rows).all()
