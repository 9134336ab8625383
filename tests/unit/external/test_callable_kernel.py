"""Python callables as kernels: traced, told apart, called, and sent to workers as text."""

from __future__ import annotations

import functools
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.builder import build
from autotune.errors import ArgumentError, SaveError, UsageError
from autotune.feature import TaskFeatures
from autotune.measure.build_bench import BuildBench
from autotune.operators.function_source import self_contained
from autotune.runtime.callable_function import CallableBinary, CallableFunction
from autotune.runtime.signature import ArrayParameter, Signature
from autotune.system.function_text import written_function
from autotune.task.task import Task
from autotune.template import Knobs, template

OFFSET = 0


def helper(x: Any) -> Any:
    return x + OFFSET


def doubled(x: Any, y: Any, block: int, way: str = "", pair: Any = None) -> None:
    for begin in range(0, len(x), block):
        np.multiply(helper(x[begin : begin + block]), 2, out=y[begin : begin + block])


def arrays(n: int) -> tuple[list[te.Tensor], list[te.Tensor]]:
    return [te.placeholder((n,), name="X")], [te.placeholder((n,), name="Y")]


@template("doubled", reference=lambda x: 2 * x)
def scale(cfg: Knobs, n: int) -> autotune.CallableKernel:
    block = cfg.define_knob("block", [4, 2, 1, 8])
    way = cfg.define_knob("way", ["one", "other"])
    cfg.add_constraint(block <= n, "no more than there is")
    keywords = {"block": block, "way": way, "pair": (block, 2 * block)}
    return autotune.CallableKernel(doubled, *arrays(n), keywords)


X = np.arange(10, dtype=np.float32)


def task_of(function: Any, **more: Any) -> Task:
    @template("given", reference=lambda x: x)
    def given(cfg: Knobs, n: int) -> autotune.CallableKernel:
        return autotune.CallableKernel(function, *arrays(n), **more)

    return Task(given, {"n": 10})


# -- tracing ---------------------------------------------------------------------------------------


def test_it_is_traced_like_any_other_template() -> None:
    task = Task(scale, {"n": 5})
    assert not task.untraceable
    assert len(task.structures) == 2
    assert task.tally().feasible == 6
    assert task.steps_of(0) is None
    names = TaskFeatures(task).names
    assert {name.split("/")[1] for name in names} == {"block", "way"}
    listing = str(task.function_of({"block": 2, "way": "one"}))
    assert listing.startswith("# block = 2\ndef doubled(")
    assert "way = 'one'\npair = (a knob, a knob)\n" in listing


def test_all_knobs_tell_candidates_apart_whatever_the_callable_does_with_them() -> None:
    @template("closure", reference=lambda x: x)
    def closure(cfg: Knobs, n: int) -> autotune.CallableKernel:
        block = cfg.define_knob("block", [1, 2, 3])

        def copied(x: Any, y: Any) -> None:
            y[...] = x * (block // block)

        return autotune.CallableKernel(copied, *arrays(n))

    bench = BuildBench(Task(closure, {"n": 6}))
    built = [bench.build({"block": block}) for block in (1, 2, 3)]
    assert len({each.code_hash for each in built}) == 3
    assert isinstance(built[1].binary, CallableBinary)
    assert built[1].binary.values == {"block": 2}
    y = np.zeros(6, np.float32)
    called = bench.task.callable_of({"block": 2})
    assert called is not None
    called(X[:6], y)
    np.testing.assert_array_equal(y, X[:6])


def test_texts_of_helpers_and_constants_are_in_the_fingerprint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = task_of(doubled, keywords={"block": 4}).fingerprints
    assert task_of(doubled, keywords={"block": 4}).fingerprints == before
    assert task_of(doubled, keywords={"block": 5}).fingerprints != before
    assert task_of(doubled, keywords={"block": 4, "way": "x"}).fingerprints != before
    assert task_of(functools.partial(doubled, block=4)).fingerprints != before
    monkeypatch.setattr(sys.modules[__name__], "OFFSET", 1)
    assert task_of(doubled, keywords={"block": 4}).fingerprints != before


def test_callables_without_a_text_are_known_by_their_names() -> None:
    texts = [
        str(task_of(function, returns=True).function_of({}))
        for function in (np.negative, np.fft.fft, abs, X.dot)
    ]
    assert "numpy" in texts[0]
    assert "fft" in texts[1]
    assert texts[2].startswith("builtins.abs\n")
    assert all("0x" not in text for text in texts)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"function": 3}, "a callable kernel needs a function, got 3"),
        ({"outputs": []}, "inputs and outputs must be lists of tensors from te.placeholder"),
        ({"keywords": {"a b": 1}}, "a keyword must be letters, digits and _, got 'a b'"),
    ],
)
def test_mistakes_are_one_line(changes: dict[str, Any], message: str) -> None:
    inputs, outputs = arrays(4)
    given = {"function": doubled, "inputs": inputs, "outputs": outputs}
    with pytest.raises(UsageError) as caught:
        autotune.CallableKernel(**{**given, **changes})
    assert message in str(caught.value)


def test_a_gpu_that_runs_on_the_cpu_runs_no_callable() -> None:
    anywhere = template("anywhere", target=None)(scale.function)
    with pytest.raises(UsageError, match="a Python callable, which 'cuda -on=cpu' does not run"):
        _ = Task(anywhere, {"n": 64}, "cuda -on=cpu").space


def test_its_sizes_are_numbers() -> None:
    @template("open", reference=lambda x: 2 * x)
    def opened(cfg: Knobs, n: int) -> autotune.CallableKernel:
        return autotune.CallableKernel(doubled, *arrays(n), {"block": 4})

    with pytest.raises(UsageError, match="'doubled' needs sizes that are numbers: n is a list"):
        _ = Task(opened, {"n": [8, 16]}).space


def test_it_needs_a_reference(tmp_path: Path) -> None:
    @template("without")
    def without(cfg: Knobs, n: int) -> autotune.CallableKernel:
        return autotune.CallableKernel(doubled, *arrays(n), {"block": 4})

    with pytest.raises(UsageError, match="no tensor expressions, so it needs a reference"):
        autotune.tune(without, {"n": 8}, trials=1, log=tmp_path / "log.jsonl")


# -- calling ---------------------------------------------------------------------------------------


def test_a_template_is_built_and_called() -> None:
    with pytest.warns(UserWarning, match="no records given"):
        f = build(scale, {"n": 10})
    y = np.zeros(10, np.float32)
    f(X, y)
    np.testing.assert_array_equal(y, 2 * X)
    y[:] = 0
    f.bind(X, y)()
    np.testing.assert_array_equal(y, 2 * X)
    assert f.source.startswith("def doubled(")
    with pytest.raises(ValueError, match="shape"):
        f(X[:5], y)
    with pytest.raises(SaveError, match="is a kernel from elsewhere, which is not saved"):
        f.save("never.so")


def test_what_is_returned_is_copied_if_the_template_says_so() -> None:
    called = task_of(np.negative, returns=True).callable_of({})
    assert called is not None
    y = np.zeros(10, np.float32)
    called(X, y)
    np.testing.assert_array_equal(y, -X)


def test_a_run_tunes_records_and_builds_the_best(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    tuned = autotune.tune(scale, {"n": 10}, trials=4, seed=0, log=log)
    assert not tuned.summary.failures
    assert len(tuned.records[tuned.records["rank"] == -1]) == 4
    y = np.zeros(10, np.float32)
    tuned.build()(X, y)
    np.testing.assert_array_equal(y, 2 * X)
    again = autotune.tune(scale, {"n": 10}, trials=4, seed=0, log=log)
    assert again.summary.measured == 0


# -- decorated functions as text -------------------------------------------------------------------


class Compiled:
    """As a decorator of a compiler makes it."""

    def __init__(self, function: Any) -> None:
        self.py_func = function

    def __call__(self, *args: Any) -> Any:
        return self.py_func(*args)


def test_the_function_inside_of_what_a_decorator_made_is_found() -> None:
    assert written_function(Compiled(doubled)) is doubled
    assert written_function(functools.wraps(doubled)(lambda: None)) is not None
    assert written_function(np.negative) is None
    assert written_function(np) is None
    assert written_function(Compiled) is None


def test_a_decorated_function_goes_to_workers_with_its_decorator(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        textwrap.dedent("""
        import functools
        import autotune
        from autotune import te
        from autotune.template import template

        def compiled(function):
            class Made:
                py_func = staticmethod(function)
                def __call__(self, *args, **more):
                    return function(*args, **more)
            return Made()

        @compiled
        def doubled(x, y, by):
            y[...] = x * by

        def made(kernel):
            @template("scaled", reference=lambda x: x * 2)
            def scaled(cfg, n: int):
                by = cfg.define_knob("by", [2, 3])
                x, y = te.placeholder((n,), name="X"), te.placeholder((n,), name="Y")
                return autotune.CallableKernel(kernel, [x], [y], {"by": by})
            return scaled

        from autotune.operators.function_source import self_contained
        assert "@compiled\\ndef doubled(" in self_contained(made(doubled))
        tuned = autotune.tune(made(doubled), {"n": 9}, trials=2, seed=0, log="log.jsonl")
        print(tuned.summary.trials, tuned.summary.failures)
        """)
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 {'WRONG_ANSWER': 1}\n"  # a factor of 3 is wrong


def by_call(x: Any, y: Any) -> None:
    y[...] = x


made_by_call = Compiled(by_call)


def test_what_a_call_made_of_a_function_cannot_go_to_workers_as_text() -> None:
    local = made_by_call

    @template("given", reference=lambda x: x)
    def given(cfg: Knobs, n: int) -> autotune.CallableKernel:
        return autotune.CallableKernel(local, *arrays(n))

    with pytest.raises(UsageError, match="'local' is made of a function by a call"):
        self_contained(given)


# -- arrays ----------------------------------------------------------------------------------------


def on_device(function: Any, returns: bool = False) -> CallableFunction:
    parameters = [
        ArrayParameter("X", "float32", (4,), False),
        ArrayParameter("Y", "int32", (4,), True),
    ]
    return CallableFunction(Signature("f", tuple(parameters)), function, {}, False, returns, "")


def test_arrays_of_a_device_are_checked_before_the_call() -> None:
    f = on_device(lambda x, y: pytest.fail("called"))
    x, y = np.ones(4, np.float32), np.ones(4, np.int32)
    for given, message in (
        ((x,), "f takes 2 arrays, got 1"),
        ((x[:3], y), r"argument 1, 'X', must be float32 of shape \(4,\), got float32 of .*\(3,\)"),
        ((x, x), r"argument 2, 'Y', must be int32 of shape \(4,\), got float32 of shape"),
        ((x, 3), "argument 2, 'Y': expected an array with shape and dtype, got int"),
        ((np.ones(8, np.float32)[::2], y), "argument 1, 'X', must be C-contiguous"),
    ):
        with pytest.raises(ArgumentError, match=message):
            f(*given)


@pytest.mark.parametrize("given", ["float32", "float64", "complex64", "str"])
def test_what_is_returned_is_not_cut_to_the_type_of_an_output(given: str) -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.int32)
    with pytest.raises(UsageError, match=r"f: the callable returns .* for an output of int32, whi"):
        on_device(lambda x: np.array([1] * 4).astype(given), returns=True)(x, y)
    assert not y.any()
    on_device(lambda x: [True, False, True, True], returns=True)(x, y)
    assert y.tolist() == [1, 0, 1, 1]
