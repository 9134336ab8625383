"""Texts of kernels of Kernel Tuner's calls, and its helpers for directives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autotune.compat.kernel_tuner import wrappers
from autotune.compat.kernel_tuner.sources import compiler_of, generated_text
from autotune.compat.kernel_tuner.utils import directives
from autotune.errors import UsageError


def test_the_processor_stands_in_for_a_missing_compiler_of_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.warns(UserWarning, match=r"no compiler 'nvc\+\+' .* 'c\+\+' takes its place"):
        found = compiler_of("nvc++", ["-fast", "-acc=gpu", "-mp=gpu", "-gpu=cc80", "-Mx", "-DN=1"])
    assert found == ("c++", ["-O3", "-march=native", "-fopenacc", "-fopenmp", "-DN=1"])
    assert compiler_of("clang", ["-fast"]) == ("clang", ["-fast"])


def test_macros_are_as_given_where_they_are_given() -> None:
    params = {"block": 8, "on": True}
    text = generated_text("body", None, {"kernel_tuner": 1}, params)
    assert text.splitlines()[:3] == ["#define kernel_tuner 1", "#define block 8", "#define on 1"]
    own = {"twice": "2 * block", "made": lambda p: p["block"] + 1}
    text = generated_text(lambda p: f"body of {p['block']}", own, {"kernel_tuner": 1}, params)
    assert text.splitlines() == [
        "#define twice 2 * 8", "#define made 9", '#line 1 "text"', "body of 8",
    ]  # fmt: skip


# -- directives ------------------------------------------------------------------------------------

REGION = """
#include <cmath>
#define N 100
#define ROWS 8
int main() {
  #pragma tuner initialize
  int before = 1;
  #pragma tuner stop
  #pragma tuner start twice x(float*:N) grid(int*:ROWS,COLUMNS) size(int:N) by(double:2)
  #pragma acc parallel vector_length(threads) \\
      num_gangs(4)
  for (int i = 0; i < size; ++i) x[i] *= by;
  #pragma tuner stop
}
"""


def test_a_region_becomes_a_timed_function_and_arguments() -> None:
    code = directives.Code(directives.OpenACC(), directives.Cxx())
    texts, arguments = directives.process_directives(code, REGION, {"COLUMNS": 4})
    assert directives.extract_preprocessor(REGION)[1:] == ["#define N 100", "#define ROWS 8"]
    head = (
        'extern "C" float twice(float * __restrict__ x, int * __restrict__ grid, int size, '
        "double by) {"
    )
    text = texts["twice"]
    assert head in text
    assert "#define COLUMNS 4\n" in text
    assert "num_gangs(4) present(x[:100]) present(grid[:32])" in text
    lines = [line.strip() for line in text.splitlines()]
    order = [
        "int before = 1;", "#pragma acc enter data copyin(grid[:32])",
        "auto autotune_begin = std::chrono::steady_clock::now();",
        "for (int i = 0; i < size; ++i) x[i] *= by;",
        "auto autotune_end = std::chrono::steady_clock::now();",
        "#pragma acc exit data copyout(grid[:32])",
    ]  # fmt: skip
    places = [lines.index(line) for line in order]
    assert places == sorted(places)
    kinds = [(a.dtype.name, np.shape(a)) for a in arguments["twice"]]
    assert kinds == [("float32", (100,)), ("int32", (32,)), ("int32", ()), ("float64", ())]
    assert [*arguments["twice"][2:]] == [100, 2.0]


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("unsigned int *", "uint32"), ("const float*", "float32"), ("long long*", "int64"),
        ("unsigned char*", "uint8"), ("long unsigned int*", "uint64"), ("bool*", "bool"),
        ("uint16_t*", "uint16"), ("const double * restrict", "float64"), ("signed*", "int32"),
    ],
)  # fmt: skip
def test_types_of_arrays_may_be_written_in_many_ways(kind: str, dtype: str) -> None:
    (array,) = directives.allocate_signature_memory({"x": [kind, "100"]})
    assert (array.dtype.name, array.shape) == (dtype, (100,))
    if dtype not in ("bool", "float64"):
        (number,) = directives.allocate_signature_memory({"n": [kind.replace("*", ""), "100"]})
        assert (number.dtype.name, number) == (dtype, 100)


def test_parts_of_a_region_are_told_by_name() -> None:
    assert list(directives.extract_directive_code(REGION, kernel_name="other")) == []
    assert directives.extract_directive_data(REGION)["twice"]["size"] == ["int", "N"]
    assert "elapsed" not in directives.extract_directive_signature(REGION)["twice"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: directives.Fortran(), "regions in Fortran"),
        (lambda: directives.parse_size("M", ["#define N 1"]), "the size 'M' of a region is no"),
        (lambda: directives.allocate_signature_memory({"x": ["Point*", 4]}), "of type 'Point\\*'"),
        (lambda: directives.allocate_signature_memory({"x": ["float**", 4]}), "of type 'float"),
        (lambda: directives.allocate_signature_memory({"x": ["long double", 4]}), "'long double'"),
        (lambda: directives.allocate_signature_memory({"x": ["unsigned float", 4]}), "unsigned"),
        (lambda: directives.allocate_signature_memory({"x": ["", 4]}), "of type ''"),
        (lambda: directives.allocate_signature_memory({"n": ["char", 200]}), "not hold 200"),
        (
            lambda: directives.extract_directive_code("#pragma tuner start f x(int:1)\n"),
            "has no '#pragma tuner stop'",
        ),
    ],
)
def test_regions_that_cannot_be_read_are_refused(call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()


def test_a_wrapper_passes_arrays_as_references_of_their_shape() -> None:
    args = [np.zeros((2, 3)), np.zeros(1, "int32"), np.zeros(4, "float32"), np.int64(1)]
    text = wrappers.cpp("f", "void f();", args, [True, True, False, False])
    assert "f_wrapper(double *arg0, int *arg1, float *arg2, long long arg3)" in text
    assert "f(*reinterpret_cast<double (*)[2][3]>(arg0), *arg1, arg2, arg3);" in text
    with pytest.raises(UsageError, match="argument 3 is no array"):
        wrappers.cpp("f", "", args, [True] * 4)
