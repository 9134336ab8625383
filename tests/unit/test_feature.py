import pytest
from seed_table import SEED_TABLE, SERIAL

from autotune import te
from autotune.errors import LoweringError
from autotune.feature import flatten_itervar_feature, get_flatten_name, get_itervar_feature
from autotune.ir.expr import Knob


def gemm(n=128):
    a = te.placeholder((n, n), name="A")
    b = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda x, y: te.sum(a[x, k] * b[k, y], axis=k), name="C")
    return te.create_schedule(c.op), [a, b, c]


def test_the_seed_s_gemm_table_comes_out_exactly():
    assert get_itervar_feature(*gemm()) == SEED_TABLE


def test_functions_count_nothing_but_their_arguments_do():
    x = te.placeholder((64,), name="X")

    def body(i):
        whole = te.round(x[i]) + te.popcount(i).astype("float32")
        return te.select(te.isnan(x[i]), te.erf(x[i] * 2), te.fmod(x[i] - 1, 3.0)) + whole

    y = te.compute((64,), body, name="Y")
    ((_, _, arithmetic, *_),) = get_itervar_feature(te.create_schedule(y.op), [x, y])
    assert arithmetic == ("_arith_", 3, 1, 0)


def test_flat_features_and_their_names_follow_the_rows():
    rows = get_itervar_feature(*gemm())
    names = get_flatten_name(rows)
    flat = dict(zip(names, flatten_itervar_feature(rows), strict=True))
    assert len(flat) == len(names) == 3 * (14 + 3) + (5 + 5 + 4) * 6
    assert flat["0/x/attr/bottomup"] == 2097152
    assert flat["2/k/B_0/stride"] == 128


def test_take_log_leaves_nest_level_and_one_hot_code_alone():
    rows = get_itervar_feature(*gemm(127), take_log=True)
    assert rows[1][1] == ("_attr_", 7.0, 2, pytest.approx(13.9774, abs=1e-4), pytest.approx(
        13.9774, abs=1e-4), *SERIAL)


def test_a_loop_of_unknown_length_is_minus_one():
    n = te.var("n")
    a = te.placeholder((n, 4), name="A")
    b = te.compute((n, 4), lambda i, j: a[i, j] + 1.0, name="B")
    rows = get_itervar_feature(te.create_schedule(b.op), [a, b])
    assert [row[1][1] for row in rows] == [-1, 4]
    assert rows[0][1][3] == -1  # topdown
    assert rows[0][3] == ("A_0", 4, -1, -1, 1, 0, 0)


def test_a_schedule_with_knobs_is_refused():
    schedule, args = gemm()
    stage = schedule[args[2]]
    stage.split(stage.op.axis[0], factor=Knob("f", 1, 128))
    with pytest.raises(LoweringError, match="knob 'f'"):
        get_itervar_feature(schedule, args)
