"""How commands end, as processes: signals, readers that go away, what templates leave running."""

import os
import re
import signal
import subprocess
import sys

import psutil
import pytest
from support.command_line import QUICK, SMALL, environment, run_process
from support.footprint import alive, wait_for
from support.logged import trials_in
from support.odd_templates import LINGERING, LOUD
from support.slow_cases import slow

import autotune
from autotune.cli.main import main
from records.storage.journal import Journal

COMMAND = [sys.executable, "-m", "autotune"]


def test_a_run_that_is_ended_before_anything_was_measured_claims_nothing(tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    words = [*COMMAND, "run", "loud.py:loud", "--set", "n=9", "--timeout", "30"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env=environment(),
    ) as process:  # fmt: skip
        wait_for(lambda: len(psutil.Process(process.pid).children()) >= 2)  # it traces
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (143, "autotune: interrupted\n")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, slow(signal.SIGHUP)])
def test_interrupting_a_run_keeps_what_was_measured(tmp_path, how):
    log = tmp_path / "log.jsonl"
    words = ["run", "matmul", *SMALL, "--trials", "5000", "--log", str(log), "--tuner", "random"]
    with subprocess.Popen(
        [*COMMAND, *words, *QUICK],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    ) as process:  # fmt: skip
        # One more than is asked for below: an interrupt takes a line back that is being synced.
        wait_for(lambda: log.exists() and log.read_bytes().count(b"\n") >= 4)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(how)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 128 + how
    assert re.fullmatch(r"autotune: interrupted after \d+ of 5000 trials, best .*\n", err)
    records = trials_in(log)
    measured = int(re.search(r"after (\d+)", err).group(1))
    assert len(records) == len({r.index for r in records}) == measured >= 3
    wait_for(lambda: not any(alive(child) for child in children))


def test_a_measurement_that_is_logged_but_not_shown_when_the_interrupt_comes_is_counted(
    tmp_path, monkeypatch, capsys
):
    add = Journal.add

    def interrupted(self, record):
        added = add(self, record)
        if len(trials_in(log)) == 3:
            raise KeyboardInterrupt
        return added

    monkeypatch.setattr(Journal, "add", interrupted)
    log = tmp_path / "log.jsonl"
    words = ["run", "matmul", *SMALL, "--trials", "9", "--log", str(log), "--tuner", "random"]
    assert main([*words, *QUICK]) == 130
    assert capsys.readouterr().err.startswith("autotune: interrupted after 3 of 9 trials, best ")


def test_a_run_whose_reader_goes_away_is_finished(tmp_path):
    log = tmp_path / "log.jsonl"
    reader, writer = os.pipe()
    words = ["run", "matmul", *SMALL, "--trials", "3", "--log", str(log), *QUICK]
    with subprocess.Popen(
        [*COMMAND, *words], stdout=writer, stderr=subprocess.PIPE, env=environment()
    ) as process:
        os.close(writer)
        os.close(reader)
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, b"")
    assert len(trials_in(log)) == 3


def test_what_a_template_leaves_running_does_not_hold_up_or_end_a_command(tmp_path):
    (tmp_path / "lingering.py").write_text(LINGERING)
    words = ["show", "lingering.py:lingering", "--set", "n=8", "--space"]
    done = run_process(words, tmp_path)  # for two minutes at most
    assert (done.code, done.err) == (0, "")
    assert "2 configurations, 1 allowed" in done.out
    assert "Mute: (it cannot be printed: ValueError)" in done.out


def test_the_module_and_the_version(tmp_path):
    done = run_process(["--version"], tmp_path)
    assert (done.code, done.out) == (0, f"autotune {autotune.__version__}\n")
    assert run_process(["run", "--help"], tmp_path).code == 0
