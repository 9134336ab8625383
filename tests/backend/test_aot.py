"""Saved functions: the file, loading it without what built it, and calling it from C."""

from __future__ import annotations

import ctypes
import gc
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.saved_functions import WORKLOADS, arrays_of, built, doubles, run, scale

import autotune
from autotune import te
from autotune.builder import BuiltFunction
from autotune.cli.main import main
from autotune.codegen.elf.elf_notes import note
from autotune.codegen.elf.linker import link
from autotune.codegen.elf.object_reader import read_object
from autotune.codegen.llvm import LLVMSource
from autotune.errors import ArgumentError, CodegenError
from autotune.ir import dtypes
from autotune.runtime import environment, load_library, save_library
from autotune.runtime.cpu import llvm_compiler as runtime
from autotune.runtime.cpu import openmp
from autotune.system.host import architecture
from autotune.target import Target
from autotune.task.task import Task
from records import Record, RecordStore

pytestmark = pytest.mark.skipif(architecture() != "x86_64", reason="saving is for x86-64")


# -- loaded functions are the built ones -----------------------------------------------------------


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_loaded_template_computes_what_the_built_one_does(
    workload: str, number: int, tmp_path: Path
) -> None:
    function = built(workload, number)
    function.save(tmp_path / "f.so")
    loaded = autotune.load(tmp_path / "f.so")
    arrays = arrays_of(loaded)
    for expected, got in zip(run(function, arrays), run(loaded, arrays), strict=True):
        assert expected.tobytes() == got.tobytes()
    assert loaded.workload == function.workload.to_json()
    assert loaded.config == function.config.to_json()
    assert loaded.cost_s is None


def test_sizes_outputs_and_functions_of_the_system(tmp_path: Path) -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), "float64", name="A")
    B = te.compute((n, m + 1), lambda i, j: te.exp(A[i, te.min(j, m - 1)]), name="B")
    C = te.compute((n,), lambda i: te.fmod(A[i, 0], A[i, 1]), name="C")
    s = te.create_schedule([B.op, C.op])
    function = autotune.build(s, [A, B, C], name="two")
    function.save(tmp_path / "f.so")
    loaded = autotune.load(tmp_path / "f.so")
    for shape in ((4, 5), (1, 2), (0, 3)):
        a = np.random.default_rng(1).random(shape)
        arrays = [a, np.zeros((shape[0], shape[1] + 1)), np.zeros(shape[0])]
        outputs = run(loaded, arrays)
        for expected, got in zip(run(function, arrays), outputs, strict=True):
            assert expected.tobytes() == got.tobytes()
        assert (outputs[2] == np.fmod(a[:, 0], a[:, 1])).all()
    with pytest.raises(ArgumentError, match=r"'C', must have shape \(0,\), which is \(n,\) with n"):
        loaded(arrays[0], arrays[1], np.zeros(7))


@pytest.mark.parametrize("constants", [[0], [1], [0, 1]])
def test_constants_are_in_the_library(constants: list[int], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((37, 50), np.float32), rng.random((50, 64), np.float32)
    sizes = {"m": 37, "n": 64, "k": 50}
    given = {number: [a, b][number] for number in constants}
    with pytest.warns(UserWarning, match="no records given"):
        function = autotune.build("matmul", sizes, name="fixed", constants=given)
    function.save(tmp_path / "f.so")
    loaded = autotune.load(tmp_path / "f.so")
    names = [name for name in "ABC" if name == "C" or "AB".index(name) not in constants]
    assert [p.name for p in loaded.signature.parameters] == names
    assert loaded.workload["constant"] == constants
    arrays = arrays_of(loaded)
    own = {**dict(zip("AB", [a, b], strict=True)), **dict(zip(names, arrays, strict=True))}
    expected, found = run(function, arrays)[-1], run(loaded, arrays)[-1]
    assert expected.tobytes() == found.tobytes()
    np.testing.assert_allclose(found, own["A"] @ own["B"], rtol=1e-4)
    declared = (tmp_path / "f.h").read_text()
    assert [f"*{name}" in declared for name in "ABC"] == [name in names for name in "ABC"]


def with_constant() -> BuiltFunction:
    """B[n, 3] = A + 2 * W in parallel, for any n, where W is 1, 2, 3."""
    n = te.var("n")
    A, W = te.placeholder((n, 3), name="A"), te.placeholder((3,), name="W")
    P = te.compute((3,), lambda i: W[i] * 2.0, name="P")
    B = te.compute((n, 3), lambda i, j: A[i, j] + P[j], name="B")
    s = te.create_schedule(B.op)
    s[B].parallel(s[B].op.axis[0])
    weights = np.array([1, 2, 3], np.float32)
    return autotune.build(s, [A, W, B], name="add", constants={"W": weights})


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_a_c_program_calls_a_function_with_open_sizes_and_a_constant(tmp_path: Path) -> None:
    with_constant().save(tmp_path / "add.so")
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "add.h"\n'
        "int main(void) {\n  float a[6] = {10, 20, 30, 40, 50, 60}, b[6];\n"
        "  if (kernel_add(a, b, 2, 1)) return 1;\n"
        '  for (int i = 0; i < 6; i++) printf("%g ", b[i]);\n  return 0;\n}\n'
    )
    words = ["cc", "main.c", "./add.so", "-o", "main"]
    subprocess.run(words, cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["12", "24", "36", "42", "54", "66"]


@pytest.mark.parametrize("dtype", dtypes.ALL)
def test_every_dtype_is_saved(dtype: str, tmp_path: Path) -> None:
    A = te.placeholder((40,), dtype, name="A")
    B = te.compute((40,), lambda i: A[39 - i], name="B")
    autotune.build(te.create_schedule(B.op), [A, B], name="flip").save(tmp_path / "f.so")
    a = np.arange(40).astype(dtypes.numpy_dtype(dtype))
    out = np.zeros_like(a)
    autotune.load(tmp_path / "f.so")(a, out)
    assert out.tobytes() == a[::-1].tobytes()


def test_what_a_loaded_function_says_of_itself(tmp_path: Path) -> None:
    scale("llvm -threads=3").save(tmp_path / "f.so")
    loaded = autotune.load(tmp_path / "f.so")
    assert repr(loaded) == "<loaded scale for llvm -threads=3>"
    assert loaded.threads == 3
    assert (loaded.workload, loaded.config, loaded.cost_s) == (None, None, None)
    a, out = np.ones(5, "float32"), np.zeros(5, "float32")
    call = loaded.bind(a, out)
    del loaded
    gc.collect()
    call()
    assert out.tolist() == [2.0] * 5


def test_the_machine_code_is_that_of_the_built_function(tmp_path: Path) -> None:
    function = scale()
    function.save(tmp_path / "f.so")
    code = read_object(function._compiled.object_code())
    number, section = max(code.sections.items(), key=lambda item: len(item[1].data))
    linked = sorted(r.offset for r in code.relocations if r.section == number)
    library = (tmp_path / "f.so").read_bytes()
    text = bytearray(library[library.index(section.data[: linked[0]]) :][: len(section.data)])
    for offset in linked:  # addresses, and nothing else
        text[offset : offset + 8] = section.data[offset : offset + 8]
    assert text == section.data


def test_constants_jumps_by_table_and_calls_are_linked(tmp_path: Path) -> None:
    source = """
    declare double @cos(double)
    @numbers = internal constant [4 x double] [double 1.0, double 2.0, double 3.0, double 4.5]
    @last = internal global i64 3, align 64
    define i32 @k(ptr %out, i64 %which, i32 %threads) {
      switch i64 %which, label %else [ i64 0, label %a
        i64 1, label %b
        i64 2, label %c
        i64 3, label %d
        i64 4, label %e ]
    a: %at = load i64, ptr @last
      %place = getelementptr double, ptr @numbers, i64 %at
      %number = load double, ptr %place
      store double %number, ptr %out
      ret i32 10
    b: %v = load double, ptr %out
      %cosine = call double @cos(double %v)
      store double %cosine, ptr %out
      ret i32 11
    c: store i64 1, ptr @last
      ret i32 22
    d: store <4 x double> <double 1.0, double 2.0, double 5.0, double 9.0>, ptr %out, align 8
      ret i32 33
    e: store double 0.0, ptr %out
      ret i32 54
    else: ret i32 65
    }"""
    data = runtime.object_code(LLVMSource(source, "k", False), Target("llvm"), None, None)
    carried = note(load_library.OWNER, bytes(32))
    library = load_library.mapped(
        link([read_object(data)], {"k": "f"}, save_library._library_of, carried), "choice"
    )
    out = np.zeros(4)

    def call(which: int) -> int:
        status: int = library.f(ctypes.c_void_p(out.ctypes.data), ctypes.c_int64(which), 1)
        return status

    assert (call(0), out[0]) == (10, 4.5)
    assert (call(2), call(0), out[0]) == (22, 10, 2.0)
    assert (call(1), out[0]) == (11, np.cos(2.0))
    assert (call(3), out.tolist()) == (33, [1.0, 2.0, 5.0, 9.0])
    assert (call(4), call(5), call(-1), out[0]) == (54, 65, 65, 0.0)


def test_a_function_that_no_library_has_is_found_when_saving() -> None:
    source = "declare void @nowhere()\ndefine i32 @k() {\n call void @nowhere()\n ret i32 0\n}\n"
    data = runtime.object_code(LLVMSource(source, "k", False), Target("llvm"), None, None)
    with pytest.raises(CodegenError, match="cannot be linked: no symbol nowhere"):
        link([read_object(data)], {"k": "k"}, save_library._library_of, b"")


def test_objects_for_other_machines_are_refused() -> None:
    with pytest.raises(CodegenError, match="only where object code is ELF for x86-64"):
        read_object(b"\xcf\xfa\xed\xfe" + bytes(100))


# -- without the compiler --------------------------------------------------------------------------

DEPLOYED = """
import sys
blocked = {blocked!r}
for name in blocked:
    sys.modules[name] = None      # as if it were not installed
import numpy as np
import autotune
f = autotune.load({path!r})
a, out = np.arange(100, dtype="float32"), np.zeros(100, "float32")
f(a, out)
assert (out == 2 * a).all()
try:
    f(a, a)
except autotune.errors.ArgumentError as error:
    assert "overlaps" in str(error)
print(sorted(m for m in sys.modules if m.split(".")[0] not in blocked))
"""
BUILD_ONLY = [
    "llvmlite", "xgboost", "optuna", "pandas", "scipy", "typer", "rich", "platformdirs", "lark",
]  # fmt: skip


def test_loading_needs_numpy_and_nothing_that_builds(tmp_path: Path) -> None:
    scale().save(tmp_path / "f.so")
    code = DEPLOYED.format(blocked=BUILD_ONLY, path=str(tmp_path / "f.so"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ours = {m for m in json.loads(done.stdout.replace("'", '"')) if m.startswith("autotune.")}
    builders = (
        "te",
        "schedule",
        "lowering",
        "ir.expr",
        "codegen.llvm",
        "runtime.cpu.llvm_compiler",
        "task",
        "builder",
    )
    assert not {m for m in ours if m.removeprefix("autotune.").startswith(builders)}


def test_nothing_that_builds_is_imported_where_it_is_installed(tmp_path: Path) -> None:
    scale().save(tmp_path / "f.so")
    code = (
        f"import sys, autotune; autotune.load({str(tmp_path / 'f.so')!r}); "
        f"print(sorted(set({BUILD_ONLY!r}) & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_openmp_a_loaded_function_runs_on_one_thread_and_a_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale("llvm -threads=4").save(tmp_path / "f.so")
    monkeypatch.setattr(openmp, "candidates", lambda: ["/no/such/libgomp.so"])
    openmp.find_openmp.cache_clear()
    try:
        with pytest.warns(openmp.OpenMPWarning, match="no OpenMP runtime found"):
            loaded = autotune.load(tmp_path / "f.so")
    finally:
        openmp.find_openmp.cache_clear()
    assert loaded.threads == 1
    assert doubles(loaded)


# -- the library and its header, for C -------------------------------------------------------------


PROGRAM = """
#include <stdio.h>
#include "scale.h"
#ifdef _OPENMP
#include <omp.h>
void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
#endif

int main(void) {
  float a[1000], b[1000];
  for (int i = 0; i < 1000; i++) a[i] = i;
#ifdef _OPENMP
  kernel_scale_use_openmp(GOMP_parallel, omp_get_num_threads, omp_get_thread_num);
#endif
  if (kernel_scale(a, b, 1000, 4) != 0) return 1;
  for (int i = 0; i < 1000; i++) if (b[i] != 2 * a[i]) return 2;
  puts("right");
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
@pytest.mark.parametrize("options", [[], ["-fopenmp"]])
def test_a_c_program_links_with_the_library(options: list[str], tmp_path: Path) -> None:
    scale().save(tmp_path / "scale.so")
    (tmp_path / "main.c").write_text(PROGRAM)
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    compiled = subprocess.run(
        ["cc", *strict, *options, "main.c", "./scale.so", "-o", "main"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert compiled.returncode == 0, compiled.stderr
    ran = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "right\n")


@pytest.mark.skipif(shutil.which("readelf") is None, reason="no readelf here")
@pytest.mark.parametrize("make", [scale, with_constant])
def test_tools_find_nothing_wrong_with_the_library(
    make: Callable[[], BuiltFunction], tmp_path: Path
) -> None:
    function = make()
    function.save(tmp_path / "f.so")
    words = ["readelf", "--all", "--wide", str(tmp_path / "f.so")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "Warning" not in done.stdout + done.stderr
    assert "Error" not in done.stdout + done.stderr
    names = [line.split()[-1] for line in done.stdout.splitlines() if " GLOBAL " in line]
    entry = f"kernel_{function.function.name}"
    assert names[:2] == [entry, f"{entry}_use_openmp"]
    assert set(names[2:]) <= {
        "aligned_alloc", "free", "memset", "memcpy",
        "sched_getcpu", "clock_gettime",
        "pthread_self", "pthread_getaffinity_np", "pthread_setaffinity_np",
    }  # fmt: skip


# -- the command -----------------------------------------------------------------------------------


def test_the_command_builds_the_best_record_of_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    task = Task.from_reference("matmul", {"m": 8, "n": 16, "k": 4}, "llvm")
    config = task.space.config(int(task.space.feasible_indices()[1]))
    record = Record(
        workload=task.workload.to_json(),
        target="llvm",
        config=config.to_json(),
        costs_s=[2e-6],
        device=environment.device(task.target),
        seed=0,
        fingerprints=task.fingerprints_of(config.index),
    )
    RecordStore("log.jsonl").append([record])
    sizes = ["--set", "m=8", "--set", "n=16", "--set", "k=4"]
    words = ["build", "matmul", *sizes, "--log", "log.jsonl", "-o", "f.so", "--name", "small"]
    assert main(words) == 0
    assert capsys.readouterr() == (
        "f.so and f.h: matmul(m=8, n=16, k=4, dtype=float32) on llvm, "
        f"config {config.index}, 2.00 us, 0.512 GFLOPS in log.jsonl "
        "(no final comparison: the fastest of its trials)\n",
        "",
    )
    loaded = autotune.load("f.so")
    assert (loaded.signature.name, loaded.cost_s) == ("small", 2e-6)
    assert loaded.config == config.to_json()
    assert "int32_t kernel_small(" in Path("f.h").read_text()


def test_the_command_builds_the_default_configuration_without_a_log_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["build", "softmax", "--set", "m=4", "--set", "n=8"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("softmax.so and softmax.h: softmax(m=4, n=8, dtype=float32) on llvm, ")
    assert out.endswith(", the default one (`autotune run` tunes it)\n")
    assert err == ""
    x, y = np.ones((4, 8), "float32"), np.zeros((4, 8), "float32")
    autotune.load("softmax.so")(x, y)
    assert np.allclose(y, 0.125)
