"""Fleets on clusters of Ray with 2 and 4 nodes, all on this machine: run with -m fleet."""

from __future__ import annotations

import collections
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ray = pytest.importorskip("ray")

from support.fake_cluster import until  # noqa: E402

from autotune import te  # noqa: E402
from autotune.errors import AutotuneError, UsageError  # noqa: E402
from autotune.fleet import ray_cluster  # noqa: E402
from autotune.fleet.address import Address  # noqa: E402
from autotune.fleet.builds.builder_task import UNFIT  # noqa: E402
from autotune.fleet.fleet import Fleet  # noqa: E402
from autotune.fleet.fleet_measurer import FleetMeasurer  # noqa: E402
from autotune.fleet.package_digest import PACKAGES  # noqa: E402
from autotune.fleet.peers.reference_kernel import time_reference  # noqa: E402
from autotune.measure.result import MeasureInput  # noqa: E402
from autotune.measure.timing_policy import TimingPolicy  # noqa: E402
from autotune.system.available_cpus import available_cpus  # noqa: E402
from autotune.task.task import Task  # noqa: E402
from autotune.tuning import tune_job  # noqa: E402
from records import RecordStore  # noqa: E402

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("default"),  # those of Ray are not ours
]

QUICK = TimingPolicy(repeats=2, min_repeat_ms=0.5)
SIZES = {"m": 64, "n": 64, "k": 64}
PRETENDED = Path(__file__).parents[1] / "pretended"


class Nodes:
    """A cluster whose nodes a test adds and kills; its head runs nothing else."""

    def __init__(self, count, **head):
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False, "node_name": "head", **head}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = {}
        for _ in range(count):
            self.add()

    def add(self, **more):
        name = f"n{len(self.nodes)}"
        self.nodes[name] = self.cluster.add_node(num_cpus=1, node_name=name, **more)
        return name

    def add_of_other_kind(self, machine="one-word"):
        """Add a node whose processor has another name, or is a machine of `tests/pretended`."""
        path = filter(None, [str(PRETENDED), os.environ.get("PYTHONPATH")])
        variables = {"PYTHONPATH": os.pathsep.join(path), "PRETENDED_MACHINE": machine}
        return self.add(env_vars={**variables, "OMP_THREAD_LIMIT": "8"})

    def kill(self, name):
        self.cluster.remove_node(self.nodes[name], allow_graceful=False)

    @property
    def alive(self):
        return [name for name, node in self.nodes.items() if node in self.cluster.worker_nodes]

    @property
    def address(self):
        return str(self.cluster.address)


@pytest.fixture
def nodes(request):
    made = Nodes(getattr(request, "param", 2))
    yield made
    ray.shutdown()
    made.cluster.shutdown()


@pytest.fixture(scope="module")
def task():
    return Task.from_reference("matmul", SIZES)


def measurer_of(nodes, task, **more):
    return FleetMeasurer(Fleet(Address.parse(nodes.address)), task, QUICK, timeout_s=10.0, **more)


def candidates(task, count):
    space = task.space
    near = space.by_distance(task.default_index, 6)
    legal = (index for index in near if not task.refusal(index))
    return [MeasureInput(space.config(index)) for index, _ in zip(legal, range(count))]  # noqa: B905


@pytest.mark.parametrize("nodes", [2, 4], indirect=True)
def test_candidates_are_measured_on_all_nodes_each_once(nodes, task):
    wanted = candidates(task, 24)
    with measurer_of(nodes, task, compares_on="all") as measurer:
        assert measurer.width == len(nodes.nodes)
        for each in wanted:
            measurer.submit(each)
        found = until(measurer, len(wanted))
        configs = [each.config for each in wanted[:2]]
        compared = measurer.compare(configs, 0.1, 0, fresh=True, check=True)
        on_all = measurer.compare_on_devices(configs, 0.1, 1, fresh=True, check=False)
    assert set(found) == {each.config.index for each in wanted}
    assert sum(result.ok for result in found.values()) > len(wanted) / 2
    assert {result.device["node"] for result in found.values()} == set(nodes.nodes)
    assert all(set(costs) == {config.index for config in configs} for costs in (compared, *on_all))
    at = [result.device["node"] for costs in on_all for result in costs.values()]
    assert sorted(at) == sorted(2 * [*nodes.nodes])


def test_the_peak_and_one_candidate_at_a_time_are_measured_by_a_local_cluster(task):
    with FleetMeasurer(Fleet(Address.parse("local")), task, QUICK) as measurer:
        assert measurer.width == 1
        assert measurer.ceiling().peak_flops["float32"] > 1e8
        assert all(result.ok for _, result in measurer.measure(candidates(task, 1)))
    assert not ray.is_initialized()


def test_a_node_that_is_killed_loses_nothing_and_one_that_joins_measures(nodes, task):
    more = candidates(task, 300)
    wanted, more = more[:40], more[40:]
    with measurer_of(nodes, task) as measurer:
        for each in wanted:
            measurer.submit(each)
        found = until(measurer, 6)
        nodes.kill("n1")
        late = nodes.add()
        until(measurer, len(wanted), found)
        assert set(found) == {each.config.index for each in wanted}
        # All of them may have ended before the new node is there.
        while late not in {result.device["node"] for result in found.values()}:
            assert more, "the new node measures nothing"
            for each in more[:4]:
                measurer.submit(each)
            until(measurer, len(found) + len(more[:4]), found)
            more = more[4:]


def test_a_runner_that_dies_is_started_anew(nodes, task, caplog):
    more = candidates(task, 300)
    wanted, more = more[:12], more[12:]
    with measurer_of(nodes, task) as measurer:
        for each in wanted:
            measurer.submit(each)
        found = until(measurer, 2)
        device = measurer._roster.ready[0]
        ray.kill(device.runner)
        until(measurer, len(wanted), found)
        while measurer.width < 2:  # the other one may have measured all of them before it is up
            assert more, "the new runner does not start"
            measurer.submit(more.pop())
            until(measurer, 1)
    assert set(found) == {each.config.index for each in wanted}
    assert "its runner is started anew" in caplog.text


@pytest.mark.parametrize("nodes", [1], indirect=True)
def test_nothing_is_built_on_a_node_while_a_candidate_is_timed_there(nodes, task):
    wanted = candidates(task, 16)
    with measurer_of(nodes, task) as measurer:
        for each in wanted:
            measurer.submit(each)
        found = until(measurer, len(wanted)).values()
    builds = [result.build_span for result in found if result.build_span]
    runs = [result.run_span for result in found if result.run_span]
    assert len(runs) > len(wanted) / 2
    overlapping = [
        (build, run) for build in builds for run in runs if build[0] < run[1] and run[0] < build[1]
    ]
    assert overlapping == []


def test_a_process_that_builds_and_is_killed_costs_no_candidate(nodes, task):
    psutil = pytest.importorskip("psutil")
    wanted = candidates(task, 60)
    with measurer_of(nodes, task) as measurer:
        for each in wanted:
            measurer.submit(each)
        found = until(measurer, 2)
        ours = [each for each in psutil.Process().children(recursive=True) if _task(each)]
        killed = []
        while not killed and len(found) < len(wanted):
            killed = [each for each in ours if "build" in _task(each)]
            for process in killed:
                process.kill()
            if not killed:
                until(measurer, len(found) + 1, found)
        until(measurer, len(wanted), found)
        assert measurer.width == 2
    assert killed
    assert set(found) == {each.config.index for each in wanted}
    assert not any("lost again" in str(result.error) for result in found.values())


def _task(process):
    """Return what a process of Ray calls itself, which is the task that it is at; "" of others."""
    import psutil

    with contextlib.suppress(psutil.Error):
        words = process.cmdline()
        return words[0] if words and words[0].startswith("ray::") else ""
    return ""


class _Unreadable:
    def __reduce__(self):
        return int, ("no number",)


def test_a_node_that_cannot_read_a_request_says_so_and_is_avoided(nodes, task):
    with measurer_of(nodes, task) as measurer:
        cluster = measurer._fleet.cluster

        def built(avoided):
            ticket, _ = cluster.build(_Unreadable(), avoided)
            while not cluster.wait([ticket], 1.0):
                pass
            return cluster.result(ticket)

        first = built([])
        other = built([first.node])
        ids = {node.id for node in cluster.nodes() if node.cpus}
    assert (first.status, other.status) == (UNFIT, UNFIT)
    assert first.why.startswith("ValueError: invalid literal")
    assert {first.node, other.node} == ids


def test_a_package_that_no_node_has_is_sent_there(nodes, task, monkeypatch):
    def sent(runner):
        folders = os.environ["PYTHONPATH"].split(os.pathsep)
        ours = [folder for folder in folders if "py_modules_files" in folder]
        return [name for folder in ours for name in os.listdir(folder)]

    monkeypatch.setattr(ray_cluster, "_installed", lambda: dict.fromkeys(nodes.nodes))
    with measurer_of(nodes, task) as measurer:
        device = measurer._roster.ready[0]
        found = ray.get(device.runner.__ray_call__.remote(sent))
        assert measurer.run(candidates(task, 1)[0]).ok
    assert set(PACKAGES) <= set(found)


def test_a_package_that_only_some_nodes_have_is_a_mistake_that_names_the_others(
    nodes, task, monkeypatch
):
    monkeypatch.setattr(ray_cluster, "_installed", lambda: {"n0": "0.1.0", "n1": None})
    with pytest.raises(UsageError, match="kernel-autotune is not installed on n1"):
        measurer_of(nodes, task)
    assert not ray.is_initialized()


@pytest.mark.parametrize("address", ["auto", "127.0.0.1:1", "ray://127.0.0.1:1"])
def test_a_cluster_that_is_not_there_is_a_mistake_of_one_line(address, task, monkeypatch):
    monkeypatch.setenv("RAY_gcs_server_request_timeout_seconds", "2")
    with pytest.raises(UsageError, match="no cluster of Ray can be used there") as error:
        FleetMeasurer(Fleet(Address.parse(address)), task, QUICK)
    assert "\n" not in str(error.value)


def test_reference_kernels_take_some_time_on_this_machine():
    found = time_reference("llvm")
    assert 0.0 < found.multiply_s < 1.0
    assert 0.0 < found.copy_s < 1.0
    assert found.spread >= 0.0


# -- whole runs ---------------------------------------------------------------------------------


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


def test_all_nodes_gone_is_an_error_that_names_them(nodes, task, monkeypatch):
    from autotune.fleet import roster

    monkeypatch.setattr(roster, "GRACE_S", 1.0)
    with measurer_of(nodes, task) as measurer:
        many = candidates(task, 300)  # they do not end before the nodes do
        for each in many:
            measurer.submit(each)
        until(measurer, 1)
        nodes.kill("n0")
        nodes.kill("n1")
        with pytest.raises(AutotuneError, match=r"no device of the fleet is left: n\d"):
            until(measurer, len(many) - 1)


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
