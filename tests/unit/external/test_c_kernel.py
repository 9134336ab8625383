"""Kernels in C as templates: knobs, identity of candidates, mistakes, missing compilers."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.c_compiler import needs_cc
from support.c_kernels import FIRST, SCALE, X, arrays, computed, scale

import autotune
from autotune.builder import BuiltFunction
from autotune.errors import UsageError
from autotune.feature import TaskFeatures
from autotune.measure.build_bench import BuildBench
from autotune.task.task import Task
from autotune.template import Knobs, template

pytestmark = pytest.mark.usefixtures("own_cache")


@needs_cc
def test_numbers_are_symbols_and_texts_are_decisions() -> None:
    task = Task(scale, {"n": 10})
    assert not task.untraceable
    assert len(task.space) == 12
    assert len(task.structures) == 4
    assert [(a.name, a.shape, a.is_output) for a in task.arguments] == [
        ("X", (10,), False),
        ("Y", (10,), True),
    ]
    assert task.steps_of(0) is None
    assert Task(scale, {"n": 3}).tally().feasible == 8


@needs_cc
def test_the_listing_shows_compiler_macros_and_text() -> None:
    text = str(Task(scale, {"n": 10}).function_of({"block": 4, "level": "-O2", "kind": True}))
    assert text.startswith("// cc -O2\n#define N 10\n#define BLOCK 4\n#define FACTOR 2.0f\n")
    assert "#define KIND 1\n#define HALF 0.5\n" in text


@needs_cc
def test_features_are_the_knobs() -> None:
    features = TaskFeatures(Task(scale, {"n": 10}))
    assert {name.split("/")[1] for name in features.names} == {"block", "level", "kind"}
    assert np.isfinite(features.matrix(np.arange(12))).all()


@needs_cc
def test_text_macros_flags_and_the_compiler_tell_candidates_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = BuildBench(Task(scale, {"n": 10}))
    values = [bench.task.space.config(index).values for index in range(12)]
    hashes = [bench.build(each).code_hash for each in values]
    assert len(set(hashes)) == 12
    assert bench.build(values[3]).code_hash == hashes[3]
    monkeypatch.setattr("autotune.runtime.cpu.c_compiler.version_of", lambda path: "another")
    assert bench.build(values[3]).code_hash != hashes[3]
    other = Task(scale, {"n": 10, "text": SCALE.replace("+ BLOCK", "- BLOCK")})
    assert other.fingerprints["space"] == bench.task.fingerprints["space"]
    assert other.fingerprints["template"] != bench.task.fingerprints["template"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outputs": []}, "inputs and outputs must be lists of tensors from te.placeholder"),
        ({"inputs": ["X"]}, "C kernel 'f': inputs and outputs must be lists of tensors"),
        ({"source": 3}, "source must be text or a path, got 3"),
        ({"source": "a\n\0"}, "text must be text without NUL and lone surrogates"),
        ({"source": "gone.c"}, "there is no file 'gone.c'"),
        ({"defines": {"A B": 1}}, "a macro must be letters, digits and _, got 'A B'"),
        ({"defines": {"A": [1]}}, "macro A must be a number, a flag or a text, got [1]"),
        ({"flags": "-O3"}, "flags must be a list of texts, got '-O3'"),
        ({"language": "rust"}, 'language must be "c" or "c++", got \'rust\''),
        ({"name": "f(x)"}, "the name of a function in C is an identifier"),
        ({"inputs": [computed(4)]}, "must be lists of tensors from te.placeholder"),
        ({"reduction_length": 0}, "C kernel 'f': reduction_length must be >= 1, got 0"),
        ({"reduction_length": "x"}, "reduction_length must be a whole number, or an expression"),
        ({"reduction_length": True}, "reduction_length must be a whole number, or an expression"),
        ({"macros": {"N": 4}}, "a C kernel has no argument 'macros'; known are name, source, inp"),
        ({"flag": ["-O3"]}, "a C kernel has no argument 'flag'; did you mean 'flags'?"),
    ],
)
@needs_cc
def test_mistakes_are_one_line(changes: dict[str, Any], message: str) -> None:
    given = {"name": "f", "source": "void f(float *y) {}\n", **arrays(4)}
    with pytest.raises(UsageError) as caught:
        autotune.CKernel(**{**given, **changes}).lowered("f")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("f",), "a C kernel needs source and inputs and outputs"),
        (("f", "\n", []), "a C kernel needs outputs"),
    ],
)
def test_what_is_missing_is_told_in_one_line(given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        autotune.CKernel(*given)
    assert str(caught.value) == message


def test_kernels_are_copied() -> None:
    kernel = autotune.CKernel("f", "\n", **arrays(4))
    assert copy.copy(kernel) == kernel
    assert dataclasses.replace(kernel, flags=[]).flags == ()


@needs_cc
def test_a_knob_may_leave_an_option_out() -> None:
    @template("maybe", reference=lambda x: x)
    def maybe(cfg: Knobs, n: int) -> autotune.CKernel:
        more = cfg.define_knob("more", ["", "-DVALUE=2"])
        text = f"#ifndef VALUE\n#define VALUE 1\n#endif\n{FIRST}"
        return autotune.CKernel("f", text, **arrays(n), flags=["-O1", more])

    task = Task(maybe, {"n": 10})
    y = np.zeros(10, np.float32)
    for index, value in enumerate((1, 2)):
        BuiltFunction(task.final(index), task.target)(X, y)
        assert y[0] == value


def test_a_compiler_that_is_not_here_is_told_in_one_line_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    @template("missing", reference=lambda x: x)
    def missing(cfg: Knobs, n: int) -> autotune.CKernel:
        return autotune.CKernel("f", "\n", **arrays(n), compiler="no-such-cc")

    with pytest.raises(UsageError, match="there is no compiler 'no-such-cc' on this") as caught:
        autotune.tune(missing, {"n": 4}, trials=2, log=tmp_path / "log.jsonl")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "log.jsonl").exists()


@needs_cc
def test_a_configuration_whose_compiler_is_not_here_is_refused_and_the_others_are_not() -> None:
    @template("choice", reference=lambda x: x)
    def choice(cfg: Knobs, n: int) -> autotune.CKernel:
        compiler = cfg.define_knob("compiler", ["no-such-cc", "cc"])
        return autotune.CKernel("f", "\n", **arrays(n), compiler=compiler)

    task = Task(choice, {"n": 4})
    assert task.space.config(task.default_index).values == {"compiler": "cc"}
    assert "no-such-cc" in task.refusal(0)


def test_a_kernel_in_c_runs_on_cpus_only() -> None:
    anywhere = template("anywhere", target=None)(scale.function)
    with pytest.raises(UsageError, match="which runs on CPUs only, not on 'cuda -on=cpu'"):
        _ = Task(anywhere, {"n": 64}, "cuda -on=cpu").space
