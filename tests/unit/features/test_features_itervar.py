"""The itervar extractor on hand-made nests, against the seed's table and AutoTVM's own output."""

import re

import numpy as np
import pytest
from support.seed_table import SEED_TABLE, SERIAL

from features import (
    ANNOTATIONS,
    BufferAccess,
    FeatureError,
    Loop,
    LoopNest,
    Scratch,
    flatten_names,
    flatten_rows,
    itervar_columns,
    itervar_matrix,
    itervar_rows,
    stack_columns,
)

GEMM_X, GEMM_Y, GEMM_K = 0, 1, 2


def make_loop(name, annotation, length, parent=-1, depth=1, add=0, mul=0, div=0):
    return Loop(name, annotation, length, parent, depth, add, mul, div)


def chain(*loops):
    """Loops nested in one another: (name, annotation, length) each."""
    return tuple(
        make_loop(name, annotation, length, index - 1, index + 1)
        for index, (name, annotation, length) in enumerate(loops)
    )


def access(name, strides, loops=None, mods=None, is_store=False):
    buffer, number = name.rsplit("_", 1)
    loops = tuple(range(len(strides))) if loops is None else loops
    mods = (-1,) * len(strides) if mods is None else mods
    return BufferAccess(buffer, int(number), loops, tuple(strides), mods, 4, is_store)


def gemm(n=128):
    loops = (
        make_loop("x", "SERIAL", n),
        make_loop("y", "SERIAL", n, GEMM_X, 2),
        make_loop("k", "SERIAL", n, GEMM_Y, 3, add=1, mul=1),
    )
    accesses = (
        access("C_0", (n, 1), is_store=True),
        access("C_1", (n, 1, 0), is_store=True),
        access("C_2", (n, 1, 0)),
        access("A_0", (n, 0, 1)),
        access("B_0", (0, 1, n)),
    )
    return LoopNest(loops, accesses)


def touches(rows, row):
    return {pair[0]: pair[1:] for pair in rows[row][3:]}


def attributes(rows, row):
    return rows[row][1][1:5]


def test_the_seeds_gemm_table_comes_out_exactly():
    assert itervar_rows(gemm()) == SEED_TABLE


def test_whole_numbers_are_python_ints_whatever_scalar_they_came_as():
    nest = LoopNest(chain(("i", "SERIAL", np.float64(8.0))), (access("A_0", (np.int64(3),)),))
    (row,) = itervar_rows(nest)
    assert all(type(value) is int for pair in row[1:] for value in pair[1:])


def test_flattening_keeps_names_and_numbers_in_step():
    rows = itervar_rows(gemm())
    flat = dict(zip(flatten_names(rows), flatten_rows(rows), strict=True))
    assert flatten_rows(rows).dtype == np.float64
    assert len(flat) == 3 * (14 + 3) + 6 * (5 + 5 + 4)
    assert flat["1/y/B_0/count"] == 16384
    assert flat["2/k/attr/topdown"] == 2097152
    assert flat["2/k/arith/mul"] == 1
    assert flat["0/x/attr/SERIAL"] == 1


def test_columns_have_the_names_of_the_flattened_rows():
    rows = itervar_rows(gemm())
    names, columns = itervar_columns(gemm())
    assert names == flatten_names(rows)
    assert columns == flatten_rows(rows).tolist()


def test_accesses_are_sorted_as_bytes_not_as_numbers():
    accesses = tuple(access(f"{buffer}_{k}", (1,)) for buffer in "aB" for k in range(11))
    (row,) = itervar_rows(LoopNest(chain(("i", "SERIAL", 4)), accesses))
    names = [pair[0] for pair in row[3:]]
    assert names[:4] == ["B_0", "B_1", "B_10", "B_2"]
    assert names[11:14] == ["a_0", "a_1", "a_10"]


def test_a_row_without_accesses_has_bottomup_minus_one():
    rows = itervar_rows(LoopNest(chain(("i", "SERIAL", 4)), ()))
    assert attributes(rows, 0) == (4, 1, 4, -1)


def test_an_access_outside_all_loops_belongs_to_no_row():
    rows = itervar_rows(LoopNest(chain(("i", "SERIAL", 4)), (access("A_0", ()),)))
    assert touches(rows, 0) == {}


def test_an_axis_of_length_one_keeps_its_row():
    # AutoTVM's output for B[0, c, 0, w] = A[0, c, 0, w] + 1.
    loops = chain(("n", "SERIAL", 1), ("c", "SERIAL", 8), ("h", "SERIAL", 1), ("w", "SERIAL", 16))
    rows = itervar_rows(LoopNest(loops, (access("A_0", (0, 16, 0, 1)),)))
    assert [attributes(rows, row) for row in range(4)] == [
        (1, 1, 1, 128),
        (8, 2, 8, 128),
        (1, 3, 8, 16),
        (16, 4, 128, 16),
    ]
    assert [touches(rows, row)["A_0"] for row in range(4)] == [
        (0, -1, 128, 1, 0, 0),
        (16, -1, 128, 1, 0, 0),
        (0, -1, 16, 1, 0, 0),
        (1, -1, 16, 1, 0, 0),
    ]


def test_threads_are_the_base_of_blocks():
    # AutoTVM's output for a 64x64 transpose through a 16x16 shared tile.
    def threads(parent):
        return (
            make_loop("threadIdx.y", "THREAD_Y", 16, parent, 3),
            make_loop("threadIdx.x", "THREAD_X", 16, parent + 1 if parent > 1 else 2, 4),
        )

    loops = (
        make_loop("blockIdx.y", "BLOCK_Y", 4),
        make_loop("blockIdx.x", "BLOCK_X", 4, 0, 2),
        *threads(1),
        make_loop("ax0.inner", "SERIAL", 1, 3, 5),
        make_loop("ax1.inner", "SERIAL", 1, 4, 6),
        make_loop("threadIdx.y", "THREAD_Y", 16, 1, 3),
        make_loop("threadIdx.x", "THREAD_X", 16, 6, 4),
    )
    copy, use = (0, 1, 2, 3, 4, 5), (0, 1, 6, 7)
    nest = LoopNest(
        loops,
        (
            access("X.shared_0", (0, 0, 16, 1, 0, 0), copy, is_store=True),
            access("X_0", (16, 1024, 64, 1, 0, 0), copy),
            access("Y_0", (1024, 16, 64, 1), use, is_store=True),
            access("X.shared_1", (0, 0, 1, 16), use),
        ),
    )
    rows = itervar_rows(nest)
    assert [attributes(rows, row) for row in (0, 1, 2, 3, 4, 6, 7)] == [
        (4, 1, 4, 4096),
        (4, 2, 16, 1024),
        (16, 3, 256, 256),
        (16, 4, 4096, 16),
        (1, 5, 4096, 1),
        (16, 3, 256, 256),
        (16, 4, 4096, 16),
    ]
    assert touches(rows, 0) == {
        "X.shared_0": (0, -1, 256, 16, 1, 16),
        "X.shared_1": (0, -1, 256, 16, 1, 16),
        "X_0": (16, -1, 4096, 1, 16, 1),
        "Y_0": (1024, -1, 4096, 1, 16, 1),
    }
    assert touches(rows, 1)["X_0"] == (1024, -1, 1024, 1, 4, 1)
    assert touches(rows, 2) == {
        "X.shared_0": (16, -1, 256, 1, 256, 1),
        "X_0": (64, -1, 256, 1, 256, 1),
    }
    assert touches(rows, 4)["X_0"] == (0, -1, 1, 1, 0, 0)
    # The second kernel part has no serial loop inside its threads, so they hold no base.
    assert touches(rows, 6) == {
        "X.shared_1": (1, -1, 256, 1, 0, 0),
        "Y_0": (64, -1, 256, 1, 0, 0),
    }


def test_virtual_threads_between_blocks_and_threads_part_them():
    # AutoTVM's output for the accumulator copy of a virtually threaded matrix product.
    loops = chain(
        ("blockIdx.y", "BLOCK_Y", 4),
        ("blockIdx.x", "BLOCK_X", 4),
        ("vthread", "VIRTUAL_THREAD", 2),
        ("vthread", "VIRTUAL_THREAD", 2),
        ("threadIdx.y", "THREAD_Y", 8),
        ("threadIdx.x", "THREAD_X", 8),
        ("x.inner", "SERIAL", 4),
        ("y.inner", "SERIAL", 4),
    )
    strides = (16384, 64, 8192, 32, 1024, 4, 256, 1)
    nest = LoopNest(loops, (access("C_0", strides, is_store=True),))
    rows = itervar_rows(nest)
    assert [touches(rows, row)["C_0"][2:] for row in range(8)] == [
        (65536, 1, 0, 0),
        (16384, 1, 0, 0),
        (4096, 1, 0, 0),
        (2048, 1, 0, 0),
        (1024, 1, 64, 1),
        (128, 1, 8, 1),
        (16, 1, 0, 0),
        (4, 1, 0, 0),
    ]
    assert rows[2][1][5:] == SERIAL
    (old,) = [row[1][5:] for row in itervar_rows(nest, layout="autotvm08")[2:3]]
    assert old == (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)


def test_a_parallel_loop_counts_as_a_thread():
    # AutoTVM's output for the outer three loops of a tiled 2-d convolution.
    loops = chain(("f", "PARALLEL", 4), ("y", "SERIAL", 2), ("rest", "VECTORIZE", 7056))
    rows = itervar_rows(LoopNest(loops, (access("D_0", (0, 112, 1)),)))
    assert touches(rows, 0)["D_0"] == (0, -1, 14112, 4, 1, 4)
    assert touches(rows, 1)["D_0"][4:] == (0, 0)


def test_the_layouts_differ_in_one_hot_order_and_mod():
    nest = LoopNest(chain(("i", "PARALLEL", 6)), (access("A_0", (1,), mods=(3,)),))
    (ours,) = itervar_rows(nest)
    (theirs,) = itervar_rows(nest, layout="autotvm08")
    assert ours[1][5:] == tuple(int(name == "PARALLEL") for name in ANNOTATIONS)
    assert theirs[1][5:] == (0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0)
    assert (ours[3][2], theirs[3][2]) == (3, -1)
    assert flatten_names([theirs])[-9 - 3] == "0/i/attr/PARALLEL"


def test_a_symbolic_length_makes_products_unknown():
    loops = chain(("i", "SERIAL", 16), ("j", "SERIAL", -1), ("k", "SERIAL", 4))
    nest = LoopNest(loops, (access("A_0", (4, 0, 1)), access("B_0", (0, 4, 1))))
    rows = itervar_rows(nest)
    assert [attributes(rows, row) for row in range(3)] == [
        (16, 1, 16, -1),
        (-1, 2, -1, -1),
        (4, 3, -1, 4),
    ]
    assert touches(rows, 0) == {"A_0": (4, -1, 64, -1, 0, 0), "B_0": (0, -1, -1, 16, 0, 0)}


def test_in_the_autotvm_layout_a_symbolic_length_is_the_factor_minus_one():
    loops = chain(("i", "PARALLEL", -1), ("j", "SERIAL", 16), ("k", "SERIAL", -1))
    nest = LoopNest(loops, (access("A_0", (16, 1, 0)), access("B_0", (0, 0, 1))))
    rows = itervar_rows(nest, layout="autotvm08")
    assert [attributes(rows, row) for row in range(3)] == [
        (-1, 1, -1, 16),
        (16, 2, -16, -1),
        (-1, 3, 16, -1),
    ]
    # A's base count is 16 and its quotient -1; B's base count is -1, which is not seen as one.
    assert touches(rows, 0) == {"A_0": (16, -1, -16, -1, -1, 1), "B_0": (0, -1, -1, -16, 1, -16)}


def test_take_log_is_signed_and_spares_nest_level_and_one_hot():
    nest = LoopNest(chain(("i", "SERIAL", 7)), (access("A_0", (-3,)),))
    ((_, attr, arith, touch),) = itervar_rows(nest, take_log=True)
    assert attr == ("_attr_", 3.0, 1, 3.0, 3.0, *SERIAL)
    assert arith == ("_arith_", 0.0, 0.0, 0.0)
    assert touch == ("A_0", -2.0, -1.0, 3.0, 1.0, 0.0, 0.0)


def test_the_matrix_repeats_scalars():
    lengths = np.array([2.0, 4.0, 8.0])
    nest = LoopNest(chain(("i", "SERIAL", lengths), ("j", "SERIAL", 5)), (access("A_0", (5, 1)),))
    names, matrix = itervar_matrix(nest, 3)
    assert matrix.dtype == np.float32
    assert matrix.shape == (3, len(names))
    assert matrix[:, names.index("0/i/A_0/count")].tolist() == [10, 20, 40]
    assert matrix[:, names.index("1/j/A_0/count")].tolist() == [5, 5, 5]


def test_only_the_columns_asked_for_come_back_in_that_order():
    wanted = ["2/k/A_0/count", "0/x/attr/bottomup"]
    names, columns = itervar_columns(gemm(), names=wanted)
    matrix = stack_columns(names, columns, 2, order="C")
    assert names == wanted
    assert matrix.tolist() == [[128, 2097152]] * 2
    assert matrix.flags.c_contiguous


@pytest.mark.parametrize(
    ("nest", "message"),
    [
        (LoopNest(chain(("i", "THREAD", 4)), ()), "loop i: unknown annotation 'THREAD'"),
        (LoopNest((make_loop("i", "SERIAL", 4, 0),), ()), "loop i: parent 0 does not come before"),
        (LoopNest((make_loop("i", "SERIAL", 4, -1, 2),), ()), "loop i: depth 2, but 0 loops"),
        (LoopNest(chain(("i", "SERIAL", 4)), (access("A_0", (1,)),) * 2), "two accesses are"),
        (
            LoopNest(chain(("i", "SERIAL", 4), ("j", "SERIAL", 4)), (access("A_0", (1,), (1,)),)),
            r"access A_0: loops (1,) are not the loops around one place",
        ),
        (
            LoopNest(chain(("i", "SERIAL", 4)), (access("A_0", (1,), mods=()),)),
            "access A_0: 1 strides and 0 mods for 1 open loops",
        ),
        (LoopNest(chain(("i", "SERIAL", np.array([1, 2]))), ()), "array of int64 and shape (2,)"),
        (LoopNest(chain(("i", "SERIAL", np.ones(3))), ()), "take it with features.candidate"),
    ],
)
def test_a_nest_that_contradicts_itself_is_refused_in_one_line(nest, message):
    with pytest.raises(FeatureError, match=re.escape(message)) as caught:
        itervar_rows(nest)
    assert "\n" not in str(caught.value)


def test_an_array_of_another_length_is_refused():
    nest = LoopNest(chain(("i", "SERIAL", np.ones(3))), ())
    with pytest.raises(FeatureError, match=r"0/i/attr/length has shape \(3,\), expected \(4,\)"):
        itervar_matrix(nest, 4)


def test_arrays_of_different_lengths_are_refused():
    nest = LoopNest(chain(("i", "SERIAL", np.ones(3))), (access("A_0", (np.ones(2),)),))
    with pytest.raises(FeatureError, match=r"array of float64 and shape \(2,\).* shape \(3,\)"):
        itervar_columns(nest)


def test_a_scratch_used_again_gives_the_same_numbers_as_fresh_memory():
    scratch = Scratch()
    out = np.empty((4, 2), np.float32, order="F")
    wanted = ["0/i/A_0/count", "1/j/attr/topdown"]
    for size in (4, 3, 4):  # the second is the short last chunk of a space
        lengths = np.arange(2.0, 2.0 + size)
        loops = chain(("i", "SERIAL", lengths), ("j", "SERIAL", lengths * 3))
        nest = LoopNest(loops, (access("A_0", (1, 1)),))
        names, columns = itervar_columns(nest, names=wanted, arithmetic=scratch)
        matrix = stack_columns(names, columns, size, out=out[:size])
        assert np.shares_memory(matrix, out)
        assert matrix.tolist() == [[3 * length**2] * 2 for length in lengths]


def test_an_output_that_does_not_fit_is_refused():
    with pytest.raises(FeatureError, match=r"expected float32 of shape \(2, 1\)"):
        stack_columns(
            *itervar_columns(gemm(), names=["0/x/attr/length"]), 2, out=np.empty((1, 2), np.float32)
        )


def test_unknown_columns_and_layouts_are_named():
    with pytest.raises(FeatureError, match="no feature column '0/x/attr/width'"):
        itervar_columns(gemm(), names=["0/x/attr/width"])
    with pytest.raises(FeatureError, match="expected one of itervar, autotvm08"):
        itervar_rows(gemm(), layout="seed")
