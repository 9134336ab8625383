"""Builds are anybody's: they go where a CPU is free, and a node that is lost loses only its own."""

import pytest
from support.fake_cluster import (
    FakeCluster,
    all_measured,
    candidate,
    measured,
    measurer_on,
    mixed,
    submit,
    until,
)

from autotune.errors import AutotuneError, UsageError
from autotune.fleet.builds import builds
from autotune.fleet.builds.builder_task import BUILT, REFUSED, UNFIT, BuildAnswer
from autotune.fleet.cluster import ClusterNode
from autotune.measure.pool.worker_pool import WorkerDiedError, WorkerTimeoutError
from autotune.measure.pool.worker_slot import Response
from autotune.measure.result import MeasureErrorNo

ENDED = (0.0, 0.1)


def builds_only(cluster, name):
    """Let a cluster have a node on which no runner starts."""
    cluster.alive.append(ClusterNode(f"id-{name}", name, cpus=2))
    start = cluster.start_runner

    def start_runner(node, *how):
        runner = start(node, *how)
        if node.name == name:
            cluster.lost[runner] = "no runner starts here"
        return runner

    cluster.start_runner = start_runner


def default_index(measurer):
    return measurer._default.candidate.config.index


# -- where, and how often -------------------------------------------------------------------------


def test_each_configuration_is_built_once_and_the_default_with_them():
    cluster = FakeCluster("a", "b")
    with measurer_on(cluster) as measurer:
        measured(measurer, 8)
        wanted = sorted([*range(8), default_index(measurer)])
    assert sorted(cluster.built) == wanted


def test_devices_measure_while_others_build():
    cluster = FakeCluster("a")
    cluster.build_s = 1.0
    with measurer_on(cluster) as measurer:
        begin = cluster.now
        measured(measurer, 12)
        # The default and the candidates are built at the same time; then one after the other runs.
        assert cluster.now - begin == pytest.approx(1.0 + 12.0, abs=0.6)


def test_what_is_built_first_is_measured_first():
    cluster = FakeCluster("a")
    begun, build = [], cluster.build

    def slow_for_0(request, avoided):
        begun.append(request.config["index"])
        cluster.build_s = 5.0 if begun[-1] == 0 else 0.0
        return build(request, avoided)

    cluster.build = slow_for_0
    with measurer_on(cluster) as measurer:
        measured(measurer, 4)
    assert cluster.of("a").measured == [1, 2, 3, 0]


def test_code_for_two_kinds_of_devices_is_built_for_each():
    cluster = FakeCluster("a", "x", prepare=mixed)
    for_whom, build = {}, cluster.build

    def noted(request, avoided):
        for_whom[request.config["index"]] = request.device.made_for["llvm"][0]
        return build(request, avoided)

    cluster.build = noted
    with measurer_on(cluster, "any") as measurer:
        measured(measurer, 8)
    for name, kind in (("a", "Zen 4"), ("x", "Xeon")):
        assert cluster.of(name).measured
        assert all(for_whom[index] == kind for index in cluster.of(name).measured)


def test_code_for_a_kind_of_which_no_device_is_left_is_built_for_the_others():
    cluster = FakeCluster("a", "x", prepare=mixed)
    with measurer_on(cluster, "any") as measurer:
        submit(measurer, range(8))
        found = until(measurer, 3)
        cluster.kill("x")
        until(measurer, 8, found)
    assert sorted(found) == list(range(8))


# -- for comparisons ------------------------------------------------------------------------------


def test_finalists_go_to_the_comparing_device_once_and_are_not_built_again():
    cluster = FakeCluster("a", "b")
    with measurer_on(cluster) as measurer:
        measured(measurer, 4)
        before = len(cluster.built)
        configs = [candidate(index).config for index in (1, 2, 9)]
        for seed in range(2):
            (found,) = measurer.compare(configs, 0.1, seed, fresh=True, check=True)
            assert set(found) == {1, 2, 9}
        assert cluster.built[before:] == [9]
    (runner,) = [runner for runner in cluster.runners if runner.compared]
    assert runner.given == [[1, 2, 9], []]


def test_a_finalist_that_cannot_be_built_any_more_has_failed():
    cluster = FakeCluster("a")
    with measurer_on(cluster) as measurer:
        measured(measurer, 2)
        cluster.ends_of_builds = lambda node, index: answer(WorkerDiedError("exited with code 1"))
        configs = [candidate(index).config for index in (1, 9)]
        (found,) = measurer.compare(configs, 0.1, 0, fresh=True, check=True)
    assert set(found) == {9}
    assert found[9].error.code is MeasureErrorNo.COMPILE_HOST


def test_only_the_code_of_the_fastest_is_kept(monkeypatch):
    monkeypatch.setattr(builds, "KEPT", 3)
    cluster = FakeCluster("a")
    with measurer_on(cluster) as measurer:
        measured(measurer, 8)
        assert measurer.built == {0, 1, 2, default_index(measurer)}


# -- faults ---------------------------------------------------------------------------------------


def answer(outcome):
    return BuildAnswer(BUILT, Response("build", outcome, ENDED))


@pytest.mark.parametrize(
    ("outcome", "code", "said"),
    [
        (WorkerDiedError("was killed"), MeasureErrorNo.COMPILE_HOST, "was killed while building"),
        (WorkerTimeoutError("late"), MeasureErrorNo.BUILD_TIMEOUT, "building took longer than 10"),
    ],
)  # fmt: skip
def test_a_candidate_that_cannot_be_built_is_one_result_and_takes_no_device(outcome, code, said):
    cluster = FakeCluster("a", "b")
    cluster.ends_of_builds = lambda node, index: answer(outcome) if index == 3 else None
    with measurer_on(cluster) as measurer:
        found = measured(measurer, 6)
    error = found[3].error
    assert (error.code, error.stage) == (code, "build")
    assert said in error.message
    assert found[3].device["node"] == "a"  # where it was built
    assert all_measured(cluster) == [0, 1, 2, 4, 5]


def test_a_default_that_cannot_be_built_sets_nobody_aside():
    cluster = FakeCluster("a", "b")
    with measurer_on(cluster) as measurer:
        default = measurer._default.candidate
        died = answer(WorkerDiedError("exited with code 1"))
        cluster.ends_of_builds = (
            lambda node, index: died if index == default.config.index else None
        )
        assert measurer.run(default).error.code is MeasureErrorNo.COMPILE_HOST
        measured(measurer, 4)
        assert measurer.width == 2


def test_a_node_that_vanishes_during_builds_loses_these_alone():
    cluster = FakeCluster("a", "b")
    cluster.build_s = 3.0
    with measurer_on(cluster) as measurer:
        submit(measurer, range(6))
        cluster.now += 2.0
        cluster.kill("a")  # all of them are built there
        found = until(measurer, 6)
    assert sorted(found) == all_measured(cluster) == list(range(6))
    assert len(cluster.built) == 7  # the cluster has begun them anew, we have not


def test_a_build_that_loses_its_process_again_and_again_is_one_labelled_result():
    cluster = FakeCluster("a")
    cluster.ends_of_builds = lambda node, index: "its process was killed" if index == 2 else None
    with measurer_on(cluster) as measurer:
        found = measured(measurer, 4)
        assert measurer.width == 1
    error = found[2].error
    assert (error.code, error.stage) == (MeasureErrorNo.COMPILE_HOST, "build")
    assert "lost again and again: its process was killed" in error.message


def test_code_that_was_lost_with_its_device_is_built_again():
    cluster = FakeCluster("a", "b")
    with measurer_on(cluster) as measurer:
        submit(measurer, range(8))
        found = until(measurer, 2)
        cluster.kill("b")
        until(measurer, 8, found)
    assert sorted(found) == list(range(8))
    assert len(cluster.built) > 9


def test_a_node_that_cannot_build_is_named_once_and_others_do(caplog):
    cluster = FakeCluster("a", "b")
    unfit = BuildAnswer(UNFIT, why="it has numpy 1.0, the tuner has 2.0")
    cluster.ends_of_builds = lambda node, index: unfit if node == "a" else None
    with measurer_on(cluster) as measurer:
        found = measured(measurer, 6)
        assert measurer.width == 2
    assert sorted(found) == list(range(6))
    assert caplog.text.count("a does not build: it has numpy 1.0, the tuner has 2.0") == 1


def test_a_node_that_cannot_build_for_one_kind_of_device_builds_for_the_other(caplog):
    cluster = FakeCluster("a", "x", prepare=mixed)
    build, own = cluster._built, {"a": "Zen 4", "x": "Xeon"}

    def built(request, avoided, at, node):
        """Build C code: for the node's own processor alone."""
        if request.device.made_for["llvm"][0] == own[node.name]:
            return build(request, avoided, at, node)
        return BuildAnswer(UNFIT, why="it has another processor", node=node.id)

    cluster._built = built
    found = {}
    with measurer_on(cluster, "any") as measurer:
        for index in range(16):
            measurer.submit(candidate(index))
            if index % 4 == 3:
                until(measurer, index + 1, found)
    assert sorted(found) == list(range(16))
    assert all(result.ok for result in found.values())
    assert all(cluster.of(name).measured for name in own)
    assert caplog.text.count("a does not build: it has another processor") == 1


def test_without_a_node_that_can_build_the_run_ends_with_the_reasons():
    cluster = FakeCluster("a", "b")
    cluster.ends_of_builds = lambda node, index: BuildAnswer(UNFIT, why="it crashed")
    with (
        measurer_on(cluster) as measurer,
        pytest.raises(AutotuneError, match="no node of the fleet can build: a: it crashed; b: it"),
    ):
        measured(measurer, 2)


def test_a_template_that_is_refused_where_it_is_built_is_a_mistake():
    cluster = FakeCluster("a")
    cluster.ends_of_builds = lambda node, index: BuildAnswer(REFUSED, why="it takes no n")
    refused = pytest.raises(UsageError, match=r"it takes no n \(on a\)")
    with measurer_on(cluster) as measurer, refused:
        measured(measurer, 1)


def test_an_idle_device_builds_by_itself_what_takes_long():
    cluster = FakeCluster("a", "b")
    cluster.build_s = 1e6  # all CPUs are in use
    with measurer_on(cluster) as measurer:
        begin = cluster.now
        found = measured(measurer, 6)
        assert cluster.now - begin < 2 * builds.SLOW_S + 6.0
        configs = [candidate(index).config for index in (1, 2)]
        (rounds,) = measurer.compare(configs, 0.1, 0, fresh=True, check=True)
        assert set(rounds) == {1, 2}
    assert sorted(found) == all_measured(cluster)
    assert sorted(index for runner in cluster.runners for index in runner.built) == list(range(6))
    assert [runner.given for runner in cluster.runners if runner.compared] == [[[]]]


def test_a_busy_device_builds_nothing():
    cluster = FakeCluster("a", prepare=lambda runner: setattr(runner, "takes", 10.0))
    cluster.build_s = 8.0
    with measurer_on(cluster) as measurer:
        measured(measurer, 3)
    assert cluster.of("a").built == [0]  # the first: nothing else was there to do


def test_a_node_without_a_runner_builds():
    cluster = FakeCluster("a")
    builds_only(cluster, "b")
    at = []
    cluster.ends_of_builds = lambda node, index: at.append(node)
    with measurer_on(cluster) as measurer:
        cluster.alive.reverse()
        measured(measurer, 3)
    assert "b" in at
