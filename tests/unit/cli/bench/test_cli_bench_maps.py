"""`autotune bench --heatmap`: maps over two knobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.formula_times import ADD, Call, FormulaMeasurer, text_of

from autotune.cli.options.multi_value_options import close_optional


def test_a_map_has_a_panel_for_each_schedule_and_names_the_fastest(bench: Call) -> None:
    code, out, _ = bench(*ADD, "--set", "n=32", "--heatmap")
    assert code == 0
    blocks = out.split("\n\n")
    assert [block.splitlines()[0] for block in blocks[1:3]] == ["alternate", "continuous"]
    head, first = blocks[1].splitlines()[1:3]
    assert head.split() == ["nb", "\\", "nt", "32", "64", "128", "256", "512", "1024", "2048"]
    assert first.split() == ["32", "0.500", "1.00", "2.00", "4.00", "8.00", "16.0", "-"]
    assert blocks[3].splitlines() == [
        "best 16.0 GFLOPS (64.0 ns): schedule=alternate, nt=1024, nb=32, lanes=1",
        "NumPy 0.512 GFLOPS",
        "20 of them have no time: a block has at most 1024 of nt",
    ]


def test_a_map_over_knobs_shows_spread_and_noise_too(bench: Call) -> None:
    FormulaMeasurer.scatter, FormulaMeasurer.noise = lambda config: config.values["nt"] / 2048, 0.5
    _, out, _ = bench(*ADD, "--set", "n=64", "--heatmap", "nt,nb")
    said = " ".join(out.split())
    assert "50 % at most (continuous, nt=1024, nb=" in said
    assert "~ marks more than 10 %" in said
    assert "the machine was noisy (up to 50 %)" in said


def test_the_knobs_of_a_map_can_be_named(bench: Call) -> None:
    words = ["--set", "n=32", "--heatmap", "lanes,nt", "--knob", "schedule=alternate", "--json"]
    data = json.loads(bench(*ADD, *words)[1])
    assert data["across"] == {"knob": "lanes", "values": [1, 2, 4]}
    assert data["down"]["knob"] == "nt"
    assert list(data["panels"]) == [""]
    assert [point["config"]["lanes"] for point in data["panels"][""][0]] == [1, 2, 4]


TILES = """
from autotune import te
from autotune.template import template

@template("tiles", target="llvm")
def tiles(cfg, n: int):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    sizes = cfg.define_split("tile", n, 2)
    notes = cfg.define_annotate("note", ["outer", "inner"], ["none", "unroll"])
    cfg.define_knob("unused", [3])
    notes.apply(s[B], sizes.apply(s[B], s[B].op.axis[0]))
    return s, [A, B]
"""


def test_splits_and_annotations_are_axes_of_a_map(bench: Call) -> None:
    Path("tiles.py").write_text(TILES)
    words = ["tiles.py:tiles", "--set", "n=8", "--heatmap"]
    code, out, _ = bench(*words)
    assert code == 0
    head, *rows = out.split("\n\n")[1].splitlines()
    assert head.split() == ["note", "\\", "tile", "1,8", "2,4", "4,2", "8,1"]
    notes = ["none,none", "none,unroll", "unroll,none", "unroll,unroll"]
    assert [row.split()[0] for row in rows] == notes
    assert "best " in out
    assert ": tile=1,8, note=none,none, unused=3" in out
    data = json.loads(bench(*words, "note,tile", "--json")[1])
    assert data["across"] == {"knob": "note", "values": [note.split(",") for note in notes]}
    assert data["down"]["values"] == [[1, 8], [2, 4], [4, 2], [8, 1]]


def test_a_map_of_splits_is_drawn(bench: Call) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    Path("tiles.py").write_text(TILES)
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        words = ["--set", "n=8", "--heatmap", "note,tile", "--plot", "p.svg"]
        assert bench("tiles.py:tiles", *words)[0] == 0
    drawn = text_of("p.svg")
    assert all(text in drawn for text in ["none,unroll", "2,4", "note", "tile"])


def test_a_knob_with_one_value_is_no_axis(bench: Call) -> None:
    Path("tiles.py").write_text(TILES)
    code, _, err = bench("tiles.py:tiles", "--set", "n=8", "--heatmap", "tile,unused")
    assert (code, "unused has one value only" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "closed"),
    [
        (["t", "--heatmap"], ["t", "--heatmap="]),
        (["t", "--heatmap", "a,b"], ["t", "--heatmap", "a,b"]),
        (["--heatmap", "t", "--json"], ["--heatmap=", "t", "--json"]),
        (["t", "--heatmap=a,b"], ["t", "--heatmap=a,b"]),
    ],
)
def test_the_option_of_a_map_may_stand_alone(words: list[str], closed: list[str]) -> None:
    assert close_optional(words, "--heatmap", lambda word: "," in word) == closed
