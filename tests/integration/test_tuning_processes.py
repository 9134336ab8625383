"""The tuning loop in processes that are killed, or that share a log; with real measurements."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.footprint import alive, wait_for
from support.logged import trials_in

PLAIN = f"{Path(__file__).parent / 'faulty_templates' / 'faulty.py'}:plain"

RUN = """
import sys
from autotune.cli.terminal.signals import redeliver_interrupts
from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.timing_policy import TimingPolicy
from autotune.task.task import Task
from autotune.tuner.factory import make_tuner
from autotune.tuner.run.tuning_loop import tune
from records import RecordStore

redeliver_interrupts()
plain, log = sys.argv[1:]
policy = TimingPolicy(repeats=3, min_repeat_ms=10)
task = Task.from_reference(plain, {})
with LocalMeasurer(plain, {}, "llvm", policy) as measurer:
    tuner = make_tuner("random", task.space, 1)
    print(tune(task, measurer, tuner, RecordStore(log), 24, seed=1).measured)
"""


def start(store):
    words = [sys.executable, "-c", RUN, PLAIN, str(store.path)]
    return subprocess.Popen(words, start_new_session=True, stdout=-1, stderr=-1, text=True)


def wait_for_lines(store, count):
    path = store.path
    wait_for(lambda: path.exists() and path.read_bytes().count(b"\n") >= count)


@pytest.mark.slow  # `test_signal_suite` has the same of command lines, at any moment
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill-9", "ctrl-c"])
def test_a_run_killed_in_the_middle_is_completed_by_the_same_command(
    store, how, tmp_path, monkeypatch
):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    with start(store) as first:
        wait_for_lines(store, 1)
        processes = psutil.Process(first.pid).children(recursive=True)
        assert {p.name() for p in processes} >= {"autotune:build", "autotune:run"}
        wait_for_lines(store, 6)  # the last line may be taken back: it is not synced yet
        os.killpg(first.pid, how)
        first.communicate()
    wait_for(lambda: not any(map(alive, processes)))
    kept = len(trials_in(store.path))
    assert 5 <= kept < 24
    with start(store) as second:
        out, err = second.communicate()
    assert (out, second.returncode) == (f"{24 - kept}\n", 0), err
    records = trials_in(store.path)
    assert len(records) == len({record.index for record in records}) == 24
    assert all(record.ok for record in records)


@pytest.mark.slow  # `test_shared_log` has the same of two command lines
def test_two_runs_at_once_on_one_log_repeat_nothing(store, tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    with start(store) as first, start(store) as second:
        said = [process.communicate() for process in (first, second)]
        assert (first.returncode, second.returncode) == (0, 0), said
    records = trials_in(store.path)
    assert 24 <= len(records) <= 25
    assert len({record.index for record in records}) == len(records)
    assert sum(int(out) for out, _ in said) == len(records)
