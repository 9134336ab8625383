"""Signals at any moment: nothing survives, the log loads, and the next run goes on from there.

The moments are drawn with a seed over the whole life of a run, starting up and tracing included.
"""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import psutil
import pytest
from support.command_line import QUICK
from support.footprint import assert_no_orphans, describe, environment, marked, new_token, wait_for
from support.logged import trials_in

from autotune.system.available_cpus import available_cpus
from records import RecordWarning

TEMPLATE = Path(__file__).parent / "faulty_templates" / "storm.py"
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def start(folder, token, trials, good=6, pause_s=0.02):
    """Start a run of the command line on the log in `folder`, in a group of its own.

    Tracing each of the `good` ways through the template takes as long as is given, so that the
    run is ended there, too.
    """
    settings = ["--set", f"good={good}", "--set", "steps=200", "--set", f"pause_s={pause_s}"]
    words = ["run", f"{TEMPLATE}:storm", *settings, "--tuner", "random", "--trials", str(trials)]
    return subprocess.Popen(
        [sys.executable, "-m", "autotune", *words, *QUICK, "--log", str(folder / "log.jsonl")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment(token, folder),
    )


def lines(log):
    """Count the whole lines of a log."""
    return log.read_bytes().count(b"\n") if log.exists() else 0


def said(errors):
    """Return what a run said, but for a last line that the run before has torn as it was killed."""
    return re.sub(r"autotune: warning: .* is torn .*\n", "", errors)


def recorded(log):
    """Load a log whose last line may be torn; no configuration may be in it twice."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).* is torn ", RecordWarning)
        records = trials_in(log)
    indices = [record.index for record in records]
    assert len(set(indices)) == len(indices), "a resumed run repeated a measurement"
    return records


def life_of_a_run(folder):
    """Return for how many seconds a run goes until it has measured a few candidates."""
    token, begin = new_token(), time.monotonic()
    with start(folder, token, 4) as process:
        process.communicate(timeout=120)
    assert process.returncode == 0
    return time.monotonic() - begin


def end_one(folder, number, after_s, whole_group):
    """Start a run, send it a signal after some seconds, and check what is left of it."""
    log, token = folder / "log.jsonl", new_token()
    before = log.read_bytes()[: log.read_bytes().rfind(b"\n") + 1]
    with start(folder, token, 100_000) as process:
        time.sleep(after_s)
        working = lines(log) > before.count(b"\n")
        if whole_group:  # as the terminal does at Ctrl-C
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        output, errors = process.communicate(timeout=120)
    assert_no_orphans(token)
    assert log.read_bytes().startswith(before)
    recorded(log)
    if working and number != signal.SIGKILL:
        assert process.returncode == 128 + number
        line = r"autotune: interrupted after \d+ of 100000 trials, best .*\n"
        assert re.fullmatch(line, said(errors))
    elif " on llvm\n" in output:  # it has begun to work
        assert "Traceback" not in errors


def end_at_random_moments(folder, moments, seed):
    life = life_of_a_run(folder)
    rng = random.Random(seed)
    for moment in range(moments):
        number = ENDING[moment % len(ENDING)]
        end_one(folder, number, rng.uniform(0.0, 1.3 * life), number == 2 and rng.random() < 0.5)
    had = len(recorded(folder / "log.jsonl"))
    with start(folder, new_token(), had + 3) as process:
        _, errors = process.communicate(timeout=120)
    assert (process.returncode, said(errors)) == (0, "")
    assert len(recorded(folder / "log.jsonl")) == had + 3


def test_a_run_that_is_ended_at_any_moment_leaves_a_log_to_go_on_from(tmp_path):
    end_at_random_moments(tmp_path, 3, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_that_is_ended_at_any_of_50_moments_leaves_a_log_to_go_on_from(tmp_path):
    end_at_random_moments(tmp_path, 50, seed=2)


# -- children ----------------------------------------------------------------------------------


def kind_of(process):
    """What a process that a run started is there for: it has given itself a name."""
    return process.name().removeprefix("autotune:")


def kill_children_at_random(folder, kills, seed):
    """Kill children of a run while it measures; return how many of each kind."""
    log, token, rng = folder / "log.jsonl", new_token(), random.Random(seed)
    killed = {}
    with start(folder, token, 100_000) as process:
        tuner = psutil.Process(process.pid)
        for _ in range(kills):
            have = lines(log)
            wait_for(lambda: lines(log) >= have + 4, 120.0, "progress")  # noqa: B023
            time.sleep(rng.uniform(0.0, 0.5))
            wait_for(lambda: kill_one(tuner, token, killed, rng))
        wait_for(lambda: lines(log) >= have + 12, 120.0, "going on")
        left = marked(token)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert_no_orphans(token)
    assert process.returncode == 130, errors
    assert len(left) <= 2 * available_cpus() + 8, describe(left)
    records = recorded(log)
    assert [record.error for record in records if record.error is not None] == []
    return killed


def kill_one(tuner, token, killed, rng):
    """Kill a child of the kind that was killed least so far; whether there was one to kill."""
    living = {}
    with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
        for process in marked(token):
            if process.pid != tuner.pid:
                living.setdefault(kind_of(process), []).append(process)
        kind = min(sorted(living), key=lambda kind: killed.get(kind, 0), default=None)
        if kind is not None:
            rng.choice(living[kind]).kill()
            killed[kind] = killed.get(kind, 0) + 1
            return True
    return False


def test_children_that_are_killed_at_any_moment_are_replaced_and_nobody_is_blamed(tmp_path):
    killed = kill_children_at_random(tmp_path, 5, seed=3)
    assert sum(killed.values()) == 5


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_children_of_each_kind_are_killed_at_50_moments_and_nobody_is_blamed(tmp_path):
    killed = kill_children_at_random(tmp_path, 50, seed=4)
    assert set(killed) >= {"superv", "forker", "build", "run"}


def test_a_tracing_child_that_is_killed_costs_nothing(tmp_path):
    log, token = tmp_path / "log.jsonl", new_token()
    seen = []
    with start(tmp_path, token, 8, pause_s=0.1) as process:
        tuner = psutil.Process(process.pid)
        while process.poll() is None:
            look_for_tracers(tuner, seen)
            time.sleep(0.03)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert len(seen) >= 6
    assert_no_orphans(token)
    assert [record.ok for record in recorded(log)] == [True] * 8


def look_for_tracers(tuner, seen):
    """Kill every third tracing child that comes along, or its supervisor, but not the next one."""
    with contextlib.suppress(psutil.NoSuchProcess):
        words = tuner.cmdline()
        for supervisor in tuner.children():
            if supervisor.cmdline() == words and supervisor not in seen:
                seen.append(supervisor)
                if len(seen) % 3 == 0:
                    wait_for(
                        lambda: supervisor.children() or not supervisor.is_running()  # noqa: B023
                    )
                    victims = [supervisor, *supervisor.children()]
                    victims[len(seen) // 3 % len(victims)].kill()
