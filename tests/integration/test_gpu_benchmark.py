"""`benchmarks/gpu.py`, and `autotune bench` on GPUs: on a CPU, and on a GPU that there is not."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.cuda_compiler import needs_nvrtc
from support.fake_gpu import cupy as fake_cupy
from support.fake_machine import COMPILER, FakeMachine

from autotune.task.task import Task

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def call(script: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a benchmark as one does where autotune is not installed."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | variables
    command = [sys.executable, str(BENCHMARKS / script), *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_row_is_tuned_and_judged_and_a_later_call_goes_on_from_there(tmp_path: Path) -> None:
    words = ["--on-cpu", "--only", "transpose", "--folder", str(tmp_path)]
    done = call("gpu.py", *words, "--minutes", "2", "--trials", "2")
    assert done.returncode == 0, done.stderr
    assert "transpose: " in done.stderr
    (path,) = tmp_path.glob("*.json")
    first = json.loads(path.read_text())
    row = first["rows"]["transpose"]
    assert row["workload"]["args"] == {"m": 64, "n": 48}
    assert (row["trials"], row["failed"], row["against"]) == (2, 0, "copy")
    assert row["ratio"] > 0
    assert row["speed"] == pytest.approx(1e-9 * 2 * 4 * 64 * 48 / row["ours_s"])
    assert min(first["copy"].values()) > 1e8
    logged = path.with_suffix(".jsonl").read_text().splitlines()
    assert len([line for line in logged if "final" not in json.loads(line)]) == 2
    (line,) = (text for text in done.stdout.splitlines() if text.startswith("transpose"))
    assert line.split()[1:3] == [f"{row['ratio']:.3f}", "0.95"]
    assert [text.split()[0] for text in done.stdout.splitlines()[4:]] == [
        "broadcast_add", "softmax", "transpose", "reduce", "cumsum.columns.64",
        "linear_recurrence", "matmul.64", "tile_matmul.64",
    ]  # fmt: skip
    done = call("gpu.py", *words, "--minutes", "0")
    assert done.stderr == "transpose: no time is left to tune it\n"
    second = json.loads(path.read_text())
    assert second["tuning"] == first["tuning"]
    assert second["rows"]["transpose"]["config"] == row["config"]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> FakeMachine:
    if COMPILER is None:
        pytest.skip("there is no C compiler")
    return FakeMachine.make(tmp_path_factory.mktemp("machine"))


@needs_nvrtc
def test_schedules_on_a_gpu_are_compared_with_cupy(machine: FakeMachine, tmp_path: Path) -> None:
    words = ["--target", "cuda", "--set", "n=32", "--json", "--log", str(tmp_path / "l.jsonl")]
    done = machine.run("-m", "autotune", "bench", "broadcast_add", *words)
    assert (done.returncode, done.stderr) == (0, "")
    data = json.loads(done.stdout)
    assert (data["device"], data["baseline"]) == ("Fake GPU", "CuPy")
    assert data["times_mean_nothing"] is False
    # What CuPy computes with NumPy's functions takes 20 us here.
    assert data["sizes"][0]["baseline"] == pytest.approx(1e-9 * 32 * 32 / 2e-5)
    assert {point["why"] for line in data["lines"].values() for point in line} == {None}


@pytest.mark.slow
@needs_nvrtc
def test_the_benchmark_runs_on_a_gpu(machine: FakeMachine, tmp_path: Path) -> None:
    words = ["--tiny", "--trials", "2", "--minutes", "5", "--folder", str(tmp_path)]
    done = call("gpu.py", *words, **machine.environment())
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "Fake-GPU.json").read_text())
    assert (data["versions"]["cuda_driver"], data["versions"]["driver"]) == ("12.9", "999.1")
    assert len(data["rows"]) == 11
    for row in data["rows"].values():
        assert row["trials"] + row["failed"] >= 1
        assert row["ratio"] > 0
    assert data["rows"]["matmul.64"]["against"] == "cuBLAS"
    row = data["rows"]["cumsum.row"]
    assert (row["against"], row["aim"], row["unit"]) == ("cupy.cumsum", 1.0, "GB/s")
    assert data["rows"]["unary.float16"]["workload"]["template"] == "raw_kernel.py:elementwise"

    sanitizer = tmp_path / "sanitizer"
    sanitizer.write_text('#!/bin/sh\ntest $2 != racecheck || exit 57\nshift 4\nexec "$@"\n')
    sanitizer.chmod(0o755)
    words = ["--tiny", "--only", "transpose,unary.float16", "--folder", str(tmp_path)]
    done = call("sanitize.py", *words, "--sanitizer", str(sanitizer), **machine.environment())
    assert (done.returncode, done.stderr) == (1, "")
    assert [line.split()[:3] for line in done.stdout.splitlines()] == [
        [row, tool, "exit" if tool == "racecheck" else "nothing"]
        for row in ("transpose", "unary.float16")
        for tool in ("memcheck", "racecheck", "synccheck")
    ]


@pytest.mark.parametrize("script", ["gpu.py", "sanitize.py"])
def test_without_a_gpu_it_says_so_in_one_line(script: str) -> None:
    done = call(script, CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("no GPU to measure on: ")
    assert done.stderr.count("\n") == 1


def test_scans_without_a_gpu_say_so_in_one_line() -> None:
    done = call("scan.py", "--only", "gpu", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0
    assert done.stderr.startswith("no GPU to measure on: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@needs_nvrtc
def test_tiny_scans_are_judged_on_a_gpu(machine: FakeMachine, tmp_path: Path) -> None:
    words = ["--tiny", "--only", "cumsum.row", "--trials", "3", "--folder", str(tmp_path)]
    done = call("gpu.py", *words, "--minutes", "3", **machine.environment())
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "Fake-GPU.json").read_text())
    row = data["rows"]["cumsum.row"]
    assert row["trials"] + row["failed"] == 3
    assert row["failed"] == 0


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Return a function that imports a module of the benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def test_kernels_are_judged_on_the_device_of_their_target(
    scripts: Callable[[str], Any], pretend_cupy: Callable[[Any], None]
) -> None:
    pretend_cupy(fake_cupy)
    held = [row for row in scripts("gpu_rows").tiny_kernels(True) if row.against != "copy"]
    assert [row.name for row in held] == ["cumsum.row", "matmul.64", "tile_matmul.64"]
    bench = scripts("gpu_timing").OnGpu({"arch": "sm_90"})
    assert bench.target == "cuda -arch=sm_90"
    for row in held:
        assert bench.seconds(bench.library(row), 3) == pytest.approx(9e-5)


def test_a_row_that_cannot_be_judged_leaves_the_others(
    scripts: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    gpu, timing = scripts("gpu"), scripts("gpu_timing")

    def judged(bench: Any, row: Any, log: Path) -> dict[str, Any]:
        if row.against == "cuBLAS":
            raise ImportError("libcublas.so.12:\nno such file")
        return {}

    monkeypatch.setattr(timing, "judged", judged)
    monkeypatch.setattr(timing, "fastest_copy", lambda bench, size: (None, size, 1.0))
    kept: list[str] = []
    results = SimpleNamespace(
        facts={}, log=None, put_copy=len, save=lambda: None,
        put=lambda row, figures: kept.append(row.name),
    )  # fmt: skip
    rows = scripts("gpu_rows").tiny_kernels(texts=False)
    gpu._judge([*rows[-2:], *rows[:-2]], results, True, 1)
    assert kept == [row.name for row in rows[:-2]]
    told = "{} cannot be judged: ImportError: libcublas.so.12: no such file\n"
    assert capsys.readouterr().err == "".join(told.format(row.name) for row in rows[-2:])


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of the table's rows."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return pytest.importorskip("gpu_rows")


def test_amounts_are_the_bytes_and_operations_of_the_workloads(rows: Any) -> None:
    l2_bytes = 50 << 20
    found = rows.kernels(l2_bytes)
    assert {row.name for row in found} == {
        "broadcast_add", "softmax", "transpose", "reduce", "unary.float32", "unary.float16",
        "cumsum.columns.4096", "cumsum.columns.8192", "linear_recurrence", "cumsum.row",
        "matmul.1024", "matmul.2048", "matmul.4096", "matmul.8192", "tile_matmul.2048",
    }  # fmt: skip
    for row in found:
        task = Task.from_reference(row.template, row.args, "cuda -arch=sm_90")
        if row.against == rows.LIBRARY:
            assert row.amount == task.flops
        else:
            assert row.amount == task.bytes
    moving = [r for r in found if r.against == rows.COPY and r.name != "cumsum.columns.4096"]
    assert min(r.amount for r in moving) >= 4 * l2_bytes
    larger = {r.name: r.amount for r in rows.kernels(1 << 30) if r.against == rows.COPY}
    del larger["cumsum.columns.4096"]
    assert min(larger.values()) >= 1 << 32


def test_rows_are_chosen_by_name_or_kind(rows: Any) -> None:
    found = rows.tiny_kernels(texts=False)
    assert [row.name for row in rows.chosen(found, "matmul,softmax")] == ["softmax", "matmul.64"]
    assert rows.chosen(found, "") == found
    with pytest.raises(SystemExit, match="--only mat: there is no such row; there are broadcast"):
        rows.chosen(found, "mat")
