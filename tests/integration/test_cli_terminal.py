"""What a terminal sees of commands."""

import re

import pyte
import pytest
from support.command_line import QUICK, SMALL

COLOUR = re.compile(r"\x1b\[[\d;]*m")
STEERING = re.compile(r"\x1b\[\??[\d;]*[A-Za-z]")


@pytest.mark.parametrize(
    ("columns", "colour"),
    [
        (80, True),
        (40, False),
        pytest.param(80, False, marks=pytest.mark.slow),
        pytest.param(40, True, marks=pytest.mark.slow),
    ],
)
def test_a_terminal_sees_a_panel_that_renews_itself_and_fits(call, columns, colour):
    words = ["run", "matmul", *SMALL, *QUICK, "--trials", 3, "--seed", 0]
    env = {} if colour else {"NO_COLOR": "1"}
    code, written, _ = call(*words, terminal=True, columns=columns, variables=env)
    assert code == 0
    assert bool(COLOUR.search(written)) == colour
    drawn = re.split(r"[\r\n]+", STEERING.sub("", written))
    assert all(len(line) <= columns for line in drawn)
    for label, what in (("trials", r"━+  3/3"), ("best", r"[\d.]+ [mun]?s, [\d.]+ GFLOPS")):
        assert any(re.search(rf"^ *{label} +{what}", line) for line in drawn), label
    screen = pyte.Screen(columns, 24)
    pyte.Stream(screen).feed(written)
    lines = "\n".join(line.rstrip() for line in screen.display).rstrip().split("\n")
    assert lines[0].startswith("matmul(m=16, n=16")
    assert not any("trials  " in line for line in lines)  # the panel is gone
    last = max(n for n, line in enumerate(lines) if line.startswith("best "))
    said = " ".join(" ".join(lines[last:]).split())
    assert re.search(r"; config \d+; 3 trials; (.*; )?\d+ s$", said)
    assert not screen.cursor.hidden


def test_a_dumb_terminal_gets_plain_lines(call):
    words = ["run", "matmul", *SMALL, *QUICK, "--trials", 2]
    code, written, _ = call(*words, terminal=True, variables={"TERM": "dumb"})
    assert code == 0
    assert "\x1b" not in written
    assert "2/2  best" in written


def test_the_help_is_plain_text(call):
    assert "\\" not in call("--help").out
