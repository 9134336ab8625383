"""A rule that picks kernels, compiled: it calls what the rule in Python picks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autotune
from autotune import te
from autotune.runtime.cpu.dispatch_rule import Pick, SizeTest, pick
from autotune.runtime.cpu.llvm_compiler import ChoiceFunction, compile_function
from autotune.runtime.save_library import save

RULES = st.recursive(
    st.integers(0, 2).map(Pick),
    lambda inner: st.builds(
        SizeTest,
        st.lists(st.sampled_from(["m", "n"]), min_size=1, max_size=2, unique=True).map(tuple),
        st.integers(0, 40),
        inner,
        inner,
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def kernels():
    """Kernels that fill a matrix with their numbers."""
    made = []
    for number in range(3):
        m, n = te.var("m"), te.var("n")
        A = te.placeholder((m, n), "int32", name="A")
        B = te.compute((m, n), lambda i, j, A=A, number=number: A[i, j] * 0 + number, name="B")
        function = autotune.lower(te.create_schedule(B.op), [A, B], name=f"filled_{number}")
        made.append(compile_function(replace(function)))
    return made


def bound(function):
    """Return a function that binds another to its arrays and calls it."""
    return lambda *arrays: function.bind(*arrays)()


@given(rule=RULES, m=st.integers(1, 9), n=st.integers(1, 9))
def test_the_compiled_rule_calls_what_the_rule_picks(kernels, rule, m, n):
    signature = replace(kernels[0].signature, name="filled")
    choice = ChoiceFunction(signature, rule, kernels)
    found = np.full((m, n), -1, "i4")
    for call in (choice, bound(choice)):
        found[:] = -1
        call(np.ones((m, n), "i4"), found)
        assert (found == pick(rule, {"m": m, "n": n})).all()


def test_large_products_of_sizes_do_not_wrap_around():
    rule = SizeTest(("m", "n"), 1 << 40, Pick(0), Pick(1))
    assert pick(rule, {"m": 1 << 31, "n": 1 << 33}) == 1


def test_a_saved_choice_is_loaded_and_picks_the_same(kernels, tmp_path):
    rule = SizeTest(("m",), 3, Pick(0), SizeTest(("m", "n"), 20, Pick(2), Pick(1)))
    choice = ChoiceFunction(replace(kernels[0].signature, name="filled"), rule, kernels)
    save(choice, tmp_path / "filled.so")
    loaded = autotune.load(tmp_path / "filled.so")
    for m, n in ((3, 9), (4, 5), (5, 5)):
        found = np.full((m, n), -1, "i4")
        for call in (loaded, bound(loaded)):
            found[:] = -1
            call(np.ones((m, n), "i4"), found)
            assert (found == pick(rule, {"m": m, "n": n})).all()
