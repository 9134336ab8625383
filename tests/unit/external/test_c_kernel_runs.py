"""Kernels in C and C++ are compiled, loaded, cached and called; temporary files are removed."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
from pathlib import Path

import numpy as np
import pytest
from support.c_compiler import needs_cc, needs_cxx
from support.c_kernels import FIRST, SCALE, X, arrays, built, run, scale

import autotune
from autotune.builder import BuiltFunction, build
from autotune.errors import CodegenError, CompileError, SaveError, TargetError
from autotune.measure.build_bench import BuildBench
from autotune.runtime.cpu.c_compiler import LoadedObject, PreprocessedSource, compile_shared
from autotune.runtime.refused_sources import refused_folder
from autotune.system import scratch
from autotune.target import Target
from autotune.task.task import Task
from autotune.template import Knobs, template


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))


@needs_cc
def test_a_template_is_built_and_called() -> None:
    with pytest.warns(UserWarning, match="no records given"):
        f = build(scale, {"n": 10})
    y = np.zeros(10, np.float32)
    f(X, y)
    np.testing.assert_array_equal(y, 2 * X + 1)
    y[:] = 0
    f.bind(X, y)()
    np.testing.assert_array_equal(y, 2 * X + 1)
    assert "#define BLOCK 1\n" in f.source
    with pytest.raises(ValueError, match="shape"):
        f(X[:5], y)
    with pytest.raises(SaveError, match="scale is a kernel from elsewhere, which is not saved"):
        f.save("never.so")


@needs_cxx
def test_functions_in_cpp_may_be_templates_in_namespaces() -> None:
    text = """
    namespace own {
      template <int Factor> void times(const float *x, float *y) {
        for (int i = 0; i < 10; ++i) y[i] = Factor * x[i];
      }
    }
    """
    kernel = autotune.CKernel("own::times<3>", text, **arrays(10), language="c++")
    np.testing.assert_array_equal(run(kernel, X), 3 * X)


@needs_cc
def test_static_functions_are_found() -> None:
    text = "static void f(float *x, float *y) { y[0] = x[1]; }\n"
    kernel = autotune.CKernel("f", text, **arrays(10), flags=[])
    assert run(kernel, X)[0] == 1


@needs_cc
def test_errors_count_the_lines_of_the_text_and_name_a_function_that_is_not_there() -> None:
    text = SCALE.replace("FACTOR", "missing")
    defines = {"N": 10, "BLOCK": 1}
    with pytest.raises(CompileError, match=r"^cc: text:3:.*error: .*missing") as caught:
        built(autotune.CKernel("scale", text, **arrays(10), defines=defines))
    assert "\n" not in str(caught.value)
    assert "In function" in caught.value.log
    with pytest.raises(CompileError, match=r"other.* undeclared"):
        built(autotune.CKernel("other", "\n", **arrays(10)))
    with pytest.raises(CodegenError, match="wrote no shared object"):
        built(autotune.CKernel("f", "void f(void) {}\n", **arrays(10), flags=["-fsyntax-only"]))


@needs_cc
def test_what_cannot_be_loaded_is_told_in_one_line() -> None:
    text = "void gone(void); void f(float *x, float *y) { gone(); }\n"
    with pytest.raises(CodegenError, match=r"cannot be loaded: .*undefined symbol: gone"):
        built(autotune.CKernel("f", text, **arrays(10)))


@needs_cc
def test_a_compiler_may_be_a_path_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in (6, 8):  # both call themselves the same
        Path("mycc").write_text(f'#!/bin/sh\nexec cc -DVALUE={number} "$@"\n')
        Path("mycc").chmod(0o755)
        assert run(autotune.CKernel("f", FIRST, **arrays(10), compiler="./mycc"), X)[0] == number


def test_a_compiler_that_does_not_start_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "badcc"
    path.write_text("no script\n")
    path.chmod(0o755)
    with pytest.raises(TargetError, match=r"compiler '.*badcc' cannot be started: ") as caught:
        built(autotune.CKernel("f", FIRST, **arrays(10), compiler=str(path)))
    assert "\n" not in str(caught.value)


@needs_cc
def test_a_process_that_may_open_no_more_files_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("os.memfd_create", refuse)
    with pytest.raises(CodegenError, match=r"cannot be loaded: .*Too many open files"):
        built(autotune.CKernel("f", FIRST, **arrays(10), defines={"VALUE": 1}))


@needs_cc
def test_libraries_are_linked() -> None:
    text = "#include <math.h>\nvoid f(float *x, float *y) { y[1] = cosf(x[0]); }\n"
    assert run(autotune.CKernel("f", text, **arrays(10), flags=["-O0", "-lm"]), X)[1] == 1


@needs_cc
def test_openmp_uses_the_threads_of_the_target() -> None:
    text = """
    #include <omp.h>
    void f(float *x, float *y) {
      #pragma omp parallel
      y[0] = omp_get_max_threads();
    }
    """
    kernel = autotune.CKernel("f", text, **arrays(10), flags=["-fopenmp"])
    for threads in (1, 2):
        y = np.zeros(10, np.float32)
        try:
            built(kernel, f"llvm -threads={threads}")(X, y)
        except CodegenError as error:
            pytest.skip(f"this compiler has no OpenMP: {error}")
        assert y[0] == threads


@needs_cc
def test_the_callers_number_of_threads_of_openmp_stays() -> None:
    text = """
    #include <omp.h>
    void f(float *x, float *y) { y[0] = omp_get_max_threads(); if (x[0]) omp_set_num_threads(7); }
    """
    kernel = autotune.CKernel("f", text, **arrays(10), flags=["-fopenmp"])
    try:
        one, three = (built(kernel, f"llvm -threads={threads}") for threads in (1, 3))
        openmp = ctypes.CDLL("libgomp.so.1")
    except (CodegenError, OSError) as error:
        pytest.skip(f"this compiler has no OpenMP of GNU: {error}")
    before = openmp.omp_get_max_threads()
    y = np.zeros(10, np.float32)
    try:
        openmp.omp_set_num_threads(5)
        for f, threads in ((one, 1), (three, 3)):
            f(X + 1, y)
            assert (y[0], openmp.omp_get_max_threads()) == (threads, 5)
    finally:
        openmp.omp_set_num_threads(before)


@needs_cc
@pytest.mark.parametrize("flags", [[], ["-fopenmp"]])
def test_code_is_unloaded_with_its_last_function(flags: list[str]) -> None:
    text = """
    void f(const float *x, float *y) {
      #pragma omp parallel for
      for (int i = 0; i < 10; ++i) y[i] = x[i];
    }
    """
    kernel = autotune.CKernel("f", text, **arrays(10), flags=flags)

    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count("memfd:kernel")

    try:
        run(kernel, X)  # the first one keeps OpenMP
    except CodegenError as error:
        pytest.skip(f"this compiler has no OpenMP: {error}")
    gc.collect()
    before = mapped()
    y = np.zeros(10, np.float32)
    bound = built(kernel).bind(X, y)
    gc.collect()
    assert mapped() > before
    bound()
    np.testing.assert_array_equal(y, X)
    del bound
    gc.collect()
    assert mapped() == before


@needs_cc
def test_each_load_is_a_library_of_its_own() -> None:
    text = "static int calls; void f(float *x, float *y) { y[0] = ++calls; }\n"
    kernel = autotune.CKernel("f", text, **arrays(10))
    assert [run(kernel, X)[0] for _ in range(3)] == [1, 1, 1]


@needs_cc
def test_compiled_code_is_cached_by_text_flags_and_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target.of("llvm")
    task = Task(scale, {"n": 7})
    values = {"block": 2, "level": "-O0", "kind": False}
    source = PreprocessedSource.of(task.final_of(values))
    first = compile_shared(source, target)
    monkeypatch.setattr(
        "autotune.runtime.cpu.c_compiler._compiled", lambda *_: pytest.fail("compiled again")
    )
    assert compile_shared(source, target) == first
    y = np.zeros(7, np.float32)
    LoadedObject(first)(X[:7], y)
    np.testing.assert_array_equal(y, 2 * X[:7] + 2)
    for other in ({"block": 4}, {"level": "-O2"}):
        again = PreprocessedSource.of(task.final_of({**values, **other}))
        with pytest.raises(pytest.fail.Exception, match="compiled again"):
            compile_shared(again, target)


def wrapped_compiler(folder: Path, lines: str) -> str:
    """Return a compiler that first runs some lines of a shell."""
    path = folder / "mycc"
    path.write_text(f'#!/bin/sh\n{lines}\nexec cc "$@"\n')
    path.chmod(0o755)
    return str(path)


@needs_cc
@pytest.mark.parametrize("head", ["", "#include <stddef.h>\n", "#inc\\\nlude <stddef.h>\n"])
def test_a_candidate_is_preprocessed_once_and_only_if_it_includes_files(
    head: str, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    compiler = wrapped_compiler(tmp_path, f'echo "$@" >> {calls}')

    @template("counted", reference=lambda x: x)
    def counted(cfg: Knobs, n: int) -> autotune.CKernel:
        value = cfg.define_knob("value", [1, 2, 3])
        given = {"defines": {"VALUE": value}, "flags": [], "compiler": compiler}
        return autotune.CKernel("f", head + FIRST, **arrays(n), **given)

    bench = BuildBench(Task(counted, {"n": 4}))
    hashes = [bench.build({"value": value}).code_hash for value in (1, 2)]
    bench.add_known(hashes)
    assert bench.build({"value": 2}).binary is None
    words = [line.split()[0] for line in calls.read_text().splitlines()]
    whole = ["-E", "--version", "-shared", "-E", "-shared", "-E"]
    assert words == [word for word in whole if head or word != "-E"]


@needs_cc
def test_a_compiler_that_does_not_take_preprocessed_text_gets_the_text(tmp_path: Path) -> None:
    refuses = 'for word; do case "$word" in *cpp-output) echo no >&2; exit 1;; esac; done'
    compiler = wrapped_compiler(tmp_path, refuses)
    given = {"defines": {"VALUE": 5}, "flags": [], "compiler": compiler}
    text = f"#include <stddef.h>\n{FIRST}"
    assert run(autotune.CKernel("f", text, **arrays(10), **given), X)[0] == 5
    assert not list(refused_folder().glob("*"))


@needs_cc
def test_options_of_the_preprocessor_count_once(tmp_path: Path) -> None:
    (tmp_path / "more.h").write_text("static int more(void) { return MORE; }\n")
    text = "#include <more.h>\nvoid f(float *x, float *y) { y[0] = more() + counted(); }\n"
    (tmp_path / "always.h").write_text("static int counted(void) { return 1; }\n")
    flags = ["-DMORE=4", "-I", ".", "-include", "always.h"]
    kernel = autotune.CKernel("f", text, **arrays(10), flags=flags)
    y = np.zeros(10, np.float32)
    BuiltFunction(kernel.lowered("f", str(tmp_path)), Target.of("llvm"))(X, y)
    assert y[0] == 5


@needs_cxx
def test_the_language_is_that_of_the_files_ending_or_of_the_compiler(tmp_path: Path) -> None:
    for name in ("f.cpp", "f.cc", "f.cxx"):
        (tmp_path / name).write_text("void f(float *x, float *y) { y[0] = static_cast<float>(2); }")
        assert run(autotune.CKernel("f", tmp_path / name, **arrays(10)), X)[0] == 2
    text = "void f(float *x, float *y) { y[0] = static_cast<float>(3); }\n"
    assert run(autotune.CKernel("f", text, **arrays(10), compiler="c++"), X)[0] == 3


def test_what_killed_processes_leave_in_the_shared_folder_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "_token", "")
    with scratch.scratch_folder() as folder:
        assert folder.parent == tmp_path
    scratch.remove_scratch()
    scratch.share_scratch()
    with scratch.scratch_folder() as folder:
        (folder / "left").touch()
        assert folder.parent.parent == tmp_path
        scratch.remove_scratch()
        assert not list(tmp_path.iterdir())
        folder.mkdir(parents=True)  # for the end of the block
    scratch.remove_scratch()
    assert not list(tmp_path.iterdir())
