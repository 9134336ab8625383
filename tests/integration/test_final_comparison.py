"""A run from its command to its last line: what it says is what `best` and `build` go by."""

import json
import re

from support.command_line import SMALL

import autotune
from records import RecordStore

LONG = ["--trials", "16", "--seed", "1", "--repeats", "1", "--min-repeat-ms", "1"]
SMALL_ARGS = {"m": 16, "n": 16, "k": 16}


def test_the_last_line_of_a_run_agrees_with_best_and_build(call, tmp_path):
    done = call("run", "matmul", *SMALL, *LONG, "--quiet")
    assert done.code == 0, done.err
    index = int(re.search(r"config (\d+);", done.out)[1])
    found = json.loads(call("best", "matmul", *SMALL, "--log", "matmul.jsonl", "--json").out)
    assert found["config"]["index"] == index
    built = autotune.build("matmul", SMALL_ARGS, records=tmp_path / "matmul.jsonl")
    assert built.config.index == index
    assert built.record.cost_s == found["cost_s"]


def test_the_comparison_is_in_the_log_and_told_as_events(call, tmp_path):
    done = call("run", "matmul", *SMALL, *LONG, "--json-lines")
    assert done.code == 0, done.err
    events = [json.loads(line) for line in done.out.splitlines()]
    rounds = [event for event in events if event["event"] == "compared"]
    (finished,) = [event for event in events if event["event"] == "finished"]
    finals = [r for r in RecordStore(tmp_path / "matmul.jsonl").load() if not r.is_trial]
    assert finished["compared"] == bool(finals)
    assert finished["best"]["index"] == (finals[0].index if finals else finished["best"]["index"])
    assert finished["trials"] == 16
    for record in finals:
        assert 1 <= len(record.costs_s) <= len(rounds)


def test_a_log_without_a_comparison_serves_and_best_says_so(call):
    assert call("run", "matmul", *SMALL, "--trials", "1", *LONG[2:]).code == 0
    said = call("best", "matmul", *SMALL, "--log", "matmul.jsonl").out
    assert "no final comparison: the fastest of its trials" in " ".join(said.split())
