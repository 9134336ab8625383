"""Each device times the reference kernels and the default first; those unlike others are left."""

from dataclasses import replace

import pytest
from support.fake_cluster import (
    STEADY,
    FakeCluster,
    all_measured,
    candidate,
    measured,
    measurer_on,
    mixed,
    submit,
    until,
)

from autotune.fleet.peers import outliers
from autotune.fleet.roster import LATE_S
from autotune.measure.result import MeasureError, MeasureErrorNo, MeasureResult

SLOW = [1.3, 1.31, 1.32]
NOISY = [0.6, 0.8, 1.0, 1.2, 1.4]


def cluster_of(*names, **defaults):
    """Return nodes of which some take other times for the default."""

    def prepare(runner):
        runner.default_s = defaults.get(runner.node.name, runner.default_s)

    return FakeCluster(*names, prepare=prepare)


def default_of(measurer):
    return measurer._default.candidate


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records]


# -- who is like the others -----------------------------------------------------------------------


def test_devices_like_their_peers_stay():
    times = {name: replace(STEADY, multiply_s=1e-3 * s) for name, s in zip("abc", (1, 1.05, 0.97),
                                                                          strict=True)}  # fmt: skip
    assert outliers.set_aside(times) == {}
    assert outliers.set_aside({"a": STEADY}) == {}


def test_slow_and_noisy_devices_are_set_aside_and_a_fast_one_sets_nobody_aside():
    times = dict.fromkeys("abcd", STEADY)
    times["b"] = replace(STEADY, multiply_s=1.2e-3)
    times["c"] = replace(STEADY, spread=0.3)
    times["d"] = replace(STEADY, multiply_s=0.5e-3)
    found = outliers.set_aside(times)
    assert set(found) == {"b", "c"}
    assert found["b"].startswith("it multiplies and adds 20% slower than its peers")
    assert found["c"].startswith("its times spread by 30%, 29% more than those of its peers")


def test_the_slower_one_of_two_is_set_aside():
    found = outliers.set_aside({"a": STEADY, "b": replace(STEADY, copy_s=2e-3)})
    assert set(found) == {"b"}


def test_by_each_measure_one_device_stays_whatever_all_of_them_take():
    slow, noisy = replace(STEADY, multiply_s=2e-3), replace(STEADY, spread=0.9)
    found = outliers.set_aside({"slow": slow, "noisy": noisy})
    assert set(found) == {"noisy"}
    each = {
        "a": replace(STEADY, multiply_s=2e-3),
        "b": replace(STEADY, copy_s=2e-3),
        "c": replace(STEADY, spread=0.5),
    }
    assert set(outliers.set_aside(each)) == {"a", "c"}


def test_one_fast_device_of_three_sets_nobody_aside():
    times = {name: replace(STEADY, copy_s=1e-3 * s) for name, s in zip("abc", (0.7, 1.0, 1.0),
                                                                      strict=True)}  # fmt: skip
    assert outliers.set_aside(times) == {}


def test_the_best_of_a_device_s_times_of_the_default_counts():
    fast, slow = (MeasureResult(costs_s=(s,)) for s in (1.0, 1.5))
    assert outliers.set_aside_by_default({"a": [fast], "b": [slow, fast]}) == {}
    assert outliers.set_aside_by_default({"a": [fast], "b": [slow, slow]}) == {
        "b": "the default is 50% slower than on its peers, 10% are allowed"
    }


# -- before a device measures ---------------------------------------------------------------------


@pytest.mark.parametrize("names", ["ab", "abcd"])
def test_each_device_times_the_default_before_it_measures_anything_else(names):
    cluster = cluster_of(*names)
    with measurer_on(cluster) as measurer:
        measured(measurer, 8)
    assert [runner.defaults for runner in cluster.runners] == [1] * len(names)
    assert all_measured(cluster) == list(range(8))


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (SLOW, "the default is 30% slower than on its peers, 10% are allowed"),
        (NOISY, "times of the default spread by 40%, 39% more than those of its peers; "
         "10% are allowed"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("names", ["ab", "abcd"])
def test_a_device_unlike_its_peers_is_set_aside_after_a_second_try(names, times, said, caplog):
    cluster = cluster_of(*names, b=times)
    with measurer_on(cluster) as measurer:
        found = measured(measurer, 8)
        assert measurer.width == len(names) - 1
    assert sorted(found) == list(range(8))
    assert not cluster.of("b").measured
    assert cluster.of("b").defaults == 2
    what = "matmul(m=16, n=16, k=16, dtype=float32)"
    assert warnings_of(caplog) == [f"b measures no more for {what}: it is set aside: {said}"]


def test_a_device_that_was_disturbed_once_measures_after_its_second_try():
    cluster = cluster_of("a", "b", b=SLOW)
    own = cluster.prepare

    def prepare(runner):
        own(runner)
        if runner.node.name == "b":
            time_default = runner.time_default

            def disturbed_once(*args):
                found = time_default(*args)
                runner.default_s = [1.0, 1.01]
                return found

            runner.time_default = disturbed_once

    cluster.prepare = prepare
    with measurer_on(cluster) as measurer:
        measured(measurer, 8)
        assert measurer.width == 2
    assert cluster.of("b").defaults == 2
    assert cluster.of("b").measured


def test_a_device_set_aside_for_one_workload_measures_others():
    cluster = cluster_of("a", "b", b=SLOW)
    with measurer_on(cluster) as measurer:
        measured(measurer, 4)
        cluster.of("b").default_s = [1.0]
        with measurer_on(cluster, fleet=measurer._fleet, m=32) as other:
            measured(other, 4)
            assert (measurer.width, other.width) == (1, 2)


def test_a_workload_that_gets_another_turn_does_not_time_the_default_again():
    cluster = cluster_of("a", "b")
    with measurer_on(cluster) as one, measurer_on(cluster, fleet=one._fleet, m=32) as other:
        measured(one, 4)
        one.submit(candidate(7))
        one.close()
        measured(other, 4)
        measured(one, 4)
    assert [runner.defaults for runner in cluster.runners] == [2, 2]  # one of each workload


def test_a_device_that_was_timing_the_default_when_the_measurer_was_closed_does_so_again():
    cluster = FakeCluster("a", prepare=lambda runner: setattr(runner, "takes_default", 5.0))
    with measurer_on(cluster) as one, measurer_on(cluster, fleet=one._fleet, m=32):
        one.submit(candidate(7))
        one._turn(one._open)
        assert one._open.pending
        one.close()
        measured(one, 2)


def test_devices_of_other_kinds_are_no_peers():
    cluster = cluster_of("a", "x", x=SLOW)
    own = cluster.prepare

    def prepare(runner):
        own(runner)
        mixed(runner)

    cluster.prepare = prepare
    with measurer_on(cluster, "any") as measurer:
        measured(measurer, 4)
        assert measurer.width == 2


def test_simulated_nodes_do_not_time_the_default(caplog):
    cluster = FakeCluster("a", "b", prepare=lambda runner: runner.unlike.update(machine="m"))
    with measurer_on(cluster) as measurer:
        measured(measurer, 4)
    assert [runner.defaults for runner in cluster.runners] == [0, 0]


# -- later ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("late", "stays"), [(SLOW, "a"), ([0.5, 0.51], "late")])
def test_of_two_devices_the_slower_one_is_set_aside_also_if_one_joins_late(late, stays):
    cluster = cluster_of("a", late=late)
    with measurer_on(cluster) as measurer:
        measured(measurer, 3)
        cluster.join("late")
        cluster.now += 10.0
        found = {}
        submit(measurer, range(3, 20))
        until(measurer, 17, found)
        assert [device.name for device in measurer._roster.ready] == [stays]
    assert sorted(found) == list(range(3, 20))


def test_a_slow_device_that_joins_late_is_set_aside_by_the_reference_kernels(caplog):
    def prepare(runner):
        if runner.node.name == "late":
            runner.reference = replace(STEADY, copy_s=2e-3)

    cluster = FakeCluster("a", prepare=prepare)
    with measurer_on(cluster) as measurer:
        measured(measurer, 3)
        cluster.join("late")
        cluster.now += 10.0
        measured(measurer, 8)
        assert measurer.width == 1
    assert "late measures no more: it is set aside: it copies 100% slower" in caplog.text
    assert not cluster.of("late").measured


def test_what_a_device_is_at_when_a_faster_one_joins_is_measured_there():
    def prepare(runner):
        if runner.node.name == "late":
            runner.reference = replace(STEADY, multiply_s=0.5e-3)

    cluster = FakeCluster("a", prepare=prepare)
    with measurer_on(cluster) as measurer:
        measured(measurer, 3)
        cluster.join("late")
        cluster.now += 10.0
        found = {}
        submit(measurer, range(3, 12))
        until(measurer, 9, found)
        assert [device.name for device in measurer._roster.ready] == ["late"]
    assert {found[index].device["node"] for index in range(6, 12)} == {"late"}


def test_a_runner_that_is_started_anew_times_both_anew(caplog):
    cluster = cluster_of("a", "b")
    with measurer_on(cluster) as measurer:
        measured(measurer, 4)
        cluster.prepare = lambda runner: setattr(runner, "default_s", SLOW)
        cluster.kill("b", node=False)
        measured(measurer, 8)
        assert [device.name for device in measurer._roster.ready] == ["a"]
    assert cluster.of("b").defaults == 2
    assert not cluster.of("b").measured


def test_a_device_that_takes_long_for_the_default_is_not_waited_for():
    def prepare(runner):
        runner.takes_default = None if runner.node.name == "b" else 1.0

    cluster = FakeCluster("a", "b", prepare=prepare)
    with measurer_on(cluster) as measurer:
        begin = cluster.now
        measured(measurer, 4)
        assert cluster.now - begin < LATE_S + 10.0
    assert all_measured(cluster) == list(range(4))


# -- the default as a candidate -------------------------------------------------------------------


def test_the_default_is_a_trial_that_is_not_measured_again():
    cluster = cluster_of("a", "b", a=SLOW)
    with measurer_on(cluster) as measurer:
        result = measurer.run(default_of(measurer))
        assert measurer.run(default_of(measurer)).costs_s == result.costs_s
    assert result.costs_s == (1.0, 1.01, 1.02)
    assert result.device["node"] == "b"
    assert all_measured(cluster) == []


def _fails(runner):
    error = MeasureError(MeasureErrorNo.RUNTIME_DEVICE, "run", "it crashed")
    runner.time_default = lambda *_: (MeasureResult(error=error), 0.5)


def test_a_device_on_which_only_there_the_default_fails_is_set_aside(caplog):
    cluster = FakeCluster("a", "b", prepare=lambda r: _fails(r) if r.node.name == "b" else None)
    with measurer_on(cluster) as measurer:
        measured(measurer, 4)
        assert measurer.width == 1
    assert "the default fails there (RUNTIME_DEVICE: it crashed)" in caplog.text


def test_a_default_that_fails_everywhere_sets_nobody_aside():
    cluster = FakeCluster("a", "b", prepare=_fails)
    with measurer_on(cluster) as measurer:
        assert measurer.run(default_of(measurer)).error.message == "it crashed"
        measured(measurer, 4)
        assert measurer.width == 2


def test_a_default_that_loses_its_runner_again_and_again_is_timed_no_more():
    cluster = FakeCluster("a", "b")
    with measurer_on(cluster) as measurer:
        cluster.poison = {default_of(measurer).config.index}
        found = measured(measurer, 4)
        error = measurer.run(default_of(measurer)).error
        assert measurer.width == 2
    assert all(result.ok for result in found.values())
    assert "runners were lost while they ran it" in error.message
