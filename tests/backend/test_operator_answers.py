"""Operators that rules schedule: right answers at small odd sizes, in every type they take."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from support.benches import answers_bench, built
from support.legal_configurations import TRIED
from support.slow_cases import every

from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.task.task import Task

TARGETS = ("llvm", "cuda -on=cpu")

WORKLOADS: list[tuple[str, dict[str, Any]]] = [
    ("matmul", {"m": 1, "n": 70, "k": 50, "transpose_a": True, "transpose_b": True}),
    ("matmul", {"m": 13, "n": 70, "k": 50}),
    ("batch_matmul", {"b": 3, "m": 7, "n": 19, "k": 33}),
    ("batch_matmul", {"b": 2, "m": 5, "n": 18, "k": 3, "transpose_a": True, "transpose_b": True}),
    ("dense", {"m": 5, "n": 37, "k": 20}),
    ("dense", {"m": 5, "n": 37, "k": 20, "activation": "relu"}),
    ("dense", {"m": 1, "n": 17, "k": 9, "activation": "gelu"}),
    ("conv2d_nchw", {"n": 1, "c": 8, "h": 9, "w": 9, "o": 12, "kh": 1, "kw": 1, "groups": 4}),
    (
        "conv2d_nchw",
        {
            "n": 2, "c": 6, "h": 9, "w": 7, "o": 6, "kh": 3, "kw": 2, "stride": 2, "pad": 1,
            "groups": 6, "dilation": 2,
        },
    ),
    ("conv2d_nchw", {"n": 1, "c": 3, "h": 9, "w": 9, "o": 5, "kh": 3, "kw": 3, "pad": 1}),
    ("conv2d_nhwc", {"n": 1, "c": 3, "h": 9, "w": 8, "o": 19, "kh": 3, "kw": 3, "pad": 1}),
    (
        "conv2d_nhwc",
        {
            "n": 2, "c": 6, "h": 9, "w": 8, "o": 4, "kh": 3, "kw": 2, "stride": 2, "pad": 1,
            "groups": 2, "dilation": 2,
        },
    ),
    ("pool2d", {"n": 2, "c": 3, "h": 9, "w": 8, "kernel": 3, "stride": 2, "pad": 1}),
    ("pool2d", {"n": 1, "c": 5, "h": 9, "w": 8, "kernel": 3, "pad": 2, "how": "mean"}),
    ("pool2d", {"n": 1, "c": 3, "h": 7, "w": 7, "kernel": 7, "how": "mean"}),
    ("softmax", {"m": 5, "n": 150}),
    ("layer_norm", {"m": 5, "n": 77}),
    ("rms_norm", {"m": 3, "n": 130, "eps": 0.1}),
    *(
        ("reduce", {"m": 13, "n": 70, "how": how, "axis": axis})
        for how in ("sum", "mean", "max", "min")
        for axis in (0, 1)
    ),
    ("transpose", {"m": 13, "n": 35}),
    ("broadcast_add", {"n": 37}),
    ("broadcast_add", {"n": 70}),
    ("bias_gelu", {"m": 5, "n": 70}),
    ("cumsum", {"m": 37, "n": 70}),
    ("cumsum", {"m": 5, "n": 300, "axis": 1}),
    ("linear_recurrence", {"m": 37, "n": 70}),
    ("rnn_cell", {"steps": 5, "batch": 3, "units": 21}),
    ("lstm_cell", {"steps": 5, "batch": 3, "units": 21}),
    ("attention", {"b": 1, "heads": 2, "s": 77, "d": 9}),
    ("attention", {"b": 2, "heads": 1, "s": 40, "d": 16, "causal": True}),
    ("attention", {"b": 1, "heads": 1, "s": 74, "d": 8}),  # one step of tiles
]
OF_NUMBERS = (
    "matmul", "batch_matmul", "conv2d_nchw", "conv2d_nhwc", "pool2d", "reduce", "transpose",
    "broadcast_add",
)
ON_TARGETS = [(name, args, target) for name, args in WORKLOADS for target in TARGETS]


def types_of(name: str, args: dict[str, Any]) -> tuple[str, ...]:
    """Return the types that an operator takes."""
    if name in ("cumsum", "linear_recurrence", "rnn_cell", "lstm_cell"):
        return ("float32", "float64", "int32", "int64")[: 4 if name == "cumsum" else 2]
    return dtypes.NUMBERS if name in OF_NUMBERS and args.get("how") != "mean" else dtypes.FLOATS


@functools.cache  # Several tests look at one task, and exploring its space takes long.
def _traced(name: str, args: tuple[tuple[str, Any], ...], target: str) -> Task:
    return Task.from_reference(name, dict(args), target)


def check_answers(name: str, args: dict[str, Any], target: str, configurations: int) -> None:
    """Run the default configuration and some random ones; a wrong answer raises."""
    task = _traced(name, tuple(args.items()), target)
    bench = answers_bench(task)
    assert bench.reference == "given"
    chosen = [task.default_values]
    if configurations > 1:
        count = min(configurations, len(task.space))
        sampled = map(int, task.space.sample(count, np.random.default_rng(1))[: configurations - 1])
        others = {*sampled} - {task.default_index}
        chosen += [task.space.config(i).values for i in sorted(others) if not task.refusal(i)]
    for values in chosen:
        assert bench.run(built(task, values)).max_error is not None


@pytest.mark.parametrize(("name", "args", "target"), ON_TARGETS)
def test_an_operator_computes_its_reference(name: str, args: dict[str, Any], target: str) -> None:
    check_answers(name, args, target, 1)


@pytest.mark.parametrize(("name", "args", "target"), every(5, ON_TARGETS))
def test_an_operator_computes_its_reference_in_any_configuration(
    name: str, args: dict[str, Any], target: str
) -> None:
    check_answers(name, args, target, 1 + TRIED // 2)


IN_TYPES = [
    (name, dtype)
    for name, args in dict(WORKLOADS).items()
    for dtype in types_of(name, args)
    if dtype != "float32"
]


@pytest.mark.parametrize(("name", "dtype"), every(2, IN_TYPES))
def test_an_operator_computes_its_reference_in_every_type(name: str, dtype: str) -> None:
    check_answers(name, {**dict(WORKLOADS)[name], "dtype": dtype}, "llvm", 1)


@pytest.mark.parametrize("name", ["dense", "layer_norm", "attention"])
def test_an_operator_for_gpus_takes_halves(name: str) -> None:
    check_answers(name, {**dict(WORKLOADS)[name], "dtype": "bfloat16"}, "cuda -on=cpu", 1)


@pytest.mark.parametrize(
    ("dtype", "out_dtype"), [("int8", "int32"), ("float16", "float32"), ("float64", "float32")]
)
def test_a_product_has_the_type_that_is_asked_for(dtype: str, out_dtype: str) -> None:
    args = {"m": 5, "n": 18, "k": 7, "dtype": dtype, "out_dtype": out_dtype}
    for name, given in (("matmul", args), ("batch_matmul", {"b": 2, **args})):
        task = Task.from_reference(name, given)
        assert [argument.dtype for argument in task.arguments] == [dtype, dtype, out_dtype]
        check_answers(name, given, "llvm", 1)


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("batch_matmul", {"k": 0}, "batch_matmul: k must be at least 1, got 0"),
        ("batch_matmul", {"dtype": "bool"}, "batch_matmul: dtype must be one of float16, "),
        ("batch_matmul", {"out_dtype": "half"}, "out_dtype must be one of \"\", float16, "),
        (
            "batch_matmul",
            {"dtype": "int8", "out_dtype": "float32"},
            "out_dtype must be an integer type, as dtype is int8; got float32",
        ),
        ("dense", {"activation": "tanh"}, "activation must be one of \"\", relu, gelu, got 'tanh'"),
        ("dense", {"dtype": "int32"}, "dense: dtype must be one of float16, bfloat16, float32, "),
        ("conv2d_nhwc", {"pad": -1}, "conv2d_nhwc: pad must be at least 0, got -1"),
        ("conv2d_nhwc", {"groups": 4}, "c must be a multiple of groups (4), got 6"),
        (
            "conv2d_nhwc",
            {"dilation": 9},
            "a 3x2 kernel with dilation 9 does not fit into 9x8 with padding 1",
        ),
        ("pool2d", {"pad": 7}, "pool2d: pad must be less than kernel (7), got 7"),
        ("pool2d", {"kernel": 9}, "a 9x9 kernel does not fit into 7x7 with padding 0"),
        ("pool2d", {"how": "sum"}, "pool2d: how must be one of max, mean, got 'sum'"),
        ("pool2d", {"dtype": "int32"}, "pool2d: dtype must be one of float16, "),
        ("layer_norm", {"eps": 0.0}, "layer_norm: eps must be above 0, got 0.0"),
        ("rms_norm", {"eps": 1e-60}, "eps must be above 0 and finite in float32, got 1e-60"),
        ("layer_norm", {"eps": 1e60}, "eps must be above 0 and finite in float32, got 1e+60"),
        ("reduce", {"axis": 2}, "reduce: axis must be one of 0, 1, got 2"),
        ("reduce", {"how": "prod"}, "reduce: how must be one of sum, mean, max, min, got 'prod'"),
        ("attention", {"s": -1}, "attention: s must be at least 1, got -1"),
    ],
)
def test_a_wrong_argument_of_an_operator_is_one_clear_line(
    name: str, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        _ = Task.from_reference(name, {**dict(WORKLOADS)[name], **changes}).space
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
