"""Parts of a fleet: addresses, peers, what crosses to a node, what runs there, the options."""

import contextlib
import importlib.util
import logging
import pickle
from dataclasses import replace
from typing import ClassVar

import pytest
from support.fake_cluster import candidate

from autotune.cli.options.job_files import run_options
from autotune.errors import AutotuneError, UsageError
from autotune.fleet import fleet_runner
from autotune.fleet.address import Address
from autotune.fleet.builds.builder_task import BUILT, BuildAnswer
from autotune.fleet.fleet import Fleet
from autotune.fleet.fleet_runner import DONE, FAILED, REFUSED, FleetRunner
from autotune.fleet.peers.reference_kernel import ROUNDS, timed_here
from autotune.fleet.workload_spec import WorkloadSpec
from autotune.measure.pool.messages import Message
from autotune.measure.pool.worker_slot import Response
from autotune.measure.result import MeasureResult
from autotune.measure.timing_policy import TimingPolicy
from autotune.task.task import Task
from autotune.tuner.run import tuning_job
from autotune.tuner.run.limits import Deadline
from autotune.tuning import tune, tune_job

MATMUL = {"m": 16, "n": 16, "k": 16}


@pytest.fixture
def has_ray(monkeypatch):
    """Say whether Ray is installed."""
    find, answer = importlib.util.find_spec, {"ray": True}

    def find_spec(name, *more):
        return answer["ray"] or None if name == "ray" else find(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    return lambda is_there: answer.update(ray=is_there)


# -- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["ray://head:10001", "10.0.0.1:6379", "auto", "local", "local:2"])
def test_an_address_is_written_as_it_is_read(text):
    assert str(Address.parse(text)) == text
    assert Address.parse(text).is_local == text.startswith("local")


@pytest.mark.parametrize(
    "text", ["", "ray://", "ray://head", "head", "local:0", "local:x", "local:1000", "http://a:1"]
)
def test_what_is_no_address_is_refused_with_the_forms(text):
    with pytest.raises(UsageError, match="must be"):
        Address.parse(text)


# -- reference kernels -----------------------------------------------------------------------------


@pytest.mark.parametrize("loop", [None, lambda call, number: 2e-3 * number])
def test_reference_kernels_are_timed_by_the_device_s_own_clock_if_it_has_one(loop):
    calls = []

    class Device:
        def multiply_adds(self, dtype):
            return (lambda: calls.append("multiply")), 1.0

        def copies(self, touched):
            return [(lambda: calls.append("copy"), touched)]

        def new_kernel(self):
            pass

        def wait(self):
            pass

    Device.loop = staticmethod(loop) if loop else None
    found = timed_here(Device())
    assert calls.count("copy") == (1 if loop else 1 + ROUNDS)
    if loop:
        assert found.multiply_s == found.copy_s == pytest.approx(2e-3)
        assert found.spread == 0.0


# -- what crosses to a node -----------------------------------------------------------------------


def spec_of(task, **more):
    return WorkloadSpec.of(task, TimingPolicy(), more.pop("timeout_s", 10.0), more.pop("seed", 0))


def test_a_workload_is_the_same_after_its_journey_and_has_a_key_of_its_own():
    spec = spec_of(Task.from_reference("matmul", MATMUL))
    again = pickle.loads(pickle.dumps(spec))
    assert again == spec
    assert again.key == spec.key
    other = spec_of(Task.from_reference("matmul", {**MATMUL, "m": 32}))
    assert len({spec.key, other.key, replace(spec, seed=1).key}) == 3


def test_the_number_of_a_gpu_does_not_cross():
    assert replace(spec_of(Task.from_reference("matmul", MATMUL))).target == "llvm"


def test_a_file_crosses_as_text_and_need_not_exist_there(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from autotune import te\n"
        "def double(n: int):\n"
        "    A = te.placeholder((n,), name='A')\n"
        "    return te.compute((n,), lambda i: A[i] * 2, name='B')\n"
    )
    spec = spec_of(Task.from_reference(f"{path}:double", {"n": 8}))
    path.unlink()
    spec = pickle.loads(pickle.dumps(spec))
    task = Task.from_reference(spec.reference, {"n": 8}, text=spec.text)
    assert task.template.name == "double"


def test_tile_files_of_one_name_cross_each_for_itself(tmp_path):
    codes = []
    for folder, operation in (("one", "*"), ("other", "+")):
        path = tmp_path / folder / "twice.tile"
        path.parent.mkdir()
        path.write_text(f"function (A[N]) -> (B) {{ B = A {operation} A; }}\n")
        spec = pickle.loads(pickle.dumps(spec_of(Task.from_reference(str(path), {"N": 8}))))
        path.unlink()
        task = Task.from_reference(spec.reference, spec.args, text=spec.text)
        assert task.template.name == "twice"
        codes.append(task.args["code"])
    assert len(set(codes)) == 2


# -- what runs there ------------------------------------------------------------------------------


class StubMeasurer:
    """Stands in for a LocalMeasurer."""

    made: ClassVar = []
    opening_s, built = 0.25, (1,)

    def __init__(self, *args, **more):
        self.args, self.more = args, more
        self.given, self.remembered, self.closed = [], [], False
        self.made.append(self)

    def give(self, each, response, for_rounds=False):
        self.given.append((each.config.index, response.outcome.payload, for_rounds))

    def remember(self, result):
        self.remembered.append(result)

    def run(self, each):
        if each.config.index == 13:
            logging.getLogger("autotune.measure").warning("it is\nunlucky")
            raise AutotuneError("the worker\ndoes not start")
        if each.config.index == 14:
            raise UsageError("no such template")
        if each.config.index == 15:
            raise ZeroDivisionError
        return MeasureResult(costs_s=(1.0,))

    def compare(self, configs, seconds, seed, fresh, check):
        return [{config.index: MeasureResult(costs_s=(1.0,)) for config in configs}]

    def close(self):
        self.closed = True


@pytest.fixture
def there(monkeypatch):
    monkeypatch.setattr(fleet_runner, "LocalMeasurer", StubMeasurer)
    monkeypatch.setattr(StubMeasurer, "made", [])
    logger = logging.getLogger("autotune")
    before = list(logger.handlers)
    yield FleetRunner()
    logger.handlers = before


BUILT_ANSWER = BuildAnswer(BUILT, Response("build", Message({"code_hash": "c"}), (0.0, 0.1)))

SPEC = WorkloadSpec("matmul", None, MATMUL, "llvm", (), TimingPolicy(), 10.0, 0)


def test_a_runner_holds_a_measurer_for_each_of_the_latest_workloads(there):
    specs = [replace(SPEC, seed=seed) for seed in range(fleet_runner.MAX_OPEN + 1)]
    for spec in [*specs, specs[-1]]:
        call = ("measure", spec, candidate(0), (), BUILT_ANSWER, b"code")
        status, (result, opening_s), warnings = there.answer(*call)
        assert (status, result.ok, opening_s, warnings) == (DONE, True, 0.25, [])
    assert len(StubMeasurer.made) == len(specs)
    assert [each.closed for each in StubMeasurer.made] == [True] + [False] * fleet_runner.MAX_OPEN
    assert StubMeasurer.made[0].args[-1] == 1  # a builder that describes the workload
    there.answer("close", specs[-1].key)
    assert StubMeasurer.made[-1].closed


def test_code_and_what_others_know_of_it_reach_the_measurer(there):
    known = [MeasureResult(costs_s=(1.0,), code_hash="c")]
    there.answer("measure", SPEC, candidate(1), known, BUILT_ANSWER, b"code")
    (made,) = StubMeasurer.made
    assert made.given == [(1, b"code", False)]
    assert [result.code_hash for result in made.remembered] == ["c"]


def test_the_default_is_timed_in_new_processes_that_know_nothing(there):
    for _ in range(2):
        there.answer("time_default", SPEC, candidate(1), BUILT_ANSWER, b"code")
    first, second = StubMeasurer.made
    assert (first.closed, second.closed) == (True, False)
    assert second.given == [(1, b"code", False)]
    assert not second.remembered


def test_others_are_kept_from_the_machine_while_something_is_timed_there(there):
    claims = []

    @contextlib.contextmanager
    def claim():
        claims.append("begin")
        try:
            yield
        finally:
            claims.append("end")

    runner = FleetRunner(claim)
    runner.answer("describe", "llvm")
    assert claims == []
    runner.answer("measure", SPEC, candidate(13), (), BUILT_ANSWER, b"code")
    assert claims == ["begin", "end"]


@pytest.mark.parametrize(
    ("index", "status", "said"),
    [(13, FAILED, "the worker does not start"), (14, REFUSED, "no such template"),
     (15, FAILED, "ZeroDivisionError")],
)  # fmt: skip
def test_errors_come_as_words_of_one_line_and_warnings_with_them(there, index, status, said):
    found, value, warnings = there.answer(
        "measure", SPEC, candidate(index), (), BUILT_ANSWER, b"code"
    )
    assert (found, value) == (status, said)
    assert warnings == (["it is unlucky"] if index == 13 else [])


def test_a_comparison_says_what_the_next_round_depends_on(there):
    configs = [candidate(1).config, candidate(2).config]
    given = {2: BUILT_ANSWER}
    status, value, _ = there.answer("compare", SPEC, configs, 0.1, 0, True, True, given, b"code")
    assert status == DONE
    assert (value["opening_s"], value["built"], set(value["results"])) == (0.25, [1], {1, 2})
    assert StubMeasurer.made[0].given == [(2, b"code", True)]


def test_a_runner_describes_its_machine_as_records_do(there):
    status, facts, _ = there.answer("describe", "llvm")
    assert status == DONE
    assert facts["device"]["kind"] == "cpu"
    assert {"numpy", "python"} <= facts["versions"].keys()
    assert facts["made_for"]["threads"] == facts["device"]["threads"]


# -- options --------------------------------------------------------------------------------------


def options_of(**words):
    given = {"template": "matmul", "set": ["m=8", "n=8", "k=8"], **words}
    return run_options(given, {}, "progress").workloads[0]


def test_words_and_job_files_say_the_same(has_ray, tmp_path):
    found = options_of(fleet="local:2", devices="any")
    assert str(found.fleet.address) == "local:2"
    assert found.devices == "any"
    assert options_of().fleet is None
    path = tmp_path / "job.toml"
    path.write_text(
        'fleet = "local:2"\n[defaults]\ndevices = "any"\n'
        '[[workload]]\ntemplate = "matmul"\nset = { m = 8, n = 8, k = 8 }\n'
        '[[workload]]\ntemplate = "matmul"\nset = { m = 16, n = 8, k = 8 }\n'
    )
    first, second = run_options({"job": str(path)}, {}, "progress").workloads
    assert str(first.fleet.address) == "local:2"
    assert first.fleet is second.fleet  # they share the devices
    assert second.devices == "any"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"fleet": "head"}, "--fleet must be ray://HOST:PORT, HOST:PORT, auto, local or local:N"),
        ({"fleet": "auto", "measurer": "m:M"}, "a fleet and a measurer are given"),
        ({"devices": "any"}, "devices can only be chosen in a fleet, and there is none"),
        ({"compare-on": "all"}, "comparing finalists on all devices needs a fleet, and there is"),
        ({"compare-on": "some"}, "--compare-on must be one or all, not 'some'"),
    ],
)
def test_mistakes_are_one_line(has_ray, words, said, monkeypatch):
    monkeypatch.setattr("autotune.cli.options.job_files.check_parts", lambda *parts: None)
    with pytest.raises(UsageError) as error:
        options_of(**words)
    assert str(error.value).startswith(said)


def test_without_ray_one_line_says_how_to_install_it(has_ray):
    has_ray(False)
    with pytest.raises(UsageError) as error:
        options_of(fleet="auto")
    said = "a fleet needs Ray, which is not installed: pip install 'kernel-autotune[ray]'"
    assert str(error.value) == f"--fleet: {said}"
    with pytest.raises(UsageError) as error:
        tune("matmul", MATMUL, fleet="auto")
    assert str(error.value) == f"tune: {said}"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fleet": 3}, "fleet must be the address of a cluster of Ray, not 3"),
        ({"fleet": "x"}, "fleet must be ray://HOST:PORT"),
        ({"devices": "any"}, "devices can only be chosen in a fleet"),
        ({"fleet": "auto", "devices": 3}, "devices must be part of a name"),
        ({"fleet": "auto", "compare_on": "x"}, "compare_on must be one or all, not 'x'"),
    ],
)
def test_mistakes_of_calls_name_the_call(has_ray, options, said):
    with pytest.raises(UsageError, match=r"^tune: ") as error:
        tune("matmul", MATMUL, **options)
    assert said in str(error.value)


def test_workloads_of_a_call_share_the_fleet(has_ray, monkeypatch, tmp_path):
    asked = []

    def tune_requests(requests, *more):
        asked.extend(requests)
        raise InterruptedError

    monkeypatch.setattr("autotune.tuning.tune_requests", tune_requests)
    one = {"what": "matmul", "args": MATMUL, "log": tmp_path / "log.jsonl"}
    other = {**one, "args": {**MATMUL, "m": 8}, "devices": "any"}
    with pytest.raises(InterruptedError):
        tune_job([one, other], fleet="local", progress=False)
    assert asked[0].fleet is asked[1].fleet
    assert [request.devices for request in asked] == [None, "any"]


def test_a_request_with_a_fleet_is_measured_by_it(monkeypatch):
    made = []
    monkeypatch.setattr(tuning_job, "FleetMeasurer", lambda *args: made.append(args) or "measurer")
    fleet, task = Fleet(Address("auto")), Task.from_reference("matmul", MATMUL)
    request = tuning_job.TuningRequest(task, None, timeout_s=5.0, fleet=fleet, devices="any")
    assert tuning_job.make_measurer(request, 7, Deadline()) == "measurer"
    assert made == [(fleet, task, request.policy, 5.0, 7, "any", "one")]
