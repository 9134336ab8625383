"""Devices of a fleet that fail, hang or vanish: nothing is lost, and they are named."""

import pytest
from support.fake_cluster import (
    FakeCluster,
    all_measured,
    candidate,
    failing,
    measured,
    measurer_on,
    submit,
    until,
)

from autotune.errors import AutotuneError, UsageError
from autotune.fleet.fleet_runner import FAILED, REFUSED
from autotune.fleet.fleet_scheduler import MAX_LOSSES
from autotune.measure.result import MeasureErrorNo


@pytest.mark.parametrize("node", [True, False], ids=["a node vanishes", "a runner dies"])
def test_what_is_in_flight_at_a_loss_is_measured_elsewhere_and_nothing_twice(node):
    cluster = FakeCluster("a", "b")
    with measurer_on(cluster) as measurer:
        submit(measurer, range(12))
        found = until(measurer, 4)
        before = all_measured(cluster)
        cluster.kill("b", node)
        until(measurer, 12, found)
        assert sorted(found) == all_measured(cluster) == list(range(12))
        assert set(before) <= set(found)
        assert measurer.width == (1 if node else 2)


def test_a_runner_that_hangs_is_replaced_and_its_candidate_measured_elsewhere(caplog):
    def prepare(runner):
        runner.takes = None if runner is first.get("b", runner) and runner.node.name == "b" else 1.0
        first.setdefault(runner.node.name, runner)

    first = {}
    cluster = FakeCluster("a", "b", prepare=prepare)
    with measurer_on(cluster) as measurer:
        found = measured(measurer, 8)
        assert sorted(found) == list(range(8))
    assert "b: the runner did not answer within" in caplog.text


def test_nodes_that_vanish_and_join_all_the_time_lose_nothing():
    cluster = FakeCluster("n0", "n1")
    with measurer_on(cluster) as measurer:
        submit(measurer, range(200))
        found = {}
        for round_ in range(2, 30):
            until(measurer, min(200, 7 * round_), found)
            cluster.join(f"n{round_}")
            cluster.kill(f"n{round_ - 2}")
        until(measurer, 200, found)
    assert all(result.ok for result in found.values())


def test_a_device_that_fails_in_a_row_is_retired_and_named(caplog):
    cluster = FakeCluster("a", "b", prepare=failing("b", "measure"))
    with measurer_on(cluster) as measurer:
        measurer.run(candidate(99))
        found = measured(measurer, 12)
        assert measurer.width == 1
    assert sorted(found) == list(range(12))
    assert "b measures no more: it has failed 4 times in a row: no worker starts" in caplog.text


def test_failures_that_are_not_in_a_row_retire_nobody():
    cluster = FakeCluster("a", "b")
    with measurer_on(cluster) as measurer:
        found = {}
        submit(measurer, range(40))
        for wanted in range(5, 40, 5):
            until(measurer, wanted, found)
            cluster.kill("b", node=False)
        until(measurer, 40, found)
        assert measurer.width == 2


def test_without_any_device_the_run_ends_with_the_reasons():
    cluster = FakeCluster("a", "b")
    with measurer_on(cluster) as measurer:
        submit(measurer, range(8))
        measurer.next_result()
        cluster.kill("a")
        cluster.kill("b")
        with pytest.raises(AutotuneError, match="no device of the fleet is left: a: the node is"):
            until(measurer, 8, {})


def test_nodes_that_vanish_while_runners_start_are_waited_for_while_others_join():
    cluster = FakeCluster("a")
    start, cluster.start_runner = cluster.start_runner, lambda *how: started(*how)

    def started(node, *how):
        runner = start(node, *how)
        if node.name == "a":
            cluster.kill("a")
            cluster.join("b")
        return runner

    with measurer_on(cluster) as measurer:
        assert measured(measurer, 2)[0].device["node"] == "b"


def test_without_any_device_a_node_that_joins_soon_goes_on():
    cluster = FakeCluster("a")
    with measurer_on(cluster) as measurer:
        submit(measurer, range(4))
        measurer.next_result()
        cluster.kill("a")
        cluster.join("b")
        until(measurer, 3)


@pytest.mark.parametrize("names", ["a", "abcd"])
def test_a_candidate_that_loses_its_runner_again_and_again_has_failed(names):
    cluster = FakeCluster(*names)
    cluster.poison = {3}
    with measurer_on(cluster) as measurer:
        found = measured(measurer, 8)
        measurer.run(candidate(9))
        assert measurer.width == len(names)
    error = found.pop(3).error
    assert error.code is MeasureErrorNo.RUNTIME_DEVICE
    assert f"{MAX_LOSSES} runners were lost while they ran it" in error.message
    assert all(result.ok for result in found.values())


def test_a_workload_that_no_device_can_measure_ends_with_their_words():
    def prepare(runner):
        runner.ends["measure"] = (FAILED, "template 'matmul' cannot be measured: it crashed")

    with (
        measurer_on(FakeCluster("a", "b", "c", prepare=prepare)) as measurer,
        pytest.raises(AutotuneError, match="'matmul' cannot be measured: it crashed"),
    ):
        measured(measurer, 6)


def test_a_template_that_is_refused_is_a_mistake_at_once():
    def prepare(runner):
        runner.ends["measure"] = (REFUSED, "the reference takes 3 arrays")

    with (
        measurer_on(FakeCluster("a", prepare=prepare)) as measurer,
        pytest.raises(UsageError, match=r"the reference takes 3 arrays \(on a\)"),
    ):
        measured(measurer, 1)
