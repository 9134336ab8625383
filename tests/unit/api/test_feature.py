import json

import numpy as np
import pytest
from support.seed_table import SEED_TABLE

from autotune import te
from autotune.errors import LoweringError, UsageError
from autotune.feature import flatten_itervar_feature, get_flatten_name, get_itervar_feature
from autotune.ir.expr import KnobVar


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
    stage.split(stage.op.axis[0], factor=KnobVar("f", 1, 128))
    with pytest.raises(LoweringError, match="knob 'f'"):
        get_itervar_feature(schedule, args)


def arg_max():
    values = te.placeholder((8, 6), name="A")
    places = te.placeholder((8, 6), "int32", name="I")
    k = te.reduce_axis((0, 6), name="k")

    def larger(x, y):
        first = x[1] >= y[1]
        return te.select(first, x[0], y[0]), te.select(first, x[1], y[1])

    start = lambda p, v: (te.const(-1, p), te.min_value(v))  # noqa: E731
    reducer = te.comm_reducer(larger, start, name="argmax")
    found = te.compute((8,), lambda i: reducer((places[i, k], values[i, k]), axis=k), name="M")
    return te.create_schedule(found[0].op), [places, values, *found]


def test_accesses_to_the_results_of_one_operation_are_numbered_together_as_autotvm_does():
    outer, inner = get_itervar_feature(*arg_max(), layout="autotvm08")
    own = [(name, stride) for name, stride, *_ in inner[3:] if name.startswith("M")]
    assert own == [(f"M_{i}", 0) for i in range(6)]
    assert [entry[0] for entry in outer[3:]] == [
        "A_0",
        "A_1",
        "A_2",
        "I_0",
        *(f"M_{i}" for i in range(6)),
    ]
    assert "0/i/M_5/reuse" in get_flatten_name(*arg_max(), layout="autotvm08")
    plain = [entry[0] for entry in get_itervar_feature(*arg_max())[1][3:]]
    assert [name for name in plain if name.startswith("M")] == [
        "M.v0_1",
        "M.v0_2",
        "M.v1_1",
        "M.v1_2",
        "M.v1_3",
        "M.v1_4",
    ]


@pytest.mark.parametrize("layout", ["itervar", "autotvm08"])
@pytest.mark.parametrize("take_log", [False, True])
def test_a_schedule_and_its_tensors_are_flattened_at_once(layout, take_log):
    rows = get_itervar_feature(*gemm(), take_log, layout)
    flat = flatten_itervar_feature(*gemm(), take_log, layout)
    np.testing.assert_array_equal(flat, flatten_itervar_feature(rows))
    assert get_flatten_name(*gemm(), take_log, layout) == get_flatten_name(rows)
    assert len(flat) == len(get_flatten_name(rows))
    again = json.loads(json.dumps(rows))
    np.testing.assert_array_equal(flatten_itervar_feature(again), flat)


@pytest.mark.parametrize("function", [flatten_itervar_feature, get_flatten_name])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([None], "or a schedule and its tensors, got nothing"),
        ([5], "or a schedule and its tensors, got a int"),
        (["rows"], "or a schedule and its tensors, got a str"),
        ([[1, 2]], "or a schedule and its tensors, got a list of int"),
        ([[()]], "got a list of tuple"),
        ([np.zeros(1000)], "or a schedule and its tensors, got a ndarray"),
        ([gemm()[0]], r"expected the list of the schedule's tensors, got nothing; give inputs"),
        ([gemm()[0], 5], "expected the list of the schedule's tensors, got a int"),
        ([gemm()[0], [1, "x"]], "got a list of int, str; give inputs, then outputs, as in"),
        ([SEED_TABLE, gemm()[1]], "features are given, so the tensors are not needed"),
    ],
)
def test_a_mistake_in_flattening_is_one_short_line(function, given, message):
    with pytest.raises(UsageError, match=f"^{function.__name__}: .*{message}") as error:
        function(*given)
    assert len(str(error.value)) < 200
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([5, []], "expected a schedule, got a int; make one with te.create_schedule"),
        ([[1.0] * 1000, []], "expected a schedule, got a list of float"),
        ([gemm()[0], [np.zeros(9)]], "expected the list of the .* got a list of ndarray; give"),
        ([gemm()[0], gemm()[1], False, ["itervar"]], "layout must be a name, got a list of str"),
    ],
)
def test_a_mistake_in_asking_for_features_is_one_short_line(given, message):
    with pytest.raises(UsageError, match=f"^get_itervar_feature: {message}") as error:
        get_itervar_feature(*given)
    assert len(str(error.value)) < 200
