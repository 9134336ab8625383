"""`benchmarks/corpus.py`: workloads are tuned and timed beside libraries that compute the same."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cuda_compiler import needs_nvrtc
from support.fake_machine import COMPILER, FakeMachine

from autotune.task.task import Task

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

HAS_ONNX = all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime"))

needs_onnx = pytest.mark.skipif(not HAS_ONNX, reason="onnx and onnxruntime are not installed")

JOB = """
[defaults]
trials = 9
min-repeat-ms = 1

[[workload]]
name = "a product"
template = "matmul"
set = { m = 12, n = 10, k = 8 }
constant = [1]

[[workload]]
name = "no such thing"
template = "matmull"

[[workload]]
name = "rows"
template = "softmax"
set = { m = 6, n = 10 }
"""


def command(*words: str) -> list[str]:
    return [sys.executable, str(BENCHMARKS / "corpus.py"), *words]


def call(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), capture_output=True, text=True, check=False)


def test_workloads_are_tuned_and_timed_and_the_same_command_goes_on_after_an_interruption(
    tmp_path: Path,
) -> None:
    job, folder, out = tmp_path / "job.toml", tmp_path / "folder", tmp_path / "out.json"
    job.write_text(JOB)
    words = ["--job", str(job), "--folder", str(folder), "--trials", "2", "--rounds", "1"]
    words += ["--json", str(out)]
    with subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert first.startswith("[1/3] a product: default ")
    assert process.returncode == 130
    assert rest.endswith("interrupted; the same command goes on from here\n")
    kept = (folder / "a-product.json").read_text()

    done = call(*words)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] + "\n" == first
    assert lines[1].startswith("[2/3] no such thing: failed: autotune: there is no template")
    assert "there is no template 'matmull'" in lines[1]
    assert (folder / "a-product.json").read_text() == kept

    found = json.loads(out.read_text())
    assert found["device"]["kind"] == "cpu"
    assert found["date"].endswith(" UTC")
    rows = {row["name"]: row["value"] for row in found["rows"]}
    product, missing, softmax = found["workloads"]
    for result in (product, softmax):
        seconds, name = result["seconds"], f"corpus.{result['name']}"
        assert result["trials"] == 2
        others = ["NumPy", "ONNX Runtime"] if HAS_ONNX else ["NumPy"]
        assert set(seconds) == {"default", "tuned", *others}
        fastest = min(seconds[other] for other in others)
        assert rows[f"{name}.over_library"] == pytest.approx(fastest / seconds["tuned"], abs=1e-4)
        share = result["ceiling_s"] / seconds["tuned"]
        assert rows[f"{name}.of_ceiling"] == pytest.approx(share, abs=1e-4)
        ratio = seconds["tuned"] / seconds["default"]
        assert rows[f"{name}.default_over_tuned"] == pytest.approx(ratio, abs=1e-4)
        assert rows[f"{name}.tuning_s"] == pytest.approx(result["tuning_s"], abs=1e-4)
        assert 0 < rows[f"{name}.first_build_s"] < result["tuning_s"]
        assert rows[f"{name}.structures"] >= 1
    assert missing["number"] == 1
    assert rows["corpus.no such thing.over_library"] is None
    assert (rows["corpus.workloads"], rows["corpus.failed"]) == (3, 1)
    table = done.stdout.splitlines()
    assert [line.split("  ")[0] for line in table[1:4]] == ["0", "1", "2"]


def test_a_result_is_kept_until_something_that_it_depends_on_changes(
    module: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    corpus = module("corpus")
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    done: list[str] = []

    def tune(workload: Any, log: Path, *_: Any) -> dict[str, Any]:
        log.touch()
        done.append("tuned")
        return {"tuning_s": 1.0}

    def timing(*_: Any) -> dict[str, Any]:
        done.append("timed")
        return {"seconds": {}}

    def again(*words: str) -> list[str]:
        done.clear()
        args = corpus._options().parse_args(
            ["--job", str(job), "--folder", str(tmp_path), "--only", "0", *words]
        )
        (workload,) = corpus.workloads(args)
        corpus.Folder(args).result(workload)
        return list(done)

    monkeypatch.setattr(corpus, "tune", tune)
    monkeypatch.setattr(corpus, "timing", lambda *_: {"error": "it broke"})
    assert again() == ["tuned"]
    monkeypatch.setattr(corpus, "timing", timing)
    assert again() == ["tuned", "timed"]  # what has failed is tried again
    assert again() == []
    (tmp_path / "a-product.json").write_text('{"number": 0')  # of a run that was killed
    assert again() == ["tuned", "timed"]
    assert again("--trials", "8") == ["tuned", "timed"]
    monkeypatch.setattr(corpus, "_code_digest", lambda: "other code")
    assert again("--trials", "8", "--keep") == []
    assert again("--trials", "8") == ["tuned", "timed"]
    job.write_text(JOB.replace("m = 12", "m = 14"))
    assert again("--trials", "8") == ["tuned", "timed"]

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(corpus, "timing", interrupted)
    with pytest.raises(KeyboardInterrupt):
        again("--trials", "7")
    monkeypatch.setattr(corpus, "timing", timing)
    assert again("--trials", "7") == ["timed"]  # its tuning has ended


def test_no_workload_that_can_be_tuned_is_a_failure(
    module: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    corpus = module("corpus")
    monkeypatch.setattr(corpus, "tune", lambda *_: {"tuning_s": 1.0, "error": "it broke"})
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    words = ["--job", str(job), "--folder", str(tmp_path), "--json", str(tmp_path / "out.json")]
    assert corpus.main(words) == 1


def test_two_names_that_make_the_same_file_are_one_line(
    module: Callable[[str], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.toml"
    job.write_text(JOB.replace('"rows"', '"a-product"'))
    assert module("corpus").main(["--job", str(job)]) == 2
    said = capsys.readouterr().err
    assert said.endswith("the name 'a product' or one much like it is given twice\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "3"], r"corpus.py: --only 3: \S+ has the workloads 0 to 2\n"),
        (["--trials", "0"], "corpus.py: .*, workload 'a product': trials must be .*\n"),
        (["--json", "no/folder/x.json"], "corpus.py: --json no/.*: there is no folder no/folder\n"),
        (["--plot", "x.docx"], "corpus.py: .*[Mm]atplotlib.*\n|corpus.py: .*its suffix says .*\n"),
        (["--target", "llvm -threads=0"], "corpus.py: target option -threads is '0': .*\n"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    tmp_path: Path,
    words: list[str],
    message: str,
    module: Callable[[str], Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    assert module("corpus").main(["--job", str(job), *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(message, err)


def test_a_gpu_that_is_not_there_is_told_in_one_line_and_by_the_exit_code(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        command("--job", str(job), "--target", "cuda"),
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch("no GPU to measure on: .*\n", done.stderr)


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_workloads_are_tuned_and_timed_on_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    machine = FakeMachine.make(tmp_path / "machine")
    job, out = tmp_path / "job.toml", tmp_path / "out.json"
    job.write_text(JOB)
    words = ["--job", str(job), "--folder", str(tmp_path / "folder"), "--trials", "2"]
    words += ["--rounds", "1", "--target", "cuda", "--json", str(out), "--only", "0", "2"]
    environment = {**os.environ, **machine.environment()}
    done = subprocess.run(
        command(*words), capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert found["device"]["name"] == "Fake GPU"
    for result in found["workloads"]:
        assert {"default", "tuned"} <= set(result["seconds"])
        if not importlib.util.find_spec("torch"):
            why = "PyTorch is not installed"
            assert result["left_out"] == {"PyTorch": why, "torch.compile": why}


def test_the_list_of_workloads_has_unique_names() -> None:
    from autotune.cli.options.job_files import load_job

    _, tables = load_job(str(BENCHMARKS / "corpus" / "cpu.toml"))
    assert len({table["name"] for table in tables}) == len(tables) == 58
    assert {table["trials"] for table in tables} == {64}


# -- libraries ---------------------------------------------------------------------------------


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Return what imports a module of the benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


SMALL: list[tuple[str, dict[str, Any]]] = [
    ("matmul", {"m": 5, "n": 7, "k": 9}),
    ("matmul", {"m": 5, "n": 7, "k": 9, "transpose_a": True, "transpose_b": True}),
    ("batch_matmul", {"b": 3, "m": 5, "n": 7, "k": 9, "transpose_b": True}),
    ("dense", {"m": 5, "n": 7, "k": 9}),
    ("dense", {"m": 5, "n": 7, "k": 9, "activation": "relu"}),
    ("dense", {"m": 5, "n": 7, "k": 9, "activation": "gelu"}),
    ("conv2d_nchw", {"n": 2, "c": 4, "h": 9, "w": 8, "o": 6, "kh": 3, "kw": 2, "stride": 2,
                     "pad": 1}),
    ("conv2d_nchw", {"n": 2, "c": 4, "h": 5, "w": 6, "o": 6, "kh": 1, "kw": 1}),
    ("conv2d_nchw", {"n": 2, "c": 4, "h": 9, "w": 8, "o": 6, "kh": 3, "kw": 3, "groups": 2,
                     "dilation": 2}),
    ("conv2d_nchw", {"n": 2, "c": 4, "h": 9, "w": 8, "o": 4, "kh": 3, "kw": 3, "groups": 4,
                     "pad": 1}),
    ("conv2d_nchw", {"n": 1, "c": 4, "h": 9, "w": 8, "o": 8, "kh": 3, "kw": 3, "groups": 4}),
    ("conv2d_nhwc", {"n": 2, "c": 4, "h": 9, "w": 8, "o": 6, "kh": 3, "kw": 2, "stride": 2,
                     "pad": 1}),
    ("conv2d_nhwc", {"n": 1, "c": 4, "h": 9, "w": 8, "o": 6, "kh": 3, "kw": 3, "groups": 2}),
    ("pool2d", {"n": 2, "c": 3, "h": 9, "w": 8, "kernel": 3, "stride": 2, "pad": 1}),
    ("pool2d", {"n": 2, "c": 3, "h": 9, "w": 8, "kernel": 3, "stride": 2, "pad": 1,
                "how": "mean"}),
    ("pool2d", {"n": 2, "c": 3, "h": 7, "w": 7, "kernel": 7, "how": "mean"}),
    ("softmax", {"m": 5, "n": 7}),
    ("layer_norm", {"m": 5, "n": 7}),
    ("rms_norm", {"m": 5, "n": 7}),
    ("rms_norm", {"m": 5, "n": 7, "eps": 0.5}),
    *(("reduce", {"m": 5, "n": 7, "how": how, "axis": axis})
      for how in ("sum", "mean", "max", "min") for axis in (0, 1)),
    ("transpose", {"m": 5, "n": 7}),
    ("bias_gelu", {"m": 5, "n": 7}),
    ("broadcast_add", {"n": 6}),
    ("cumsum", {"m": 5, "n": 7, "axis": 0}),
    ("cumsum", {"m": 5, "n": 7, "axis": 1}),
    ("linear_recurrence", {"m": 5, "n": 7}),
    ("rnn_cell", {"steps": 4, "batch": 2, "units": 5}),
    ("lstm_cell", {"steps": 4, "batch": 2, "units": 5}),
    ("attention", {"b": 2, "heads": 3, "s": 5, "d": 4}),
    ("attention", {"b": 2, "heads": 3, "s": 5, "d": 4, "causal": True}),
]  # fmt: skip

LACKING = {"NumPy": {"bias_gelu", "gelu", "conv2d_nhwc groups"}, "ONNX": {"linear_recurrence"}}
"""What a library has no counterpart for."""


@pytest.mark.parametrize("library", [pytest.param("ONNX", marks=needs_onnx), "NumPy"])
@pytest.mark.parametrize(("operator", "args"), SMALL)
def test_a_library_computes_what_the_operator_does(
    operator: str, args: dict[str, Any], library: str, module: Callable[[str], Any]
) -> None:
    timing = module("corpus_timing")
    task = Task.from_reference(operator, args, "llvm")
    inputs, outputs = timing.arrays_of(task)
    if library == "NumPy":
        made = module("corpus_numpy").numpy_call(operator, task.args, inputs, outputs)
    else:
        constant = [1] if len(inputs) > 1 else []
        made = module("corpus_onnx").onnx_call(operator, task.args, inputs, outputs, constant)
    kinds = {operator, args.get("activation"), f"{operator} groups" if "groups" in args else ""}
    assert (made is None) == bool(kinds & LACKING[library])
    if made is None:
        return
    expected = timing.expected_of(task, inputs)
    assert expected is not None
    for _ in range(2):  # what is kept between calls does not change
        for array in outputs:
            array.fill(77)
        made()
        for found, right in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)


@needs_onnx
def test_a_recurrence_of_many_steps_has_no_counterpart_in_onnx(
    module: Callable[[str], Any],
) -> None:
    onnx = module("corpus_onnx")
    steps = onnx.MAX_UNROLLED_STEPS + 1
    arrays = [np.zeros(shape, np.float32) for shape in ((steps, 1, 1, 2), (1, 2, 2), (steps, 1, 2))]
    assert onnx.onnx_call("rnn_cell", {}, arrays[:2], arrays[2:]) is None
