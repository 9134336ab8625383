"""What builds on a node of a fleet, without a cluster: code for this machine and for others."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.c_compiler import needs_cc

from autotune.errors import TargetError
from autotune.fleet.builds import builder_task
from autotune.fleet.builds.builder_task import (
    BUILT,
    REFUSED,
    UNFIT,
    BuildAnswer,
    BuildRequest,
    DeviceFacts,
)
from autotune.fleet.package_digest import package_facts
from autotune.fleet.workload_spec import WorkloadSpec
from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.pool.messages import Message
from autotune.measure.result import MeasureErrorNo, MeasureInput
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime.environment import code_facts
from autotune.system import host
from autotune.target import Target
from autotune.task.task import Task
from search_spaces import Config

FAULTY = Path(__file__).parent / "faulty_templates" / "faulty.py"
QUICK = TimingPolicy(repeats=2, min_repeat_ms=0.5)
SIZES = {"m": 32, "n": 32, "k": 32}

IN_C = """
import autotune
from autotune import te

def twice(n: int):
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    text = "void twice(const float *a, float *b) { for (int i = 0; i < 8; ++i) b[i] = 2 * a[i]; }"
    return autotune.CKernel("twice", text, [A], [B])
"""


@pytest.fixture(autouse=True)
def no_process_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    yield
    builder_task.close_builders()


def own_device(target: str = "llvm") -> DeviceFacts:
    return DeviceFacts(host.architecture(), None, code_facts(Target.of(target)))


def request_of(task: Task, index: int, device: DeviceFacts | None = None) -> BuildRequest:
    spec = WorkloadSpec.of(task, QUICK, 2.0, 0)
    config = task.space.config(index).to_json()
    return BuildRequest(spec, config, device or own_device(), package_facts())


def body(answer: BuildAnswer) -> dict[str, Any]:
    assert answer.status == BUILT, answer.why
    assert answer.response is not None
    assert isinstance(answer.response.outcome, Message)
    return answer.response.outcome.body


def test_code_that_was_built_by_itself_is_measured_as_if_it_were_built_there() -> None:
    task = Task.from_reference("matmul", SIZES)
    index = task.default_index
    answer, code = builder_task.build(request_of(task, index))
    candidate = MeasureInput(task.space.config(index))
    with LocalMeasurer("matmul", SIZES, "llvm", QUICK) as measurer:
        own = measurer.run(candidate)
    with LocalMeasurer("matmul", SIZES, "llvm", QUICK, builders=1) as measurer:
        measurer.give(candidate, answer.with_code(code))
        given = measurer.run(candidate)
        measurer.give(candidate, answer.with_code(code), for_rounds=True)
        (rounds,) = measurer.compare([candidate.config], 0.02, 0, True, True)
    assert own.ok
    assert given.ok
    assert given.code_hash == own.code_hash
    assert given.build_s == body(answer)["seconds"]
    assert rounds[index].ok


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("segfault", MeasureErrorNo.COMPILE_HOST, "killed by SIGSEGV while building"),
        ("killed", MeasureErrorNo.COMPILE_HOST, "killed by SIGKILL while building"),
        ("sleep", MeasureErrorNo.BUILD_TIMEOUT, "building took longer than 2 s"),
        ("raise", MeasureErrorNo.INSTANTIATION_ERROR, "no such schedule"),
    ],
)
def test_a_fault_is_labelled_and_the_next_candidate_is_built(
    fault: str, code: MeasureErrorNo, said: str
) -> None:
    task = Task.from_reference(f"{FAULTY}:faulty", {"faults": f"none,{fault}"})
    bad, nothing = builder_task.build(request_of(task, 2))
    assert bad.response is not None
    error = bad.response.error(2.0)
    assert error is not None
    assert error.code is code
    assert said in error.message
    assert nothing == b""
    good, payload = builder_task.build(request_of(task, 0))
    assert body(good)["code_hash"]
    assert payload


def test_processes_of_the_latest_workloads_stay() -> None:
    found = []
    for n in range(1, builder_task.MAX_OPEN + 2):
        task = Task.from_reference(f"{FAULTY}:plain", {"n": 8 * n})
        body(builder_task.build(request_of(task, 0))[0])
        found.append(request_of(task, 0))
    kept = builder_task._builders()._open
    assert [key for key, _ in kept] == [request.spec.key for request in found[1:]]


def test_a_template_that_cannot_be_used_is_refused_in_one_line() -> None:
    request = request_of(Task.from_reference("matmul", SIZES), 0)
    spec = replace(request.spec, reference="no_such_operator")
    answer, _ = builder_task.build(replace(request, spec=spec))
    assert answer.status == REFUSED
    assert "no_such_operator" in answer.why
    assert "\n" not in answer.why


@pytest.mark.parametrize(
    ("fact", "said"),
    [("numpy", "it has numpy"), ("files of autotune", "it has files of autotune")],
)
def test_a_node_with_other_versions_does_not_build(fact: str, said: str) -> None:
    request = request_of(Task.from_reference("matmul", SIZES), 0)
    other = replace(request, package={**request.package, fact: "another"})
    answer, code = builder_task.build(other)
    assert (answer.status, code) == (UNFIT, b"")
    assert answer.why.startswith(said)
    assert answer.why.endswith("the tuner has another")


def test_a_node_of_another_architecture_does_not_build() -> None:
    device = replace(own_device(), architecture="vax")
    answer, _ = builder_task.build(request_of(Task.from_reference("matmul", SIZES), 0, device))
    assert answer.status == UNFIT
    assert answer.why.endswith("the device's machine vax")


def test_a_node_whose_compiler_of_gpus_does_not_know_the_device_does_not_build(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check_arch(arch: str) -> None:
        raise TargetError(f"NVRTC 11.0 does not know the architecture {arch!r}")

    monkeypatch.setattr("autotune.runtime.cuda.nvrtc.check_arch", check_arch)
    task = Task.from_reference("matmul", SIZES, "cuda -arch=sm_90")
    device = DeviceFacts(host.architecture(), "sm_90", {})
    answer, code = builder_task.build(request_of(task, task.default_index, device))
    assert (answer.status, code) == (UNFIT, b"")
    assert answer.why == "NVRTC 11.0 does not know the architecture 'sm_90'"


def test_a_node_with_another_compiler_of_gpus_than_the_device_s_does_not_build(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("autotune.runtime.cuda.nvrtc.check_arch", lambda arch: None)
    monkeypatch.setattr("autotune.runtime.cuda.nvrtc.version", lambda: (12, 4))
    task = Task.from_reference("matmul", SIZES, "cuda -arch=sm_90")
    facts = {"architecture": host.architecture(), "arch": "sm_90", "code": {}}
    devices = [
        DeviceFacts.of({**facts, "versions": {"nvrtc": version}}) for version in ("12.4", "12.6")
    ]
    assert len({device.key for device in devices}) == 2
    answer, _ = builder_task.build(request_of(task, task.default_index, devices[1]))
    assert answer.status == UNFIT
    assert answer.why == "it has NVRTC 12.4, the node of the device 12.6"


# -- for another processor ------------------------------------------------------------------------

needs_x86 = pytest.mark.skipif(host.architecture() != "x86_64", reason="names of processors")


def another_processor() -> DeviceFacts:
    """Return the facts of a machine with an old processor, whose code runs here, too."""
    own = own_device()
    old = {"vector_bytes": 16, "threads": 3, "cpus": 3, "llvm": ["x86-64", ""]}
    return replace(own, made_for={**own.made_for, **old})


@needs_x86
def test_code_is_built_for_the_processor_of_the_device_and_not_of_the_node() -> None:
    task = Task.from_reference("matmul", SIZES)
    named = Task.from_reference("matmul", SIZES, "llvm -mcpu=x86-64 -threads=3")
    like_named = request_of(named, named.default_index)
    there, code = builder_task.build(
        replace(request_of(task, 0, another_processor()), config=like_named.config)
    )
    same, named_code = builder_task.build(like_named)
    # Rules have seen 16 bytes and three threads, and LLVM the old processor.
    assert body(there)["code_hash"] == body(same)["code_hash"]
    assert pickle.loads(code).object_code == pickle.loads(named_code).object_code
    with LocalMeasurer("matmul", SIZES, "llvm", QUICK, builders=1) as measurer:
        candidate = MeasureInput(Config.from_json(like_named.config))
        measurer.give(candidate, there.with_code(code))
        assert measurer.run(candidate).ok


@needs_x86
def test_a_processor_that_is_named_need_not_be_that_of_the_node() -> None:
    task = Task.from_reference("matmul", SIZES, "llvm -mcpu=diamondrapids -threads=4")
    made_for = {**own_device().made_for, "llvm": ["another", "+avx512f"]}
    device = replace(own_device(), made_for=made_for)
    answer, code = builder_task.build(request_of(task, task.default_index, device))
    assert body(answer)["code_hash"]
    assert code


@needs_cc
def test_a_compiler_of_c_builds_for_its_own_processor_alone(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(IN_C)
    task = Task.from_reference(f"{path}:twice", {"n": 8})
    own, _ = builder_task.build(request_of(task, 0))
    assert body(own)["code_hash"]
    answer, _ = builder_task.build(request_of(task, 0, another_processor()))
    assert answer.status == UNFIT
    assert answer.why == "a compiler of C writes code for its own processor"


@needs_cc
def test_a_node_without_the_compiler_builds_nothing_and_no_candidate_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(IN_C)
    request = request_of(Task.from_reference(f"{path}:twice", {"n": 8}), 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    answer, code = builder_task.build(request)
    assert (answer.status, code) == (UNFIT, b"")
    assert answer.why.startswith("there is no compiler 'cc'")
