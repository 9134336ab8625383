"""Candidates of one workload, built, checked and timed in this very process."""

import ctypes
import math
import pickle

import numpy as np
import pytest
from support.benches import Fake, built, run_bench
from support.llvm_kernels import buffer
from support.vector_kernels import loop

from autotune import te
from autotune.errors import InstantiationError, UsageError
from autotune.ir.expr import Load
from autotune.ir.stmt import LoopKind, PrimFunc, Store
from autotune.measure import build_bench
from autotune.measure import run_bench as run_bench_module
from autotune.measure.build_bench import BuildBench
from autotune.measure.candidate import Built, CandidateError, describe
from autotune.measure.checks.guard_zones import ZONE
from autotune.measure.checks.reference import Reference
from autotune.measure.checks.unscheduled_program import Computation, float_operations
from autotune.measure.result import MeasureErrorNo
from autotune.measure.timing import kernel_timing
from autotune.measure.timing.noise_monitor import NOISY
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime.cpu import benchmark_kernels, cpu_backend
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.signature import ArrayParameter
from autotune.target import Target
from autotune.task.task import Task
from autotune.template import template

AMPLE_MS = 1e6  # a busy machine takes no repeat away
QUICK = TimingPolicy(repeats=2, min_repeat_ms=0, budget_ms=AMPLE_MS)
RACE = TimingPolicy(repeats=5, min_repeat_ms=0, budget_ms=AMPLE_MS, race=1.5)


pytestmark = pytest.mark.usefixtures("own_cache")


def elementwise(function, reference):
    """Task of B[i] = function(A[i]) with a knob `step` that must divide 24."""

    @template("elementwise", target="llvm", reference=reference)
    def make(cfg, n: int = 24, dtype: str = "float32"):
        step = cfg.define_knob("step", [4, 5, 8])
        cfg.add_constraint(n % step == 0, "step divides n")
        A = te.placeholder((n,), dtype, name="A")
        B = te.compute((n,), lambda i: function(A[i]), name="B")
        s = te.create_schedule(B.op)
        s[B].split(B.op.axis[0], factor=step)
        return s, [A, B]

    return Task(make, {}, "llvm")


def increment():
    return elementwise(lambda x: x + 1, lambda a: a + np.float32(1))


class Monitor:
    """What is known of a machine that is this noisy."""

    def __init__(self, noise):
        self.noise = noise
        self.noisy = noise > NOISY

    def sample(self):
        """Nothing changes."""

    def is_quiet_now(self):
        return True


QUIET, LOUD = Monitor(0.0), Monitor(2 * NOISY)


def test_a_right_kernel_has_costs_and_a_largest_error():
    bench = run_bench(increment(), QUICK)
    assert bench.reference == "given"
    ran = bench.run(built(increment(), {"step": 8}))
    assert len(ran.costs_s) == 2
    assert all(cost > 0 for cost in ran.costs_s)
    assert ran.max_error == 0.0


def test_a_known_kernel_is_compiled_only_if_it_is_measured_again(monkeypatch):
    bench = BuildBench(increment())
    first = bench.build({"step": 8})
    assert first.binary is not None
    assert bench.build({"step": 4}).code_hash != first.code_hash
    bench.add_known([first.code_hash])
    assert bench.build({"step": 8}, again=True) == first
    monkeypatch.delattr(cpu_backend, "compile_binary")
    assert bench.build({"step": 8}) == Built(first.code_hash, None)


def test_what_a_template_fails_at_when_it_is_rehearsed_is_left_to_candidates():
    ran = []

    def refuse(*_args):
        ran.append(True)
        raise SystemExit

    BuildBench(elementwise(refuse, None)).warm_up()
    assert ran == [True]


def test_refused_knob_values_are_an_instantiation_error():
    with pytest.raises(CandidateError, match="step divides n") as caught:
        BuildBench(increment()).build({"step": 5})
    assert caught.value.code is MeasureErrorNo.INSTANTIATION_ERROR


def test_a_compiler_that_fails_is_a_compile_error(monkeypatch):
    def refuse(*_args):
        raise RuntimeError("no such\ninstruction")

    monkeypatch.setattr(cpu_backend, "compile_binary", refuse)
    with pytest.raises(CandidateError) as caught:
        BuildBench(increment()).build({"step": 8})
    assert caught.value.code is MeasureErrorNo.COMPILE_HOST
    assert caught.value.message == "RuntimeError: no such instruction"


def test_a_kernel_that_raises_is_a_runtime_error():
    def kernel(*_arrays):
        raise MemoryError

    with pytest.raises(CandidateError) as caught:
        run_bench(increment(), QUICK).run(Fake(kernel))
    assert (caught.value.code, caught.value.message) == (
        MeasureErrorNo.RUNTIME_DEVICE,
        "MemoryError",
    )


def test_a_kernel_that_changes_an_input_is_wrong_and_does_not_fail_the_next():
    def right_but_spoils(a, b):
        b[:] = a + 1
        a[5] = 7

    bench = run_bench(increment(), QUICK)
    with pytest.raises(CandidateError, match=r"it changed its input A, .* at \[5\]: 7.0") as caught:
        bench.run(Fake(right_but_spoils))
    assert (caught.value.code, caught.value.stage) == (MeasureErrorNo.WRONG_ANSWER, "check")
    assert bench.run(built(increment(), {"step": 4})).max_error == 0.0


@pytest.mark.parametrize(
    ("argument", "offset", "words"),
    [
        (0, 96, "outside A: 0 bytes past its end"),
        (0, -1, "outside A: 1 byte before its start"),
        (1, 96 + 40, "outside B: 40 bytes past its end"),
        (1, -ZONE, "outside B: 65536 bytes before its start"),
    ],
)
def test_a_kernel_that_writes_outside_of_an_array_is_wrong(argument, offset, words):
    def right_but_strays(*arrays):
        arrays[1][:] = arrays[0] + 1
        byte = ctypes.c_ubyte.from_address(arrays[argument].ctypes.data + offset)
        byte.value ^= 0xFF

    bench = run_bench(increment(), QUICK)
    with pytest.raises(CandidateError, match=words) as caught:
        bench.run(Fake(right_but_strays))
    assert (caught.value.code, caught.value.stage) == (MeasureErrorNo.WRONG_ANSWER, "check")
    assert bench.run(built(increment(), {"step": 4})).max_error == 0.0


def test_what_goes_wrong_only_while_it_is_timed_is_found():
    calls = []

    def kernel(a, b):
        calls.append(1)
        b[:] = a + 1
        if len(calls) == len(bench._prepared) + 1:
            a[0] = 3

    bench = run_bench(increment(), QUICK)
    with pytest.raises(CandidateError, match="changed its input A"):
        bench.run(Fake(kernel))


def test_compiled_code_that_writes_beyond_its_output_is_wrong():
    a, b = buffer("A", "float32", 24), buffer("B", "float32", 24)
    body = loop(30, lambda i: Store(b, i, Load(a, i % 24) + 1.0), LoopKind.SERIAL, "i")
    kernel = compile_function(PrimFunc("stray", (a, b), frozenset([b]), body))
    with pytest.raises(CandidateError, match="it wrote outside B: 0 bytes past its end"):
        run_bench(increment(), QUICK).run(kernel)


def test_one_nan_is_a_wrong_answer_whose_largest_error_is_told():
    def kernel(a, b):
        b[:] = a + 1
        b[7] = np.nan

    with pytest.raises(CandidateError, match=r"1 of 24 .*first at \[7\]: nan") as caught:
        run_bench(increment(), QUICK).run(Fake(kernel))
    assert caught.value.code is MeasureErrorNo.WRONG_ANSWER
    assert math.isnan(caught.value.max_error)


def test_a_candidate_is_held_against_the_fastest_and_told_to_have_lost():
    bench = run_bench(increment(), RACE)
    bench._monitor = QUIET
    kernel = built(increment(), {"step": 8})
    lost = bench.run(kernel, incumbent_s=1e-12)
    assert (len(lost.costs_s), lost.raced, lost.noise) == (2, True, 0.0)
    assert len(bench.run(kernel).costs_s) == 5


def test_on_a_noisy_machine_nobody_loses_a_race():
    bench = run_bench(increment(), RACE)
    bench._monitor = LOUD
    ran = bench.run(built(increment(), {"step": 8}), incumbent_s=1e-12)
    assert (len(ran.costs_s), ran.raced, ran.noise) == (5, False, LOUD.noise)


def test_a_policy_that_flushes_empties_the_caches_before_each_repeat(monkeypatch):
    emptied = []
    monkeypatch.setattr(benchmark_kernels, "cache_flusher", lambda _: lambda: emptied.append(1))
    monkeypatch.setattr(kernel_timing, "RETRIES", 0)  # nothing is timed again on a busy machine
    bench = run_bench(increment(), TimingPolicy(repeats=3, budget_ms=AMPLE_MS, flush="repeats"))
    bench._monitor = QUIET
    bench.run(built(increment(), {"step": 8}))
    assert len(emptied) == 3


def test_how_noisy_the_machine_is_goes_with_each_result():
    ran = run_bench(increment(), QUICK).run(built(increment(), {"step": 8}))
    assert ran.noise >= 0


def test_the_ceiling_is_that_of_the_workloads_types_and_bytes(monkeypatch):
    asked = []
    monkeypatch.setattr(
        run_bench_module,
        "measure_ceiling",
        lambda device, kinds, touched, library: asked.append((device.target, kinds, touched)),
    )
    run_bench(increment(), QUICK).ceiling()
    run_bench(increment(), TimingPolicy(flush="repeats")).ceiling()
    assert asked == [
        (Target("llvm"), ["float32"], 192.0),
        (Target("llvm"), ["float32"], None),
    ]


def test_the_baseline_is_the_reference_writing_as_candidates_do():
    given = run_bench(elementwise(lambda x: -x, np.negative), QUICK)
    (output,) = given._buffers.outputs
    output[...] = 7
    assert len(given.baseline()) == 2
    np.testing.assert_array_equal(output, -given._buffers.inputs[0])
    assert min(run_bench(increment(), QUICK).baseline()) > 0
    assert run_bench(elementwise(lambda x: -x, None), QUICK).baseline() is None


def test_a_reference_that_returns_a_view_is_timed_with_the_copy_of_it(monkeypatch):
    copied = []
    plain = np.ascontiguousarray
    monkeypatch.setattr(np, "ascontiguousarray", lambda a: copied.append(a.shape) or plain(a))
    bench = run_bench(elementwise(lambda x: x * 1.0, lambda a: a[:]), QUICK)
    bench.baseline()
    assert set(copied) == {(24,)}


@pytest.mark.parametrize(
    ("name", "args", "count"),
    [
        ("broadcast_add", {"n": 8}, 64),
        ("matmul", {"m": 4, "n": 5, "k": 6}, 240),
        ("softmax", {"m": 2, "n": 5}, 52),  # max; -, exp; +; 1 / of a row; *
    ],
)
def test_operations_are_counted_from_the_definition(name, args, count):
    assert float_operations(Task.from_reference(name, args, "cuda")) == count


def test_what_computes_nothing_has_no_operations():
    assert float_operations(Task.from_reference("transpose", {"m": 2, "n": 3}, "cuda")) is None


def test_what_a_template_states_counts_and_0_is_none():
    def added(n: int):
        A = te.placeholder((n,), name="A")
        return te.compute((n,), lambda i: A[i] + A[i] * 2, name="B")

    counted = {flops: template("added", flops=flops)(added) for flops in (None, 0, 7)}
    found = [float_operations(Task(own, {"n": 5}, "llvm")) for own in counted.values()]
    assert found == [10, None, 7]


def test_operations_of_several_sizes_are_their_mean():
    task = Task.from_reference("softmax", {"m": [2, 8], "n": 5}, "llvm")
    one, other = (float_operations(member) for member in task.members)
    assert float_operations(task) == pytest.approx((one * other) ** 0.5)


def test_a_kernel_that_is_right_only_at_first_is_wrong():
    calls = []

    def kernel(a, b):
        calls.append(1)
        b[:] = a + (1 if len(calls) <= len(bench._prepared) else 2)

    bench = run_bench(increment(), QUICK)
    with pytest.raises(CandidateError) as caught:
        bench.run(Fake(kernel))
    assert caught.value.code is MeasureErrorNo.WRONG_ANSWER
    assert caught.value.max_error == pytest.approx(1.0)


def test_an_output_element_that_is_never_written_is_wrong():
    def kernel(a, b):
        b[:-1] = a[:-1] + 1

    bench = run_bench(increment(), QUICK)
    bench.run(built(increment(), {"step": 4}))  # leaves the right answer in the output
    with pytest.raises(CandidateError, match=r"1 of 24 .*first at \[23\]: nan"):
        bench.run(Fake(kernel))


def test_inputs_become_positive_where_other_signs_have_no_finite_answer():
    roots = elementwise(te.sqrt, np.sqrt)
    bench = run_bench(roots, QUICK)
    assert (bench._buffers.inputs[0] > 0).all()
    assert bench.run(built(roots, {"step": 8})).max_error < 2e-6
    assert (run_bench(increment(), QUICK)._buffers.inputs[0] < 0).any()


def test_without_a_reference_the_unscheduled_program_tells_right_from_wrong():
    task = elementwise(lambda x: x + 1, None)
    bench = run_bench(task, QUICK)
    assert bench.reference == "unscheduled"
    assert bench.run(built(task, {"step": 8})).max_error == 0.0


def test_a_program_too_large_to_run_unscheduled_is_timed_unchecked(monkeypatch):
    monkeypatch.setattr(build_bench, "LARGEST_UNSCHEDULED", 23)
    task = elementwise(lambda x: x + 1, None)
    bench = run_bench(task, QUICK)
    assert bench.reference == "none"
    ran = bench.run(built(task, {"step": 8}))
    assert ran.max_error is None
    assert len(ran.costs_s) == 2


def test_what_runners_and_builders_tell_each_other_survives_the_pipe():
    task = elementwise(lambda x: x + 1, None)
    subject, unscheduled = BuildBench(task).subject()
    assert pickle.loads(pickle.dumps(subject)) == subject
    assert unscheduled is not None
    assert pickle.loads(pickle.dumps(unscheduled)) == unscheduled


def test_the_reduction_length_adds_up_along_a_chain_of_reductions():
    def length(result):
        return Computation((result,)).reduction_length()

    A = te.placeholder((30, 50), "float32", name="A")
    k, j = te.reduce_axis((0, 50), name="k"), te.reduce_axis((0, 30), name="j")
    doubled = te.compute((30, 50), lambda i, c: A[i, c] * 2, name="doubled")
    rows = te.compute((30,), lambda i: te.sum(doubled[i, k], axis=k), name="rows")
    total = te.compute((1,), lambda _: te.sum(rows[j], axis=j), name="total")
    assert [length(t) for t in (doubled, rows, total)] == [1, 50, 80]
    assert Computation((A, total)).work() == 30 * 50 * 2 + 30


def test_the_reduction_length_of_a_packed_matmul_is_that_of_the_product():
    task = Task.from_reference("matmul", {"m": 32, "n": 48, "k": 80})
    assert Computation.of(task).reduction_length() == 80


def test_a_template_that_refuses_its_defaults_is_known_by_a_legal_configuration():
    @template("picky", target="llvm")
    def picky(cfg, n: int = 24):
        step = cfg.define_knob("step", [5, 8])
        if n % step:
            raise InstantiationError("no")
        A = te.placeholder((n,), "float32", name="A")
        B = te.compute((n,), lambda i: A[i], name="B")
        return te.create_schedule(B.op), [A, B]

    assert Computation.of(Task(picky, {}, "llvm")).work() == 24


OUT = [ArrayParameter("B", "float32", (2, 3), True)]


def test_a_reference_is_asked_in_float64_whatever_the_type_of_the_output():
    (found,) = Reference(lambda: np.ones((2, 3), np.float32).T.copy().T, OUT, "t")([])
    assert found.dtype == np.float64
    assert found.flags.c_contiguous
    assert len(Reference(lambda: (np.ones((2, 3)),) * 2, OUT * 2, "t")([])) == 2


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (lambda: [np.ones((2, 3))] * 2, "'t' returned 2 arrays, but the template has 1 outputs"),
        (lambda: np.ones((3, 2)), r"returned shape \(3, 2\) for output 0, which has .*\(2, 3\)"),
        (lambda: 1 / 0, "'t' failed: ZeroDivisionError: division by zero"),
        (lambda: np.ones((2, 3)) * 1j, "'t' returned complex128 for output 0, which is float32"),
        (lambda: np.full((2, 3), "a"), "'t' returned str32 for output 0, which is float32"),
    ],
)
def test_a_reference_that_does_not_fit_is_explained(reference, words):
    with pytest.raises(UsageError, match=words):
        Reference(reference, OUT, "t")([])


def test_a_reference_that_says_nothing_but_nan_is_refused_by_name():
    with pytest.raises(UsageError, match="'elementwise' returned nothing but NaN for output 0"):
        run_bench(elementwise(lambda x: x, lambda a: a * np.nan), QUICK)


def test_messages_are_one_short_line():
    assert describe(UsageError("a\n  b")) == "a b"
    assert describe(ValueError("a")) == "ValueError: a"
    assert describe(MemoryError()) == "MemoryError"
    assert len(describe(ValueError("x" * 5000))) == 500


# -- constants ---------------------------------------------------------------------------------


def packed(constant=(1,)):
    """Task of C[i] = A[i] + P[i] where P[i] = 2 * B[i]."""

    @template("packed", target="llvm", reference=lambda a, b: a + 2 * b)
    def make(cfg, n: int = 24):
        assert cfg.constants == constant
        A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
        P = te.compute((n,), lambda i: B[i] * 2.0, name="P")
        C = te.compute((n,), lambda i: A[i] + P[i], name="C")
        return te.create_schedule(C.op), [A, B, C]

    return Task(make, {}, "llvm", constant=constant)


def test_what_is_timed_takes_prepared_constants():
    task = packed()
    made = BuildBench(task).build({}).binary
    assert [p.name for p in made.signature.parameters] == ["A", "C", "P"]
    assert pickle.loads(pickle.dumps(made)) == made
    bench = run_bench(task, QUICK)
    loaded = bench.load(made)
    assert bench.run(loaded).max_error == bench.enter(loaded) == 0.0
    assert len(bench.round([loaded, loaded], 0.01, 0).costs_s) == 2
    assert BuildBench(packed(())).build({}).code_hash != BuildBench(task).build({}).code_hash


def test_kernels_shorter_than_the_check_of_arrays_are_compared_without_it(monkeypatch):
    task = packed(())
    bench = run_bench(task, QUICK)
    loaded = bench.load(BuildBench(task).build({}).binary)
    bench.enter(loaded)
    called = []

    def call_on(kernel, arrays):
        called.append(kernel)
        return kernel.bind(*arrays)

    monkeypatch.setattr(run_bench_module, "_call_on", call_on)
    monkeypatch.setattr(run_bench_module, "CHECK_S", 60.0)
    assert len(bench.round([loaded], 0.01, 0).costs_s) == 1
    monkeypatch.setattr(run_bench_module, "CHECK_S", 0.0)
    assert len(bench.round([loaded, loaded], 0.01, 0).costs_s) == 2
    assert called == [loaded, loaded]  # only where the check counts for nothing


def test_constants_are_prepared_for_each_draw_of_inputs_and_wrong_ones_are_found():
    task, seen = packed(), []
    bench = run_bench(task, QUICK)
    loaded = bench.load(BuildBench(task).build({}).binary)
    prepare = loaded._prepare

    def spied(b, p):
        seen.append(b.copy())
        prepare(b, p)

    loaded._prepare = Fake(spied)
    bench.run(loaded)
    assert len(seen) == len(bench._prepared) > 1
    assert not np.array_equal(seen[0], seen[1])
    loaded._prepare = Fake(lambda b, p: np.copyto(p, b))
    with pytest.raises(CandidateError, match="elements of C are wrong"):
        bench.run(loaded)
    loaded._prepare = Fake(lambda b, p: (prepare(b, p), b.fill(0)))
    with pytest.raises(CandidateError, match="it changed its input B"):
        bench.run(loaded)
