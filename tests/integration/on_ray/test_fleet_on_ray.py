"""Measurers on clusters of Ray with 1 to 4 nodes, all on this machine: run with -m fleet."""

from __future__ import annotations

import contextlib
import os

import pytest

ray = pytest.importorskip("ray")

from support.fake_cluster import until  # noqa: E402
from support.ray_nodes import QUICK, SIZES  # noqa: E402

from autotune.errors import AutotuneError, UsageError  # noqa: E402
from autotune.fleet import ray_cluster  # noqa: E402
from autotune.fleet.address import Address  # noqa: E402
from autotune.fleet.builds.builder_task import UNFIT  # noqa: E402
from autotune.fleet.fleet import Fleet  # noqa: E402
from autotune.fleet.fleet_measurer import FleetMeasurer  # noqa: E402
from autotune.fleet.package_digest import PACKAGES  # noqa: E402
from autotune.fleet.peers.reference_kernel import time_reference  # noqa: E402
from autotune.measure.result import MeasureInput  # noqa: E402
from autotune.task.task import Task  # noqa: E402

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("default"),  # those of Ray are not ours
]


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
        on_all = measurer.compare(configs, 0.1, 1, fresh=True, check=False)
    assert set(found) == {each.config.index for each in wanted}
    assert sum(result.ok for result in found.values()) > len(wanted) / 2
    assert {result.device["node"] for result in found.values()} == set(nodes.nodes)
    assert all(set(costs) == {config.index for config in configs} for costs in (*compared, *on_all))
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
