"""Greatest common divisors of expressions: known where one side certainly divides the other."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from autotune.ir.expr import Call, Const, SizeVar
from autotune.ir.ops import binary, const, gcd
from autotune.ir.visitor import substitute

N = SizeVar("n", "int32")
SUMS = st.recursive(
    st.one_of(st.just(N), st.integers(0, 24).map(lambda value: const(value, "int32"))),
    lambda inner: st.builds(binary, st.sampled_from(["+", "*", "min", "max"]), inner, inner),
    max_leaves=5,
)


@given(SUMS, st.integers(1, 24), st.integers(0, 9))
def test_a_divisor_is_the_number_that_it_turns_out_to_be(expr, number, n):
    found = gcd(expr, const(number, "int32"))
    value = substitute(expr, {N: const(n, "int32")})
    assert isinstance(value, Const)
    if isinstance(found, Call):
        return
    turned = substitute(found, {N: const(n, "int32")})
    assert turned.value == math.gcd(int(value.value), number)


def test_a_multiple_of_a_number_has_it_as_its_divisor():
    assert gcd(binary("max", N, 1) * 112, const(16, "int32")) is const(16, "int32")
    assert isinstance(gcd(N * 12, const(16, "int32")), Call)
