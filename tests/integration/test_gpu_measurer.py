"""Templates for GPUs tuned from end to end, on a GPU that there is not: see `fake_machine`."""

import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.cuda_compiler import needs_nvrtc
from support.fake_machine import COMPILER, FOLDER, FakeMachine
from support.host_cuda import needs_host_compiler
from support.logged import trials_in

from autotune.builder import build_task
from autotune.cli.doctor import software_checks
from autotune.cli.doctor.probe import probe_libraries
from autotune.errors import UsageError
from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.result import MeasureErrorNo as No
from autotune.measure.result import MeasureInput
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime.cuda.device import device_properties
from autotune.task.task import Task

pytestmark = [
    needs_nvrtc,
    needs_host_compiler,
    pytest.mark.skipif(COMPILER is None, reason="no C compiler is on this machine"),
]

FAULTY = f"{Path(__file__).parent / 'faulty_templates' / 'gpu_kernels.py'}:increment"
QUICK = TimingPolicy(repeats=2, min_repeat_ms=1)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return FakeMachine.make(tmp_path_factory.mktemp("machine"))


@pytest.fixture
def machine(built, monkeypatch):
    """Let processes that are started find a GPU."""
    for name, value in built.environment().items():
        monkeypatch.setenv(name, value)
    built.log.write_text("")
    device_properties._asked.cache_clear()
    yield built
    device_properties._asked.cache_clear()


def contexts(machine):
    """Who has made a context on the GPU, each time: name of the process."""
    return [line.split()[2] for line in machine.log.read_text().splitlines()]


def below():
    found = psutil.Process().children(recursive=True)
    return [process for process in found if process.name().startswith("autotune:")]


def faulty(wanted):
    """The template with these faults, and inputs for each pair of fault and threads."""
    args = {"faults": ",".join(dict.fromkeys(fault for fault, _ in wanted))}
    space = Task.from_reference(FAULTY, args, "cuda").space
    values = [{"fault": fault, "threads": threads} for fault, threads in wanted]
    return args, [MeasureInput(space.config(space.index_of(each))) for each in values]


def measure(wanted, timeout_s=20.0):
    """Results of pairs of fault and threads, in their order; how many workers were lost."""
    args, inputs = faulty(wanted)
    with LocalMeasurer(FAULTY, args, "cuda", QUICK, timeout_s, builders=1) as measurer:
        results = [result for _, result in measurer.measure(inputs)]
        assert measurer.reference == "given"
        lost = measurer.restarts
    assert not below()
    return results, lost


def labels(results):
    return [result.error and result.error.code for result in results]


PREPARED = """
from autotune import te
from autotune.template import template

@template("prepared", target="cuda", reference=lambda a, w: a + 2 * w[::-1])
def prepared(cfg, n: int):
    A, W = te.placeholder((n,), name="A"), te.placeholder((n,), name="W")
    P = te.compute((n,), lambda i: W[n - 1 - i] * 2.0, name="P")
    B = te.compute((n,), lambda i: A[i] + P[i], name="B")
    s = te.create_schedule(B.op)
    threads = cfg.define_knob("threads", [32, 64])
    for tensor in (P, B):
        block, thread = s[tensor].split(tensor.op.axis[0], factor=threads)
        s[tensor].bind(block, te.thread_axis("blockIdx.x"))
        s[tensor].bind(thread, te.thread_axis("threadIdx.x"))
    return s, [A, W, B]
"""


def test_constants_are_prepared_before_a_kernel_is_timed_on_a_gpu(machine, tmp_path):
    path = tmp_path / "prepared.py"
    path.write_text(PREPARED)
    task = Task.from_reference(f"{path}:prepared", {"n": 100}, "cuda", constant=[1])
    inputs = [MeasureInput(task.space.config(index)) for index in range(2)]
    found = {}
    for constant, kernels in (([], 2), ([1], 1)):
        with LocalMeasurer(
            task.template_ref, task.args, task.target, QUICK, 20.0, constant=constant
        ) as measurer:
            results = [result for _, result in measurer.measure(inputs)]
            assert measurer.reference == "given"
            (rounds,) = measurer.compare([each.config for each in inputs], 0.1, 0, False, True)
        assert [len(result.kernels) for result in results] == [kernels] * 2
        assert [r.error for r in [*results, *rounds.values()]] == [None] * 4
        found[kernels] = {result.code_hash for result in results}
    assert not found[1] & found[2]


def test_a_template_is_tuned_on_a_gpu_and_built_from_its_records(machine, tmp_path):
    def autotune(*words):
        command = [sys.executable, "-m", "autotune", *words, "--log", "log.jsonl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    task = ["broadcast_add", "--set", "n=64", "--target", "cuda -device=0"]
    out = autotune("run", *task, "--trials", "4", "--seed", "1")
    assert re.search(r"ceiling .* GB/s \(copy\)", out)
    records = trials_in(tmp_path / "log.jsonl")
    assert [record.ok for record in records] == [True] * 4
    assert len(set(contexts(machine))) == len(contexts(machine)) == 1  # the runner's, nobody else's
    assert contexts(machine) == ["autotune:gpu"]
    record = records[0]
    assert record.target == "cuda"  # whichever of its GPUs it was
    assert (record.device["name"], record.device["arch"]) == ("Fake GPU", "sm_90")
    assert record.versions.keys() >= {"cuda_driver", "cupy", "nvrtc"}
    assert record.clocks == {"sm_mhz": 1980, "memory_mhz": 3201}
    (kernel,) = record.kernels
    assert kernel["name"] == "broadcast_add_kernel"
    assert 0 < kernel["registers"] <= 255
    assert record.max_error == 0.0
    autotune("run", *task, "--trials", "4")  # nothing is left to do
    assert len(trials_in(tmp_path / "log.jsonl")) == 4
    built = build_task(Task.from_reference("broadcast_add", {"n": 64}, "cuda"), records)
    assert built.config.index == min(records, key=lambda record: record.cost_s).index


def test_what_goes_wrong_is_labelled_and_all_others_are_measured(machine):
    found, lost = measure(
        [
            ("none", 32), ("illegal_address", 32), ("none", 64), ("wrong", 32), ("stray", 32),
            ("too_many_resources", 32), ("meddling", 32), ("misaligned_address", 32), ("none", 96),
        ]
    )  # fmt: skip
    runtime, wrong = No.RUNTIME_DEVICE, No.WRONG_ANSWER
    assert labels(found) == [None, runtime, None, wrong, wrong, runtime, wrong, runtime, None]
    expected = {
        1: "CUDARuntimeError: cudaErrorIllegalAddress: an illegal memory access was encountered",
        3: r"1 of 64 elements of B are wrong at .*, .* first at \[37\]: 0.0 instead of ",
        4: "it wrote outside B: 8 bytes past its end",
        5: r"increment: the launch of 2 x 1 x 1 blocks of 32 x 1 x 1 threads on cuda:0 failed: .* "
        "too many resources requested",
        6: r"it changed its input A, first at \[3\]: 5.0, was ",
        7: "CUDARuntimeError: cudaErrorMisalignedAddress",
    }
    for number, words in expected.items():
        assert re.match(words, found[number].error.message)
    assert found[1].kernels[0]["registers"] > 0  # what is known of it is recorded all the same
    # Only what the device does not recover from costs a process, and that one alone.
    assert lost == 2
    assert contexts(machine) == ["autotune:gpu"] * (1 + lost)


def test_kernels_are_built_while_others_run(machine):
    args, (first, *asked) = faulty([("none", 32), ("slow", 32), ("late", 64)])
    with LocalMeasurer(FAULTY, args, "cuda", QUICK, builders=1) as measurer:
        list(measurer.measure([first]))  # all workers are there
        slow, late = (result for _, result in measurer.measure(asked))
    assert slow.ok
    assert late.ok
    assert late.build_span[0] < slow.run_span[1]
    assert slow.run_span[0] < late.build_span[1]
    assert slow.run_span[1] <= late.run_span[0]


def test_a_kernel_that_never_ends_costs_its_time_and_its_process(machine):
    found, lost = measure([("none", 32), ("hang", 32), ("none", 64)], timeout_s=1.5)
    assert labels(found) == [None, No.RUN_TIMEOUT, None]
    assert found[1].error.message == "running took longer than 1.5 s"
    assert lost == 1


def test_arrays_that_are_too_large_are_one_line(machine, monkeypatch):
    monkeypatch.setenv("FAKE_GPU_MEMORY", str(1 << 20))
    args = {"n": 1 << 20}
    task = Task.from_reference(FAULTY, args, "cuda")
    config = task.space.config(task.default_index)
    with (
        LocalMeasurer(FAULTY, args, "cuda", QUICK, builders=1) as measurer,
        pytest.raises(UsageError, match=r"cuda:0 \(Fake GPU\) has too little memory") as caught,
    ):
        list(measurer.measure([MeasureInput(config)]))
    assert "\n" not in str(caught.value)


def test_the_doctor_tells_of_driver_and_gpu(machine, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)  # processes of the doctor find modules as this one does
    outcomes = probe_libraries(["driver", "import cupy", "nvrtc", "cupy"])
    check = software_checks.cuda(outcomes)
    assert check.findings == ()
    assert check.text == (
        "kernels compile and run; a driver for CUDA 12.9, CuPy 14.0.0, "
        f"NVRTC {outcomes['nvrtc'].found['version']}, Fake GPU (sm_90)"
    )


@pytest.mark.parametrize(
    ("settings", "target", "line"),
    [
        ({"LD_LIBRARY_PATH": ""}, "cuda", "there is no driver for CUDA on this machine"),
        ({"FAKE_GPU_RUNTIME": "13000"}, "cuda", "was built for CUDA 13.0, and the driver supports"),
        ({"FAKE_GPU_COUNT": "2"}, "cuda -device=2", "no device cuda:2: there are 2"),
        ({}, "cuda -arch=sm_100", r"cuda:0 \(Fake GPU\) is sm_90, which does not run sm_100"),
    ],
)
def test_what_cannot_be_used_is_one_line(machine, monkeypatch, settings, target, line):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=line) as caught:
        LocalMeasurer("broadcast_add", {"n": 64}, target)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"target {target!r} cannot be measured here: ")


def test_a_python_callable_works_on_arrays_of_the_gpu_and_is_timed_by_its_events(machine):
    reference = FAULTY.replace(":increment", ":called")
    args = {"faults": "none,wrong,raise"}
    space = Task.from_reference(reference, args, "cuda").space
    inputs = [MeasureInput(space.config(index)) for index in range(len(space))]
    with LocalMeasurer(reference, args, "cuda", QUICK, 20.0, builders=1) as measurer:
        results = {str(each.config.values): r for each, r in measurer.measure(inputs)}
    assert [r.error and r.error.code for r in results.values()].count(None) == 2
    for values, result in results.items():
        if "wrong" in values:
            assert result.error.code == No.WRONG_ANSWER
        elif "raise" in values:
            assert result.error.message == "ValueError: no plan for a cupy array"
        else:
            assert result.ok, result.error
    assert set(contexts(machine)) == {"autotune:gpu"}
