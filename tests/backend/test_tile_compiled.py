"""Compiled Tile functions are called with arrays of any library and return new ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.tile_programs import PROGRAMS
from support.tile_tools import bound, floats, run

import autotune
from autotune import tile
from autotune.errors import ArgumentError, TileError, UsageError
from autotune.operators.tile_template import default_schedule, fallback_schedule
from autotune.target import Target
from autotune.tile.to_te.program_to_te import to_te

MATMUL = PROGRAMS["matmul"].code


def check_program(name: str, target: str, case: int) -> None:
    program = PROGRAMS[name]
    arrays = program.arrays(program.cases[case])
    results, expected = tile.compile(program.code, target)(*arrays), run(program.code, *arrays)
    if not isinstance(expected, tuple):
        results, expected = (results,), (expected,)
    for result, value in zip(results, expected, strict=True):
        assert result.dtype == value.dtype
        np.testing.assert_allclose(result, value, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_run_by_the_default_of_their_search_space(name: str) -> None:
    check_program(name, "llvm -mcpu=x86-64-v2", 0)


@pytest.mark.parametrize(
    "name", ["layer norm", "argmax", "cumulative sums both ways", "transposed convolution"]
)
def test_programs_run_in_kernels(name: str) -> None:
    check_program(name, "cuda -on=cpu", 1)


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64-v2", "cuda -on=cpu"])
@pytest.mark.parametrize("name", ["softmax", "transposed convolution"])
def test_the_plain_schedule_is_right_too(name: str, target: str) -> None:
    program = PROGRAMS[name]
    arrays = program.arrays(program.cases[1])
    tensors, result = to_te(bound(program.code, *arrays)), run(program.code, *arrays)
    schedule = fallback_schedule(tensors.outputs, Target.of(target))
    built = autotune.build(schedule, [*tensors.inputs, *tensors.outputs], target)
    computed = np.empty_like(result)
    built(*arrays, computed)
    np.testing.assert_allclose(computed, result, rtol=2e-5, atol=2e-5)


def test_where_the_defaults_are_refused_what_is_legal_near_them_is_compiled() -> None:
    shapes = {"A": (300, 8), "B": (8, 8)}  # 3 tiles of rows are no whole groups of 8
    program = tile.bind(tile.parse(MATMUL), shapes, dict.fromkeys(shapes, "float32"))
    schedule, _ = default_schedule(program, Target.of("cuda -on=cpu"))
    assert any(stage.op.name.endswith(".shared") for stage in schedule.stages)


@pytest.mark.parametrize("header", ["A[N]", "A[M, N]"])
def test_all_of_long_rows_goes_to_a_scalar_in_lanes(header: str) -> None:
    index = header.lower().replace("a[", "A[")
    mean = f"S[] = +({index}); O = A - S;"
    a = floats(*((7, 70) if "M" in header else (70,)))
    result = tile.compile(f"function ({header}) -> (O) {{ {mean} }}")(a)
    np.testing.assert_allclose(result, a - a.sum(), rtol=1e-5, atol=1e-4)


def test_all_that_goes_to_a_scalar_is_reduced_by_threads_together() -> None:
    code = "function (A[N, M]) -> (S, T) { S[] = +(A[i, j]); T = sqrt(S * S) * 2; }"
    a = floats(20, 31)
    total, twice = tile.compile(code, "cuda -on=cpu")(a)
    np.testing.assert_allclose([total, twice / 2], [a.sum(), abs(a.sum())], rtol=1e-5)


def test_parallel_stages_in_vectors_with_rests() -> None:
    a, b = floats(70, 33), floats(33, 41)
    np.testing.assert_allclose(tile.compile(MATMUL)(a, b), a @ b, rtol=1e-5, atol=1e-5)


def test_cheap_element_wise_statements_are_fused_and_dear_ones_done_once() -> None:
    code = """function (X[M, N]) -> (O) {
        Twice = X * 2;
        E = exp(Twice);
        Sum[m, 0: M, 1] = +(E[m, n]);
        O = E / Sum;
    }"""
    _, built = tile.compile(code).built(floats(3, 4))
    text = str(built.function)
    assert text.count("exp(") == 1
    assert "Twice" not in text
    assert "E" in text


def test_statements_that_are_read_often_are_fused_up_to_a_length() -> None:
    doubled = "reshape(reshape(T{0}, M * N), N, M)"  # other indices of the same element
    levels = " ".join(f"T{k + 1} = T{k} / 2 + {doubled.format(k)} / 2;" for k in range(20))
    code = f"function (A[N, M]) -> (O) {{ T0 = A; {levels} O = T20; }}"
    a = floats(3, 5)
    np.testing.assert_allclose(tile.compile(code)(a), a, rtol=1e-5)


def test_statements_that_no_output_needs_are_checked_but_not_computed() -> None:
    code = """function (A[N], B) -> (O) {
        Half = N / 2;
        P = A * B;
        Q[i: Half] = >(P[2 * i + j]), j < 2;
        O = A;
    }"""
    a = floats(5)
    np.testing.assert_array_equal(tile.compile(code)(a, a), a)
    assert [step.name for step in bound(code, a, a).steps] == ["O"]
    with pytest.raises(TileError, match="do not broadcast"):
        tile.compile(code)(a, floats(4))


def test_scalars_of_numpy_stand_for_inputs_without_dimensions() -> None:
    a = floats(3)
    result = tile.compile("function (A[N], S[]) -> (O) { O = A * S; }")(a, a.sum())
    np.testing.assert_array_equal(result, a * a.sum())


def test_a_function_is_compiled_once_for_each_shape() -> None:
    product = tile.compile(MATMUL)
    a, b = floats(3, 4), floats(4, 5)
    first = product.built(a, b)
    assert product.built(a + 1, b)[1] is first[1]
    assert product.built(b, floats(5, 2))[1] is not first[1]
    assert product(a.astype("float64"), b.astype("float64")).dtype == np.float64


class Lent:
    """An array of another library, which lends its memory by DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = f"torch.{array.dtype}"

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_arrays_of_other_libraries_are_taken_as_they_are() -> None:
    a, b = floats(3, 4), floats(4, 5)
    np.testing.assert_allclose(tile.compile(MATMUL)(Lent(a), b), a @ b, rtol=1e-6, atol=1e-6)


def test_mistakes_of_a_call_are_told() -> None:
    product = tile.compile(MATMUL)
    with pytest.raises(ArgumentError, match=r"takes 2 arrays \(A, B\), got 1"):
        product(floats(3, 4))
    with pytest.raises(TileError, match="L is 4 as dimension 1 of A, but 3 as dimension 0 of B"):
        product(floats(3, 4), floats(3, 4))
    with pytest.raises(ArgumentError, match="input B must be an array, got a list"):
        product(floats(3, 4), [[1.0]])
    with pytest.raises(UsageError, match="input A is of type complex64: convert it to one of"):
        product(floats(3, 4).astype("complex64"), floats(4, 5))
    with pytest.raises(TileError, match="C is never assigned"):
        tile.compile("function (A) -> (C) { }")


def test_tile_is_part_of_the_librarys_face() -> None:
    assert autotune.tile.compile is tile.compile
