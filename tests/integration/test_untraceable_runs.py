"""Runs of templates that cannot be traced: one warning with the line, none refused too late."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.command_line import QUICK
from support.logged import trials_in

HEAD = """
import json, time
from autotune import te
from autotune.template import template

@template("t", reference=lambda a: a + 1)
def t(cfg, n: int = 24):
    a = cfg.define_knob("a", [1, 2, 3, 4, 6, 8])
    b = cfg.define_knob("b", [1, 2, 3])
    A = te.placeholder((n,), name="A")
    name, factor = "B", a * b
"""
TAIL = """
    B = te.compute((n,), lambda i: A[i] + 1, name=name)
    s = te.create_schedule(B.op)
    cfg.add_constraint(a * b <= 12, "at most twelve")
    if a == 3 and b == 1:
        raise ValueError("not three")
    s[B].split(B.op.axis[0], factor=factor)
    return s, [A, B]
"""
#: Lines that defeat tracing, and words of the reason.
LINES = {
    'name = f"B{a}"': "the text of `a`",
    "factor = {1: 1, 2: 5}.get(a, 7) * b": "hash(`a`)",
    "factor = int(float(a)) * b": "float(`a`)",
    "factor = len(json.dumps([a])) * b": "TypeError",
    "factor = a if type(a) is int else 2": "plain numbers lead to another schedule",
    "factor = (a + time.perf_counter_ns()) % 999_983 + 1": "does not do the same twice",
}


@pytest.mark.parametrize(
    "line",
    [pytest.param(x, marks=[pytest.mark.slow] if n else []) for n, x in enumerate(LINES)],
)
def test_it_is_tuned_one_by_one_after_one_warning_that_names_the_line(
    line: str, call: Any, tmp_path: Path
) -> None:
    file = tmp_path / "own.py"
    file.write_text(HEAD + f"    {line}\n" + TAIL)
    number = HEAD.count("\n") + 1
    words = ["run", "own.py:t", "--log", "own.jsonl", "--trials", 18, "--tuner", "random"]
    done = call(*words, "--seed", 1, "--batch", 18, *QUICK)
    assert done.code == 0, done.err
    (warning,) = done.err.splitlines()
    assert re.fullmatch(
        r"autotune: warning: template 't' cannot be traced, .*" + re.escape(f"[{file}:{number}]"),
        warning,
    )
    assert LINES[line] in warning
    records = trials_in(tmp_path / "own.jsonl")
    assert [record.error for record in records] == [None] * len(records)
    legal = [(a, b) for a in (1, 2, 3, 4, 6, 8) for b in (1, 2, 3) if a * b <= 12]
    legal.remove((3, 1))
    found = sorted(tuple(record.config["values"].values()) for record in records)
    assert found == legal
    assert "4 proposals were refused: at most twelve rejects 3" in done.out
