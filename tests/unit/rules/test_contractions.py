"""What the rules for contractions promise: right answers for any tile, and defaults that suit."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from support.contractions import Made, convolution, product, task_of
from support.legal_configurations import TRIED, assert_right, default_and_drawn, small_integers
from support.slow_cases import slow, slow_names

import autotune
from autotune import te
from autotune.rules.contractions import tile_costs


def read_in_two_types(i: int, k: int, j: int, first: str, second: str) -> Made:
    """Products of a tensor in one type and the same tensor in another one, to which C is added."""
    A, C = te.placeholder((i, k, j), "float16", name="A"), te.placeholder((k, j), second, name="C")
    r = te.reduce_axis((0, k), name="r")

    def element(i: Any, j: Any) -> Any:
        one = A[i, r, j].astype(first)
        two = A[i, r, j].astype(second) + C[r, j]
        return te.sum(one.astype("float64") * two.astype("float64"), axis=r)

    def expected(a: Any, c: Any) -> Any:
        return (a.astype("float64") * (a + c)).sum(axis=1)

    return [A, C], [te.compute((i, j), element, name="R")], expected


def product_of_sums() -> Made:
    """A sum whose value is converted to half floats, and as a whole back for a product."""
    m, n = 64, 3
    A, B = (te.placeholder((m, n), "float16", name=name) for name in "AB")
    k, r = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, n), name="r")
    S = te.compute((n,), lambda j: te.sum(A[k, j].astype("float32"), axis=k), name="S")
    P = te.compute((m, n), lambda i, j: A[i, j] * S[j].astype("float16"), name="P")

    def element(i: Any) -> Any:
        return te.sum(P[i, r].astype("float32") * B[i, r].astype("float32"), axis=r)

    def expected(a: Any, b: Any) -> Any:
        sums = a.astype("float32").sum(axis=0).astype("float16")
        return ((a * sums).astype("float32") * b).sum(axis=1)

    return [A, B], [te.compute((m,), element, name="R")], expected


COMPUTATIONS: dict[str, Callable[[], Made]] = {
    "one row": partial(product, 1, 300, 40),
    "one row of a long prime sum": partial(product, 1, 1300, 523),
    "one element": partial(product, 1, 1, 200),
    "one column": partial(product, 70, 1, 90),
    "thin": partial(product, 50, 10, 64),
    "long sum": partial(product, 5, 6, 517),
    "long sum in parts": partial(product, 7, 18, 20_480),
    "odd": partial(product, 13, 37, 11),
    "transposed": partial(product, 20, 33, 50, "tt"),
    "both along the sum": partial(product, 9, 11, 70, "nt"),
    "batches": partial(product, 8, 8, 8, b=5),
    "float16": partial(product, 12, 40, 18, dtype="float16"),
    "bfloat16": partial(product, 1, 260, 16, dtype="bfloat16"),
    "read with and without a conversion": partial(
        read_in_two_types, 17, 33, 3, "float64", "float16"
    ),
    "of sums that are converted": product_of_sums,
    "read with two conversions": partial(read_in_two_types, 17, 33, 18, "float64", "float32"),
    "3x3": partial(convolution, 1, 5, 9, 10, 18, pad=1),
    "images of one pixel more than a tile": partial(convolution, 2, 16, 7, 7, 17, pad=1),
    "strided and dilated": partial(convolution, 2, 3, 17, 15, 16, stride=2, dilation=2, pad=2),
    "1x1": partial(convolution, 1, 12, 7, 9, 20, k=1),
    "1x1 strided": partial(convolution, 2, 6, 9, 37, 8, k=1, stride=2),
    "depthwise": partial(convolution, 1, 6, 11, 21, 6, pad=1, groups=6),
    "depthwise strided": partial(convolution, 1, 4, 15, 50, 4, pad=1, groups=4, stride=2),
    "depthwise of a kernel that is taller than a tile": partial(
        convolution, 2, 3, 23, 19, 3, k=5, pad=2, groups=3
    ),
    "groups as wide as vectors": partial(convolution, 1, 6, 7, 9, 64, pad=1, groups=2),
    "grouped": partial(convolution, 1, 8, 9, 18, 12, pad=1, groups=4),
}


#: Those that are much like another one.
ALIKE = {
    "one row of a long prime sum", "thin", "long sum", "both along the sum", "bfloat16",
    "images of one pixel more than a tile", "1x1 strided", "depthwise strided",
    "depthwise of a kernel that is taller than a tile",
}  # fmt: skip


@pytest.mark.parametrize("name", slow_names(ALIKE, COMPUTATIONS))
def test_every_tile_of_a_contraction_computes_the_right_answer(name: str) -> None:
    made = COMPUTATIONS[name]
    task, (inputs, _, expected) = task_of(made), made()
    arrays = small_integers(inputs)
    assert_right(task, default_and_drawn(task, TRIED), arrays, expected(*arrays))


def default_of(
    made: Callable[[], Made], constants: tuple[int, ...] = (), processor: str = "skylake-avx512"
) -> dict[str, Any]:
    task = task_of(made, constants, f"llvm -mcpu={processor} -threads=2")
    return dict(task.space.config(task.default_index).values)


def test_the_sums_of_packed_operands_fill_all_registers_but_four() -> None:
    known = default_of(partial(product, 196, 64, 256), (1,))
    assert known["tile_rows"] * known["tile_vectors"] == 28  # of 32
    task = task_of(partial(product, 196, 64, 256), (1,), "llvm -mcpu=x86-64-v3 -threads=2")
    known = task.space.config(task.default_index).values
    assert known["tile_rows"] * known["tile_vectors"] == 12  # of 16


@pytest.mark.parametrize("processor", ["x86-64-v3", "skylake-avx512"])
def test_a_sum_that_is_converted_for_another_one_has_the_loops_of_the_conversion(
    processor: str,
) -> None:
    task = task_of(product_of_sums, (), f"llvm -mcpu={processor}")
    assert len(task.space) > 1


def test_a_tile_of_three_vectors_in_four_rows_fills_sixteen_registers() -> None:
    task = task_of(partial(product, 64, 768, 768), (), "llvm -mcpu=x86-64-v3 -threads=2")
    known = task.space.config(task.default_index).values
    assert (known["tile_rows"], known["tile_vectors"]) == (4, 3)


@pytest.mark.parametrize(
    ("pixels", "stride", "steps"),
    [(9, 1, 3), (14, 1, 1), (9, 2, 1)],
    ids=["room", "sums take all registers", "rows share too little"],
)
def test_steps_that_share_elements_are_written_out_where_registers_remain(
    pixels: int, stride: int, steps: int
) -> None:
    made = partial(convolution, 1, 64, pixels, pixels, 64, pad=1, stride=stride)
    known = default_of(made, (1,))
    assert (known["vector_2"], known["unroll_2"]) == ("axis1", steps)


def test_every_estimate_of_a_tile_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    estimates, cycles = list[float](), tile_costs._cycles

    def noted(*facts: Any) -> float:
        estimates.append(cycles(*facts))
        return estimates[-1]

    monkeypatch.setattr(tile_costs, "_cycles", noted)
    default_of(partial(convolution, 1, 28, 11, 12, 42, pad=1, groups=7))
    assert math.inf in estimates  # rows across groups
    assert not any(map(math.isnan, estimates))


def test_a_small_result_of_a_long_sum_has_its_sum_in_vectors() -> None:
    assert default_of(partial(product, 4, 4, 4096, "nt"))["vector"] == "sum"
    assert default_of(partial(product, 256, 256, 256))["vector"] == "axis1"


def test_a_column_is_summed_in_vectors_as_a_row_is() -> None:
    assert "partial_vectors" in default_of(partial(product, 1, 1, 1000))


def test_a_column_that_is_packed_is_a_configuration() -> None:
    task = task_of(COMPUTATIONS["one column"])
    packed = [i for i in range(len(task.space)) if task.space.config(i).values["pack"]]
    assert any(not task.refusal(i) for i in packed)


def test_operands_that_are_read_once_are_packed_only_if_they_are_constant() -> None:
    wide = partial(product, 7, 2048, 1024)
    assert default_of(wide, constants=(1,))["pack"]
    once = partial(product, 1, 4096, 1024)
    assert "pack" not in default_of(once)
    assert default_of(once)["stream"]
    assert default_of(once, constants=(1,))["pack"]


def test_a_small_operand_that_one_thread_would_pack_is_read_in_place_by_many() -> None:
    task = task_of(partial(product, 97, 89, 83), target="llvm -threads=64")
    assert not task.space.config(task.default_index).values["pack"]


def test_a_row_times_a_matrix_of_any_length_adds_eight_rows_at_a_time() -> None:
    assert default_of(partial(product, 1, 5003, 3001))["unroll"] == 8
    assert default_of(partial(product, 1, 1000, 1280))["unroll"] == 8
    assert default_of(partial(product, 1, 200, 6400))["vector"] == "axis2"  # in parts


def test_a_row_may_be_packed_for_a_transposed_matrix() -> None:
    made = partial(product, 1, 300, 290, "nt")
    task, (inputs, _, expected) = task_of(made), made()
    arrays = small_integers(inputs)
    given = {**task.space.config(task.default_index).values, "pack": True}
    assert_right(task, [task.space.index_of(given)], arrays, expected(*arrays))


@pytest.mark.parametrize("name", ["odd", slow("3x3"), slow("thin")])
def test_a_contraction_has_few_structures(name: str) -> None:
    flags = [k for k in task_of(COMPUTATIONS[name]).space.knobs if not _is_number(k.values)]
    assert np.prod([len(k.values) for k in flags]) <= 24


def _is_number(values: Any) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)


def final_of(made: Callable[[], Made], constants: tuple[int, ...] = ()) -> str:
    task = task_of(made, constants, "llvm -mcpu=skylake-avx512")
    return str(task.final_of({}))


def test_the_margin_of_a_depthwise_convolution_is_computed_by_its_tasks() -> None:
    depthwise = partial(convolution, 1, 64, 60, 60, 64, pad=1, groups=64)
    assert "P[float32 * 1 * 64 * 62 * 62]" not in final_of(depthwise)
    plain = partial(convolution, 1, 64, 60, 60, 64, pad=1)
    assert "P[float32 * 1 * 64 * 62 * 62]" in final_of(plain)


def test_a_margin_that_neighbours_along_a_vector_have_is_computed_before_it_is_read() -> None:
    strided = final_of(partial(convolution, 1, 64, 33, 33, 64, pad=1, groups=64, stride=2))
    sums = [line for line in strided.splitlines() if "O_tile[" in line and "P[" in line]
    assert sums
    assert not any("if_then_else" in line and "D[" in line for line in sums)


def test_outputs_of_a_group_are_vectors_if_the_group_is_wide() -> None:
    grouped = partial(convolution, 1, 64, 7, 7, 128, pad=1, groups=2)
    assert default_of(grouped, constants=(1,))["vector_2"] == "axis1"


@pytest.mark.parametrize(("groups", "loop"), [(8, "for (rv, 0, 4)"), (16, "unrolled (rv, 0, 2)")])
def test_sums_over_few_channels_of_a_group_have_a_loop_unless_they_are_pairs(
    groups: int, loop: str
) -> None:
    assert loop in final_of(partial(convolution, 1, 32, 28, 28, 32, pad=1, groups=groups))


def test_an_operand_that_many_vectors_read_is_converted_once() -> None:
    listing = final_of(partial(product, 64, 256, 64, dtype="float16"))
    assert "A_float32[" in listing
    assert "A_float32[" not in final_of(partial(product, 64, 16, 64, dtype="float16"))


def test_all_rows_but_those_at_the_end_lie_at_constant_distances() -> None:
    listing = final_of(partial(convolution, 1, 512, 61, 61, 512, pad=1, groups=512))
    sums = [line for line in listing.splitlines() if "_tile[" in line and "P[" in line]
    assert any("min(" not in line for line in sums)


def test_a_long_sum_with_few_results_is_computed_in_parts_by_several_threads() -> None:
    listing = final_of(partial(product, 16, 16, 100_000))
    assert "C_parts[" in listing
    assert "C_parts[" not in final_of(partial(product, 256, 256, 1024))
    assert "C_parts[" not in final_of(partial(product, 1, 1500, 1500, "nt"))  # many rows


def test_the_results_of_parts_are_joined_by_one_thread() -> None:
    task = task_of(partial(product, 2, 2, 100_000), (), "llvm -mcpu=skylake-avx512 -threads=4")
    assert str(task.final_of({})).count("parallel") == 1


def test_neighbours_a_few_elements_apart_are_summed_in_vectors() -> None:
    assert "vector" in default_of(partial(product, 2, 2, 100_000))


def test_a_long_row_of_sums_is_divided_into_equal_parts_of_pairs_of_vectors() -> None:
    width = default_of(partial(product, 1, 49 * 16, 5555))["stream_vectors"]
    assert width in {2 * -(-49 // (2 * parts)) for parts in range(1, 50)}


@pytest.mark.parametrize(
    ("m", "n", "k", "rows"),
    [
        (8, 4096, 1024, 8),
        slow((16, 768, 3072, 8)),
        slow((5, 3000, 3000, 5)),
        (12, 2000, 1500, 6),
        (128, 768, 3072, None),  # so many multiply-adds are worth packing
        slow((8, 512, 256, None)),  # the matrix is in a cache
        (16, 2048, 512, None),  # as large as caches that are further away
    ],
)
def test_few_rows_times_a_large_matrix_sum_in_half_of_the_first_cache(
    m: int, n: int, k: int, rows: int | None
) -> None:
    values = default_of(partial(product, m, n, k), (), "x86-64-v3")
    assert values["stream"] is (rows is not None)
    if rows is not None:
        assert values["tile_rows"] == rows
        assert values["stream_vectors"] * rows * 32 <= 1 << 14


def shared_by_groups(m: int, groups: int, each: int, k: int) -> Made:
    """Columns of which `each` read the same part of a matrix of rows."""
    A = te.placeholder((m, groups, k), "float32", name="A")
    B = te.placeholder((k, groups * each), "float32", name="B")
    r = te.reduce_axis((0, k), name="r")
    C = te.compute(
        (m, groups * each), lambda i, j: te.sum(A[i, j // each, r] * B[r, j], axis=r), name="C"
    )
    return [A, B], [C], np.matmul


@pytest.mark.parametrize(
    "made",
    [
        partial(shared_by_groups, 4, 512, 8, 1024),
        partial(shared_by_groups, 8, 200, 24, 1024),
        partial(product, 64, 200_000, 300, "tn"),
        partial(product, 8, 392, 8000),
        partial(product, 9, 70, 40_000),
    ],
    ids=["groups of 8", "groups of 24", "long columns", "odd vectors", "few columns"],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_defaults_of_large_matrices_are_configurations(
    made: Callable[[], Made], threads: int
) -> None:
    task = task_of(made, (), f"llvm -mcpu=x86-64-v3 -threads={threads}")
    assert task.function_of({}).params


@pytest.mark.parametrize(
    ("n", "how", "dtype"), [(1033, "nn", "float32"), slow((2080, "nt", "float16"))]
)
def test_a_result_beyond_the_caches_is_right_wherever_its_rows_begin(
    n: int, how: str, dtype: str
) -> None:
    made = partial(product, 1031, n, 3, how, dtype)
    task, (inputs, (output,), expected) = task_of(made), made()
    arrays = small_integers(inputs)
    config = task.space.config(task.default_index)
    given = {**config.values, "stream": True, "stores": "streamed"}
    structure = task.concrete_structure(task.space.index_of(given))
    built = autotune.build(structure.schedule, list(structure.tensors))
    assert "align 64, !nontemporal" in built.source
    memory = np.full(1031 * n + 64, 77, output.dtype)
    for begin in (16, 21):
        memory[:] = 77
        built(*arrays, memory[begin : begin + 1031 * n].reshape(1031, n))
        found = memory[begin : begin + 1031 * n].reshape(1031, n)
        np.testing.assert_array_equal(found, expected(*arrays))
        assert (memory[:begin] == 77).all()
        assert (memory[begin + 1031 * n :] == 77).all()
