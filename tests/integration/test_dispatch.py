"""Dispatch over shapes: from records to a library that takes sizes which it never saw."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess

import numpy as np
import pytest
from support.measured import measured

import autotune
from autotune.cli.main import main
from autotune.operators.template_lookup import find_template
from autotune.shape_dispatch.candidates import Candidate
from autotune.shape_dispatch.comparison import BenchProcess, ProcessEndedError
from autotune.task.task import Task
from records import RecordStore

SHAPES = [(20, 33, 16), (1, 40, 24), (48, 16, 30)]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log of three products, each with its default configuration as the best."""
    path = tmp_path_factory.mktemp("dispatch") / "products.jsonl"
    matmul = find_template("matmul", "llvm")
    for m, n, k in SHAPES:
        task = Task(matmul, {"m": m, "n": n, "k": k}, "llvm")
        RecordStore(path).append([measured(task, task.default_index, 1e-4)])
    return path


@pytest.fixture(scope="module")
def made(log):
    return autotune.dispatch("matmul", log, kernels=2)


@pytest.fixture
def asked(made, monkeypatch):
    """What the command asks for; the dispatch that it gets is made already, which takes seconds."""
    seen = {}

    def dispatch(*_, **how):
        seen.update(how)
        return made

    monkeypatch.setattr("autotune.cli.commands.dispatch.dispatch_template", dispatch)
    return seen


def check_any_size(function):
    rng = np.random.default_rng(0)
    for m, n, k in (*SHAPES, (1, 1, 1), (1, 57, 9), (3, 100, 41), (90, 5, 7), (64, 64, 64)):
        a, b = rng.integers(-4, 5, (m, k)).astype("f4"), rng.integers(-4, 5, (k, n)).astype("f4")
        c = np.full((m, n), np.nan, "f4")
        function(a, b, c)
        np.testing.assert_array_equal(c, a @ b)


def test_a_dispatch_has_few_kernels_and_says_what_each_shape_loses(made):
    assert 1 <= len(made.kernels) <= 2
    assert made.open_sizes == ("m", "n", "k")
    assert made.args["dtype"] == "float32"
    assert [tuple(s.sizes.values()) for s in made.shapes] == SHAPES
    assert all(s.loss >= 0 and s.best_s > 0 for s in made.shapes)
    assert all(s.kernel == made.pick(**s.sizes) for s in made.shapes)


def test_a_dispatch_computes_sizes_that_it_never_saw(made):
    check_any_size(made)


def test_a_saved_dispatch_computes_them_too(made, tmp_path):
    made.save(tmp_path / "any.so")
    loaded = autotune.load(tmp_path / "any.so")
    check_any_size(loaded)
    assert loaded.workload["template"] == "matmul"
    assert loaded.workload["open_sizes"] == ["m", "n", "k"]
    with pytest.raises(autotune.errors.ArgumentError):
        loaded(np.ones((2, 3), "f4"), np.ones((4, 5), "f4"), np.ones((2, 5), "f4"))


C_PROGRAM = """
#include <stdio.h>
#include "products.h"

int main(void) {
    float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 0, 1, 1, 1}, c[4];
    int32_t status = kernel_matmul(a, b, c, 2, 3, 2, 1);
    printf("%d %g %g %g %g\\n", status, c[0], c[1], c[2], c[3]);
    return 0;
}
"""


def test_the_command_prints_losses_and_writes_a_library_for_c(asked, log, tmp_path, capsys):
    library = tmp_path / "products.so"
    words = ["dispatch", "matmul", "--log", str(log), "--kernels", "2", "--name", "product"]
    assert main([*words, "-o", str(library)]) == 0
    assert (asked["most"], asked["name"], asked["within"]) == (2, "product", 0.1)
    printed = capsys.readouterr().out
    assert "if unseen" in printed
    assert "kernels for 3 shapes" in printed or "1 kernel for 3 shapes" in printed
    check_any_size(autotune.load(library))
    if shutil.which("gcc") is None:
        return
    (tmp_path / "main.c").write_text(C_PROGRAM)
    words = ["gcc", "-Wall", "-Werror", "main.c", "./products.so", "-lpthread", "-o", "main"]
    subprocess.run(words, cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "4", "5", "10", "11"]


def test_a_dry_run_writes_nothing(asked, log, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["dispatch", "matmul", "--log", str(log), "--dry-run", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [tuple(s["sizes"].values()) for s in data["shapes"]] == SHAPES
    assert list(tmp_path.iterdir()) == []


def test_arguments_that_are_set_select_the_shapes(log, capsys):
    words = ["dispatch", "matmul", "--log", str(log), "--dry-run"]
    assert main([*words, "--set", "k=16"]) == 3
    assert "two shapes of matmul at least, there are 1" in capsys.readouterr().err


def test_records_of_one_kernel_for_all_sizes_are_to_be_built(tmp_path, capsys):
    log = tmp_path / "open.jsonl"
    task = Task(find_template("matmul", "llvm"), {"m": [1, 4, 8], "n": 16, "k": 16}, "llvm")
    RecordStore(log).append([measured(task, task.default_index, 1e-4)])
    assert main(["dispatch", "matmul", "--log", str(log), "--dry-run"]) == 3
    said = " ".join(capsys.readouterr().err.split())
    assert "others are of one kernel for all sizes, which `autotune build` builds" in said


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--set", "dtype=float64"], 3, "there are 0 that can be used"),
        (["--set", "x=3"], 2, "no argument 'x'"),
        (["--set", "m=three"], 2, "argument m must be"),
        (["--kernels", "0"], 2, "kernels must be a whole number >= 1"),
        (["--within", "-5"], 2, "--within must be a percentage such as 10, got -5"),
        (["--reuse", "shape"], 2, "reuse must be exact or kind"),
        (["--target", "cuda"], 2, "dispatch is for CPUs"),
        (["--name", "a b"], 2, "name must be letters"),
        (["-o", "nowhere/any.so"], 2, "make the folder nowhere"),
    ],
)
def test_a_mistake_is_said_in_one_line(log, words, code, said, capsys):
    assert main(["dispatch", "matmul", "--log", str(log), *words]) == code
    errors = capsys.readouterr().err
    assert said in errors
    assert len(errors.splitlines()) == 1


def test_a_template_that_open_sizes_do_not_suit_is_refused(tmp_path, capsys):
    log = tmp_path / "rows.jsonl"
    for m in (8, 16):
        task = Task(find_template("softmax", "llvm"), {"m": m, "n": 32}, "llvm")
        RecordStore(log).append([measured(task, task.default_index, 1e-4)])
    assert main(["dispatch", "softmax", "--log", str(log), "--dry-run"]) == 2
    assert "no configuration works for all sizes" in capsys.readouterr().err


def test_a_process_that_ends_while_it_times_kernels_is_an_error_of_one_line():
    with BenchProcess("matmul", "llvm") as bench:
        kernel = Candidate({"m": 8, "n": 16, "k": 4}, ("m",), {})
        code = bench.call("code", kernel)
        bench._process.kill()
        with pytest.raises(ProcessEndedError, match="ended with exit code"):
            bench.call("code", kernel)
        assert bench.call("code", kernel) == code  # by another process


def test_kernels_that_take_too_long_are_an_error_of_one_line():
    with BenchProcess("matmul", "llvm") as bench:
        bench._timeout_s = 0.0
        with pytest.raises(ProcessEndedError, match="took longer"):
            bench.call("code", None)


def test_the_symbol_of_a_library_is_named_after_the_template(made, tmp_path):
    made.save(tmp_path / "any.so")
    assert hasattr(ctypes.CDLL(str(tmp_path / "any.so")), "kernel_matmul")


LEAVING = """
import os
from autotune import te
from autotune.template import template

@template("doubled", target="llvm")
def doubled(cfg, n: int):
    way = cfg.define_knob("way", ["stay", "leave"])
    if os.path.exists({flag!r}) and {leaves}:
        os._exit(7)
    A = te.placeholder((n,), name="A")
    return [A, te.compute(A.shape, lambda i: A[i] * 2, name="B")]
"""


def logged(tmp_path, leaves):
    """Return the words of a dispatch; its template ends its process where `leaves` is true."""
    flag, log, own = tmp_path / "flag", tmp_path / "own.jsonl", tmp_path / "own.py"
    own.write_text(LEAVING.format(flag=str(flag), leaves=leaves))
    reference = f"{own}:doubled"
    for n, way in ((64, "stay"), (100, "leave"), (1000, "stay")):
        task = Task.from_reference(reference, {"n": n}, "llvm")
        values = task.space.config(task.default_index).values
        index = task.space.index_of({**values, "way": way})
        RecordStore(log).append([measured(task, index, 1e-4)])
    flag.touch()
    return ["dispatch", reference, "--log", str(log), "--dry-run", "--json"]


def test_a_template_that_ends_its_process_does_not_end_the_command(tmp_path, capsys):
    assert main(logged(tmp_path, "n in (64, 100)")) == 2
    said = capsys.readouterr().err
    assert "left with exit code 7" in said
    assert len(said.splitlines()) == 1


def test_a_kernel_whose_template_ends_its_process_is_left_out(tmp_path, capsys):
    assert main(logged(tmp_path, "way == 'leave' and not isinstance(n, int)")) == 0
    said = capsys.readouterr()
    data = json.loads(said.out)
    assert [s["sizes"]["n"] for s in data["shapes"]] == [64, 100, 1000]
    assert all(k["values"].get("way") != "leave" for k in data["kernels"])
    assert "n=100 makes no kernel for all sizes: the process that times kernels ended" in said.err


def test_records_of_another_type_are_refused_by_the_name_of_the_function():
    with pytest.raises(autotune.errors.UsageError, match="dispatch: records must be paths"):
        autotune.dispatch("matmul", 7)
