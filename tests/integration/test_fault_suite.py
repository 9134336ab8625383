"""Every fault in every place: it costs its own candidate, is labelled rightly, and leaves nothing.

Whole runs of the command line are watched from outside: processes, files, memory, records.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.command_line import QUICK
from support.footprint import (
    GRACE_S,
    assert_no_orphans,
    environment,
    new_token,
    patience,
    wait_for,
    watching,
)
from support.logged import trials_in

from autotune.errors import AutotuneError
from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.result import MeasureErrorNo as No
from autotune.measure.result import MeasureInput
from autotune.task.task import Task

TEMPLATES = Path(__file__).parent / "faulty_templates" / "storm.py"
TIMEOUT_S = 2.0

BUILD = f"{No.COMPILE_HOST} build the process "
RUN = f"{No.RUNTIME_DEVICE} run the process "
REFUSED = f"{No.INSTANTIATION_ERROR} instantiate (template: )?"
WRONG = f"{No.WRONG_ANSWER} check "
SLOW_BUILD = f"{No.BUILD_TIMEOUT} build building took longer than 2 s"
SLOW_RUN = f"{No.RUN_TIMEOUT} run running took longer than 2 s"
CLOSED = "(closed its pipes|exited with code 1)"

PYTHON_FAULTS = (
    *("segfault", "abort", "loop", "sleep", "exit", "leave", "terabyte", "grow", "fill", "talk"),
    *("close_streams", "close_all", "fork", "daemonise", "spawn", "threads", "wander"),
    *("kill_group", "terminate_group", "kill_parent"),
)

#: Code, stage and message of every fault; "ok" where nothing that the template did hinders it.
LABELS = {
    "segfault": f"{BUILD}was killed by SIGSEGV while building",
    "abort": f"{BUILD}was killed by SIGABRT while building",
    "loop": SLOW_BUILD,
    "sleep": SLOW_BUILD,
    "exit": f"{REFUSED}SystemExit: 0",
    "leave": f"{BUILD}exited with code 0 while building",
    "terabyte": f"{REFUSED}MemoryError",
    "grow": f"{REFUSED}MemoryError",
    "fill": f"{REFUSED}MemoryError|{SLOW_BUILD}",  # as fast as the memory is
    "talk": "ok",
    "close_streams": "ok",
    "close_all": f"{BUILD}{CLOSED} while building",
    "fork": "ok",
    "daemonise": "ok",
    "spawn": "ok",
    "threads": "ok",
    "wander": "ok",
    "kill_group": f"{BUILD}was killed by SIGKILL while building",
    "terminate_group": f"{BUILD}was killed by SIGTERM while building",
    "kill_parent": f"{BUILD}was killed by SIGKILL while building",
    "wrong": f"{WRONG}256 of 256 elements of B are wrong",
    "wrong_once": rf"{WRONG}1 of 256 .* first at \[37\]",
    "nan": f"{WRONG}256 of 256 elements of B are wrong.*nan",
    "endless": SLOW_RUN,
    "huge": f"{No.RUNTIME_DEVICE} run .*memory",
    "far_read": f"{RUN}was killed by SIGSEGV while running",
    "kernel_abort": f"{RUN}was killed by SIGABRT while running",
    "kernel_leave": f"{RUN}exited with code 0 while running",
    "kernel_exit": f"{RUN}exited with code 0 while running",
    "kernel_fork": "ok",
    "kernel_close": f"{RUN}{CLOSED} while running",
    "kernel_beyond": f"{WRONG}it wrote outside",
    "kernel_before": f"{WRONG}it wrote outside",
    "kernel_far_write": f"{RUN}was killed by SIGSEGV while running",
}


def tune(folder, template, trials, **settings):
    """Run the command line on a template of `TEMPLATES`; (exit code, output, records, watch).

    Fails if anything is left when it has ended.
    """
    token = new_token()
    log = folder / "log.jsonl"
    words = [f"--set={name}={value}" for name, value in settings.items()]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "autotune", "run", f"{TEMPLATES}:{template}", *words),
            *("--trials", str(trials), "--timeout", f"{TIMEOUT_S:g}", "--tuner", "random"),
            *("--log", str(log), "--seed", "0", *QUICK),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(token, folder),
    )
    with process, watching(process.pid, token) as watch:
        output, _ = process.communicate()
    assert_no_orphans(token)
    wait_for(lambda: not watch.left(), GRACE_S, "the end of all zombies")
    assert not [name for name in watch.shared if os.path.exists(name)]
    assert list((folder / "tmp").iterdir()) == []
    return process.returncode, output, trials_in(log), watch


def label(record):
    """Return code, stage and message of a record as one text."""
    if record.error is None:
        return "ok"
    return " ".join(record.error[name] for name in ("code", "stage", "message"))


def wrongly_labelled(records):
    """Return the labels that records should not have, by fault."""
    labels = [(record.config["values"]["fault"], label(record)) for record in records]
    return {
        fault: found
        for fault, found in labels
        if not re.match(f"({LABELS.get(fault, 'ok')})", found)
    }


def storm(folder, faults, good, steps=1):
    """Tune a space of good and faulty candidates; return what was seen of the run."""
    trials = (len(faults) + good) * steps
    code, output, records, watch = tune(
        folder, "storm", trials, faults=",".join(faults), good=good, steps=steps
    )
    assert code == 0, output
    assert len({record.index for record in records}) == len(records) == trials
    assert wrongly_labelled(records) == {}
    assert f"{trials} trials" in output.splitlines()[-1]
    return watch


def flat(series, tolerance):
    """Whether the last quarter of a series is no higher than the second, but for a tolerance."""
    values = [value for _, value in series]
    quarter = len(values) // 4
    return max(values[3 * quarter :]) <= max(values[quarter : 2 * quarter]) + tolerance


#: Those that `test_measure_faults` has, or that are like another one: for the slow tests.
LEFT_OUT_OF_RUNS = {
    *("fill", "loop", "sleep", "endless", "segfault", "exit", "wrong", "grow", "spawn"),
    *("close_streams", "terminate_group", "kernel_exit"),
}


def test_each_fault_costs_its_own_candidate_among_good_ones_and_nothing_else(tmp_path):
    faults = [fault for fault in LABELS if fault not in LEFT_OUT_OF_RUNS]
    watch = storm(tmp_path, faults, good=len(faults) // 3)
    check_flat(watch)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_faults_among_many_good_ones_several_times(tmp_path):
    check_flat(storm(tmp_path, list(LABELS), good=7 * len(LABELS) // 3, steps=3))


def test_faults_while_the_tuning_process_traces_are_met_by_a_child_first(tmp_path):
    faults = [f for f in PYTHON_FAULTS if f == "exit" or f not in LEFT_OUT_OF_RUNS]
    code, output, records, _ = tune(
        tmp_path, "tracing", len(faults) + 2, faults=",".join(faults), good=3
    )
    assert code == 0, output
    assert f"1 of {len(faults) + 3} refused: SystemExit: 0" in re.sub(r"\s+", " ", output)
    measured = {record.config["values"]["fault"] for record in records}
    assert measured == {"good0", "good1", "good2", *faults} - {"exit"}
    assert wrongly_labelled(records) == {}


def refused(fault):
    """What is said of a workload whose reference has a fault; None if it can be measured."""
    args = {"fault": fault}
    template = f"{TEMPLATES}:misled"
    space = Task.from_reference(template, args).space
    with LocalMeasurer(template, args, "llvm", builders=1, left_s=lambda: 0.0) as measurer:
        try:
            ((_, result),) = measurer.measure([MeasureInput(space.config(0))])
        except AutotuneError as error:
            return str(error)
    assert result.ok
    return None


REFERENCES = {
    "segfault": "killed by SIGSEGV",
    "leave": "exited with code 0",
    "close_all": CLOSED,
    "daemonise": None,
    "grow": "MemoryError",
    "abort": "killed by SIGABRT",
    "loop": "took longer than 10 s",
    "sleep": "took longer than 10 s",
    "exit": "SystemExit: 0",
    "terabyte": "MemoryError",
    "talk": None,
    "close_streams": None,
    "fork": None,
    "spawn": None,
    "threads": None,
    "wander": None,
    "kill_group": "killed by SIGKILL.*, twice",
    "terminate_group": "killed by SIGTERM.*, twice",
    "kill_parent": "killed by SIGKILL.*, twice",
}

#: Those that hang, and those that are like another one, are tried by the slow tests.
LEFT_OUT = {
    *("loop", "sleep"),
    *("abort", "terabyte", "talk", "close_streams", "spawn", "wander", "terminate_group"),
    *("leave", "threads"),
}


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, marks=[pytest.mark.slow] if fault in LEFT_OUT else [])
        for fault in REFERENCES
    ],
)
def test_a_fault_in_the_reference_is_told_in_one_line_or_does_no_harm(
    fault, tmp_path, monkeypatch
):
    token = new_token()
    for name, value in environment(token, tmp_path).items():
        monkeypatch.setenv(name, value)
    said, expected = refused(fault), REFERENCES[fault]
    if expected is None:
        assert said is None
    else:
        assert re.search(expected, said)
        assert "\n" not in said
    assert_no_orphans(token)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_a_candidate_changes_of_its_builder_is_not_found_by_the_next_one(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path))
    args = {"faults": "wander,terminate_group", "good": 1, "steps": 1}
    template = f"{TEMPLATES}:storm"
    space = Task.from_reference(template, args).space
    inputs = [MeasureInput(space.config(index)) for index in (1, 2, 0)]
    with LocalMeasurer(template, args, "llvm", builders=1) as measurer:
        _, (_, killed), (_, good) = measurer.measure(inputs)
    assert re.search("killed by SIGTERM while building", killed.error.message)
    assert good.ok


def check_flat(watch):
    """Fail if memory or open files grew, or the children were not reaped in time."""
    assert flat(watch.rss, 32 << 20), watch.rss[:: len(watch.rss) // 20]
    assert flat(watch.fds, 4), watch.fds[:: len(watch.fds) // 20]
    lasted = {pid: last - first for pid, (first, last) in watch.zombies.items()}
    assert max(lasted.values(), default=0.0) <= patience(GRACE_S), lasted


@pytest.mark.slow
@pytest.mark.parametrize("fault", LABELS)
def test_each_fault_alone(tmp_path, fault):
    storm(tmp_path, [fault], 2)
