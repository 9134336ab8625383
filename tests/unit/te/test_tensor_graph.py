"""What a computation returns: inputs and outputs, or only outputs."""

from __future__ import annotations

from typing import Any

import pytest

from autotune import te
from autotune.errors import UsageError
from autotune.te.tensor_graph import graph_of, returns_tensors


def names(returned: Any) -> tuple[list[str], list[str]]:
    graph = graph_of("f", returned)
    return [t.name for t in graph.inputs], [t.name for t in graph.outputs]


def added() -> tuple[Any, Any, Any]:
    A, B = te.placeholder((4,), name="A"), te.placeholder((4,), name="B")
    return A, B, te.compute((4,), lambda i: B[i] + A[i], name="C")


def test_inputs_that_are_listed_keep_their_order() -> None:
    A, B, C = added()
    assert names([A, B, C]) == (["A", "B"], ["C"])
    assert names((B, A, C)) == (["B", "A"], ["C"])


def test_inputs_that_are_not_listed_come_in_the_order_in_which_they_are_read() -> None:
    A, _, C = added()
    assert names(C) == names([C]) == (["B", "A"], ["C"])
    D = te.compute((4,), lambda i: A[i] * 2, name="D")
    assert names([D, C]) == (["A", "B"], ["D", "C"])


def test_the_state_of_a_scan_is_no_input() -> None:
    X, state = te.placeholder((5, 3), name="X"), te.placeholder((5, 3), name="state")
    first = te.compute((1, 3), lambda _, i: X[0, i], name="first")
    later = te.compute((5, 3), lambda t, i: state[t - 1, i] + X[t, i], name="later")
    assert names(te.scan(first, later, state, name="S")) == (["X"], ["S"])


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ("AC", "template 'f' reads B, which it does not return"),
        ("AB", "must return its inputs first and its outputs last"),
        ("ACB", r"it returned \[A, C, B\]"),
    ],
)
def test_a_list_without_an_input_or_an_output_is_refused(listed: str, said: str) -> None:
    tensors = dict(zip("ABC", added(), strict=True))
    with pytest.raises(UsageError, match=said):
        graph_of("f", [tensors[name] for name in listed])


def test_a_schedule_and_its_tensors_are_no_graph() -> None:
    A, _, C = added()
    assert returns_tensors(C)
    assert returns_tensors((A, C))
    for other in ((te.create_schedule(C.op), [A, C]), [], None, [A, 3]):
        assert not returns_tensors(other)
