"""Escape sequences in the texts of a log are shown, and never reach the terminal."""

from __future__ import annotations

import io
import json

import pytest

from autotune.cli.main import main
from autotune.cli.terminal.output import print_line
from autotune.report.display.live_region import LiveRegion
from autotune.report.display.panel import StyledText, TextStyle
from autotune.report.display.run_display import View, make_display
from autotune.report.progress import RunProgress
from autotune.system.words import printable
from records import Record, RecordStore

EVIL = "\x1b[2J\x1b]0;title\x07\x9b31m\r\x08\u202e\u2028\ud800"
STEERING = set("\x1b\x07\x9b\r\x08\u202e\u2028")


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    common = {
        "workload": {"template": "matmul", "args": {"n": EVIL}},
        "target": "llvm",
        "device": {"name": "a", "vector_bytes": EVIL},
        "seed": 0,
        "timestamp": 1.0,
    }
    failed = {"code": EVIL, "stage": EVIL, "message": EVIL}
    records = [
        Record(**common, config={"index": 0, "values": {"k": EVIL}}, costs_s=[1e-3]),
        Record(**common, config={"index": 1, "values": {"k": "b"}}, error=failed),
    ]
    RecordStore(path).append(records)
    named = {"template": f"matmul{EVIL}", "args": {f"n{EVIL}": EVIL}}
    with path.open("a") as file:
        for changed in (
            {"workload": EVIL},
            {"workload": named},
            {"target": f"llvm{EVIL}"},
            {"device": {"name": EVIL}},
            {"config": {"index": 0, "values": {EVIL: 1}}},
        ):
            file.write(json.dumps(records[0].to_json() | changed) + "\n")
    return path


@pytest.mark.parametrize(
    "words",
    [
        ["records", "summary"],
        ["replay", "run", "--tuner", "random", "--budget", "1"],
        ["replay", "run", "--workload", EVIL],
        ["best", "matmul", "--set", "m=8", "--set", "n=8", "--set", "k=8", "--log"],
        ["features", "export", "--layout", "knob", "--out", "{folder}/x.csv", "--log"],
    ],
)
def test_nothing_in_a_log_steers_the_terminal(log, tmp_path, capsys, words):
    assert main([word.format(folder=tmp_path) for word in words] + [str(log)]) in (0, 2, 3)
    printed = "".join(capsys.readouterr())
    assert not STEERING & set(printed)
    if "best" not in words:
        assert "skipped 5 lines" in printed
    if {"summary", "--workload"} & set(words):
        assert r"\x1b[2J\x1b]0;title\x07\x9b31m" in printed


def test_what_is_printed_keeps_lines_tabs_and_letters_of_all_scripts(capsys):
    print_line("a\tb\nµ é 中 🙂\u00a0c\x1b[0m")
    assert capsys.readouterr().out == "a\tb\nµ é 中 🙂\u00a0c\\x1b[0m\n"
    assert printable("\udcff\u200f") == r"\udcff\u200f"


def test_the_panel_of_a_run_shows_only_colours_of_its_own():
    terminal = io.StringIO()
    block = LiveRegion(terminal, colour=True)
    block.draw([(StyledText(f"a{EVIL}", TextStyle.STRONG),)])
    text = terminal.getvalue()
    assert r"a\x1b[2J\x1b]0;title" in text
    assert set(text.replace("\x1b[1m", "").replace("\x1b[0m", "")) & STEERING <= {"\x1b", "\r"}
    assert "\x1b]0" not in text


def test_plain_lines_of_a_run_are_escaped_too():
    lines = []
    display = make_display(View.PROGRESS, RunProgress(begin=0.0), lines.append)
    display.note(f"learned from {EVIL}")
    assert not STEERING & set("".join(lines))
