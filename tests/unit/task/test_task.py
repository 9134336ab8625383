"""Tasks: workloads, spaces, functions and fingerprints of templates with arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune import te
from autotune.errors import InstantiationError, UsageError
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.stmt import PrimFunc
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.runtime.signature import ArrayParameter
from autotune.task.task import Task, Workload, code_hash
from autotune.template import Knobs, template


@template(
    "scaled", reference=lambda a, *, factor: a * np.float32(factor), flops=lambda n, **_: 1.0 * n
)
def scaled(cfg: Knobs, n: int, factor: int = 3) -> Any:
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] * factor, name="B")
    s = te.create_schedule(B.op)
    tile = cfg.define_knob("tile", [1, 4, 5, 32])
    cfg.add_constraint(tile <= n, "a tile is no longer than the array")
    _, i = s[B].split(s[B].op.axis[0], factor=tile)
    if n % tile == 0:
        s[B].vectorize(i)
    return s, [A, B]


@template("shifty")
def shifty(cfg: Knobs, n: int) -> Any:
    A = te.placeholder((n * cfg.define_knob("f", [1, 2]),), "float32", name="A")
    B = te.compute((n,), lambda i: A[i], name="B")
    return te.create_schedule(B.op), [A, B]


@template("failing")
def failing(cfg: Knobs, n: int) -> Any:
    cfg.define_knob("f", [1, 2])
    raise ValueError(f"nothing works for {n}")


@pytest.fixture
def task() -> Task:
    return Task(scaled, {"n": 20}, "llvm")


def test_a_workload_is_the_template_with_all_its_arguments(task: Task) -> None:
    assert task.workload == Workload("scaled", {"n": 20, "factor": 3})
    assert task.workload.to_json() == {"template": "scaled", "args": {"n": 20, "factor": 3}}
    assert task.workload.key == Workload("scaled", {"factor": 3, "n": 20}).key
    assert task.workload.fingerprint != Workload("scaled", {"n": 21, "factor": 3}).fingerprint
    assert str(task.workload) == "scaled(n=20, factor=3)"


def test_a_workload_of_a_log_is_named_in_one_line_whatever_its_texts_hold() -> None:
    workload = Workload("scaled\x1b[2J", {"n": "a\nbc\td"})
    assert str(workload) == "scaled\\x1b[2J(n=a\\nbc\\td)"


def test_arguments_are_inputs_then_outputs(task: Task) -> None:
    assert task.arguments == [
        ArrayParameter("A", "float32", (20,), False),
        ArrayParameter("B", "float32", (20,), True),
    ]
    assert task.bytes == 160.0
    assert task.flops == 20.0


def test_every_legal_configuration_computes_the_reference(task: Task) -> None:
    a = np.arange(20, dtype=np.float32)
    assert task.reference is not None
    assert task.space.feasible_indices().tolist() == [0, 1, 2]
    for index in task.space.feasible_indices().tolist():
        b = np.full(20, np.nan, np.float32)
        interpret(task.final(index), [a, b])
        np.testing.assert_array_equal(b, task.reference(a))
        assert str(task.function(index)) == str(task.function_of(task.space.config(index).values))


def test_a_configuration_that_is_refused_says_why(task: Task) -> None:
    with pytest.raises(InstantiationError, match="a tile is no longer than the array"):
        task.function(3)


def test_structures_carry_the_values_of_their_knobs(task: Task) -> None:
    assert len(task.structures) == 2  # the tile divides 20, or it does not
    assert task.structure(1) is task.structures[task.classify(np.array([1]))[0]]
    assert {knob.name: value for knob, value in task.knob_values(1).items()} == {"tile": 4}
    assert task.untraceable == ""
    assert task.default_index == 0


def test_one_configuration_needs_no_search_space(task: Task) -> None:
    assert task.function_of({"tile": 5}) is not None
    assert len(task._structures.known) == 1


def test_a_task_is_for_targets_of_its_template_only() -> None:
    with pytest.raises(UsageError, match="is for 'llvm' targets, not 'cuda'"):
        Task(scaled, {"n": 4}, "cuda")


def test_shapes_of_arguments_may_not_depend_on_knobs() -> None:
    with pytest.raises(UsageError, match="shape of argument 'A' depends on knobs"):
        _ = Task(shifty, {"n": 4}).arguments


def test_a_template_that_always_fails_is_one_clear_error() -> None:
    with pytest.raises(UsageError) as caught:
        _ = Task(failing, {"n": 4}).space
    assert "fails for every configuration: ValueError: nothing works for 4" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(UsageError, match="fails for every configuration"):
        _ = Task(failing, {"n": 4}).arguments


def test_fingerprints_tell_arguments_and_schedules_apart(task: Task) -> None:
    again, other = Task(scaled, {"n": 20}), Task(scaled, {"n": 20, "factor": 4})
    assert task.fingerprints == again.fingerprints
    assert task.fingerprints["space"] == other.fingerprints["space"]
    assert task.fingerprints["template"] != other.fingerprints["template"]


def test_fingerprints_and_hashes_are_the_same_in_another_process() -> None:
    args = {"m": 24, "n": 40, "k": 12}
    lines = [
        "from autotune.task.task import Task, code_hash",
        f"t = Task.from_reference('matmul', {args}, 'llvm -mcpu=x86-64-v3')",
        "print(t.fingerprints, code_hash(t.final(t.default_index)), t.space.fingerprint())",
        "print([t.fingerprints_of(i) for i in range(0, len(t.space), 997)])",
    ]
    texts = {
        subprocess.run(
            [sys.executable, "-c", "\n".join(lines)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


def test_fingerprints_do_not_depend_on_which_structures_are_known() -> None:
    early, late = Task(scaled, {"n": 20}), Task(scaled, {"n": 20})
    early._structures.of({"tile": 32})
    assert len(early._structures.known) == 1
    indices = range(len(late.space))
    expected = [late.fingerprints_of(index) for index in indices]
    assert [early.fingerprints_of(index) for index in reversed(indices)] == expected[::-1]
    assert late.fingerprints == expected[0]


EDITED = """
from autotune import te
from autotune.template import template

@template("edited")
def edited(cfg):
    kind = cfg.define_knob("kind", ["whole", "split"])
    A = te.placeholder((32,), "float32", name="A")
    B = te.compute((32,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    if kind == "split":
        s[B].split(B.op.axis[0], factor=4)
    return s, [A, B]
"""


def test_an_edit_changes_the_fingerprints_of_what_it_touches_only(tmp_path: Path) -> None:
    def prints(name: str, old: str = "", new: str = "") -> list[str]:
        source = tmp_path / f"{name}.py"
        source.write_text(EDITED.replace(old, new))
        task = Task.from_reference(f"{source}:edited", {})
        return [task.fingerprints_of(index)["template"] for index in range(len(task.space))]

    before = prints("before")
    assert prints("grown", '"split"]', '"split", "other"]')[:2] == before
    whole, split = prints("refactored", "factor=4", "factor=8")
    assert whole == before[0]
    assert split != before[1]


def _lowered(scale: float, axis: str, factor: int, dtype: str = "float32") -> PrimFunc:
    A = te.placeholder((16,), dtype, name="A")
    B = te.compute((16,), lambda i: A[i] * scale, name=axis)
    s = te.create_schedule(B.op)
    s[B].split(s[B].op.axis[0], factor=factor)
    return finalise(analyse(lower_schedule(s, [A, B])))


def test_code_hashes_ignore_names_and_see_every_bit() -> None:
    one = code_hash(_lowered(1.0, "B", 4))
    assert one == code_hash(_lowered(1.0, "C", 4))
    assert len(one) == 16
    others = [
        code_hash(_lowered(1.0 + 2**-23, "B", 4)),
        code_hash(_lowered(1.0, "B", 8)),
        code_hash(_lowered(1.0, "B", 4, "float64")),
    ]
    assert len({one, *others}) == 4


def test_a_task_is_found_by_name() -> None:
    task = Task.from_reference("matmul", {"m": 8, "n": 8, "k": 8})
    assert task.template_ref == "matmul"
    assert Task(scaled, {"n": 20}).template_ref == f"{__file__}:scaled"
    assert repr(task) == "<task matmul(m=8, n=8, k=8, dtype=float32) on llvm>"
    turned = Task.from_reference("matmul", {"m": 8, "n": 8, "k": 8, "transpose_b": True})
    assert str(turned.workload) == "matmul(m=8, n=8, k=8, transpose_b=True, dtype=float32)"
