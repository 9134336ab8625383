"""Many devices measure for one search: none is idle, no candidate comes twice, faults are named."""

import logging

import pytest
from support.fake_cluster import (
    FakeCluster,
    all_measured,
    candidate,
    failing,
    fleet_on,
    measured,
    measurer_on,
    mixed,
    submit,
    until,
)

from autotune.errors import AutotuneError, UsageError
from autotune.fleet import fleet as fleet_module
from autotune.fleet.builds.builder_task import BuildAnswer
from autotune.fleet.cluster import RunnerLostError
from autotune.fleet.fleet_runner import FAILED
from autotune.measure.measurer import SupportsComparison, SupportsParallelRuns
from autotune.measure.result import MeasureResult

# -- all devices at a time ------------------------------------------------------------------------


def test_it_has_the_interfaces_of_parallel_runs_and_of_comparisons():
    with measurer_on(FakeCluster("a")) as measurer:
        assert isinstance(measurer, SupportsParallelRuns)
        assert isinstance(measurer, SupportsComparison)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_devices_measure_at_the_same_time_and_each_candidate_once(count):
    cluster = FakeCluster(*"abcd"[:count])
    with measurer_on(cluster) as measurer:
        assert measurer.width == count
        begin = cluster.now
        found = measured(measurer, 12)
        assert sorted(found) == all_measured(cluster) == list(range(12))
        assert cluster.now - begin == pytest.approx(12 / count)


def test_a_fast_device_measures_more_than_a_slow_one():
    def prepare(runner):
        runner.takes = 1.0 if runner.node.name == "fast" else 3.0

    cluster = FakeCluster("fast", "slow", prepare=prepare)
    with measurer_on(cluster) as measurer:
        measured(measurer, 12)
    assert len(cluster.of("fast").measured) > 2 * len(cluster.of("slow").measured) - 1


def test_a_result_names_its_node_and_its_device():
    cluster = FakeCluster("a", "b")
    with measurer_on(cluster) as measurer:
        found = measured(measurer, 4)
        assert {result.device["node"] for result in found.values()} == {"a", "b"}
        assert all(result.device["name"] == "Zen 4" for result in found.values())
        assert measurer.device == cluster.of("a").device


def test_a_runner_claims_all_processors_of_its_node_or_one_gpu():
    cluster = FakeCluster("a", gpus=2)
    with measurer_on(cluster):
        assert [(r.cpus, r.gpus, r.claims) for r in cluster.runners] == [(0, 0, 2)]
    cluster = FakeCluster("a", gpus=2)
    devices = _entered(cluster).devices(on_gpu=True)
    assert [device.name for device in devices] == ["a:gpu0", "a:gpu1"]
    # Of two CPUs one is left to build.
    assert [(r.cpus, r.gpus, r.claims) for r in cluster.runners] == [(0, 1, 0), (0, 1, 0)]


def _entered(cluster):
    fleet = fleet_on(cluster)
    fleet.enter()
    return fleet


def test_any_session_may_run_one_candidate_at_a_time():
    cluster = FakeCluster("a", "b")
    with measurer_on(cluster) as measurer:
        measurer.submit(candidate(7))
        assert measurer.run(candidate(3)).costs_s == (4.0,)
        assert measurer.next_result()[0].config.index == 7
        found = [each.config.index for each, _ in measurer.measure(map(candidate, range(3)))]
    assert found == [0, 1, 2]


def test_results_of_equal_kernels_are_known_to_each_device_once():
    cluster = FakeCluster("a", "b")
    with measurer_on(cluster) as measurer:
        measurer.remember(MeasureResult(costs_s=(1.0,), code_hash="logged"))
        measured(measurer, 8)
    for name in "ab":
        known = cluster.of(name).known
        assert len(known) == len(set(known))
        assert "logged" in known
    assert set(cluster.of("a").known) & {f"{index:x}" for index in cluster.of("b").measured}


def test_waiting_for_nothing_is_an_error():
    with measurer_on(FakeCluster("a")) as measurer, pytest.raises(AutotuneError, match="nothing"):
        measurer.next_result()


def test_what_no_device_was_given_is_taken_back():
    cluster = FakeCluster("a")
    with measurer_on(cluster) as measurer:
        measurer.run(candidate(9))
        submit(measurer, range(5))
        assert measurer.next_result()[0].config.index == 0
        assert [each.config.index for each in measurer.withdraw()] == [2, 3, 4]
        assert measurer.next_result()[0].config.index == 1
        assert all_measured(cluster) == [0, 1, 9]


# -- which devices --------------------------------------------------------------------------------


def test_only_the_kind_of_most_devices_measures_and_the_others_are_told(caplog):
    cluster = FakeCluster("x", "a", "b", prepare=mixed)
    with measurer_on(cluster) as measurer:
        measured(measurer, 6)
        assert measurer.device["name"] == "Zen 4"
    assert not cluster.of("x").measured
    assert "2 devices of Zen 4, 8 threads measure; not 1 of Xeon" in caplog.text


@pytest.mark.parametrize(("wanted", "nodes"), [("xeon", {"x"}), ("any", {"x", "a"})])
def test_devices_are_chosen_by_name_or_all_are(wanted, nodes):
    cluster = FakeCluster("x", "a", prepare=mixed)
    with measurer_on(cluster, wanted) as measurer:
        found = measured(measurer, 4)
    assert {result.device["node"] for result in found.values()} == nodes
    assert all(r.device["name"] == ("Xeon" if r.device["node"] == "x" else "Zen 4")
               for r in found.values())  # fmt: skip


def test_times_of_one_kind_are_not_known_to_another():
    cluster = FakeCluster("x", "a", prepare=mixed)
    with measurer_on(cluster, "any") as measurer:
        measured(measurer, 8)
    others = {f"{index:x}" for index in cluster.of("x").measured}
    assert not set(cluster.of("a").known) & others


def test_a_name_that_no_device_has_is_a_mistake_with_the_names_there_are():
    with pytest.raises(UsageError, match="no device of the fleet is called 'H100': it has Zen 4"):
        measurer_on(FakeCluster("a"), "H100")


def test_a_cluster_without_such_devices_is_a_mistake():
    with pytest.raises(UsageError, match="fleet auto: it has no node with a CPU"):
        measurer_on(FakeCluster())


def _unlike(name, value):
    def prepare(runner):
        if runner.node.name == "b":
            runner.unlike = {name: value}

    return prepare


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("versions", {"python": "3.8.1"}, "b is left out: it has Python 3.8, here is"),
        ("digest", "other", "b is left out: its files of autotune"),
        ("made_for", {"threads": 4096}, "give the target -threads=4096"),
        ("made_for", {"vector_bytes": 4096}, "give the target -mcpu=NAME"),
    ],
)
def test_a_node_that_differs_is_left_out_by_name(name, value, said, caplog):
    cluster = FakeCluster("a", "b", prepare=_unlike(name, value))
    with measurer_on(cluster) as measurer:
        measured(measurer, 4)
    assert not cluster.of("b").measured
    assert said in caplog.text


def test_if_all_nodes_differ_the_mistake_says_in_what():
    cluster = FakeCluster("b", prepare=_unlike("digest", "other"))
    with pytest.raises(UsageError, match=r"b: its files of autotune .* are others"):
        measurer_on(cluster)
    assert cluster.ended


def test_a_slow_device_is_set_aside_with_one_line(caplog):
    from dataclasses import replace

    def prepare(runner):
        if runner.node.name == "c":
            runner.reference = replace(runner.reference, copy_s=1.3e-3)

    cluster = FakeCluster("a", "b", "c", prepare=prepare)
    with measurer_on(cluster) as measurer:
        assert measurer.width == 2
        measured(measurer, 6)
    assert not cluster.of("c").measured
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "c measures no more: it is set aside: it copies 30% slower than its peers, 10% are allowed"
    ]


def test_nodes_that_share_processors_are_not_held_against_each_other(caplog):
    cluster = FakeCluster("a", "b", prepare=lambda runner: runner.unlike.update(machine="m"))
    with measurer_on(cluster) as measurer:
        assert measurer.width == 2
    assert "nodes of the fleet share processors" in caplog.text


def test_a_node_that_joins_later_measures_too():
    cluster = FakeCluster("a")
    with measurer_on(cluster) as measurer:
        measured(measurer, 2)
        cluster.join("late")
        cluster.now += 10.0
        measured(measurer, 20)
        assert measurer.width == 2
    assert cluster.of("late").measured


# -- on one device --------------------------------------------------------------------------------


def test_finalists_are_compared_on_one_device():
    cluster = FakeCluster("a", "b")
    with measurer_on(cluster) as measurer:
        measured(measurer, 4)
        configs = [candidate(index).config for index in (1, 2)]
        for seed in range(3):
            (found,) = measurer.compare(configs, 0.1, seed, fresh=True, check=False)
        assert {index: result.costs_s for index, result in found.items()} == {1: (2.0,), 2: (3.0,)}
        assert {result.device["node"] for result in found.values()} <= {"a", "b"}
        assert measurer.starting_s == 0.0
        assert {1, 2} <= set(measurer.built)
    assert sorted(runner.compared for runner in cluster.runners) == [0, 3]


def test_finalists_are_compared_on_all_devices_if_that_is_asked():
    cluster = FakeCluster("a", "b", "c")
    with measurer_on(cluster, compares_on="all") as measurer:
        measured(measurer, 4)
        configs = [candidate(index).config for index in (1, 2)]
        found = measurer.compare(configs, 0.1, 0, fresh=True, check=True)
        assert {1, 2} <= set(measurer.built)
        cluster.kill("b")
        fewer = measurer.compare(configs, 0.1, 1, fresh=True, check=True)
    assert {result.device["node"] for costs in found for result in costs.values()} == set("abc")
    assert all(set(costs) == {1, 2} for costs in found)
    assert {costs[1].device["node"] for costs in fewer} == {"a", "c"}


def test_finalists_are_compared_on_one_device_unless_all_are_asked_for():
    with measurer_on(FakeCluster("a", "b")) as measurer:
        measured(measurer, 4)
        configs = [candidate(index).config for index in (1, 2)]
        assert len(measurer.compare(configs, 0.1, 0, fresh=True, check=True)) == 1


def test_a_comparison_that_fails_on_all_devices_is_an_error():
    cluster = FakeCluster("a", "b")
    with measurer_on(cluster, compares_on="all") as measurer:
        measured(measurer, 4)
        for runner in cluster.runners:
            runner.ends["compare"] = (FAILED, "no worker starts")
        with pytest.raises(AutotuneError, match="no worker starts"):
            measurer.compare([candidate(1).config], 0.1, 0, fresh=True, check=True)


def test_a_round_is_lost_with_its_device_and_the_next_is_on_another():
    cluster = FakeCluster("a", "b")
    with measurer_on(cluster) as measurer:
        measured(measurer, 4)
        configs = [candidate(1).config]
        assert measurer.compare(configs, 0.1, 0, fresh=True, check=False)
        (at,) = [runner for runner in cluster.runners if runner.compared]
        cluster.kill(at.node.name)
        assert measurer.compare(configs, 0.1, 1, fresh=True, check=False) == []
        assert measurer.compare(configs, 0.1, 2, fresh=True, check=False)
    assert sorted(runner.compared for runner in cluster.runners) == [1, 1]


def test_the_peak_is_that_of_a_device_that_answers():
    cluster = FakeCluster("a", "b", prepare=failing("a", "ceiling"))
    with measurer_on(cluster) as measurer:
        measurer.submit(candidate(0))
        assert measurer.ceiling().copy_bytes_s == 1e9
        assert measurer.next_result()[1].ok


# -- several workloads of a run -------------------------------------------------------------------


def test_workloads_of_a_run_share_the_runners_and_the_last_one_disconnects():
    cluster = FakeCluster("a", "b")
    fleet = fleet_on(cluster)
    with measurer_on(cluster, fleet=fleet) as one:
        with measurer_on(cluster, fleet=fleet, m=32) as other:
            measured(one, 4)
            measured(other, 4)
            assert len(cluster.runners) == 2
        assert not cluster.ended
        measured(one, 2)
    assert all(len(runner.closed) == 1 for runner in cluster.runners)
    assert cluster.ended


def test_a_closed_measurer_can_be_used_again():
    cluster = FakeCluster("a")
    measurer = measurer_on(cluster)
    measured(measurer, 2)
    measurer.close()
    measurer.close()
    assert cluster.ended
    assert measurer.run(candidate(5)).ok
    measurer.close()


def test_a_loss_that_two_workloads_see_counts_once(monkeypatch):
    monkeypatch.setattr(fleet_module, "RETIRED_AFTER", 2)
    cluster = FakeCluster("a", "b")
    fleet = fleet_on(cluster)
    with (
        measurer_on(cluster, fleet=fleet) as one,
        measurer_on(cluster, fleet=fleet, m=32) as other,
    ):
        for index in range(4):
            one.submit(candidate(index))
            other.submit(candidate(index))
        cluster.kill("b", node=False)
        until(one, 4)
        until(other, 4)
        assert one.width == other.width == 2


def test_warnings_of_runners_are_told_once_with_the_name_of_a_node(caplog):
    cluster = FakeCluster("a", "b")
    answer = type(cluster).result

    def result(ticket):
        found = answer(cluster, ticket)
        if isinstance(found, BuildAnswer):
            return found
        return *found[:2], ["its answers are not checked"]

    cluster.result = result
    with caplog.at_level(logging.WARNING), measurer_on(cluster) as measurer:
        measured(measurer, 4)
    assert caplog.text.count("its answers are not checked") == 1


def test_a_lost_cluster_ends_the_run_and_the_measurer_still_closes():
    cluster = FakeCluster("a")
    measurer = measurer_on(cluster)

    def result(ticket):
        raise RunnerLostError("gone", node_died=True)

    measurer.submit(candidate(0))
    cluster.result = result
    cluster.alive = []
    with pytest.raises(AutotuneError, match="no device of the fleet is left"):
        measurer.next_result()
    measurer.close()
    assert cluster.ended
