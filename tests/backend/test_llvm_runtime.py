"""The LLVM runtime: engines, the object cache, threads, OpenMP, forks."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.builder import lower
from autotune.codegen.llvm import LLVMSource, emit
from autotune.errors import ArgumentError, CodegenError, TargetError, UsageError
from autotune.ir.expr import Buffer, Const, Load, SizeVar, Var
from autotune.ir.stmt import For, LoopKind, PrimFunc, Store
from autotune.runtime.cpu import llvm_compiler as runtime
from autotune.runtime.cpu import openmp
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache, cache_key, object_folder
from autotune.runtime.signature import Signature
from autotune.system.available_cpus import available_cpus, quota_cpus, thread_count
from autotune.target import Target


def doubled(name: str = "double", factor: float = 2.0) -> PrimFunc:
    """out = factor * a over a parallel loop."""
    n = SizeVar("n")
    a, out, i = Buffer("a", "float32", (n,)), Buffer("out", "float32", (n,)), Var("i")
    body = For(i, n, LoopKind.PARALLEL, Store(out, i, Load(a, i) * factor))
    return PrimFunc(name, (a, out), frozenset([out]), body, (n,))


def works(kernel: runtime.CompiledFunction, factor: float = 2.0) -> bool:
    a = np.arange(100, dtype="float32")
    out = np.zeros_like(a)
    kernel(a, out)
    return bool((out == a * factor).all())


def test_kernels_of_one_name_live_side_by_side_and_are_freed() -> None:
    kernels = [compile_function(doubled(factor=f), cache=ObjectCache(None)) for f in (2.0, 3.0)]
    assert works(kernels[0], 2.0)
    assert works(kernels[1], 3.0)
    del kernels[0]
    gc.collect()
    assert works(kernels[0], 3.0)


class Exported:
    """Memory that is offered through DLPack and nothing else."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


def test_arrays_of_other_libraries_are_written_in_place() -> None:
    kernel = compile_function(doubled(), cache=ObjectCache(None))
    a, out = np.arange(100, dtype="float32"), np.zeros(100, "float32")
    kernel(Exported(a), Exported(out))
    assert (out == 2 * a).all()
    call = kernel.bind(Exported(a), Exported(out))
    a += 1
    call()
    assert (out == 2 * a).all()


def test_arrays_without_dimensions_or_without_elements_are_computed() -> None:
    for shape in ((), (0, 4)):
        A = te.placeholder(shape, name="A")
        B = te.compute(shape, lambda *i, A=A: A[i] + 1.0, name="B")
        final = lower(te.create_schedule(B.op), [A, B])
        a, out = np.full(shape, 2.0, "float32"), np.zeros(shape, "float32")
        compile_function(final, cache=ObjectCache(None))(a, out)
        assert (out == 3.0).all()


def test_assembly_and_sources_can_be_read() -> None:
    kernel = compile_function(doubled(), cache=ObjectCache(None))
    assert "define i32 @kernel_double(" in kernel.source
    assert "kernel_double:" in kernel.assembly()
    assert "kernel_double" in kernel.optimised()
    assert str(kernel.target) == "llvm"


def test_instructions_keep_their_order_for_open_sizes_and_avx512_without_functions() -> None:
    assert emit(doubled(), has_avx512=True).keeps_order
    assert not emit(doubled(), has_avx512=False).keeps_order
    for n, function in ((te.var("n"), te.exp), (8, te.abs)):
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i, A=A, function=function: function(A[i]), name="B")
        assert not emit(lower(te.create_schedule(B.op), [A, B]), has_avx512=True).keeps_order


def test_options_of_the_code_generator_are_set_for_one_module_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LLVM has them for the whole process: no other thread may compile in the meantime."""
    found = []

    def set_option(_: str, option: str) -> None:
        found.append((option, runtime._lock.locked()))

    plain = compile_function(doubled(), cache=ObjectCache(None))
    monkeypatch.setattr(runtime.llvm, "set_option", set_option)
    cache, source = ObjectCache(None), replace(plain.module, keeps_order=True)
    kernel = runtime.CompiledFunction(plain.function, source, plain.target, None, cache)
    kernel.assembly()
    assert found == [("-enable-misched=false", True), ("-enable-misched=true", True)] * 2
    found.clear()
    runtime.object_code(replace(source, keeps_order=False), plain.target, None, cache)
    assert found == []
    runtime.object_code(replace(source, keeps_order=False), plain.target, 1, cache)
    assert found == [("-disable-lsr=true", True), ("-disable-lsr=false", True)]
    assert len(cache._memory) == 3
    with pytest.raises(ZeroDivisionError), runtime._options_of(source, 1):
        raise ZeroDivisionError
    assert [name for name, _ in found[-2:]] == ["-enable-misched=true", "-disable-lsr=false"]


def test_a_call_costs_little() -> None:
    kernel = compile_function(doubled(), "llvm -threads=1", cache=ObjectCache(None))
    a, out = np.zeros(1, "float32"), np.zeros(1, "float32")
    kernel(a, out)
    best = min(_time_of(kernel, a, out) for _ in range(20))
    assert best < 100e-6  # about 5 us on an idle machine


def _time_of(kernel: runtime.CompiledFunction, *arrays: np.ndarray) -> float:
    start = time.thread_time()
    for _ in range(100):
        kernel(*arrays)
    return (time.thread_time() - start) / 100


# -- the cache ------------------------------------------------------------


def test_objects_are_kept_between_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_function(doubled(), cache=ObjectCache(tmp_path))
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(runtime, "_optimised", lambda *_: pytest.fail("compiled again"))
    assert works(compile_function(doubled(), cache=ObjectCache(tmp_path)))


def test_everything_that_matters_is_in_the_key(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    compile_function(doubled(), cache=cache)
    compile_function(doubled(factor=4.0), cache=cache)
    compile_function(doubled(), cache=cache, level=1)
    compile_function(doubled(), "llvm -mcpu=x86-64", cache=cache)
    compile_function(doubled(), "llvm -threads=1", cache=cache)  # the same code
    assert len(list(tmp_path.iterdir())) == 4


def test_parts_of_a_key_do_not_run_together() -> None:
    assert cache_key("ab", "c") != cache_key("a", "bc")


def test_a_damaged_object_is_compiled_again(tmp_path: Path) -> None:
    compile_function(doubled(), cache=ObjectCache(tmp_path))
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-10])
    assert works(compile_function(doubled(), cache=ObjectCache(tmp_path)))
    assert ObjectCache(tmp_path).get(path.name) is not None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    cache = ObjectCache(blocked / "objects")
    assert works(compile_function(doubled(), cache=cache))
    cache.put("key", b"data")
    assert cache.get("key") == b"data"


def test_memory_and_disk_are_bounded(tmp_path: Path) -> None:
    cache = ObjectCache(None, memory_bytes=100)
    for i in range(10):
        cache.put(str(i), bytes(40))
    assert [cache.get(str(i)) is not None for i in (7, 8, 9)] == [False, True, True]
    keys = [cache_key(str(i)) for i in range(11)]
    for i, key in enumerate(keys[:10]):
        ObjectCache(tmp_path).put(key, bytes(40))
        os.utime(tmp_path / key, (i, i))
    (tmp_path / "of somebody else").write_bytes(bytes(1000))
    ObjectCache(tmp_path, disk_bytes=400).put(keys[10], bytes(40))
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {*keys[8:], "of somebody else"}


def test_the_folder_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path))
    assert object_folder() == tmp_path / "objects"


# -- refusals -------------------------------------------------------------


def test_a_symbol_that_does_not_exist_is_found_before_running() -> None:
    source = LLVMSource(
        "declare void @no_such_function()\ndefine i32 @k(i32 %t) {\n"
        "  call void @no_such_function()\n  ret i32 0\n}\n", "k", False,
    )  # fmt: skip
    binary = runtime._binary(Signature("k", ()), source, Target.parse("llvm"), None, None)
    with pytest.raises(CodegenError, match="cannot be linked: no symbol no_such_function") as error:
        runtime.LoadedBinary(binary)
    assert "\n" not in str(error.value)


def test_text_that_llvm_refuses_is_one_line() -> None:
    source = LLVMSource("define i32 @k( {", "k", False)
    with pytest.raises(CodegenError, match="LLVM refused the generated code") as error:
        runtime.object_code(source, Target.parse("llvm"), None, None)
    assert "\n" not in str(error.value)


def test_targets_that_are_no_cpus_are_refused() -> None:
    with pytest.raises(TargetError, match="expected kind llvm"):
        compile_function(doubled(), "cuda")
    with pytest.raises(TargetError, match="knows no CPU 'z80'"):
        compile_function(doubled(), "llvm -mcpu=z80", cache=ObjectCache(None))


# -- threads --------------------------------------------------------------


def test_threads_are_those_of_the_target_or_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert thread_count(Target.parse("llvm -threads=5").threads) == 5
    assert 1 <= thread_count() <= available_cpus()
    monkeypatch.setattr("autotune.system.available_cpus.quota_cpus", lambda: 1)
    assert thread_count() == 1


@pytest.mark.parametrize(
    ("files", "own", "expected"),
    [
        ({"cpu.max": "150000 100000"}, "0::/", 2),
        ({"cpu.max": "max 100000"}, "0::/", None),
        ({"cpu.max": "400000 100000", "a/b/cpu.max": "max 100000", "a/cpu.max": "100000 100000"},
         "0::/a/b", 1),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, "1:cpu:/", 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "1:cpu:/", None),
        ({"cpu/x/cpu.cfs_quota_us": "20000", "cpu/x/cpu.cfs_period_us": "100000"}, "1:cpu:/x", 1),
        ({}, "0::/", None),
    ],
)  # fmt: skip
def test_quotas_of_control_groups_are_read(
    files: dict[str, str], own: str, expected: int | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        path = tmp_path / "sys" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    (tmp_path / "own").write_text(own + "\n")
    assert quota_cpus(str(tmp_path / "sys"), str(tmp_path / "own")) == expected


def test_openmp_comes_from_the_wheel_without_importing_xgboost() -> None:
    code = (
        "import sys; from autotune.runtime.cpu.openmp import find_openmp; found = find_openmp(); "
        "assert found and 'xgboost' not in sys.modules; print(found.path)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "libgomp" in result.stdout


def test_without_openmp_loops_run_on_one_thread_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(openmp, "candidates", lambda: ["/no/such/libgomp.so"])
    openmp.find_openmp.cache_clear()
    try:
        with pytest.warns(openmp.OpenMPWarning, match="no OpenMP runtime found"):
            kernel = compile_function(doubled(), "llvm -threads=4", cache=ObjectCache(None))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert works(compile_function(doubled(), cache=ObjectCache(None)))
        assert kernel.threads == 1
        assert works(kernel)
    finally:
        openmp.find_openmp.cache_clear()


FORK = """
import os, sys, warnings
sys.path.insert(0, {tests!r})
from test_llvm_runtime import compile_function, doubled, works, ObjectCache
kernel = compile_function(doubled(), "llvm -threads=2", cache=ObjectCache(None))
assert works(kernel)
child = os.fork()
if child == 0:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        good = works(kernel) and works(kernel)
    messages = [str(w.message) for w in caught]
    os._exit(0 if good and len(messages) == 1 and "forked" in messages[0] else 1)
_, status = os.waitpid(child, 0)
assert works(kernel)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_runs_on_one_thread_instead_of_hanging() -> None:
    code = FORK.format(tests=str(Path(__file__).parent))
    assert subprocess.run([sys.executable, "-c", code], timeout=240, check=False).returncode == 0


def test_serial_functions_need_no_openmp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "find_openmp", lambda: pytest.fail("looked for OpenMP"))
    a, zero = Buffer("a", "float32", (Const(1, "int32"),)), Const(0, "int32")
    body = Store(a, zero, Const(3.0, "float32"))
    kernel = compile_function(PrimFunc("one", (a,), frozenset([a]), body), cache=ObjectCache(None))
    out = np.zeros(1, "float32")
    kernel(out)
    assert out[0] == 3.0
    assert not emit(PrimFunc("one", (a,), frozenset([a]), body)).uses_threads


def test_a_built_function_times_itself_on_given_arrays() -> None:
    n = 3000
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: te.exp(A[i]), name="B")
    built = autotune.build(te.create_schedule(B.op), [A, B])
    a, b = np.zeros(n, np.float32), np.zeros(n, np.float32)
    timing = built.time(a, b, repeats=3)
    assert 0 < timing.low <= timing.seconds <= timing.high < 1
    assert timing.repeats == 3
    np.testing.assert_allclose(b, 1, rtol=1e-6)
    with pytest.raises(UsageError, match="time: repeats must be a whole number >= 1, got 0"):
        built.time(a, b, repeats=0)
    with pytest.raises(ArgumentError, match="takes 2 arrays"):
        built.time(a)
