"""What depends only on constant inputs is a function of its own, and runs once."""

import numpy as np
import pytest
from support.verify import verify

from autotune import te
from autotune.errors import UsageError
from autotune.ir.evaluate.interpreter import interpret
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.lift_constants import check_constants, lift_constants
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.target import Target

N = 6


def lowered(outputs, inputs):
    schedule = te.create_schedule([t.op for t in outputs])
    return verify(analyse(lower_schedule(schedule, [*inputs, *outputs], "f")))


def names(function):
    return [param.name for param in function.params]


def product(rows=N):
    """C = A @ P where P[j, k] = 2 * Q[k, j] and Q = B + 1."""
    A, B = te.placeholder((rows, N), name="A"), te.placeholder((N, N), name="B")
    Q = te.compute((N, N), lambda i, j: B[i, j] + 1.0, name="Q")
    P = te.compute((N, N), lambda j, k: Q[k, j] * 2.0, name="P")
    k = te.reduce_axis((0, N), "k")
    C = te.compute((rows, N), lambda i, j: te.sum(A[i, k] * P[j, k], axis=k), name="C")
    return A, B, C


def test_a_chain_of_nests_that_reads_constants_alone_is_split_off():
    A, B, C = product()
    split = lift_constants(lowered([C], [A, B]), [1])
    assert (names(split.main), names(split.prepare)) == (["A", "C", "P"], ["B", "P"])
    assert split.prepare.name == "f_prepare"
    assert (split.constants, split.kept) == ((1,), ())
    assert "allocate Q" in str(split.prepare)
    assert "allocate" not in str(split.main)
    a, b = np.random.default_rng(0).random((2, N, N), np.float32)
    p, c = np.zeros((2, N, N), "f4")
    interpret(verify(finalise(split.prepare)), [b, p])
    interpret(verify(finalise(split.main)), [a, c, p])
    np.testing.assert_allclose(c, a @ (2 * (b + 1)), rtol=1e-5)


def test_without_constants_the_function_stays_as_it_is():
    A, B, C = product()
    whole = lowered([C], [A, B])
    split = lift_constants(whole, [])
    assert split.main is whole
    assert split.prepare is None


def test_a_constant_that_is_read_directly_stays_a_parameter():
    A, B, C = product()
    split = lift_constants(lowered([C], [A, B]), [0])
    assert (names(split.main), split.prepare, split.kept) == (["B", "C", "A"], None, (0,))
    both = lift_constants(lowered([C], [A, B]), [0, 1])
    assert (names(both.main), names(both.prepare)) == (["C", "A", "P"], ["A", "B", "P"])
    assert both.kept == (0,)


def test_what_a_varying_nest_reads_as_well_is_handed_on():
    A, B = te.placeholder((N,), name="A"), te.placeholder((N,), name="B")
    Q = te.compute((N,), lambda i: B[i] + 1.0, name="Q")
    P = te.compute((N,), lambda i: Q[N - 1 - i] * 2.0, name="P")
    C = te.compute((N,), lambda i: A[i] + P[N - 1 - i] + Q[N - 1 - i], name="C")
    split = lift_constants(lowered([C], [A, B]), [1])
    assert names(split.main) == ["A", "C", "Q", "P"]


def test_an_output_is_computed_in_every_call():
    B = te.placeholder((N,), name="B")
    P = te.compute((N,), lambda i: B[i] * 2.0, name="P")
    C = te.compute((N,), lambda i: P[N - 1 - i] + 1.0, name="C")
    split = lift_constants(lowered([P, C], [B]), [0])
    assert (names(split.main), split.prepare) == (["P", "C", "B"], None)


def test_sizes_of_other_arrays_do_not_hold_up_what_is_of_fixed_size():
    n = te.var("n")
    A, B, C = product(n)
    split = lift_constants(lowered([C], [A, B]), [1])
    assert names(split.main) == ["A", "C", "P"]
    assert split.prepare.sizes == ()
    W = te.placeholder((N,), name="W")
    wide = te.compute((n, N), lambda i, j: W[j] * 2.0, name="wide")
    X = te.placeholder((n, N), name="X")
    out = te.compute((n, N), lambda i, j: X[i, j] + wide[n - 1 - i, j], name="out")
    assert lift_constants(lowered([out], [X, W]), [1]).prepare is None


def test_on_a_gpu_the_kernels_of_constants_are_a_program_of_their_own():
    A, B, C = product()
    s = te.create_schedule(C.op)
    for stage in s.stages:
        if stage.op.input_tensors:
            stage.bind(stage.op.axis[0], te.thread_axis("threadIdx.x"))
    whole = analyse(lower_schedule(s, [A, B, C], "f"))
    split = lift_constants(whole, [1]).final_form(Target.of("cuda -arch=sm_90"))
    a, b = np.random.default_rng(0).random((2, N, N), np.float32)
    p, c = np.zeros((2, N, N), "f4")
    interpret(verify(split.prepare), [b, p])
    interpret(verify(split.main), [a, c, p])
    np.testing.assert_allclose(c, a @ (2 * (b + 1)), rtol=1e-5)


def test_hints_stay_with_the_function_that_has_their_buffers():
    A, B, C = product()
    s = te.create_schedule(C.op)
    for stage in s.stages:
        if stage.op.input_tensors:
            stage.pragma(stage.op.axis[0], "prefetch", 1)
    whole = analyse(lower_schedule(s, [A, B, C], "f"))
    assert {"A", "B"} & set(whole.info.prefetches) == {"A", "B"}
    split = lift_constants(whole, [1])
    assert "B" not in verify(split.main).info.prefetches
    assert "A" not in verify(split.prepare).info.prefetches


def test_a_position_without_an_input_is_one_line():
    A, B, C = product()
    whole = lowered([C], [A, B])
    check_constants("f", whole, [0, 1])
    with pytest.raises(UsageError) as caught:
        check_constants("f", whole, [2])
    assert str(caught.value) == (
        "constant = [2]: f has no input 2; the positions of its inputs are 0 (A), 1 (B)"
    )
