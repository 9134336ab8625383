"""Templates: their arguments, references and operation counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autotune import te
from autotune.builder import BuiltFunction
from autotune.errors import UsageError
from autotune.operators.template_lookup import find_template
from autotune.task.task import Task
from autotune.template import Knobs, Template, template, template_of


@template("sample", target="llvm", flops=lambda n, **_: 2.0 * n)
def sample(
    cfg: Knobs, n: int, scale: float = 1.0, dtype: str = "float32", fast: bool = False
) -> Any:
    """First line.

    More.
    """
    return cfg, n, scale, dtype, fast


def test_parameters_come_from_the_signature() -> None:
    found = [(p.name, p.type, p.required) for p in sample.parameters]
    assert found == [
        ("n", int, True), ("scale", float, False), ("dtype", str, False), ("fast", bool, False),
    ]
    assert sample.description == "First line."


def test_texts_are_converted_by_annotation() -> None:
    parsed = sample.parse_args({"n": "12", "scale": "2.5", "fast": "true"})
    assert parsed == {"n": 12, "scale": 2.5, "dtype": "float32", "fast": True}
    assert list(parsed) == ["n", "scale", "dtype", "fast"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"n": "many"}, "argument n must be an integer, got 'many'"),
        ({"n": "1.5"}, "argument n must be an integer, got '1.5'"),
        ({"n": "1", "fast": "maybe"}, "argument fast must be true or false, got 'maybe'"),
        ({"n": "1", "scale": "nan"}, "argument scale must be a number"),
        ({"n": "1", "m": "2"}, "has no argument 'm'; it takes: n, scale=1.0, dtype='float32'"),
        ({"scale": "1"}, "needs a value for n; it takes: n, scale=1.0"),
    ],
)
def test_a_wrong_argument_is_one_clear_line(texts: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        sample.parse_args(texts)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "'sample'" in str(caught.value)


def test_values_are_checked_and_made_plain() -> None:
    bound = sample.bind({"n": np.int64(3), "scale": 2})
    assert [type(v) for v in bound.values()] == [int, float, str, bool]
    for wrong in ({"n": True}, {"n": "3"}, {"n": 3.0}, {"n": 3, "dtype": 32}):
        with pytest.raises(UsageError, match="must be"):
            sample.bind(wrong)


def test_a_parameter_without_a_plain_annotation_is_refused() -> None:
    def unannotated(cfg: Knobs, n) -> Any:  # type: ignore[no-untyped-def]
        return n

    def listed(cfg: Knobs, n: list[int]) -> Any:
        return n

    def starred(cfg: Knobs, *n: int) -> Any:
        return n

    for function in (unannotated, listed):
        with pytest.raises(UsageError, match=r"must be annotated as one of int, float, str, bool"):
            template("bad")(function)
    with pytest.raises(UsageError, match=r"'\*n' must be one that is given by name: write out"):
        template("bad")(starred)


def test_an_argument_of_a_template_without_parameters_is_refused() -> None:
    def nothing() -> Any:
        return None

    with pytest.raises(UsageError, match=r"'nothing' has no argument 'n'; it takes none$"):
        template("nothing")(nothing).bind({"n": 1})


def test_a_reference_gets_the_arguments_it_names() -> None:
    def plain(a: Any) -> Any:
        return a

    def named(a: Any, *, stride: int) -> Any:
        return a * stride

    def greedy(a: Any, **args: Any) -> Any:
        return a, args

    def made(reference: Any) -> Any:
        return Template("t", "llvm", lambda cfg, stride: None, reference).reference_for(args)

    args = {"stride": 2, "dtype": "float32"}
    assert made(plain) is plain
    assert made(named)(3) == 6
    assert made(greedy)(3) == (3, args)
    assert made(np.add) is np.add
    assert made(None) is None


def test_flops_may_be_a_number_a_function_or_unknown() -> None:
    assert sample.flops_for(sample.bind({"n": 5})) == 10.0
    assert Template("t", "llvm", lambda cfg: None, flops=7).flops_for({}) == 7.0
    assert Template("t", "llvm", lambda cfg: None).flops_for({}) is None


def test_a_template_says_where_another_process_finds_it() -> None:
    assert sample.path == f"{__file__}:sample"

    @template("local")
    def local(cfg: Knobs) -> Any:
        return cfg

    with pytest.raises(UsageError, match="top level of a file"):
        _ = local.path


def scaled(n: int, by: float = 2.0) -> Any:
    """B[n] = A[n] * by."""
    A = te.placeholder((n,), name="A")
    return [A, te.compute((n,), lambda i: A[i] * by, name="B")]


def test_a_function_without_cfg_is_a_template_for_every_kind_of_target() -> None:
    made = template("scaled")(scaled)
    assert (made.target, made.takes_cfg) == (None, False)
    assert template("scaled", target="cuda")(scaled).target == "cuda"
    assert [p.name for p in made.parameters] == ["n", "by"]
    assert sample.target == "llvm"
    assert sample.takes_cfg


@pytest.mark.parametrize("target", ["llvm", "cuda -on=cpu"])
def test_rules_schedule_what_a_function_returns(target: str) -> None:
    task = Task(template("scaled")(scaled), {"n": 37}, target)
    assert [(a.name, a.is_output) for a in task.arguments] == [("A", False), ("B", True)]
    a, b = np.arange(37, dtype="f4"), np.empty(37, "f4")
    BuiltFunction(task.final(task.default_index), task.target)(a, b)
    np.testing.assert_array_equal(b, 2 * a)


def test_a_template_that_defines_knobs_may_leave_the_schedule_to_rules() -> None:
    @template("halves", target=None)
    def halves(cfg: Knobs, n: int) -> Any:
        A = te.placeholder((n,), name="A")
        parts = int(cfg.define_knob("parts", [1, 2]))
        H = te.compute((parts, n), lambda p, i: A[i] / parts, name="H")
        p = te.reduce_axis((0, parts), name="p")
        return te.compute((n,), lambda i: te.sum(H[p, i], axis=p), name="B")

    task = Task(halves, {"n": 5}, "llvm")
    assert task.space.knobs[0].name == "parts"
    for parts in (1, 2):
        a, b = np.arange(5, dtype="f4"), np.empty(5, "f4")
        BuiltFunction(task.final_of({"parts": parts}), task.target)(a, b)
        np.testing.assert_array_equal(b, a)


def test_a_template_of_a_function_has_its_name() -> None:
    assert template_of(scaled).name == "scaled"
    assert template_of(sample) is sample
    for wrong in (lambda cfg: None, np.matmul, lambda n: n):
        with pytest.raises(UsageError):
            template_of(wrong)


def test_only_code_that_is_not_ours_and_takes_knobs_may_mistake_symbols() -> None:
    def plain(n: int) -> None: ...

    def own(cfg: Knobs, n: int) -> None: ...

    assert not template("plain")(plain).meets_symbols
    assert template("own")(own).meets_symbols
    assert not find_template("attention", "llvm").meets_symbols
    assert not find_template("matmul", "llvm").meets_symbols
