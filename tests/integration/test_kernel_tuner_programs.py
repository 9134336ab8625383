"""Programs in the shape of Kernel Tuner's examples in C run; its simulation reads the caches."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.c_compiler import needs_cxx
from support.cuda_compiler import needs_nvrtc
from support.fake_machine import COMPILER, FakeMachine

from autotune.compat.kernel_tuner import run_kernel, tune_kernel, wrappers
from autotune.compat.kernel_tuner.util import (
    CompilationFailedConfig,
    ErrorConfig,
    RuntimeFailedConfig,
)
from autotune.compat.kernel_tuner.utils.directives import Code, Cxx, OpenMP, process_directives
from autotune.errors import UsageError
from autotune.tuner.run.events import Measured
from autotune.tuning import tune

pytestmark = needs_cxx

ADD = """
#include <time.h>
static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * t.tv_sec + 1e-6 * t.tv_nsec;
}
extern "C" float add(float *c, float *a, float *b, int n) {
  double begin = now();
  for (int i = 0; i < n; i += step)
    for (int j = i; j < i + step && j < n; ++j) c[j] = a[j] + b[j];
#if fault == 1
  this is an error
#elif fault == 2
  *(volatile int *)0 = 1;
#elif fault == 3
  c[7] += 1;
#elif fault == 4
  for (volatile int on = 1; on;) ;
#endif
  return now() - begin;
}
"""

N = 1000
A, B = (np.arange(N, dtype="float32") * k for k in (1, 3))


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_fork_servers: Any) -> None:
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def tuned(text: str = ADD, **given: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    arguments = [np.zeros_like(A), A, B, np.int32(N)]
    options: dict[str, Any] = {
        "name": "add", "tune_params": {"step": [1, 8, 64], "fault": [0]}, "answer": [A + B],
        "quiet": True, "iterations": 3,
    }  # fmt: skip
    options.update(given)
    name, choices = options.pop("name"), options.pop("tune_params")
    return tune_kernel(name, text, N, arguments, choices, **options)


def test_results_are_of_each_legal_configuration_in_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    metrics = {"per_element": lambda p: p["time"] / N, "twice": "2 * per_element"}
    results, env = tuned(restrictions=["step != 8"], metrics=metrics, quiet=False)
    assert sorted(result["step"] for result in results) == [1, 64]
    for result in results:
        assert len(result["times"]) == 3
        assert result["time"] == pytest.approx(sorted(result["times"])[1])
        assert result["twice"] == pytest.approx(2 * result["time"] / N)
        assert result["compile_time"] > 0 < result["benchmark_time"]
    assert env["best_config"]["time"] == min(result["time"] for result in results)
    assert env["total_compile_time"] == sum(result["compile_time"] for result in results)
    assert "best performing configuration: step=" in capsys.readouterr().out


def test_faults_cost_one_result_each() -> None:
    choices = {"step": [8], "fault": [0, 1, 2, 3, 4]}
    results, _ = tuned(tune_params=choices, timeout=5.0)
    found = {result["fault"]: result for result in results}
    assert isinstance(found[0]["time"], float)
    kinds = {fault: type(found[fault]["time"]) for fault in (1, 2, 3, 4)}
    assert kinds == {
        1: CompilationFailedConfig, 2: RuntimeFailedConfig, 3: RuntimeFailedConfig,
        4: RuntimeFailedConfig,
    }  # fmt: skip
    assert (
        "1 of 1000 elements of argument 0 are wrong, first at [7]" in found[3]["error"]["message"]
    )
    assert "SIGSEGV" in found[2]["error"]["message"]
    assert found[4]["error"]["code"] == "RUN_TIMEOUT"


def test_a_comparison_of_the_user_decides() -> None:
    def verify(answer, result):  # type: ignore[no-untyped-def]
        return answer[1] is None and abs(result[0] - answer[0]).max() <= 1 and len(result) == 4

    choices = {"step": [8], "fault": [0, 3]}
    results, _ = tuned(tune_params=choices, verify=verify)
    assert all(isinstance(result["time"], float) for result in results)
    results, _ = tuned(tune_params=choices, verify=verify, answer=[A + B + 1.5])
    assert {result["fault"]: type(result["time"]) for result in results} == {
        0: RuntimeFailedConfig, 3: RuntimeFailedConfig
    }  # fmt: skip


def test_texts_may_be_made_for_each_configuration() -> None:
    def text(params: dict[str, Any]) -> str:
        return ADD.replace("step", str(params["step"])).replace("fault", "0")

    results, _ = tuned(text, lang="C", strategy="random_sample", strategy_options={"max_fevals": 2})
    assert len(results) == 2
    results, _ = tuned(
        defines={"step": "4 * step", "fault": lambda p: p["fault"] * (p["step"] > 1)},
        tune_params={"step": [1, 8], "fault": [1]},
    )
    kinds = {result["step"]: type(result["time"]) for result in results}
    assert kinds == {1: float, 8: CompilationFailedConfig}


def test_a_cache_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    before, _ = tuned(restrictions=["step > 1"], cache="add")
    after, _ = tuned(cache="add.json")
    assert after[:2] == before
    assert [result["step"] for result in after[2:]] == [1]
    monkeypatch.setattr("autotune.compat.kernel_tuner.runners.measuring.tune", None)
    again, env = tuned(cache="add.json")
    assert again == after
    assert env["best_config"] == min(after, key=lambda result: result["time"])


def test_results_are_in_the_cache_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(*args: Any, callbacks: Any, **more: Any) -> Any:
        def look(event: Any) -> None:
            if isinstance(event, Measured):
                seen.append(len(json.loads(Path("add.json").read_text())["cache"]))

        return tune(*args, callbacks=[*callbacks, look], **more)

    monkeypatch.setattr("autotune.compat.kernel_tuner.runners.measuring.tune", watched)
    with pytest.raises(UsageError, match="metric 'bad' fails: ZeroDivisionError"):
        tuned(cache="add", metrics={"bad": lambda p: 1 / (p["step"] - 64)})
    assert seen[0] == 1
    monkeypatch.setattr("autotune.compat.kernel_tuner.runners.measuring.tune", None)
    results, _ = tuned(cache="add", metrics={"good": "2 * time"})
    assert [result["good"] / result["time"] for result in results] == [2, 2, 2]


def test_a_metric_that_fails_is_told_at_the_first_result() -> None:
    with pytest.raises(UsageError, match=r"metric 'bad' fails: ZeroDivisionError.* in the cache$"):
        tuned(cache="add", metrics={"bad": lambda p: 1 // int(p["time"] < 0)})
    assert len(json.loads(Path("add.json").read_text())["cache"]) == 1
    results, _ = tuned(cache="add", metrics={"good": "2 * time"})
    assert [result["good"] / result["time"] for result in results] == [2, 2, 2]
    with pytest.raises(UsageError, match="metric 'bad' fails: ZeroDivisionError"):
        tuned(
            cache="add", metrics={"bad": lambda p: 1 // int(p["time"] < 0)},
            tune_params={"step": [1, 8, 64, 128], "fault": [0]},
        )  # fmt: skip
    assert len(json.loads(Path("add.json").read_text())["cache"]) == 3


@pytest.mark.parametrize("cache", [None, "add"])
def test_an_interrupt_loses_nothing(
    cache: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen = []

    def watched(*args: Any, callbacks: Any, **more: Any) -> Any:
        def look(event: Any) -> None:
            if isinstance(event, Measured):
                seen.append(event.record.config["values"]["step"])
                if len(seen) == 2:
                    raise KeyboardInterrupt

        return tune(*args, callbacks=[*callbacks, look], **more)

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("autotune.compat.kernel_tuner.runners.measuring.tune", watched)
    with pytest.raises(KeyboardInterrupt):
        tuned(cache=cache)
    (line,) = capsys.readouterr().err.splitlines()
    (folder,) = re.findall("folder='(.*?)' continues", line) or [None]
    assert (folder is None) == line.endswith("kept in the cache") == (cache is not None)
    results, _ = tuned(cache=cache, folder=folder)
    assert sorted(result["step"] for result in results) == [1, 8, 64]
    assert len(seen) == len(set(seen)) == 3


def test_a_result_is_run_once_more() -> None:
    results, env = tuned(metrics={"GB/s": "1 / time", "rate": lambda p: 3})
    assert results[0]["rate"] == 3
    after = run_kernel("add", ADD, N, [np.zeros_like(A), A, B, np.int32(N)], env["best_config"])
    np.testing.assert_array_equal(after[0], A + B)


def test_what_was_measured_is_simulated() -> None:
    measured, _ = tuned(tune_params={"step": [1, 8, 64], "fault": [0, 1]}, cache="add")
    simulated, env = tuned(
        tune_params={"step": [1, 8, 64], "fault": [0, 1]}, cache="add", simulation_mode=True
    )

    def by_name(results: list[dict[str, Any]]) -> dict[Any, Any]:
        return {(result["step"], result["fault"]): result for result in results}

    assert by_name(simulated) == by_name(measured)
    assert env["best_config"]["fault"] == 0


@pytest.mark.filterwarnings("ignore")  # of that package
def test_kernel_tuner_simulates_from_a_cache() -> None:
    kernel_tuner = pytest.importorskip("kernel_tuner")
    results, _ = tuned(tune_params={"step": [1, 8, 64], "fault": [0, 1]}, cache="add.json")
    simulated, env = kernel_tuner.tune_kernel(
        "add", ADD, N, [A, A, B, np.int32(N)], {"step": [1, 8, 64], "fault": [0, 1]}, lang="C",
        cache="add.json", simulation_mode=True, quiet=True,
    )  # fmt: skip
    theirs = {(r["step"], r["fault"]): str(r["time"]) for r in simulated}
    assert theirs == {(r["step"], r["fault"]): str(r["time"]) for r in results}
    assert env["best_config"]["step"] in (1, 8, 64)


HISTOGRAM = """
#define BINS 16
#define N 2000
int main() {
  #pragma tuner start histogram values(int*:N) bins(int*:BINS)
  #pragma omp parallel for num_threads(threads)
  for (int i = 0; i < N; ++i) {
    #pragma omp atomic update
    bins[values[i]] += 1;
  }
  #pragma tuner stop
}
"""


@pytest.mark.filterwarnings("ignore:there is no compiler")
def test_a_region_with_directives_is_tuned_from_its_first_values_each_time() -> None:
    texts, arguments = process_directives(Code(OpenMP(), Cxx()), HISTOGRAM)
    values = np.random.default_rng(0).integers(0, 16, 2000, dtype="int32")
    arguments["histogram"] = [values, np.full(16, 3, "int32")]
    results, _ = tune_kernel(
        "histogram",
        texts["histogram"],
        0,
        arguments["histogram"],
        {"threads": [1, 2]},
        answer=[None, 3 + np.bincount(values, minlength=16)],
        compiler="nvc++",
        compiler_options=["-fast", "-mp=gpu"],
        quiet=True,
    )
    assert not any(isinstance(result["time"], ErrorConfig) for result in results)


def test_a_kernel_without_answers_may_write_anything() -> None:
    results, _ = tuned(tune_params={"step": [8], "fault": [0, 3]}, answer=None)
    assert [isinstance(result["time"], float) for result in results] == [True, True]


def test_a_kernel_runs_once_and_returns_its_arguments() -> None:
    a, b = (np.random.default_rng(k).random((2, 2)) for k in (0, 1))
    text = "template <typename T, int n> void mul(T (&c)[n][n], T (&a)[n][n], T (&b)[n][n], int s)"
    text += "{ for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) { c[i][j] = 0;"
    text += " for (int k = 0; k < n; ++k) c[i][j] += a[i][k] * b[k][j]; } }"
    arguments = [np.zeros((2, 2)), a, b, np.int32(2)]
    whole = wrappers.cpp("mul", text, arguments, [True, True, True, False])
    found = run_kernel("mul_wrapper", whole, 1, arguments, {}, lang="C")
    np.testing.assert_allclose(found[0], a @ b)
    assert found[3] == 2
    assert not arguments[0].any()


def test_a_kept_folder_holds_the_log_and_is_continued() -> None:
    tuned(folder="kept")
    (log,) = Path("kept").glob("add-*/log.jsonl")
    lines = log.read_text().splitlines()
    results, _ = tuned(folder="kept", restrictions=["step > 1"])
    assert sorted(result["step"] for result in results) == [8, 64]
    again = log.read_text().splitlines()
    trials = [line for line in again[len(lines) :] if "final" not in json.loads(line)]
    assert trials == []
    tuned(ADD.replace("a[j] + b[j]", "b[j] + a[j]"), folder="kept")
    assert len([*Path("kept").iterdir()]) == 2


def test_a_script_needs_no_guard_and_its_includes_are_beside_it(tmp_path: Path) -> None:
    (tmp_path / "sum.h").write_text("static float sum(float a, float b) { return a + b; }\n")
    script = f"""
import numpy as np
from autotune.compat.kernel_tuner import tune_kernel
TEXT = '''#include "sum.h"\n''' + '''{ADD.replace("a[j] + b[j]", "sum(a[j], b[j])")}'''
a = np.ones({N}, "float32")
results, env = tune_kernel("add", TEXT, {N}, [0 * a, a, a, np.int32({N})],
    {{"step": [1, 2], "fault": [0]}}, answer=[2 * a], compiler_options=["-O2"])
assert all(isinstance(r["time"], float) for r in results), results
"""
    (tmp_path / "program.py").write_text(script)
    run = [sys.executable, "-W", "error", "program.py"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("best performing configuration: step=")


# -- kernels in CUDA C++ ---------------------------------------------------------------------------

ON_GPU = """
__global__ void add(float *c, const float *a, const float *b, int n) {
  int i = blockIdx.x * block_size_x * items + threadIdx.x;
#pragma unroll
  for (int k = 0; k < items; ++k, i += block_size_x)
    if (i < n) c[i] = a[i] + b[i];
}
"""
GPU_PROGRAM = f"""
import numpy as np
from autotune.compat.kernel_tuner import run_kernel, tune_kernel
ADD = {ON_GPU!r}
TEXT = ADD.replace("c[i] =", "c[i] +=")
x, c = np.arange({N}, dtype="float32"), np.full({N}, 5, "float32")
arguments = [c, x, x, np.int32({N})]
options = dict(grid_div_x=["block_size_x", "items"])
after = run_kernel("add", TEXT, {N}, arguments, dict(block_size_x=64, items=2), **options)
np.testing.assert_array_equal(after[0], 5 + 2 * x)
assert c[0] == 5 and after[3] == {N}
constant = "__constant__ float by[2];" + ADD.replace("a[i] + b[i]", "by[1] * a[i]")
after = run_kernel("add", constant, {N}, arguments, dict(block_size_x=64, items=2),
    cmem_args={{"by": np.array([2, 3], "float32")}}, **options)
np.testing.assert_array_equal(after[0], 3 * x)
parameters = dict(block_size_x=[32, 64, 2048], items=[1, 2])
results, env = tune_kernel("add", TEXT, {N}, arguments, parameters, answer=[5 + 2 * x],
    iterations=3, quiet=True, cache="c", **options)
print(sorted((r["block_size_x"], r["items"], type(r["time"]).__name__) for r in results))
print(env["device_name"], env["compute_capability"], {{len(r["times"]) for r in results}})
wrong, _ = tune_kernel("add", TEXT, {N}, arguments, dict(block_size_x=[32], items=[1]),
    answer=[2 * x], quiet=True, **options)
print(wrong[0]["time"], wrong[0]["error"]["message"][:40])
"""


@needs_nvrtc
@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_a_kernel_that_adds_to_its_output_is_tuned(tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    (tmp_path / "program.py").write_text(GPU_PROGRAM)
    machine = FakeMachine.make(tmp_path / "machine")
    done = machine.run("program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == str([(b, i, "float") for b in (32, 64) for i in (1, 2)])
    assert second == "Fake GPU 90 {3}"
    assert third.startswith("RuntimeFailedConfig 1000 of 1000 elements")


@pytest.mark.gpu
def test_a_kernel_is_tuned_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    exec(GPU_PROGRAM.replace("print(", "(lambda *_: None)("), {})
