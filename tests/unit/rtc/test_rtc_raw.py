"""Kernels as text are templates too: traced, searched, compiled, recorded and built again."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
from support.cuda_compiler import needs_nvrtc
from support.fake_measurer import tune
from support.host_cuda import compile_host, needs_host_compiler

from autotune import rtc, te
from autotune.builder import build, build_task
from autotune.codegen.cuda.device_source import device_header
from autotune.errors import CompileError, InstantiationError, SaveError, TargetError, UsageError
from autotune.feature import TaskFeatures
from autotune.measure.measurer import Measurer
from autotune.measure.result import MeasureResult
from autotune.measure.timing_policy import TimingPolicy
from autotune.operators.template_lookup import find_template
from autotune.reuse import choose
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.gpu_source import raw_source
from autotune.task.task import Task, code_hash
from autotune.template import Knobs, template
from autotune.tuner.factory import make_tuner
from records import RecordStore

EXAMPLE = f"{Path(__file__).parents[3] / 'examples' / 'raw_kernel.py'}:elementwise"
TARGET = "cuda -arch=sm_90"

COPY = """
extern "C" __global__ void copy(const float* from, float* to) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i < N) to[i] = from[i];
}
"""


@template("copy", target="cuda", reference=lambda x: x)
def copy(cfg: Knobs, n: int, text: str = COPY):
    threads = cfg.define_knob("threads", [128, 512, 2048])
    pages = cfg.define_knob("pages", [0, 1, 2, 4])
    return rtc.RawKernel(
        "copy",
        text,
        [te.placeholder((n,), "float32", name="X")],
        [te.placeholder((n,), "float32", name="Y")],
        grid=te.ceildiv(n, threads),
        block=(threads, 1),
        shared_memory=pages * 64 * 1024,
        defines={"N": n, "THREADS": threads},
    )


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.from_reference(EXAMPLE, {"n": 1 << 16}, TARGET)


# -- tracing -------------------------------------------------------------------------------------


def test_a_template_of_text_is_traced_once_for_all_its_knobs(task):
    assert len(task.structures) == 1
    assert not task.untraceable
    assert len(task.space) == 100
    assert [(a.name, a.shape, a.dtype, a.is_output) for a in task.arguments] == [
        ("X", (1 << 16,), "float16", False),
        ("Y", (1 << 16,), "float16", True),
    ]
    assert task.steps_of(0) is None


def test_limits_of_the_device_are_constraints():
    found = Task(copy, {"n": 4096}, TARGET)
    rules = {constraint.name for constraint in found.space.constraints}
    assert rules == {
        "a block has at most 1024 threads",
        "a block has at most 232448 bytes of shared memory",
    }
    legal = {tuple(found.space.config(int(i)).values.values()) for i in range(12)
             if found.refusal(int(i)) == ""}  # fmt: skip
    assert legal == {(t, p) for t in (128, 512) for p in (0, 1, 2)}
    with pytest.raises(InstantiationError, match="at most 1024 threads"):
        found.function_of({"threads": 2048, "pages": 0})


def test_a_configuration_is_macros_text_and_launch(task):
    source = raw_source(task.final_of({"lanes": 8, "threads": 64, "items": 2}))
    (launch,) = source.launches
    assert launch.grid == (64, 1, 1)
    assert launch.block == (64, 1, 1)
    macros = {"N": 65536, "LANES": 8, "THREADS": 64, "ITEMS": 2}
    lines = [f"#define {n} {v}" for n, v in macros.items()]
    assert source.text.startswith("\n".join([*lines, "", "#define "]))
    assert "#define OP op::sigmoid\n" in source.text
    shared = raw_source(Task(copy, {"n": 5}, TARGET).final_of({"threads": 128, "pages": 2}))
    assert shared.launches[-1].shared_bytes == 128 * 1024


def test_text_and_launch_tell_configurations_and_templates_apart(task):
    legal = [index for index in range(len(task.space)) if not task.refusal(index)]
    assert len({code_hash(task.final(index)) for index in legal}) == len(legal) == 80
    assert code_hash(task.final(3)) == code_hash(task.final(3))
    one = Task(copy, {"n": 64}, TARGET)
    other = Task(copy, {"n": 64, "text": COPY.replace("i < N", "N > i")}, TARGET)
    assert one.fingerprints["space"] == other.fingerprints["space"]
    assert one.fingerprints["template"] != other.fingerprints["template"]
    assert one.fingerprints == Task(copy, {"n": 64}, TARGET).fingerprints


def test_features_are_the_knobs(task):
    features = TaskFeatures(task)
    assert set(features.names) == {"knob/lanes", "knob/threads", "knob/items"}
    matrix = features.matrix(np.arange(100))
    assert np.isfinite(matrix).all()
    assert matrix[:, list(features.names).index("knob/lanes")].max() == 16


def test_the_listing_shows_launch_macros_and_text(task):
    text = str(task.function_of({"lanes": 2, "threads": 128, "items": 1}))
    assert "// attr [iter_var(threadIdx.x, , threadIdx.x)] thread_extent = 128\n" in text
    assert "#define LANES 2\n" in text
    assert "loader.load(id, N);" in text


@pytest.mark.parametrize("target", ["cuda -on=cpu", "cuda -on=cpu -arch=sm_90"])
def test_text_runs_on_gpus_only(target):
    with pytest.raises(UsageError, match=r"kernel as text, which runs on GPUs only, not on 'cuda"):
        _ = Task(copy, {"n": 64}, target).space


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outputs": []}, "with one output at least"),
        ({"inputs": ["X"]}, "lists of tensors from te.placeholder"),
        ({"workspace": [te.compute((4,), lambda i: i)]}, "lists of tensors from te.placeholder"),
        ({"reduction_length": 0}, "raw kernel 'k': reduction_length must be >= 1, got 0"),
        ({"text": 3}, "text must be text, got int"),
        ({"text": "a\n\0"}, r"without NUL and lone surrogates, has '\\x00' in line 2"),
        ({"defines": {"A": "\ud800"}}, r"without NUL and lone surrogates, has '\\ud800' in line 1"),
        ({"grid": (1, 1, 1, 1)}, "grid must be 1 to 3 sizes"),
        ({"block": 1.5}, "block must be a whole number, or an expression of knobs and sizes"),
        ({"shared_memory": "48K"}, "shared_memory must be a whole number"),
        ({"defines": {"A B": 1}}, "a macro must be letters, digits and _, got 'A B'"),
        ({"defines": {"A": [1]}}, r"macro A must be a number, a flag or a text, got \[1\]"),
    ],
)
def test_mistakes_in_a_raw_kernel_are_one_line(changes, message):
    Y = te.placeholder((4,), "float32", name="Y")
    given = {"name": "k", "text": "", "inputs": [], "outputs": [Y], "grid": 1, "block": 1}
    with pytest.raises(UsageError, match=message) as caught:
        rtc.RawKernel(**{**given, **changes}).lowered("k")
    assert "\n" not in str(caught.value)


def test_macros_may_be_numbers_flags_and_texts():
    Y = te.placeholder((4,), "float32", name="Y")
    defines = {"N": 4, "EPS": 0.5, "FAST": True, "T": "float16"}
    made = rtc.RawKernel("k", "TEXT", [], [Y], 1, 1, defines=defines).lowered("k")
    knobs, fixed = "#define N 4\n\n", "#define EPS 0.5\n#define FAST true\n#define T float16\n"
    assert raw_source(made).text == f'{knobs}{fixed}#line 1 "text"\nTEXT\n'


# -- what it computes ----------------------------------------------------------------------------


@needs_host_compiler
def test_the_example_computes_its_reference(tmp_path):
    found = find_template(EXAMPLE, TARGET)
    configs = [(603, "float32", 4, 64, 2), (512, "float16", 8, 64, 1), (70, "float32", 1, 64, 1)]
    parts = []
    for number, (n, dtype, lanes, threads, items) in enumerate(configs):
        task = Task(found, {"n": n, "dtype": dtype}, TARGET)
        source = raw_source(task.final_of({"lanes": lanes, "threads": threads, "items": items}))
        parts.append(
            f"#define elementwise elementwise_{number}\n{source.text}"
            f'extern "C" void run_{number}(const {dtype}* x, {dtype}* y) {{ run_threads('
            f"{source.launches[-1].grid[0]}, THREADS, [&] {{ elementwise_{number}(x, y); }}); }}\n"
            "#undef elementwise\n"
            + "".join(f"#undef {m}\n" for m in ("N", "LANES", "THREADS", "ITEMS", "TYPE", "OP"))
        )
    library = compile_host(device_header() + "".join(parts), tmp_path)
    for number, (n, dtype, *_) in enumerate(configs):
        raw = np.zeros((2, n + 64), dtype)
        start = -raw.ctypes.data % 64 // raw.itemsize
        x = raw[0, start : start + n]
        x[...] = np.random.default_rng(0).normal(size=n)
        y = np.full(n + 32, 7, dtype)
        out = y[-y.ctypes.data % 16 // y.itemsize :][:n]
        getattr(library, f"run_{number}")(
            ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(out.ctypes.data)
        )
        expected = Task(found, {"n": n, "dtype": dtype}, TARGET).reference(x)
        np.testing.assert_allclose(out, expected, rtol=2e-3 if dtype == "float16" else 1e-6)
        assert (y == 7).sum() == 32


# -- tuned, recorded, built again ------------------------------------------------------------------


class Compiling(Measurer):
    """Compiles what it is asked for; its times prefer wide vectors and large blocks."""

    policy = TimingPolicy()

    def __init__(self, task: Task) -> None:
        self.task = task
        self.registers: list[int] = []

    def run(self, candidate):
        final = self.task.final(candidate.config.index)
        cubin = raw_source(final).compiled("sm_90").cubin
        self.registers.append(cubin.usage("elementwise").registers)
        values = candidate.config.values
        cost_s = 8 / values["lanes"] + 1024 / values["threads"]
        return MeasureResult(costs_s=(cost_s,), code_hash=code_hash(final))


@needs_nvrtc
def test_a_kernel_as_text_is_tuned_recorded_and_built_from_its_records(task, tmp_path):
    store = RecordStore(tmp_path / "log.jsonl")
    measurer = Compiling(task)
    tuner = make_tuner("model", task.space, 0, TaskFeatures(task))
    tune(task, measurer, tuner, store, 12, seed=0)
    records = store.load()
    assert len(records) == 12
    assert all(0 < registers <= 64 for registers in measurer.registers)
    assert records[0].target == TARGET
    chosen = choose(task, records)
    record, config = chosen.record, chosen.config
    assert record.cost_s == min(r.cost_s for r in records) < records[0].cost_s
    built = build_task(task, records)
    assert built.config == config
    assert f"#define LANES {config.values['lanes']}\n" in built.source
    assert f"#define THREADS {config.values['threads']}\n" in built.source


# -- running -------------------------------------------------------------------------------------


@needs_nvrtc
@pytest.mark.parametrize("fixed", [{}, {"EPS": 0.5, "T": "float16"}])
def test_errors_count_the_lines_of_the_text_that_the_template_gave(fixed):
    kernel = rtc.RawKernel(
        "copy",
        "\n\n" + COPY.replace("= from[i]", "= missing[i]"),  # COPY begins with an empty line
        [te.placeholder((64,), "float32", name="X")],
        [te.placeholder((64,), "float32", name="Y")],
        grid=1,
        block=64,
        defines={"N": 64, "THREADS": 64, **fixed},
    )
    lowered = kernel.lowered("copy")
    with pytest.raises(CompileError, match=r": text\(6\): error: identifier \"missing\""):
        raw_source(lowered).compiled("sm_90")


@needs_nvrtc
def test_without_a_driver_it_is_built_and_refuses_to_run_in_one_line(monkeypatch):
    monkeypatch.setattr(cupy_driver, "driver_version", lambda: None)
    cupy_driver.cupy.cache_clear()
    with pytest.warns(UserWarning, match="no records given"):
        built = build(EXAMPLE, {"n": 4096}, TARGET)
    assert built._compiled.program.cubin.usage("elementwise").registers > 0
    with pytest.raises(TargetError, match="there is no driver for CUDA on this machine") as caught:
        built(np.zeros(4096, "float16"), np.zeros(4096, "float16"))
    assert "\n" not in str(caught.value)
    assert "on=cpu" not in str(caught.value)  # which has no kernels as text
    with pytest.raises(SaveError, match="is built for a GPU, which is not saved"):
        built.save("never.so")
    unnamed = Task.from_reference(EXAMPLE, {"n": 64}, "cuda")
    with pytest.warns(UserWarning, match="no rec"), pytest.raises(TargetError, match="no driver"):
        _ = build_task(unnamed)._compiled.program
