"""A template may say itself which answers are right; then nothing else is compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.benches import ONCE, Fake, Quiet

from autotune import te
from autotune.measure.build_bench import BuildBench
from autotune.measure.candidate import CandidateError
from autotune.measure.run_bench import RunBench
from autotune.runtime.cpu.cpu_device import CpuDevice
from autotune.task.task import Task
from autotune.template import template

GIVEN = np.arange(4, dtype="float32")


pytestmark = pytest.mark.usefixtures("own_cache")


def bench(accept: Callable[..., Any]) -> RunBench:
    def known(x: Any) -> Any:
        assert x.dtype == np.float32
        assert (x == GIVEN).all(), "there is no answer to other inputs"
        return 2 * x

    @template("twice", reference=known, inputs=lambda rng: [GIVEN], accept=accept)
    def twice(n: int) -> Any:
        x = te.placeholder((n,), name="X")
        return [x, te.compute((n,), lambda i: x[i] * 2, name="Y")]

    task = Task(twice, {"n": 4})
    subject, _ = BuildBench(task).subject()
    found = RunBench(
        CpuDevice(task.target), subject, task.reference, None, ONCE, 0, task.inputs, None,
        task.accept,
    )  # fmt: skip
    found._monitor = Quiet()  # type: ignore[assignment]
    return found


def writes(value: float) -> Any:
    def run(x: Any, y: Any) -> None:
        y[...] = value * x

    return Fake(run)


def test_it_gets_right_and_found_outputs_and_decides() -> None:
    seen: list[Any] = []

    def near(right: Any, found: Any, *, n: int) -> bool:
        seen.append((n, right[0].tolist(), found[0].tolist(), found[0].dtype))
        return bool(abs(found[0] - right[0]).max() <= 1)

    own = bench(near)
    assert own.run(writes(2.25)).max_error is None
    assert seen[0] == (4, [0, 2, 4, 6], [0, 2.25, 4.5, 6.75], np.dtype("float32"))
    assert own.checks == ["Y must be as the template says with accept="]
    with pytest.raises(CandidateError, match="the template does not accept its answer"):
        own.run(writes(2.5))


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ("row 3 is not sorted", "row 3 is not sorted"),
        ("\nrow 3 is not sorted:\n7 0 1\n", "row 3 is not sorted:"),
        (None, "the template does not accept its answer"),
        ("", "the template does not accept its answer"),
        ("\n", "the template does not accept its answer"),
    ],
)
def test_it_may_say_what_is_wrong_in_a_line(says: Any, message: str) -> None:
    with pytest.raises(CandidateError, match=f"^{message}$"):
        bench(lambda right, found: says).run(writes(2))


@pytest.mark.parametrize("says", ["raises", "is neither true nor false"])
def test_where_it_fails_the_record_names_it(says: str) -> None:
    def fails(right: Any, found: Any) -> Any:
        if says != "raises":
            return found[0] == right[0]
        raise ValueError("no such row:\n7")

    with pytest.raises(CandidateError, match=r"^accept of template .twice. failed: ValueE") as it:
        bench(fails).run(writes(2))
    assert (it.value.code, it.value.stage) == ("WRONG_ANSWER", "check")
    assert "\n" not in it.value.message


@pytest.mark.parametrize("which", [0, 1])
def test_it_may_not_change_the_arrays(which: int) -> None:
    def changes(*outputs: Any) -> bool:
        outputs[which][0][0] -= 1
        return True

    with pytest.raises(CandidateError, match="read-only; it may not change its arrays"):
        bench(changes).run(writes(2))


def test_it_gets_the_right_outputs_each_time() -> None:
    def empties(right: Any, found: Any) -> bool:
        return bool((right.pop() == found.pop()).all())

    own = bench(empties)
    for _ in range(2):
        own.run(writes(2))


def test_an_input_that_was_changed_is_told_first() -> None:
    def spoils(x: Any, y: Any) -> None:
        x[0] = 7

    with pytest.raises(CandidateError, match="it changed its input X"):
        bench(lambda right, found: True).run(Fake(spoils))
