"""Whole runs on clusters of Ray whose nodes and tuners are killed: run with -m fleet."""

from __future__ import annotations

import collections
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import pytest

ray = pytest.importorskip("ray")

from support.ray_nodes import QUICK, SIZES, Nodes  # noqa: E402

from autotune import te  # noqa: E402
from autotune.system.available_cpus import available_cpus  # noqa: E402
from autotune.tuning import tune_job  # noqa: E402
from records import RecordStore  # noqa: E402

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("default"),  # those of Ray are not ours
]


def command(log, trials, address):
    words = [f"{name}={size}" for name, size in SIZES.items()]
    return [
        sys.executable, "-m", "autotune", "run", "matmul", "--set", *words, "--log", str(log),
        "--trials", str(trials), "--fleet", address, "--tuner", "random", "--seed", "0",
        "--repeats", "2", "--min-repeat-ms", "0.5", "--race", "0", "--json-lines",
    ]  # fmt: skip


def trials_of(log):
    return [record for record in RecordStore(log).load() if record.is_trial]


def check_log(log, wanted):
    """Check that a log is whole, and that no configuration is in it twice."""
    trials = trials_of(log)
    counts = collections.Counter(str(record.config["values"]) for record in trials)
    assert counts.most_common(1)[0][1] == 1
    assert len(trials) >= wanted
    return trials


def test_a_run_on_two_simulated_nodes_writes_one_log_that_best_reads(tmp_path):
    log = tmp_path / "log.jsonl"
    done = subprocess.run(command(log, 16, "local:2"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check_log(log, 16)
    best = [sys.executable, "-m", "autotune", "best", "matmul", "--log", str(log), "--set"]
    words = [f"{name}={size}" for name, size in SIZES.items()]
    found = subprocess.run([*best, *words], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def test_nodes_that_die_every_few_seconds_and_a_tuner_that_is_killed_twice_lose_nothing(
    nodes, tmp_path
):
    log, wanted = tmp_path / "log.jsonl", 200
    rng = random.Random(0)
    killed = 0

    def tuned_until(part):
        """Run until the log has so many trials; a node dies, and one joins, every few seconds."""
        nonlocal killed
        tuner = subprocess.Popen(command(log, wanted, nodes.address), cwd=tmp_path)
        next_kill = time.monotonic() + 6.0
        while tuner.poll() is None and (not log.exists() or len(trials_of(log)) < part):
            time.sleep(0.1)
            if time.monotonic() >= next_kill:
                nodes.kill(rng.choice(nodes.alive))
                nodes.add()
                killed += 1
                next_kill = time.monotonic() + 4.0
        return tuner

    for part in (wanted // 3, 2 * wanted // 3):
        tuner = tuned_until(part)
        assert tuner.poll() is None
        os.kill(tuner.pid, signal.SIGKILL)
        tuner.wait()
        check_log(log, part)
    assert tuned_until(10 * wanted).wait() == 0
    trials = check_log(log, wanted)
    assert killed >= 3
    assert len({record.device["node"] for record in trials}) >= 3


def test_a_run_whose_head_is_gone_ends_and_keeps_its_log(nodes, tmp_path):
    log = tmp_path / "log.jsonl"
    tuner = subprocess.Popen(
        command(log, 10_000, nodes.address), stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    while tuner.poll() is None and (not log.exists() or len(trials_of(log)) < 4):
        time.sleep(0.2)
    nodes.cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
    _, said = tuner.communicate(timeout=180)
    assert tuner.returncode != 0
    assert "cannot be reached" in said or "is left" in said
    check_log(log, 4)


def _is_agent_of_ray(process):
    line = " ".join(process.cmdline())
    return "DashboardAgent" in line or "RuntimeEnvAgent" in line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_no_process_of_its_own_cluster(number, tmp_path):
    psutil = pytest.importorskip("psutil")
    log, temporary = tmp_path / "log.jsonl", tmp_path / "temporary"
    temporary.mkdir()
    where = {"TMPDIR": str(temporary), "RAY_TMPDIR": tempfile.gettempdir()}
    tuner = subprocess.Popen(
        command(log, 10_000, "local:2"),
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **where},
    )
    while tuner.poll() is None and (not log.exists() or len(trials_of(log)) < 4):
        time.sleep(0.2)
    started = psutil.Process(tuner.pid).children(recursive=True)
    assert len(started) > 4
    os.kill(tuner.pid, number)
    _, said = tuner.communicate(timeout=60)
    assert tuner.returncode == (130 if number == signal.SIGINT else -number)
    if number == signal.SIGINT:
        assert "interrupted after" in said.splitlines()[-1]
    _, left = psutil.wait_procs(started, timeout=30)
    # Ray does not end these two of its own when it is killed with its parent.
    ours = [one for one in left if not _is_agent_of_ray(one)]
    for one in left:
        one.kill()
    assert not ours
    assert not [*temporary.iterdir()]
    check_log(log, 4)


def test_a_call_tunes_functions_of_its_own_on_the_shared_runners(nodes, tmp_path):
    def double(n: int):
        A = te.placeholder((n,), name="A")
        return te.compute((n,), lambda i: A[i] * 2, name="B")

    log = tmp_path / "log.jsonl"
    common = {"log": log, "trials": 6, "policy": QUICK, "tuner": "random"}
    workloads = [{"what": "matmul", "args": SIZES, **common}, {"what": double, "args": {"n": 4096},
                                                             **common}]  # fmt: skip
    found = tune_job(workloads, fleet=nodes.address, seed=0, progress=False)
    assert all(tuned.best is not None and tuned.summary.measured >= 2 for tuned in found)
    assert {record.device["node"] for record in trials_of(log)} <= set(nodes.nodes)
    assert not ray.is_initialized()


def _by_kind(log):
    """Return the trials of a log by the kind of device."""
    found = collections.defaultdict(list)
    for record in trials_of(log):
        found[record.device["name"]].append(record)
    return found


def test_each_kind_of_device_has_a_search_of_its_own_at_the_same_time(nodes, tmp_path):
    other = nodes.add_of_other_kind()
    log = tmp_path / "log.jsonl"
    workload = {"what": "matmul", "args": SIZES, "log": log, "trials": 40, "policy": QUICK}
    found = tune_job([{**workload, "devices": "each"}], fleet=nodes.address, seed=0, progress=False)
    assert len(found) == 2
    kinds = _by_kind(log)
    assert {tuned.best.device["name"] for tuned in found} == set(kinds)
    assert [tuned.summary.trials for tuned in found] == [40, 40]
    for name, trials in kinds.items():
        used = {record.device["node"] for record in trials}
        assert used <= ({other} if name.startswith("EPYC-9684X-EPYC") else {"n0", "n1"})
    times = [[record.timestamp for record in trials] for trials in kinds.values()]
    assert max(map(min, times)) < min(map(max, times))  # neither waits for the other's end


def test_a_node_with_another_number_of_threads_has_a_target_of_its_own(nodes, tmp_path):
    nodes.add_of_other_kind("one-word+container")
    log = tmp_path / "log.jsonl"
    workload = {"what": "matmul", "args": SIZES, "log": log, "trials": 6, "policy": QUICK}
    found = tune_job([{**workload, "devices": "each"}], fleet=nodes.address, seed=0, progress=False)
    targets = {tuned.device["name"][:4]: tuned.task.target for tuned in found}
    threads = 3  # of the pretended machine
    own = "llvm" if available_cpus() == threads else f"llvm -threads={threads}"
    assert str(targets["EPYC"]) == own
    assert all(tuned.best is not None for tuned in found)
    assert {tuned.best.target for tuned in found} == {str(target) for target in targets.values()}


def test_a_kind_that_is_killed_ends_its_search_alone(nodes, tmp_path):
    other = nodes.add_of_other_kind()
    log, errors = tmp_path / "log.jsonl", tmp_path / "errors"
    with open(errors, "w") as stream:
        line = [*command(log, 120, nodes.address), "--devices", "each"]
        tuner = subprocess.Popen(line, stderr=stream, stdout=subprocess.DEVNULL, cwd=tmp_path)
        while tuner.poll() is None and (not log.exists() or len(_by_kind(log)) < 2):
            time.sleep(0.1)
        assert tuner.poll() is None, errors.read_text()
        nodes.kill(other)
        assert tuner.wait(300) == 2
    said = errors.read_text().splitlines()[-1]
    assert "1 of 2 workloads could not be measured: matmul on EPYC-9684X-" in said
    assert f"{other}: the node is gone" in said
    counts = sorted(len(trials) for trials in _by_kind(log).values())
    assert counts[0] < 120 <= counts[1]


def test_ctrl_c_ends_the_searches_of_all_kinds(nodes, tmp_path):
    nodes.add_of_other_kind()
    log = tmp_path / "log.jsonl"
    line = [*command(log, 10_000, nodes.address), "--devices", "each"]
    tuner = subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    while tuner.poll() is None and (not log.exists() or len(_by_kind(log)) < 2):
        time.sleep(0.1)
    tuner.send_signal(signal.SIGINT)
    _, said = tuner.communicate(timeout=60)
    assert tuner.returncode == 130
    last = said.splitlines()[-1]
    assert "interrupted after" in last
    assert "trials of 2 workloads" in last
    assert "Traceback" not in said


def test_a_cluster_is_reached_by_its_client_server(tmp_path):
    pytest.importorskip("grpc")
    nodes = Nodes(2, ray_client_server_port=24_001)
    log = tmp_path / "log.jsonl"
    try:
        line = command(log, 8, "ray://127.0.0.1:24001")
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    finally:
        nodes.cluster.shutdown()
    assert done.returncode == 0, done.stderr
    check_log(log, 8)
    assert "Traceback" not in done.stderr
    assert all(text.startswith("{") for text in done.stdout.splitlines())
