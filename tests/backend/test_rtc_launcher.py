"""The launcher of kernels that take vectors: what it finds without a GPU; launches on a stand-in.

The launches are in tests/support/rtc_launches.py, which runs as a program of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cuda_compiler import needs_nvrtc
from support.fake_machine import COMPILER, FakeMachine
from support.host_cuda import needs_host_compiler
from support.rtc_texts import ELEMENTWISE, parameters

from autotune import rtc
from autotune.errors import CompileError, TargetError, UsageError
from autotune.runtime.cuda import cupy_driver

TESTS = Path(__file__).parents[1]


def kernel(*addresses: int, nvec: int = 4, lead: int = 100, rows: int = 1) -> rtc.VectorizedKernel:
    inputs = [(address, "float16") for address in addresses[:-1]]
    return rtc.VectorizedKernel.of(
        "#define X 1", "f", "text", nvec, lead, rows, inputs, [(addresses[-1], "float32")]
    )


def test_types_lanes_and_alignment_are_declared_by_what_the_arrays_are() -> None:
    found = kernel(0x1000, 0x2000, 0x3000)
    assert found.parameters == (
        "#define X 1\nusing InputType0 = float16;\nusing InputType1 = float16;\n"
        "using OutputType0 = float32;\nconstexpr int nvec = 4;\nconstexpr bool aligned = true;\n"
    )
    assert found.sizes == [100, 1, 100, 25]
    assert (found.blocks, found.index) == (1, "int32")


def test_arrays_that_begin_inside_a_vector_are_not_aligned() -> None:
    found = kernel(0x1002, 0x2004)  # both one element after a vector's begin
    assert "nvec = 4;\nconstexpr bool aligned = false;" in found.parameters
    assert found.sizes[-1] == 26
    apart = kernel(0x1002, 0x2000)  # at different elements: no vectors are common
    assert "nvec = 1;\nconstexpr bool aligned = true;" in apart.parameters
    assert apart.sizes[-1] == 100


def test_rows_of_uneven_length_begin_anywhere_in_a_vector() -> None:
    assert kernel(0x1000, 0x2000, lead=101, rows=3).sizes == [101, 3, 303, 26]
    assert "aligned = false" in kernel(0x1000, 0x2000, lead=101, rows=3).parameters
    assert "aligned = true" in kernel(0x1000, 0x2000, lead=104, rows=3).parameters


def test_many_elements_have_64_bit_indices() -> None:
    assert kernel(0x1000, 0x2000, lead=2**31).index == "int64"
    assert kernel(0x1000, 0x2000, lead=2**31).blocks == 1 << 14


@pytest.mark.parametrize("nvec", [0, 3, 128, True, 4.0, "4"])
def test_lanes_are_a_power_of_two(nvec: object) -> None:
    with pytest.raises(UsageError, match="nvec must be a power of two from 1 to 64, got"):
        rtc.VectorizedKernel.of("", "f", "", nvec, 8, 1, [], [(0, "int8")])  # type: ignore[arg-type]


@needs_nvrtc
@pytest.mark.parametrize(
    "types", [("float16", "float32"), ("float64", "int8"), ("bool", "bfloat16")]
)
@pytest.mark.parametrize("start", [0, 1])
def test_a_kernel_of_vectors_compiles_without_a_gpu(types: tuple[str, str], start: int) -> None:
    sizes = {"float16": 2, "float32": 4, "float64": 8, "int8": 1, "bool": 1, "bfloat16": 2}
    places = [(0x1000 + start * sizes[dtype], dtype) for dtype in types]
    found = rtc.VectorizedKernel.of(
        parameters("sigmoid", "kAddTo"), "elementwise", ELEMENTWISE,
        4, 1000, 1, places[:1], places[1:],
    )  # fmt: skip
    made = found.compiled("sm_90")
    assert made.usage.parameter_bytes == (16, 4, 4, 4, 4)
    made.check(found.blocks, 512)


def test_without_a_driver_it_says_what_runs_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy_driver, "driver_version", lambda: None)
    cupy_driver.cupy.cache_clear()
    with pytest.raises(TargetError, match="there is no driver for CUDA") as caught:
        rtc.VectorizedKernelRTCLauncher("", "f", "", 4, 8, 1, None, None, [], [object()])
    assert "on=cpu" not in str(caught.value)
    with pytest.raises(TargetError, match="device='sm_90' compiles for an architecture") as caught:
        rtc.get_function("", "f", "", 0)
    assert "on=cpu" not in str(caught.value)


@needs_nvrtc
@needs_host_compiler
@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("what", ["elementwise", "scaled_sum", "mistakes"])
def test_kernels_of_vectors_are_launched_and_compute_what_numpy_does(
    what: str, tmp_path: Path
) -> None:
    done = FakeMachine.make(tmp_path).run("-m", "support.rtc_launches", what, cwd=TESTS)
    assert done.stdout == f"{what}\n", done.stderr[-3000:]


# -- what kernels as text are told -----------------------------------------------------------------


@needs_nvrtc
def test_errors_count_the_lines_of_what_was_given() -> None:
    for declared, code, where in (
        ("using T = float32;\nusing U = flot;\n", "__global__ void f() {}", "parameters(2): "),
        ("", "\n__global__ void f() {\n  int x = y;\n}", "code(3): "),
    ):
        with pytest.raises(CompileError) as caught:
            rtc.get_function(declared, "f", code, "sm_90")
        assert f": {where}error: identifier" in str(caught.value)


@needs_nvrtc
def test_a_kernel_is_shown_in_a_few_words() -> None:
    made = rtc.get_function("", "f", "__global__ void f() {}", "sm_90")
    assert repr(made) == "<kernel f for sm_90>"
    assert len(repr(made.cubin)) < 300


TRAITS = """
#include <type_traits>
enum Color : unsigned char { red };
struct Base {};
struct Derived : Base {};
template <class T>
__device__ std::enable_if_t<std::is_floating_point<T>::value, T> twice(T x) { return x * T(2); }
template <class T>
__device__ std::enable_if_t<std::is_integral_v<T>, T> twice(T x) { return x << 1; }
static_assert(std::is_same<std::conditional<true, int, float>::type, int>::value, "");
static_assert(std::is_same_v<std::decay_t<const int&>, int>, "");
static_assert(std::is_same_v<std::decay_t<int[3]>, int*>, "");
static_assert(std::is_signed<int>::value && std::is_unsigned<unsigned char>::value, "");
static_assert(!std::is_signed<bool>::value && std::is_arithmetic<double>::value, "");
static_assert(std::is_pointer<const int*>::value && !std::is_pointer<int>::value, "");
static_assert(std::is_enum<Color>::value && std::is_base_of<Base, Derived>::value, "");
static_assert(std::is_same_v<std::underlying_type_t<Color>, unsigned char>, "");
static_assert(std::is_same_v<std::make_unsigned_t<short>, unsigned short>, "");
static_assert(std::is_same_v<std::remove_cv_t<const volatile int>, int>, "");
static_assert(std::is_same_v<decltype(std::declval<int>()), int&&>, "");
static_assert(std::conjunction_v<std::true_type, std::negation<std::false_type>>, "");
static_assert(util::has_double_or_integral<float64>::value, "");
static_assert(type_util::has_double_or_integral<int8>::value, "");
static_assert(util::has_double_or_integral<bool>::value, "");
static_assert(!util::has_double_or_integral<float32>::value, "");
static_assert(!util::has_double_or_integral<float16>::value, "");
namespace op {
template <class T>
__device__ inline T logistic(const T x) {
  if (type_util::has_double_or_integral<T>::value) return 1. / (1 + ::exp(-x));
  return 1.f / (1 + expf(-x));
}
}
__global__ void f(float* x, int* y) { *x = op::logistic(twice(*x)); *y = twice(*y); }
"""


@needs_nvrtc
def test_traits_of_types_are_there_for_texts_that_include_them() -> None:
    assert rtc.get_function("", "f", TRAITS, "sm_90").usage.registers > 0
