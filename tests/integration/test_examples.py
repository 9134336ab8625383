"""The examples and the code in the README run as they stand, on tiny sizes."""

import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from support.c_compiler import needs_cc
from support.command_line import QUICK, environment
from support.cuda_compiler import needs_nvrtc

from autotune.dataset import export
from records import Record, RecordStore

ROOT = Path(__file__).parents[2]


def needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@pytest.mark.parametrize(
    ("script", "words", "said"),
    [
        ("tune_and_build.py", ["24", "3"], "the answers agree"),
        ("own_template.py", ["30", "50", "3"], "3 trials"),
        ("deploy.py", ["16"], "the answers agree, and LLVM is not loaded"),
        pytest.param("raw_kernel.py", ["5000"], "registers, 0 bytes spilled", marks=needs_nvrtc),
        pytest.param("c_kernel.py", ["32", "3"], "the answers agree", marks=needs_cc),
        ("numpy_call.py", ["30", "50", "3"], "the answers agree"),
        pytest.param("numba_kernel.py", ["20", "2"], "the answers agree", marks=needs("numba")),
        pytest.param(
            "triton_kernel.py", ["999", "2"], "the answers agree", marks=needs("triton", "torch")
        ),
    ],
)
def test_example_runs(script, words, said, tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / script), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert not list(tmp_path.iterdir())


def test_the_notebook_runs(tmp_path):
    text = (ROOT / "examples" / "tune_in_a_notebook.ipynb").read_text(encoding="utf-8")
    assert text.count("trials=16") == 1
    notebook = nbformat.reads(text.replace("trials=16", "trials=3"), as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=200, kernel_name="python3", resources=where).execute()
    outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(output.output_type == "stream" for own in outputs for output in own)
    _, tuned, error, frame = outputs
    assert [output.output_type for output in tuned] == ["display_data", "execute_result"]
    assert all(output.data["text/html"].startswith("<table>") for output in tuned)
    assert float(re.search(r"[\d.e-]+(?=\)?$)", error[0].data["text/plain"])[0]) < 1e-3
    assert "cost_s" in frame[0].data["text/html"]
    assert [path.name for path in tmp_path.iterdir()] == ["layer.jsonl"]


def test_every_example_is_run_here():
    scripts = {path.name for path in (ROOT / "examples").glob("*.py")}
    assert {path.name for path in (ROOT / "examples").glob("*.ipynb")} == {
        "tune_in_a_notebook.ipynb"
    }
    ran = {"tune_and_build.py", "own_template.py", "deploy.py", "raw_kernel.py", "c_kernel.py"}
    ran |= {"numpy_call.py", "numba_kernel.py", "triton_kernel.py"}
    assert scripts == {*ran, "train_on_export.py"}


@pytest.fixture(scope="module")
def data_set(tmp_path_factory):
    """Return a data set of 20 workloads on two devices, whose times follow their knobs."""
    folder = tmp_path_factory.mktemp("data")
    RecordStore(folder / "log.jsonl").append(
        Record(
            workload={"template": "made_up", "args": {"n": n}},
            target="llvm",
            device={"name": f"device {n % 2}"},
            config={"index": x, "values": {"x": 2**x, "odd": x % 2 == 1}},
            costs_s=(1e-3 * (1 + abs(x - 3) + 0.5 * (x % 2)),),
            seed=0,
        )
        for n in range(20)
        for x in range(8)
    )
    return export([folder / "log.jsonl"], folder / "data.npz", ["knob"]).data


@pytest.mark.parametrize("has_sklearn", [True, False])
def test_models_train_on_an_export_and_rank_every_split(
    has_sklearn, data_set, monkeypatch, capsys
):
    if has_sklearn:
        pytest.importorskip("sklearn")
    else:
        monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    example = runpy.run_path(str(ROOT / "examples" / "train_on_export.py"))
    example["main"]([str(data_set), "3"])
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines() if line.startswith(("split", "device_"))]
    models = ["XGBoost", "Ridge"] if has_sklearn else ["XGBoost"]
    assert [row[:3] for row in rows] == [
        [kind, model, part]
        for kind, parts in (
            ("split", ["train", "validation", "test"]), ("device_split", ["train", "test"])
        )
        for model in models
        for part in parts
    ]  # fmt: skip
    assert all(float(row[4]) > 0.9 for row in rows if row[1] == "XGBoost")
    assert ("scikit-learn is not installed: pip install" in printed) is not has_sklearn


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gone.npz"], "cannot read .*schema"),
        (["data.npz", "0"], "usage"),
        (["data.npz", "k"], "usage"),
        (["loops.csv"], "nothing to learn from"),
    ],
)
def test_what_models_cannot_train_on_is_told_in_one_line(words, said, data_set):
    """None of the programs is here, so there are knobs, but no loops."""
    export([data_set.with_name("log.jsonl")], data_set.with_name("loops.csv"))
    example = runpy.run_path(str(ROOT / "examples" / "train_on_export.py"))
    with pytest.raises(SystemExit, match=said):
        example["main"]([str(data_set.with_name(words[0])), *words[1:]])


def block_of(page: str, part: str) -> str:
    blocks = re.findall(r"```\w+\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return next(block for block in blocks if part in block)


@pytest.mark.parametrize("page", ["README.md", "docs/templates.md"])
def test_the_computation_in_a_page_can_be_tuned(tmp_path, page, call):
    (tmp_path / "layer.py").write_text(block_of(page, "def layer"))
    sizes = ["--set", "m=8", "--set", "n=40", "--set", "k=9"]
    done = call("run", "layer.py:layer", *sizes, "--trials", 3, *QUICK)
    assert done.code == 0, done.err
    assert " failed" not in done.out


def test_the_schedule_in_the_readme_computes_what_it_says(capsys):
    names = {}
    exec(block_of("README.md", "simple_mode"), names)
    assert "parallel" in capsys.readouterr().out
    array = np.random.default_rng(0).random((1000, 1000), "f4")
    result = np.empty_like(array)
    names["f"](array, result)
    np.testing.assert_array_equal(result, array.T + np.float32(1))


def test_the_tile_function_in_the_readme_is_a_product_of_matrices():
    names = {}
    exec(block_of("README.md", "tile.compile"), names)
    a, b = np.arange(6, dtype="f4").reshape(2, 3), np.arange(12, dtype="f4").reshape(3, 4)
    np.testing.assert_array_equal(names["product"](a, b), a @ b)


def test_the_readme_has_exactly_two_set_up_commands():
    set_up = (ROOT / "README.md").read_text().split("## Set-up")[1].split("\n## ")[0]
    commands = [
        line
        for block in re.findall(r"```sh\n(.*?)```", set_up, re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(commands) == 2
    assert all(command.startswith("python3 -m venv .venv && ") for command in commands)
    assert commands[0].endswith("autotune run matmul --set m=512 --set n=512 --set k=512")
    assert commands[1].endswith("pytest -n 2")
