"""Runs of several workloads, with time and goals; and files against words."""

import json
import re
import time

from support.command_line import QUICK, SMALL
from support.logged import trials_in

TWO_WORKLOADS = """
[defaults]
repeats = 2
min-repeat-ms = 1

[[workload]]
template = "matmul"
set = { m = 16, n = 16, k = 16 }
tuner = "random"

[[workload]]
template = "softmax"
set = { m = 8, n = 16 }
log = "other.jsonl"
"""

BROKEN = """
import os
from autotune import te
from autotune.template import template

@template("broken", reference=lambda a: os._exit(3))
def broken(cfg, n: int):
    k = cfg.define_knob("k", [1, 2, 4])
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=k)
    return s, [A, B]
"""


def events_of(done):
    return [json.loads(line) for line in done.out.splitlines()]


def test_several_workloads_are_tuned_and_resumed_each_in_its_log(call, tmp_path):
    (tmp_path / "small.toml").write_text(TWO_WORKLOADS)
    done = call("run", "--job", "small.toml", "--trials", 4, "--seed", 1)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "matmul(m=16, n=16, k=16, dtype=float32) on llvm"
    assert any(line.startswith("softmax(m=8, n=16") for line in lines)
    assert any(re.match(r"matmul +4/4 ", line) for line in lines)
    assert re.match(r"best of 2 of 2 workloads", lines[-1])
    assert len(trials_in(tmp_path / "matmul.jsonl")) == 4
    assert len(trials_in(tmp_path / "other.jsonl")) == 4
    again = call("run", "--job", "small.toml", "--trials", 4, "--json-lines")
    assert (again.code, again.err) == (0, "")
    finished = [event for event in events_of(again) if event["event"] == "finished"]
    assert [event["job"] for event in finished] == ["matmul", "softmax"]
    assert all(event["default_costs_s"] for event in finished)
    assert len(trials_in(tmp_path / "matmul.jsonl")) == 4


def test_time_alone_goes_on_until_it_is_over(call, tmp_path):
    words = ["run", "matmul", *SMALL, *QUICK, "--tuner", "random"]
    assert call(*words, "--trials", 1).code == 0
    begin = time.monotonic()
    done = call(*words, "--time", "2s", "--json-lines")
    assert (done.code, done.err) == (0, "")
    # The final comparison has the last 15 %, and may need less.
    assert time.monotonic() - begin >= 0.85 * 2
    (finished,) = [event for event in events_of(done) if event["event"] == "finished"]
    assert finished["ended"] == "time"
    assert finished["trials"] == len(trials_in(tmp_path / "matmul.jsonl"))


def test_a_time_too_short_to_measure_anything_says_so_and_leaves_no_log(call, tmp_path):
    done = call("run", "matmul", *SMALL, "--time", "0.01s")
    assert done.code == 3
    assert done.err == "autotune: nothing was measured before the time was over: give more\n"
    assert not (tmp_path / "matmul.jsonl").exists()


def test_a_goal_ends_a_run(call, tmp_path):
    words = ["--until", "10 s", "--json-lines", "--tuner", "random"]
    done = call("run", "matmul", *SMALL, *words, *QUICK)
    assert (done.code, done.err) == (0, "")
    (finished,) = [event for event in events_of(done) if event["event"] == "finished"]
    assert finished["ended"] == "goal"
    assert len(trials_in(tmp_path / "matmul.jsonl")) == 1
    share = ["--until", "1e-6 of ceiling", "--json-lines"]
    again = call("run", "matmul", *SMALL, *share, *QUICK)
    (finished,) = [event for event in events_of(again) if event["event"] == "finished"]
    assert finished["ended"] == "goal"
    assert finished["measured"] == 0


def test_a_workload_that_cannot_be_measured_leaves_the_others_their_time(call, tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    job = TWO_WORKLOADS + '[[workload]]\ntemplate = "broken.py:broken"\nset = { n = 8 }\n'
    (tmp_path / "job.toml").write_text(job)
    done = call("run", "--job", "job.toml", "--trials", 2)
    assert done.code == 2
    assert re.fullmatch(
        r"autotune: 1 of 3 workloads could not be measured: broken: template .*\n", done.err
    )
    assert len(trials_in(tmp_path / "matmul.jsonl")) == 2
    assert len(trials_in(tmp_path / "other.jsonl")) == 2
    assert not (tmp_path / "broken.jsonl").exists()
