"""Candidates measured on a real GPU; run with -m gpu where there is one."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.command_line import environment
from support.logged import trials_in

from autotune.builder import build_task
from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.result import MeasureErrorNo as No
from autotune.measure.result import MeasureInput
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime.cuda import cupy_driver
from autotune.task.task import Task

pytestmark = pytest.mark.gpu

EXAMPLE = f"{Path(__file__).parents[2] / 'examples' / 'raw_kernel.py'}:elementwise"
POLICY = TimingPolicy(repeats=3, min_repeat_ms=2)

FAULTS = '''
from autotune import rtc, te
from autotune.template import template

TEXT = """
extern "C" __global__ void increment(const float* from, float* to) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i < N) to[i] = from[i] + 1;
  %s
}
"""
STATEMENTS = {
    "none": "",
    "address": "if (i == 3) *(float*)(16 + (size_t)(from[0] > 100)) = 1;",
    "misaligned": "if (i == 3) *(volatile float*)((char*)to + 2) = 1;",
    "hang": "if (i == 3) for (volatile int on = 1; on;);",
    "wrong": "if (i == 37) to[i] = 0;",
    "stray": "if (i == 0) to[N + 2] = 5;",
    "assert": "if (i == 3) asm volatile (\\"trap;\\");",
}


@template("increment", target="cuda", reference=lambda x: x + 1)
def increment(cfg, n: int = 1000):
    fault = cfg.define_knob("fault", list(STATEMENTS))
    threads = cfg.define_knob("threads", [32, 64, 128])
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    return rtc.RawKernel("increment", TEXT % STATEMENTS[fault], [A], [B], te.ceildiv(n, threads),
                         threads, defines={"N": n, "THREADS": threads})
'''


def measured(reference, args, configs, target="cuda", timeout_s=10.0, policy=POLICY):
    """Results of configurations, and how many processes were lost."""
    with LocalMeasurer(reference, args, target, policy, timeout_s) as measurer:
        results = [r for _, r in measurer.measure(MeasureInput(config) for config in configs)]
        return results, measurer.restarts


def test_broadcast_add_is_tuned_and_built_from_its_records(tmp_path):
    target = f"cuda -arch={cupy_driver.arch_of(0)}"
    task = ["broadcast_add", "--set", "n=4096", "--target", target, "--log", "log.jsonl"]
    command = [sys.executable, "-m", "autotune", "run", *task, "--trials", "16", "--json-lines"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment()
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (known, *_) = [event for event in events if event["event"] == "machine"]
    assert known["ceiling_of"] == "copy"
    assert known["copy_bytes_s"] > 1e11
    records = trials_in(tmp_path / "log.jsonl")
    assert len(records) == 16
    assert all(record.ok for record in records)
    assert all(kernel["registers"] > 0 for record in records for kernel in record.kernels)
    best = min(records, key=lambda record: record.cost_s)
    share = known["ceiling_s"] / best.cost_s
    assert 0.3 < share < 1.2
    function = build_task(Task.from_reference("broadcast_add", {"n": 4096}, target), records)
    cupy = cupy_driver.cupy()
    a, b = cupy.random.rand(4096, 1, dtype="float32"), cupy.random.rand(4096, 4096, dtype="float32")
    c = cupy.empty_like(b)
    function(a, b, c)
    assert bool((c == a + b).all())


def test_what_goes_wrong_is_labelled_and_all_others_are_measured(tmp_path):
    (tmp_path / "faults.py").write_text(FAULTS)
    reference = f"{tmp_path / 'faults.py'}:increment"
    space = Task.from_reference(reference, {}, "cuda").space
    expected = {
        "address": No.RUNTIME_DEVICE, "misaligned": No.RUNTIME_DEVICE, "hang": No.RUN_TIMEOUT,
        "wrong": No.WRONG_ANSWER, "stray": No.WRONG_ANSWER, "assert": No.RUNTIME_DEVICE,
    }  # fmt: skip
    asked = [("none", 32), *((fault, 32) for fault in expected), ("none", 64), ("none", 128)]
    configs = [space.config(space.index_of({"fault": f, "threads": t})) for f, t in asked]
    results, lost = measured(reference, {}, configs, timeout_s=5.0)
    labels = [result.error and result.error.code for result in results]
    codes = dict(zip(asked, labels, strict=True))
    assert {f: codes[f, 32] for f in expected} == expected
    assert [codes["none", threads] for threads in (32, 64, 128)] == [None] * 3
    assert lost == 4  # address, misaligned, hang, assert


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_kernel_as_text_is_measured_and_right(dtype):
    task = Task.from_reference(EXAMPLE, {"n": 1 << 22, "dtype": dtype}, "cuda")
    legal = [index for index in range(len(task.space)) if not task.refusal(index)][:6]
    configs = [task.space.config(index) for index in legal]
    results, lost = measured(EXAMPLE, task.args, configs)
    assert [result.error for result in results] == [None] * len(configs)
    assert lost == 0


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("matmul", {"m": 512, "n": 512, "k": 512}), ("softmax", {"m": 512, "n": 1000}),
        ("reduce", {"m": 512, "n": 1000}), ("transpose", {"m": 1000, "n": 520}),
        ("broadcast_add", {"n": 1024, "dtype": "bfloat16"}),
        ("broadcast_add", {"n": 1024, "dtype": "int8"}),
    ],
)  # fmt: skip
def test_templates_are_measured_and_right(name, args):
    task = Task.from_reference(name, args, f"cuda -arch={cupy_driver.arch_of(0)}")
    indices = [task.default_index, *task.space.sample(4, np.random.default_rng(0)).tolist()]
    configs = [task.space.config(int(index)) for index in indices]
    results, _ = measured(name, args, configs, str(task.target))
    assert [result.error for result in results] == [None] * len(configs)


def test_a_flushed_kernel_takes_longer_than_one_in_the_cache():
    args = {"n": 1024}
    task = Task.from_reference("broadcast_add", args, "cuda")
    configs = [task.space.config(task.default_index)]
    (warm,), _ = measured("broadcast_add", args, configs)
    flushing = TimingPolicy(repeats=9, flush="repeats")
    (cold,), _ = measured("broadcast_add", args, configs, policy=flushing)
    assert cold.cost_s > warm.cost_s


def test_short_kernels_are_timed_without_their_launches():
    args = {"n": 32}
    task = Task.from_reference("broadcast_add", args, "cuda")
    (result,), _ = measured("broadcast_add", args, [task.space.config(task.default_index)])
    assert result.cost_s < 6e-6  # launches from Python alone take longer
    assert result.spread < 0.2


def test_the_ceiling_has_what_cublas_takes():
    args = {"m": 2048, "n": 2048, "k": 2048}
    with LocalMeasurer("matmul", args, "cuda", POLICY) as measurer:
        ceiling = measurer.ceiling()
    work = 2 * 2048**3
    assert 0.2 < work / ceiling.library_s / ceiling.peak_flops["float32"] < 1.1
    assert ceiling.copy_bytes_s > 1e11
