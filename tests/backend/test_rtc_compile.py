"""Kernels of the device header compile for every GPU, by NVRTC and without one."""

import pytest
from support.cuda_compiler import needs_nvrtc
from support.rtc_variants import NINE, joined, variants

from autotune.errors import CompileError, TargetError, UsageError
from autotune.ir import dtypes
from autotune.rtc import UNARY, device_header, get_function, rtc_function, unary
from autotune.rtc.vector_plan import VectorPlan
from autotune.runtime.cuda import nvrtc
from autotune.runtime.cuda.nvrtc import compile_cubin
from autotune.runtime.object_cache import ObjectCache

pytestmark = needs_nvrtc

PLAIN = """
__launch_bounds__(kRTCMaxThreadsPerBlock)
__global__ void apply(const InputType* from, OutputType* to, const index_t count) {
  const index_t first = blockIdx.x * blockDim.x + threadIdx.x;
  for (index_t k = first; k < count; k += gridDim.x * blockDim.x) {
    auto result = OP(AccType<InputType>::from(from[k]));
    if (req == OpReqType::kAddTo) result = op::add(result, AccType<OutputType>::from(to[k]));
    if (req != OpReqType::kNullOp) to[k] = AccType<OutputType>::to(result);
  }
}
"""
VECTORIZED = """
struct Arrays {
  const void* from;
  void* to;
};
__launch_bounds__(kRTCMaxThreadsPerBlock)
__global__ void apply(const Arrays arrays, const index_t count, const index_t num_vectors) {
  vector::VectorizedLoader<InputType, nvec, aligned> source((const InputType*)arrays.from, count);
  vector::VectorizedStorer<OutputType, nvec, aligned> target((OutputType*)arrays.to, count);
  const index_t id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= num_vectors) return;
  source.load(id, count);
  if (req == kAddTo) target.load(id, count);
  for (int lane = 0; lane < nvec; ++lane) {
    auto result = OP(AccType<InputType>::from(source.separate()[lane]));
    target.separate()[lane] = AccType<OutputType>::to(result);
  }
  if (req != kNullOp) target.store(id, count);
}
"""


@pytest.fixture(autouse=True)
def own_caches(tmp_path, monkeypatch):
    """Neither the user's folder nor what other tests compiled is used."""
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(rtc_function, "default_cache", lambda: ObjectCache(tmp_path / "objects"))
    rtc_function._function.cache_clear()
    yield
    rtc_function._function.cache_clear()


# -- what compiles -------------------------------------------------------------------------------


def test_a_sample_of_all_pairs_of_types_compiles_for_all_requests_and_alignments():
    pairs = [(a, b) for k, a in enumerate(NINE) for b in [NINE[(4 * k + 2) % 9]]]
    found = variants("sigmoid", pairs[:3], ["add"], [False])
    found += variants("sigmoid", pairs[3:4], ["null", "write"])
    compiled = compile_cubin(device_header("int32") + joined(found), "sm_90")
    assert set(compiled.kernels) == {f"unary_{number}" for number in range(len(found))}


@pytest.mark.slow
@pytest.mark.parametrize("input", NINE)
def test_all_pairs_of_types_compile_for_all_requests_and_alignments(input):
    found = variants("sigmoid", [(input, output) for output in NINE])
    assert len(found) == 9 * 3 * 3
    compiled = compile_cubin(device_header("int32") + joined(found), "sm_90")
    assert len(compiled.kernels) == len(found)


def test_every_operator_compiles_for_half_floats_and_integers():
    lines = [f"x[threadIdx.x] += float(op::{name}({of}[0]));" for name in UNARY
             for of in ("half", "whole")]  # fmt: skip
    parameters = "float32* x, float16* half, int8* whole"
    kernel = f'extern "C" __global__ void all({parameters}) {{ {" ".join(lines)} }}'
    assert compile_cubin(device_header() + kernel, "sm_80").usage("all").registers > 0


@pytest.mark.parametrize(
    ("input", "output", "lanes"),
    [("float32", "float32", 4), ("float16", "float16", 8), ("float64", "float64", 2)],
)
def test_vectors_of_16_bytes_are_moved_by_one_instruction(input, output, lanes):
    plan = VectorPlan(lanes, True, 1)
    code = unary("relu").parameters(input, output, "write", plan) + unary("relu").code(plan)
    ptx = assembly(device_header("int32") + code)
    loads, stores = moved_bytes(ptx, "ld.global"), moved_bytes(ptx, "st.global")
    assert set(loads) == set(stores) == {16}


def assembly(source: str) -> str:
    """Return the assembly text of a source, made by the same compiler."""
    from autotune.runtime.cuda.cuda_toolkit import load_toolkit

    toolkit, bindings = load_toolkit()
    _, program = bindings.nvrtcCreateProgram(source.encode(), b"k.cu", 0, None, None)
    words = ["--gpu-architecture=compute_90", "--std=c++17", f"--include-path={toolkit.include}"]
    (status,) = bindings.nvrtcCompileProgram(program, 3, [word.encode() for word in words])
    assert status == 0
    text = bytearray(bindings.nvrtcGetPTXSize(program)[1])
    bindings.nvrtcGetPTX(program, text)
    bindings.nvrtcDestroyProgram(program)
    return text.rstrip(b"\0").decode()


def moved_bytes(ptx: str, instruction: str) -> list[int]:
    """Bytes that each load or store of a kernel moves."""
    found = []
    for line in ptx.splitlines():
        words = line.split()
        if words and words[0].startswith(instruction):
            parts = words[0].split(".")
            count = next((int(part[1:]) for part in parts if part in ("v2", "v4")), 1)
            found.append(count * int(parts[-1].strip("bfus")) // 8)
    return found


@pytest.mark.parametrize("request_", ["kNullOp", "kWriteTo", "kAddTo"])
def test_kernels_of_ones_own_compile_with_the_names_of_the_header(request_):
    parameters = f"""
    const OpReqType req = {request_};
    #define OP op::sigmoid
    using InputType = float16;
    using OutputType = float32;
    constexpr int nvec = 4;
    constexpr bool aligned = false;
    """
    plain = get_function(parameters, "apply", PLAIN, "sm_90")
    assert plain.usage.parameter_bytes == (8, 8, 8)
    vectorized = get_function(parameters, "apply", VECTORIZED, "sm_90")
    assert vectorized.usage.parameter_bytes == (16, 8, 8)
    assert vectorized.usage.max_threads == 512


def test_indices_are_of_the_width_that_is_asked_for():
    code = 'extern "C" __global__ void f(index_t n) {}'
    assert get_function("", "f", code, "sm_90").usage.parameter_bytes == (8,)
    assert get_function("", "f", code, "sm_90", index="int32").usage.parameter_bytes == (4,)


# -- the cache -----------------------------------------------------------------------------------

SCALE = 'extern "C" __global__ void scale(T* x, T by) { x[threadIdx.x] *= by; }'


def test_functions_are_kept_in_memory_and_on_disk(monkeypatch):
    first = get_function("using T = float;", "scale", SCALE, "sm_90")
    assert get_function("using T = float;", "scale", SCALE, "sm_90") is first
    rtc_function._function.cache_clear()  # as another process
    monkeypatch.setattr(nvrtc, "_compile", None)
    assert get_function("using T = float;", "scale", SCALE, "sm_90").cubin == first.cubin


def test_parameters_name_code_flags_architecture_and_compiler_tell_functions_apart(monkeypatch):
    calls = []
    real = nvrtc._compile
    monkeypatch.setattr(nvrtc, "_compile", lambda *args: calls.append(args) or real(*args))
    other = SCALE.replace("scale", "other")
    makers = [
        lambda: get_function("using T = float;", "scale", SCALE, "sm_90"),
        lambda: get_function("using T = int;", "scale", SCALE, "sm_90"),
        lambda: get_function("using T = float;", "other", other + SCALE, "sm_90"),
        lambda: get_function("using T = float;", "scale", other + SCALE, "sm_90"),
        lambda: get_function("using T = float;", "scale", SCALE, "sm_90", flags=["-DA"]),
        lambda: get_function("using T = float;", "scale", SCALE, "sm_80"),
    ]
    made = [make() for make in makers]
    assert len(calls) == len(set(map(id, made))) == len(makers)
    assert [make() for make in makers] == made
    monkeypatch.setattr(nvrtc, "compiler_identity", lambda: "a newer one")
    rtc_function._function.cache_clear()
    makers[0]()
    assert len(calls) == len(makers) + 1


# -- errors --------------------------------------------------------------------------------------


def test_a_compile_error_names_the_file_with_the_header_and_the_parameters():
    with pytest.raises(CompileError, match=r"identifier .TT. is undefined") as caught:
        get_function("using T = float;", "scale", SCALE.replace("T by", "TT by"), "sm_90")
    text = caught.value.path.read_text()
    assert text.startswith(device_header())
    assert "using T = float;" in text
    assert 'identifier "TT" is undefined' in text


def test_mistaken_names_types_requests_and_flags_are_one_line():
    with pytest.raises(UsageError, match=r"no operator 'sigmoud': expected one of sqrt"):
        unary("sigmoud")
    with pytest.raises(UsageError, match=r"request must be one of null, write, add, got 'set'"):
        unary("relu").kernel("float32", "float32", "set", "sm_90")
    with pytest.raises(UsageError, match="flags must be a list"):
        get_function("", "f", "", "sm_90", flags="-DA")
    with pytest.raises(UsageError, match=r"device must be the number of a GPU"):
        get_function("", "f", "", 1.5)
    with pytest.raises(UsageError, match=r"^parameters must be text, got dict$"):
        get_function({}, "f", "", "sm_90")
    with pytest.raises(UsageError, match=r"^code must be text without NUL .* in line 1$"):
        get_function("", "f", "\0", "sm_90")
    with pytest.raises(TargetError, match="does not know the architecture 'sm_1'"):
        get_function("", "f", "", "sm_1")


def test_all_types_have_kernels():
    source = device_header() + "\n".join(
        f'extern "C" __global__ void f_{t}({t}* x) {{ x[0] = AccType<{t}>::to(op::add(x[1], x[2]));'
        f" x[3] = AccType<{t}>::to(op::sigmoid(x[4])); }}"
        for t in dtypes.ALL
    )
    assert len(compile_cubin(source, "sm_100").kernels) == len(dtypes.ALL)
