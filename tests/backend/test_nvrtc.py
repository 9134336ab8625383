"""NVRTC: machine code without a driver, what kernels take of a device, and what errors say."""

import os
import subprocess
import sys
import threading

import pytest
from support.cuda_compiler import needs_nvrtc

from autotune.errors import CompileError, TargetError
from autotune.runtime import refused_sources
from autotune.runtime.cuda import cuda_toolkit, nvrtc
from autotune.runtime.cuda.nvrtc import Cubin, Usage, compile_cubin, parse_usage
from autotune.runtime.object_cache import ObjectCache

SCALE = """
extern "C" __global__ void scale(float* a, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] *= by;
}
"""


pytestmark = pytest.mark.usefixtures("own_cache")


# -- compiling ---------------------------------------------------------------------------------


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_100"])
def test_a_kernel_is_compiled_to_an_elf_image_for_each_architecture(arch):
    cubin = compile_cubin(SCALE, arch)
    assert cubin.code.startswith(b"\x7fELF")
    assert cubin.arch == arch
    assert 0 < cubin.usage("scale").registers <= 32


@needs_nvrtc
def test_registers_spills_stack_and_shared_memory_are_told_for_each_kernel():
    source = """
    extern "C" __global__ void __launch_bounds__(1024) spills(float* a, int n) {
        float v[96];
        #pragma unroll
        for (int i = 0; i < 96; ++i) v[i] = a[threadIdx.x * 96 + i];
        for (int k = 0; k < n; ++k) {
            #pragma unroll
            for (int i = 0; i < 96; ++i) v[i] = v[i] * v[(i + 37) % 96] + a[k];
        }
        #pragma unroll
        for (int i = 0; i < 96; ++i) a[threadIdx.x * 96 + i] = v[i];
    }
    extern "C" __global__ void indexes(float* a, int n) {
        float v[64];
        for (int i = 0; i < 64; ++i) v[i] = a[i];
        for (int i = 0; i < n; ++i) v[int(a[i]) & 63] += a[i];
        a[0] = v[n];
    }
    extern "C" __global__ void shares(float* a) {
        __shared__ float s[256];
        s[threadIdx.x] = a[threadIdx.x];
        __syncthreads();
        a[threadIdx.x] = s[255 - threadIdx.x];
    }
    """
    kernels = compile_cubin(source, "sm_90").kernels
    assert kernels.keys() == {"spills", "indexes", "shares"}
    spills, indexes, shares = (kernels[name] for name in ("spills", "indexes", "shares"))
    assert min(spills.spill_store_bytes, spills.spill_load_bytes) > 0
    assert spills.registers <= 64  # 65,536 of a processor for 1,024 threads
    assert indexes.stack_bytes >= 256
    assert indexes.spill_store_bytes == 0
    assert shares.shared_bytes == 1024
    assert (shares.stack_bytes, shares.spill_load_bytes) == (0, 0)


@needs_nvrtc
def test_names_of_cpp_are_found_by_their_symbols():
    source = "template <class T> __global__ void fill(T* a, T v) { a[threadIdx.x] = v; }"
    cubin = compile_cubin(source, "sm_90", names=["fill<float>", "fill<int>"])
    assert set(cubin.symbols) == {"fill<float>", "fill<int>"}
    assert set(cubin.symbols.values()) == set(cubin.kernels)
    assert cubin.usage("fill<int>").registers > 0


@needs_nvrtc
def test_headers_of_half_floats_are_found():
    source = """
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    extern "C" __global__ void twice(__half* a, __nv_bfloat16* b) {
        a[0] = __float2half(2.0f * __half2float(a[0]));
        b[0] = __float2bfloat16(2.0f * __bfloat162float(b[0]));
    }
    """
    assert "twice" in compile_cubin(source, "sm_80").kernels


@needs_nvrtc
def test_flags_reach_the_compiler_and_replace_the_usual_ones():
    guarded = '#ifndef GIVEN\n#error "not given"\n#endif\n' + SCALE
    assert compile_cubin(guarded, "sm_90", ["-DGIVEN"]).kernels
    old = '#if __cplusplus > 201500L\n#error "newer"\n#endif\n' + SCALE
    assert compile_cubin(old, "sm_90", ["--std=c++14"]).kernels


# -- the cache ---------------------------------------------------------------------------------


@needs_nvrtc
def test_compiled_code_is_kept_in_memory_and_on_disk(tmp_path, monkeypatch):
    first = compile_cubin(SCALE, "sm_90", names=["scale"], cache=ObjectCache(tmp_path))
    monkeypatch.setattr(nvrtc, "_compile", None)
    again = compile_cubin(SCALE, "sm_90", names=["scale"], cache=ObjectCache(tmp_path))
    assert again == first
    assert Cubin.from_bytes(first.to_bytes()) == first


@needs_nvrtc
@pytest.mark.parametrize("junk", [b"", b"junk", b"{}\n", b"null\nx", b"\xff\n", b"[1]\n\x7fELF"])
def test_a_valid_digest_over_junk_is_compiled_anew(tmp_path, junk):
    first = compile_cubin(SCALE, "sm_90", names=["scale"], cache=ObjectCache(tmp_path))
    (path,) = tmp_path.iterdir()
    ObjectCache(tmp_path).put(path.name, junk)
    again = compile_cubin(SCALE, "sm_90", names=["scale"], cache=ObjectCache(tmp_path))
    assert (again.code, again.kernels) == (first.code, first.kernels)
    assert ObjectCache(tmp_path).get(path.name) == again.to_bytes()


@needs_nvrtc
def test_source_architecture_flags_names_and_compiler_make_the_key(tmp_path, monkeypatch):
    calls = []
    real = nvrtc._compile
    monkeypatch.setattr(nvrtc, "_compile", lambda *args: calls.append(args) or real(*args))
    cache = ObjectCache(tmp_path)
    for _ in range(2):
        compile_cubin(SCALE, "sm_90", cache=cache)
    assert len(calls) == 1
    compile_cubin(SCALE + " ", "sm_90", cache=cache)
    compile_cubin(SCALE, "sm_80", cache=cache)
    compile_cubin(SCALE, "sm_90", ["-DA"], cache=cache)
    compile_cubin(SCALE, "sm_90", names=["scale"], cache=cache)
    monkeypatch.setattr(nvrtc, "compiler_identity", lambda: "another version")
    compile_cubin(SCALE, "sm_90", cache=cache)
    assert len(calls) == 6


@needs_nvrtc
def test_several_threads_compile_at_once():
    found = {}

    def compile_one(number: int) -> None:
        found[number] = compile_cubin(SCALE.replace("scale", f"scale{number}"), "sm_90").kernels

    threads = [threading.Thread(target=compile_one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: list(kernels) for number, kernels in found.items()} == {
        number: [f"scale{number}"] for number in range(4)
    }


# -- errors ------------------------------------------------------------------------------------


@needs_nvrtc
def test_an_error_is_one_line_with_the_whole_source_in_a_file_and_the_log_beside_it():
    broken = SCALE.replace("*= by", "*= bye")
    with pytest.raises(CompileError) as caught:
        compile_cubin(broken, "sm_90")
    error = caught.value
    message = str(error)
    assert "\n" not in message
    assert 'kernel.cu(4): error: identifier "bye" is undefined' in message
    assert str(error.path) in message
    assert error.path.read_text().startswith(broken)
    assert error.log in error.path.read_text()
    assert error.source == broken
    assert error.__notes__ == [error.log]
    assert "1 error detected" in error.log


@needs_nvrtc
def test_a_name_that_the_source_lacks_is_told():
    with pytest.raises(CompileError, match='identifier "sclae" is undefined'):
        compile_cubin(SCALE, "sm_90", names=["sclae"])


@needs_nvrtc
def test_too_much_declared_shared_memory_is_an_error_with_limit_and_value():
    source = """
    extern "C" __global__ void big(float* a) {
        __shared__ float s[20000];
        s[threadIdx.x] = a[threadIdx.x];
        __syncthreads();
        a[threadIdx.x] = s[0];
    }
    """
    with pytest.raises(CompileError, match=r"big declares 80000 bytes.* at most 49152"):
        compile_cubin(source, "sm_90")


@needs_nvrtc
def test_an_unknown_architecture_is_told_with_those_that_are_known():
    with pytest.raises(TargetError, match=r"does not know the architecture 'sm_33': .*sm_90"):
        compile_cubin(SCALE, "sm_33")


@needs_nvrtc
def test_an_unknown_flag_is_an_error():
    with pytest.raises(CompileError, match="unrecognized option --frobnicate"):
        compile_cubin(SCALE, "sm_90", ["--frobnicate"])


@needs_nvrtc
def test_a_header_that_is_missing_is_told_with_where_it_comes_from(monkeypatch):
    found, bindings = cuda_toolkit.load_toolkit()
    bare = cuda_toolkit.Toolkit(found.library, None)
    monkeypatch.setattr(nvrtc, "load_toolkit", lambda: (bare, bindings))
    with pytest.raises(CompileError, match="nvidia-cuda-runtime"):
        compile_cubin("#include <cuda_fp16.h>\n" + SCALE, "sm_90")


def test_sources_are_saved_elsewhere_if_the_cache_folder_cannot_be_written(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(blocked))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = refused_sources.keep_source("text", "log")
    assert path.parent == tmp_path
    assert path.read_text().startswith("text")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    assert refused_sources.keep_source("text", "log") is None


def test_the_oldest_of_many_refused_sources_go(monkeypatch):
    monkeypatch.setattr(refused_sources, "KEPT", 3)
    paths = [refused_sources.keep_source(f"text {number}", "log") for number in range(5)]
    assert len(list(refused_sources.refused_folder().iterdir())) == 3
    assert paths[-1].exists()


# -- where the library is ----------------------------------------------------------------------


@pytest.fixture
def fresh_search(monkeypatch):
    """Let a compiler be looked for anew; return the settings of a process that looks."""
    for name in ("CUDA_PATH", "CUDA_HOME"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_no_compiler_is_one_line_with_the_remedy(fresh_search):
    pathfinder = pytest.importorskip("cuda.pathfinder")

    def nowhere(name: str) -> None:
        raise pathfinder.DynamicLibNotFoundError(f"{name} is nowhere:\nneither here\nnor there")

    fresh_search.setattr(pathfinder, "load_nvidia_dynamic_lib", nowhere)
    with pytest.raises(TargetError, match=r"NVRTC is not installed: pip install .*cuda13"):
        cuda_toolkit.load_toolkit.__wrapped__()


def test_without_the_bindings_one_line_says_what_to_install(fresh_search):
    fresh_search.setitem(sys.modules, "cuda", None)
    message = "cannot be called without cuda-bindings .*cuda.*: pip install .*cuda13"
    with pytest.raises(TargetError, match=message):
        cuda_toolkit.load_toolkit.__wrapped__()


def test_a_damaged_compiler_is_told_from_a_missing_one(tmp_path, fresh_search):
    pathfinder = pytest.importorskip("cuda.pathfinder")
    damaged = tmp_path / "lib64" / "libnvrtc.so.13"
    damaged.parent.mkdir()
    damaged.write_bytes(b"no library")
    fresh_search.setenv("CUDA_PATH", str(tmp_path))

    def nowhere(name: str) -> None:
        raise pathfinder.DynamicLibNotFoundError(name)

    fresh_search.setattr(pathfinder, "load_nvidia_dynamic_lib", nowhere)
    with pytest.raises(TargetError, match=r"cannot be loaded \(.*libnvrtc"):
        cuda_toolkit.load_toolkit.__wrapped__()


@needs_nvrtc
def test_the_toolkit_that_cuda_path_names_goes_first(tmp_path):
    usual, _ = cuda_toolkit.load_toolkit()
    folder = tmp_path / "targets" / "x86_64-linux" / "lib"
    folder.mkdir(parents=True)
    (folder / "libnvrtc.so.13").symlink_to(usual.library)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "cuda_fp16.h").touch()
    script = "from autotune.runtime.cuda import cuda_toolkit as t; print(t.load_toolkit()[0])"
    told = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "CUDA_PATH": str(tmp_path)},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    expected = cuda_toolkit.Toolkit(str(folder / "libnvrtc.so.13"), tmp_path / "include")
    assert told.stdout.strip() == str(expected)


@needs_nvrtc
def test_a_damaged_toolkit_in_cuda_path_is_passed_over(tmp_path, fresh_search):
    usual, _ = cuda_toolkit.load_toolkit()
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libnvrtc.so.13").write_bytes(b"no library")
    fresh_search.setenv("CUDA_PATH", str(tmp_path))
    assert cuda_toolkit.load_toolkit.__wrapped__()[0].library == usual.library


# -- logs of other versions --------------------------------------------------------------------


def test_usage_is_read_off_logs_of_several_versions():
    log = (
        "ptxas info    : 0 bytes gmem, 24 bytes cmem[4]\n"
        "ptxas info    : Compiling entry function 'f' for 'sm_80'\n"
        "ptxas info    : Function properties for f\n"
        "    800 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
        "ptxas info    : Used 40 registers, 1024 bytes smem, 368 bytes cmem[0]\n"
        "ptxas info    : Compiling entry function '_Z1gPi' for 'sm_80'\n"
        "ptxas info    : Function properties for _Z1gPi\n"
        "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 8 registers, used 1 barriers, 4096 bytes smem\n"
    )
    assert parse_usage(log) == {
        "f": Usage(40, 12, 16, 800, 1024),
        "_Z1gPi": Usage(8, 0, 0, 0, 4096),
    }
    assert parse_usage("") == {}


def test_a_failure_without_a_message_is_told_by_its_number(monkeypatch):
    monkeypatch.setattr(nvrtc, "check_arch", lambda arch: None)
    monkeypatch.setattr(nvrtc, "compiler_identity", lambda: "fake")
    monkeypatch.setattr(nvrtc, "version", lambda: (13, 0))
    monkeypatch.setattr(nvrtc, "load_toolkit", lambda: (cuda_toolkit.Toolkit("fake", None), None))
    monkeypatch.setattr(nvrtc, "_compile", lambda *args: (11, "", b"", {}))
    with pytest.raises(CompileError, match=r"NVRTC 13\.0 refuses .*error 11 without a message"):
        compile_cubin(SCALE, "sm_90")


COMPILE = """
import sys
from pathlib import Path
from autotune.runtime.object_cache import ObjectCache
from autotune.runtime.cuda.nvrtc import compile_cubin
for number in range(3):
    source = f'extern "C" __global__ void k{number}(int* a) {{ a[threadIdx.x] = {number}; }}'
    cache = ObjectCache(Path(sys.argv[1]))
    assert f"k{number}" in compile_cubin(source, "sm_90", cache=cache).kernels
"""


@needs_nvrtc
def test_processes_share_a_folder_of_compiled_code(tmp_path):
    words = [sys.executable, "-c", COMPILE, str(tmp_path / "objects")]
    started = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    told = [process.communicate(timeout=240)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], told
    assert len(list((tmp_path / "objects").iterdir())) == 3  # whole ones, each once
