"""Events as lines of JSON hold what docs/events.md says they do, neither more nor less."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from support.command_line import QUICK, SMALL
from support.report_events import job, machine, record, run_events, summary

from autotune.report.display.events_json import JsonDisplay
from autotune.report.progress import RunProgress
from autotune.tuner.run.events import Compared, End, Event, Finished, Noisy, Started
from autotune.tuner.run.final_comparison import ComparisonRound

ROOT = Path(__file__).parents[3]
TYPES = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict,
    "array": list, "null": type(None),
}  # fmt: skip


def documented() -> dict[str, dict[str, list[str]]]:
    """Return each heading's keys with the names of their types."""
    sections = re.split(r"^## ", (ROOT / "docs" / "events.md").read_text(), flags=re.MULTILINE)
    rows = r"^\| `(\w+)` \| ([\w ]+?) \| \S"
    return {
        section.splitlines()[0]: {
            key: types.split(" or ") for key, types in re.findall(rows, section, re.MULTILINE)
        }
        for section in sections[1:]
    }


PAGE = documented()


def assert_documented(data, section, common=()):
    keys = {**PAGE[section], **(PAGE[common] if common else {})}
    assert set(data) == set(keys), section
    for key, value in data.items():
        what = f"{section}.{key} = {value!r}"
        if isinstance(value, dict) and "best" in keys[key]:
            assert_documented(value, "best")
        elif isinstance(value, bool):
            assert keys[key] == ["boolean"], what
        else:
            assert any(isinstance(value, TYPES.get(kind, ())) for kind in keys[key]), what


def lines_of(events, **of_job):
    """Return what is printed for a run, parsed; each line is checked."""
    lines = []
    display = JsonDisplay(RunProgress(lambda: 3.0, begin=0.0), lines.append, clock=lambda: 12.5)
    with display:
        display.open_job(job(**of_job))
        display.note("learned something")
        for event in events:
            display.on_event(event)
        display.conclude()
    parsed = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    for data in parsed:
        assert_documented(data, data["event"], "Every event")
    return parsed


def test_every_event_is_documented_and_every_documented_event_is_printed():
    failed = replace(record(3, error="WRONG_ANSWER"), max_error=float("inf"))
    measured = run_events([0.5, "RUN_TIMEOUT"], gain=0.01, left_s=4.0)
    events = [machine(0.25), *measured, replace(measured[-1], record=failed), Noisy(0.4)]
    events += [Compared(ComparisonRound(1, {0: 1.0, 7: 0.5}, (0, 7)))]
    events += [Finished(summary(failures={"WRONG_ANSWER": 1}))]
    lines = lines_of(events)
    assert {line["event"] for line in lines} == set(PAGE) - {"Every event", "best"}
    assert len(PAGE) - 2 == len(get_args(Event)) + 3  # job, note and end are the display's own


def test_an_event_has_the_numbers_of_the_run():
    *_, first, second, wrong, end, last = lines_of(
        [machine(0.25), *run_events([0.5, 0.75, "WRONG_ANSWER"]), Finished(summary())]
    )
    assert first["best"] == {
        "index": 1, "cost_s": 0.5, "gflops": 2.0, "bytes_s": 16e6, "share": 0.5
    }  # fmt: skip
    assert (first["time"], first["improved"], second["improved"]) == (12.5, True, False)
    assert (wrong["cost_s"], wrong["error"]["code"]) == (None, "WRONG_ANSWER")
    assert wrong["failures"] == {"WRONG_ANSWER": 1}
    assert end["over_default"] == 2.0
    assert end["over_default_range"] == pytest.approx([0.9 / 0.52, 1.2 / 0.49])
    assert (last["event"], last["elapsed_s"]) == ("end", 3.0)


def test_what_is_not_known_is_null():
    nothing = summary(best=None, default_costs_s=None, ended=End.EXHAUSTED)
    *_, started, end, _ = lines_of([Started(None, 0, None), Finished(nothing)])
    assert (started["trials"], started["best"], started["default_cost_s"]) == (None,) * 3
    assert (end["best"], end["over_default"], end["ended"]) == (None, None, "exhausted")


def test_a_best_that_is_the_default_has_no_ratio():
    *_, end, _ = lines_of([Finished(summary())], default_index=7)
    assert end["over_default"] is None


def test_a_real_run_prints_documented_events_and_nothing_else(call, tmp_path):
    done = call("run", "matmul", *SMALL, "--trials", 3, *QUICK, "--json-lines")
    assert (done.code, done.err) == (0, "")
    lines = [json.loads(line) for line in done.out.splitlines()]
    for line in lines:
        assert_documented(line, line["event"], "Every event")
    sometimes = ("machine", "noisy", "compared")
    names = [line["event"] for line in lines if line["event"] not in sometimes]
    assert names == ["job", "started", *3 * ["measured"], "finished", "end"]
    logged = [json.loads(line) for line in (tmp_path / "matmul.jsonl").read_text().splitlines()]
    logged = [line for line in logged if "final" not in line]
    measured = [line for line in lines if line["event"] == "measured"]
    assert [line["config"] for line in measured] == [line["config"] for line in logged]
    assert [line["costs_s"] for line in measured] == [line["costs_s"] for line in logged]
