"""Goals of a run: what can be asked for, and how many seconds that is."""

import pytest

from autotune.errors import UsageError
from autotune.measure.roofline import Ceiling
from autotune.tuner.run.limits import Goal

CEILING = Ceiling({"float32": 100e9}, 10e9)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1.2 ms", 1.2e-3),
        ("40us", 40e-6),
        ("7e2 ns", 700e-9),
        ("2 s", 2.0),
        ("200 GFLOPS", 2e9 / 200e9),
        ("0.5 tflops", 2e9 / 0.5e12),
        ("50 GB/s", 4e8 / 50e9),
        ("1 TB/s", 4e8 / 1e12),
        ("0.9 of copy", 4e8 / 10e9 / 0.9),
        ("80 % of peak", 2e9 / 100e9 / 0.8),
        ("100% of Ceiling", 4e8 / 10e9),
    ],
)
def test_a_goal_is_so_many_seconds_for_a_kernel(text, seconds):
    goal = Goal.parse(text)
    assert goal.seconds(2e9, 4e8, "float32", CEILING) == pytest.approx(seconds)
    assert Goal.parse(str(goal)) == goal


@pytest.mark.parametrize(
    "text",
    ["", "fast", "12", "ms", "1.2 parsecs", "-3 ms", "0 ms", "1.2.3 ms", "0.9 copy", "9 of GFLOPS",
     "50% GFLOPS", "nan of peak", "1e999 s", "0.5 of", "1 ms please"],
)  # fmt: skip
def test_anything_else_is_refused_with_examples(text):
    with pytest.raises(UsageError, match=r"a goal is '1\.2 ms', '200 GFLOPS'.*, not '"):
        Goal.parse(text)


def test_more_than_the_machine_can_do_is_no_goal():
    with pytest.raises(UsageError, match="at most 1"):
        Goal.parse("90 of copy")


def test_what_cannot_be_told_of_a_kernel_is_said_in_one_line():
    for text in ("200 GFLOPS", "0.8 of peak"):
        with pytest.raises(UsageError, match="does not say how many operations"):
            Goal.parse(text).check(None)
    Goal.parse("0.8 of ceiling").check(None)
    with pytest.raises(UsageError, match="no peak is measured for int8"):
        Goal.parse("0.8 of peak").seconds(1.0, 1.0, "int8", CEILING)
    with pytest.raises(UsageError, match="is not known here"):
        Goal.parse("0.8 of copy").seconds(1.0, 1.0, "float32", None)
