"""Functions in C that take numbers, change arrays in place, need memory, or time themselves."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.benches import answers_bench
from support.c_compiler import needs_cc, needs_cxx

import autotune
from autotune import te
from autotune.builder import BuiltFunction
from autotune.errors import CompileError, UsageError
from autotune.measure.build_bench import BuildBench
from autotune.measure.candidate import CandidateError
from autotune.measure.timing.kernel_timing import own_time_loop
from autotune.measure.timing_policy import TimingPolicy
from autotune.target import Target
from autotune.task.task import Task
from autotune.template import Knobs, template
from records import RecordStore

AXPY = """
float axpy(float *y, int n, const float *x, double a, signed char add) {
  for (int i = 0; i < n; ++i) y[i] += a * x[i] + add;
  return TIME;
}
"""

N = 10
X, Y = (te.placeholder((N,), name=name) for name in "XY")


pytestmark = pytest.mark.usefixtures("own_cache")


def axpy(time: Any = "0.5f", **changed: Any) -> autotune.CKernel:
    own = {
        "inputs": [X, Y],
        "outputs": [Y],
        "defines": {"TIME": time},
        "arguments": [Y, np.int32(N), X, 2.0, np.int8(-1)],
        "times_itself": True,
    }
    return autotune.CKernel("axpy", AXPY, **{**own, **changed})


def loaded(kernel: autotune.CKernel) -> Any:
    return BuiltFunction(kernel.lowered("kernel"), Target.of("llvm"))


@needs_cc
def test_an_array_in_both_lists_begins_with_its_input_at_each_call() -> None:
    x, y = (np.arange(N, dtype="float32") * k for k in (1, 10))
    out = np.full(N, np.nan, "float32")
    function = loaded(axpy())
    for call in (lambda: function(x, y, out), function.bind(x, y, out)):
        for _ in range(2):
            call()
            np.testing.assert_array_equal(out, y + 2 * x - 1)
    np.testing.assert_array_equal(y, np.arange(N) * 10)


@needs_cc
def test_scratch_keeps_what_a_call_leaves_and_the_input_its_values() -> None:
    text = "void count(int *w, int *y) { y[0] = ++w[0]; }"
    w, y = (te.placeholder((1,), "int32", name=name) for name in "WY")
    function = loaded(autotune.CKernel("count", text, [w], [y], scratch=[w]))
    given, out = np.array([5], "int32"), np.zeros(1, "int32")
    call = function.bind(given, out)
    assert [(call(), int(out[0]))[1] for _ in range(3)] == [6, 7, 8]
    function(given, out)
    assert (given.tolist(), out.tolist()) == ([5], [6])


@template("work", reference=lambda w: w[1:2])
def work(cfg: Knobs) -> autotune.CKernel:
    w, y = te.placeholder((4,), name="W"), te.placeholder((1,), name="Y")
    text = "void work(float *w, float *y) { w[AT] = 1; y[0] = w[1]; }"
    at = cfg.define_knob("at", ["0", "-3", "6"])
    return autotune.CKernel("work", text, [w], [y], defines={"AT": at}, scratch=[w])


@needs_cc
def test_what_is_written_outside_of_scratch_is_found() -> None:
    task = Task(work, {})
    bench = answers_bench(task)

    def run(at: str) -> None:
        binary = BuildBench(task).build({"at": at}).binary
        assert binary is not None
        bench.run(bench.load(binary))

    for _ in range(2):
        run("0")
        with pytest.raises(CandidateError, match=r"it wrote outside W: .* before its start"):
            run("-3")
        with pytest.raises(CandidateError, match=r"it wrote outside W: .* past its end"):
            run("6")


@pytest.mark.parametrize(
    "language", [pytest.param("c", marks=needs_cc), pytest.param("c++", marks=needs_cxx)]
)
def test_a_function_that_times_itself_must_return_float(language: str) -> None:
    right = axpy(language=language)
    loaded(right)
    for kind in ("void", "double"):
        text = AXPY.replace("float axpy", f"{kind} axpy").replace("  return TIME;\n", "")
        with pytest.raises(CompileError, match="that times itself must return float") as caught:
            loaded(dataclasses.replace(right, source=text))
        assert "\n" not in str(caught.value)
    with pytest.raises(CompileError, match="missing"):
        loaded(dataclasses.replace(right, name="missing"))


@needs_cxx
def test_instances_of_templates_may_time_themselves() -> None:
    text = """
    template <int Value> static float f(float *y) noexcept { y[0] = Value; return 1; }
    #define A 2
    """
    y = te.placeholder((1,), name="Y")
    kernel = autotune.CKernel("f<3>", text, [], [y], language="c++", times_itself=True)
    out = np.zeros(1, "float32")
    assert loaded(kernel).bind(out)() == 1
    assert out[0] == 3


@needs_cc
@pytest.mark.parametrize("time", ["0.0f", "-1.0f", "0.0f / 0.0f", "1.0f / 0.0f"])
def test_a_time_that_is_none_is_refused(time: str) -> None:
    arrays = [np.ones(N, "float32") for _ in range(3)]
    with pytest.raises(UsageError, match="as its time: it must be milliseconds > 0"):
        loaded(axpy(time))(*arrays)


def test_times_are_those_that_calls_say_or_of_the_clock() -> None:
    clock = iter(range(0, 100, 7))
    assert own_time_loop(lambda: 3.0, 4, lambda: 0) == pytest.approx(12e-3)
    assert own_time_loop(lambda: None, 2, lambda: next(clock)) == pytest.approx(14e-9)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"arguments": [Y, 3]}, "arguments lack X"),
        ({"arguments": [Y, X, "n"]}, "arguments are its inputs, its outputs, and numbers"),
        ({"arguments": [Y, X, 2**31]}, r"2147483648 is no int: give numpy.int64\(2147483648\)"),
        ({"arguments": [Y, X, np.complex64(1)]}, "arguments are its inputs"),
        ({"scratch": [Y]}, "scratch must be inputs that are no outputs"),
        ({"scratch": [np.ones(2)]}, "scratch must be inputs that are no outputs"),
        ({"scratch": 3}, "scratch must be a list of tensors, got 3"),
        ({"arguments": 5}, "arguments must be a list of tensors and numbers, got 5"),
        ({"arguments": np.ones((30, 4))}, r"arguments must be a list .* numbers, got array\("),
        ({"arguments": [Y, X, np.ones((3, 4))]}, r"\(a knob is a macro\), got array\("),
        ({"inputs": None}, "inputs must be a list of tensors from te.placeholder, got None"),
        ({"outputs": Y}, "outputs must be a list of tensors from te.placeholder, got <tensor Y"),
        ({"flags": None}, "flags must be a list of texts, got None"),
        ({"compiler": 3}, "compiler must be text, got 3"),
        ({"folder": 3}, "folder must be text, got 3"),
        ({"defines": ["A"]}, r"defines must be a mapping of names to values, got \['A'\]"),
        ({"times_itself": "no"}, "times_itself must be True or False, got 'no'"),
    ],
)
def test_arguments_that_cannot_be_given_are_refused(changed: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        axpy(**changed)
    assert "\n" not in str(caught.value)


def test_lists_may_be_iterators() -> None:
    given = {"inputs": [X, Y], "outputs": [Y], "flags": ["-O1"]}
    arguments = [Y, np.int32(N), X, 2.0, np.int8(-1)]
    lists = {**given, "arguments": arguments, "scratch": [X]}
    assert axpy(**{name: iter(items) for name, items in lists.items()}) == axpy(**lists)


@needs_cc
def test_how_a_function_is_called_tells_kernels_apart() -> None:
    @template("axpy", reference=lambda x, y: y)
    def called(cfg: Knobs, add: int) -> autotune.CKernel:
        arguments = [Y, np.int32(N), X, 2.0, np.int8(add)]
        return axpy(arguments=arguments, times_itself=cfg.define_knob("itself", [False, True]))

    one, other = (Task(called, {"add": n}) for n in (1, 2))
    prints = [t.fingerprints_of(i)["template"] for t in (one, other) for i in (0, 1)]
    assert len(set(prints)) == 4


@needs_cc
@pytest.mark.usefixtures("quick_fork_servers")
def test_a_function_is_tuned_by_its_own_time_and_one_answer(tmp_path: Path) -> None:
    @template("slow", reference=lambda x: x + 1, accept=lambda right, found: True)
    def slow(cfg: Knobs) -> autotune.CKernel:
        text = "float slow(float *y, const float *x) { y[0] = x[0] + KIND; return TIME; }"
        kind = cfg.define_knob("kind", [1, 2, 3])
        x, y = (te.placeholder((1,), name=name) for name in "XY")
        return autotune.CKernel(
            "slow",
            text,
            [x],
            [y],
            defines={"KIND": kind, "TIME": f"{4 - int(kind)}.0f"},
            arguments=[y, x],
            times_itself=True,
        )

    policy = TimingPolicy(repeats=2, min_repeat_ms=0)
    tuned = autotune.tune(slow, trials=3, log=tmp_path / "slow.jsonl", seed=0, policy=policy)
    assert tuned.best is not None
    assert tuned.best.config["values"] == {"kind": 3}
    assert tuned.best.cost_s == pytest.approx(1e-3)
    trials = [r.cost_s for r in RecordStore(tmp_path / "slow.jsonl").load() if r.is_trial]
    assert sorted(trials) == pytest.approx([1e-3, 2e-3, 3e-3])
