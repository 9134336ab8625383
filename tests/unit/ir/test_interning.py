"""The table of all nodes: one for all that are built alike, as long as somebody holds it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType

import pytest
from support.interrupts import interrupted_at_each_moment

from autotune.errors import IRError
from autotune.ir import interning
from autotune.ir.expr import BinaryOp, Expr, Var
from autotune.ir.interning import _table, find, interned, purge_dead_entries

X = Var("i")


class Node:
    """Something to intern."""

    __slots__ = ("__weakref__", "name")
    name: str


def node(name: str, meanwhile: Callable[[], object] = lambda: None) -> Node:
    """Return the node of a name; `meanwhile` is called while it is made."""
    key = Node, name
    found: Node | None = find(key)
    if found is None:
        found = Node()
        found.name = name
        meanwhile()
        found = interned(key, found)
    return found


def test_expressions_nobody_holds_are_forgotten() -> None:
    gc.collect()
    purge_dead_entries()
    before = len(_table)
    big: Expr = Var("x")
    for k in range(50):
        big = big * X + k
    assert len(_table) > before + 50
    del big
    gc.collect()
    purge_dead_entries()
    assert len(_table) <= before + 1


def test_no_python_code_runs_as_an_expression_dies_where_an_interrupt_would_be_lost() -> None:
    called: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_name)

    big: Expr | None = Var("x") * X + 1
    profiled = sys.getprofile()
    sys.setprofile(note)
    try:
        big = None
    finally:
        sys.setprofile(profiled)
    assert big is None
    assert called == []


def test_of_two_threads_that_make_a_node_at_once_the_later_gets_that_of_the_other() -> None:
    background: list[Node] = []
    assert node("both", lambda: background.append(node("both"))) is background[0]
    assert node("both") is background[0]


def test_a_node_that_dies_while_it_is_made_again_leaves_its_place() -> None:
    # made and given up meanwhile: its entry is still there
    made = node("gone", lambda: node("gone") and None)
    assert node("gone") is made


def test_what_cannot_be_made_is_not_in_the_table() -> None:
    with pytest.raises(IRError):
        BinaryOp("no operation", X, X)
    assert find((BinaryOp, "no operation", id(X), id(X))) is None


def test_an_interrupt_at_any_moment_leaves_the_table_whole() -> None:
    def make() -> None:
        for i in range(2):
            node(f"gone {i}")
        node("made")

    for _ in interrupted_at_each_moment(make, [interning]):
        purge_dead_entries()
        kept = node("made")
        assert node("made") is kept
        del kept
    purge_dead_entries()
    assert all(entry.key == key for key, entry in _table.items())
