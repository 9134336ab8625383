"""A search for each kind of device: which kinds there are, their targets, and what ends one."""

import pytest
from support.fake_cluster import (
    XEON,
    ZEN,
    FakeCluster,
    candidate,
    fleet_on,
    measured,
    measurer_on,
    mixed,
    submit,
)

from autotune import tune, tune_job
from autotune.cli.main import main
from autotune.errors import AutotuneError, UsageError
from autotune.fleet import kinds
from autotune.fleet.cluster import ClusterLostError
from autotune.fleet.fleet import Fleet
from autotune.fleet.fleet_runner import made_for
from autotune.fleet.roster import GRACE_S, kinds_of, target_for
from autotune.measure.result import MeasureResult
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime import environment
from autotune.target import Target
from autotune.task.task import Task
from autotune.tuner.run.events import End
from autotune.tuner.run.parallel.each_kind import each_kind
from autotune.tuner.run.tuning_job import TuningRequest
from autotune.tuning_options import check_options
from records import RecordStore

SIZES = {"m": 16, "n": 16, "k": 16}


def _task(**args):
    return Task.from_reference("matmul", {**SIZES, **args})


# -- which kinds there are ------------------------------------------------------------------------


def test_the_kinds_of_a_cluster_are_found_those_of_most_devices_first():
    cluster = FakeCluster("x", "a", "b", prepare=mixed)
    found = kinds_of(fleet_on(cluster), Target("llvm"))
    assert [(device["name"], str(target)) for device, target in found] == [
        ("Zen 4", "llvm"),
        ("Xeon", "llvm"),
    ]
    assert cluster.ended  # nobody else has entered it


def test_all_devices_time_the_reference_kernels_once_for_all_searches():
    cluster = FakeCluster("x", "a", "b", prepare=mixed)
    with fleet_on(cluster) as fleet:
        (zen, _), (xeon, _) = kinds_of(fleet, Target("llvm"))
        for runner in cluster.runners:
            runner.ends["time_reference"] = ("failed", "asked again")
        with measurer_on(cluster, zen, fleet) as first, measurer_on(cluster, xeon, fleet) as other:
            assert (first.width, other.width) == (2, 1)
    assert len(cluster.runners) == 3


def test_a_workload_that_gets_its_turn_again_does_not_wait_for_busy_devices_of_another_kind():
    cluster = FakeCluster("x", "a", prepare=mixed)
    with fleet_on(cluster) as fleet:
        busy, own = measurer_on(cluster, dict(ZEN), fleet), measurer_on(cluster, dict(XEON), fleet)
        cluster.of("a").takes = 1000.0
        submit(busy, range(2))
        own.close()
        begin = cluster.now
        measured(own, 4)  # which opens it again
        assert cluster.now - begin == 4.0
        own.close()
        busy.close()


def test_a_measurer_of_a_kind_leaves_all_others_alone_without_a_line(caplog):
    cluster = FakeCluster("x", "a", "b", prepare=mixed)
    with measurer_on(cluster, dict(XEON)) as measurer:
        found = measured(measurer, 4)
        assert {result.device["node"] for result in found.values()} == {"x"}
        assert measurer.device == XEON
    assert caplog.text == ""


def test_a_kind_that_is_not_there_is_a_mistake():
    with pytest.raises(UsageError, match="no device of the fleet is a Xeon, 8 threads: it has Zen"):
        kinds.choose({"a": ZEN}, XEON)


@pytest.mark.parametrize(
    ("devices", "names"),
    [
        ([ZEN, XEON], ["Zen 4", "Xeon"]),
        ([ZEN, {**ZEN, "threads": 16}], ["Zen 4, 8 threads", "Zen 4, 16 threads"]),
        (
            [{**ZEN, "max_mhz": 5000}, {**ZEN, "max_mhz": 4000}],
            ["Zen 4, 8 threads, max_mhz 5000", "Zen 4, 8 threads, max_mhz 4000"],
        ),
        ([ZEN, dict(ZEN)], ["Zen 4, 8 threads", "Zen 4, 8 threads, no. 2"]),
        ([{"kind": "gpu"}], ["an unknown device"]),
    ],
)
def test_the_name_of_a_kind_says_what_sets_it_apart(devices, names):
    assert kinds.kind_names(devices) == names


# -- the target of each kind ----------------------------------------------------------------------


def _facts(**unlike):
    here = made_for(Target("llvm"))
    return {"made_for": {**here, **unlike}, "mcpu": None}


def test_a_node_like_this_machine_has_the_target_as_it_is():
    target = Target("llvm")
    assert target_for(target, _facts()) == target


def test_threads_and_processor_of_another_node_are_named_in_its_target():
    here = made_for(Target("llvm"))
    threads = here["threads"] + 1
    assert str(target_for(Target("llvm"), _facts(threads=threads))) == f"llvm -threads={threads}"
    wide, name = (64, "znver4") if here["vector_bytes"] != 64 else (32, "znver3")
    facts = {**_facts(vector_bytes=wide), "mcpu": name}
    assert str(target_for(Target("llvm"), facts)) == f"llvm -mcpu={name}"


@pytest.mark.parametrize("mcpu", [None, "x86-64", "a name that LLVM never had"])
def test_a_processor_whose_vectors_no_name_tells_has_no_target(mcpu):
    facts = {**_facts(vector_bytes=4096), "mcpu": mcpu}
    assert target_for(Target("llvm"), facts) is None


def test_what_the_user_has_named_is_not_changed():
    here = made_for(Target("llvm"))["threads"]
    assert target_for(Target(f"llvm -threads={here}"), _facts(threads=here + 1)) is None


def test_gpus_need_no_options():
    assert target_for(Target("cuda"), {"made_for": {}, "mcpu": None}) == Target("cuda")


def test_nodes_with_other_numbers_of_threads_are_a_kind_with_a_target_of_its_own(tmp_path, caplog):
    more = made_for(Target("llvm"))["threads"] + 1

    def prepare(runner):
        if runner.node.name == "x":
            runner.device = {**ZEN, "threads": more}
            runner.unlike = {"made_for": {**made_for(Target("llvm")), "threads": more}}

    cluster = FakeCluster("x", "a", "b", prepare=prepare)
    fleet = fleet_on(cluster)
    request = TuningRequest(_task(), RecordStore(tmp_path / "log"), fleet=fleet, devices="each")
    with each_kind([request]) as found:
        (_, here), (_, other) = found
    assert (str(here.task.target), str(other.task.target)) == ("llvm", f"llvm -threads={more}")
    assert other.label == f"matmul on Zen 4, {more} threads"
    assert here.task is request.task
    assert other.task.workload == request.task.workload
    assert "left out" not in caplog.text


# -- requests -------------------------------------------------------------------------------------


def _labels(cluster, tmp_path, *workloads):
    store = RecordStore(tmp_path / "log")
    fleet = fleet_on(cluster)
    requests = [
        TuningRequest(_task(m=size), store, label=label, fleet=fleet, devices=devices)
        for size, label, devices in workloads
    ]
    with each_kind(requests) as found:
        assert not cluster.ended
    assert cluster.ended
    return [(number, request.label) for number, request in found]


def test_each_workload_has_a_request_for_each_kind_whose_label_names_it(tmp_path):
    cluster = FakeCluster("x", "a", prepare=mixed)
    assert _labels(cluster, tmp_path, (16, "small", "each"), (32, "large", "xeon")) == [
        (0, "small on Xeon"),
        (0, "small on Zen 4"),
        (1, "large"),
    ]


def test_the_only_kind_needs_no_name(tmp_path):
    assert _labels(FakeCluster("a", "b"), tmp_path, (16, "", "each")) == [(0, "")]


def test_calls_with_one_result_do_not_take_each_kind():
    with pytest.raises(UsageError, match=r"tune: there is one result .* call tune_job"):
        tune("matmul", SIZES, fleet="auto", devices="each")
    with pytest.raises(UsageError, match=r"autotuned: there is one result .* call tune_job"):
        check_options({"fleet": "auto", "devices": "each"}, "autotuned")


def test_kinds_do_not_count_the_records_of_each_other(monkeypatch):
    workload = {"what": "matmul", "args": SIZES, "devices": "each", "any_device": True}
    told = r"tune_job: each kind .* records from any device cannot"
    with fleet_on(FakeCluster("x", "a")) as fleet:
        monkeypatch.setattr(Fleet, "parse", lambda text: fleet)  # Ray need not be installed
        with pytest.raises(UsageError, match=told):
            tune_job([workload], fleet="auto")


# -- faults ---------------------------------------------------------------------------------------


def test_a_kind_whose_nodes_vanish_ends_with_its_own_reasons():
    cluster = FakeCluster("x", "a", "b", prepare=mixed)
    with fleet_on(cluster) as fleet:
        other = measurer_on(cluster, dict(ZEN), fleet)
        with measurer_on(cluster, dict(XEON), fleet) as measurer:
            measurer.submit(candidate(0))
            cluster.kill("x")
            cluster.kill("b")
            begin = cluster.now
            with pytest.raises(AutotuneError, match="no device of the fleet is left: x: the node"):
                measurer.next_result()
            assert cluster.now - begin < GRACE_S + 10.0
        assert sorted(measured(other, 3)) == [0, 1, 2]
        other.close()


def test_a_node_of_another_kind_that_joins_is_asked_once(tmp_path):
    cluster = FakeCluster("x", prepare=mixed)
    with measurer_on(cluster, dict(XEON)) as measurer:
        cluster.join("a")
        measurer._fleet._looked_at.clear()
        measured(measurer, 4)
        assert measurer.width == 1
        assert [runner.measured for runner in cluster.runners][1:] == [[]]


# -- whole runs -----------------------------------------------------------------------------------


@pytest.fixture
def cluster(monkeypatch):
    """A cluster that `fleet="auto"` connects to: two nodes of one kind, one of another."""
    made = FakeCluster("x", "a", "b", prepare=_timed)
    monkeypatch.setattr(Fleet, "parse", classmethod(lambda cls, text: fleet_on(made, text)))
    return made


def _timed(runner):
    """Let the Xeon be slower, and other configurations fast there."""
    mixed(runner)
    runner.cost = (lambda index: 2.0 + index) if runner.device is XEON else (lambda i: 3000.0 - i)
    runner.takes = runner.takes_default = 2.0 if runner.device is XEON else 1.0
    whole = runner.measure

    def measure(spec, each, *more):
        whole(spec, each, *more)
        cost_s = 1e-6 * abs(runner.cost(each.config.index % 1000))
        return MeasureResult(costs_s=(cost_s,), code_hash=None), 0.5

    runner.measure = measure


def _job(tmp_path, **more):
    common = {"log": tmp_path / "log.jsonl", "trials": 12, "devices": "each", "tuner": "random"}
    return [{"what": "matmul", "args": SIZES, "policy": TimingPolicy(), **common, **more}]


def test_a_job_has_a_winner_for_each_kind_in_one_log(tmp_path, cluster):
    zen, xeon = tune_job(_job(tmp_path), fleet="auto", seed=0, progress=False)
    assert (zen.device["name"], xeon.device["name"]) == ("Zen 4", "Xeon")
    assert (zen.best.device["name"], xeon.best.device["name"]) == ("Zen 4", "Xeon")
    assert (zen.summary.measured, xeon.summary.measured) == (12, 12)
    trials = [record for record in RecordStore(tmp_path / "log.jsonl").load() if record.is_trial]
    nodes = {record.device["node"] for record in trials if record.device["name"] == "Zen 4"}
    assert (len(trials), nodes) == (24, {"a", "b"})
    assert set(zen.records["device"]) == {"Zen 4"}
    assert set(xeon.records["device"]) == {"Xeon"}


def test_records_have_the_versions_that_are_on_the_nodes(tmp_path, cluster):
    versions = {**environment.versions(), "nvrtc": "12.6"}
    start = cluster.prepare

    def prepare(runner):
        start(runner)
        runner.unlike = {"versions": versions}

    cluster.prepare = prepare
    tune_job(_job(tmp_path), fleet="auto", seed=0, progress=False)
    records = RecordStore(tmp_path / "log.jsonl").load()
    assert all(record.versions == versions for record in records)


def test_kinds_measure_at_the_same_time(tmp_path, cluster):
    tune_job(_job(tmp_path, trials=20), fleet="auto", seed=0, progress=False)
    # 20 candidates take the Xeon 40 seconds, and the two others 10: in turns that would be 50.
    assert cluster.now < 46.0


def test_a_kind_that_vanishes_leaves_the_search_of_the_other(tmp_path, cluster):
    def kill(event):
        if getattr(event, "trial", 0) == 4 and event.job.endswith("Xeon"):
            cluster.kill("x")

    zen, xeon = tune_job(
        _job(tmp_path, trials=40), fleet="auto", seed=0, progress=False, callbacks=[kill]
    )
    assert (zen.summary.ended, zen.summary.trials) == (End.TRIALS, 40)
    assert xeon.summary.ended is End.FAILED
    assert xeon.summary.why == "no device of the fleet is left: x: the node is gone"
    assert xeon.best.device["name"] == "Xeon"  # of what it had measured


def test_a_cluster_that_is_gone_ends_all_searches_with_a_line(tmp_path, cluster):
    wait, gone = cluster.wait, "the cluster cannot be reached any more"

    def lost(tickets, seconds):
        if cluster.now > 8.0:
            raise ClusterLostError(gone)
        return wait(tickets, seconds)

    cluster.wait = lost
    found = tune_job(_job(tmp_path, trials=40), fleet="auto", seed=0, progress=False)
    assert [(tuned.summary.ended, tuned.summary.why) for tuned in found] == [(End.FAILED, gone)] * 2
    assert all(tuned.summary.trials > 2 for tuned in found)


def test_the_same_command_goes_on_with_each_kind(tmp_path, cluster, caplog):
    tune_job(_job(tmp_path), fleet="auto", seed=0, progress=False)
    found = tune_job(_job(tmp_path, trials=16), fleet="auto", seed=0, progress=False)
    assert [(tuned.summary.trials, tuned.summary.measured) for tuned in found] == [(16, 4)] * 2
    assert "other devices" not in caplog.text


def _run(log, trials):
    sizes = [f"{name}={size}" for name, size in SIZES.items()]
    words = ["--fleet", "auto", "--devices", "each", "--tuner", "random", "--trials", str(trials)]
    return main(["run", "matmul", "--set", *sizes, "--log", str(log), "--seed", "0", *words])


def test_the_table_at_the_end_names_the_kind_of_each_winner(tmp_path, cluster, capsys):
    assert _run(tmp_path / "log.jsonl", 8) == 0
    lines = capsys.readouterr().out.splitlines()
    head = next(i for i, line in enumerate(lines) if line.split()[:2] == ["default", "best"])
    rows = [line.split("  ")[0].strip() for line in lines[head + 1 : head + 3]]
    assert rows == ["matmul on Zen 4", "matmul on Xeon"]
    assert "best of 2 of 2 workloads" in lines[-1]


def test_a_run_of_which_a_kind_has_vanished_ends_with_its_name(tmp_path, cluster, capsys):
    answer = type(cluster).call

    def call(runner, method, *args, **more):
        if method == "measure" and runner.node.name == "x" and len(runner.measured) == 3:
            cluster.kill("x")
        return answer(cluster, runner, method, *args, **more)

    cluster.call = call
    log = tmp_path / "log.jsonl"
    assert _run(log, 20) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "1 of 2 workloads could not be measured: matmul on Xeon: no device of the" in said
    kinds_of_log = [record.device["name"] for record in RecordStore(log).load() if record.is_trial]
    assert kinds_of_log.count("Zen 4") == 20
