"""`build` with inputs that do not change: the function takes the others alone."""

import re
import warnings

import numpy as np
import pytest
from support.cuda_compiler import needs_nvrtc
from support.fake_cuda import OnGpu, passed
from support.measured import measured

import autotune
from autotune import te
from autotune.builder import build_task
from autotune.errors import ArgumentError, UsageError
from autotune.task.task import Task
from autotune.template import template_of
from records import RecordStore

SIZES = {"m": 7, "n": 20, "k": 33}
RNG = np.random.default_rng(0)
A, B = RNG.random((7, 33), np.float32), RNG.random((33, 20), np.float32)


@pytest.fixture(autouse=True)
def default_configuration():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no record")
        yield


def result(function, *inputs):
    out = np.full((7, 20), 99, np.float32)
    function(*inputs, out)
    return out


@pytest.mark.parametrize("target", ["llvm", "cuda -on=cpu"])
@pytest.mark.parametrize(
    ("constants", "inputs"), [({"B": B}, [A]), ({0: A}, [B]), ({"A": A, 1: B}, [])]
)
def test_the_built_function_takes_the_other_arrays_alone(target, constants, inputs):
    function = autotune.build("matmul", SIZES, target, constants=constants)
    np.testing.assert_allclose(result(function, *inputs), A @ B, rtol=1e-5)
    out = np.empty((7, 20), np.float32)
    function.bind(*inputs, out)()
    np.testing.assert_allclose(out, A @ B, rtol=1e-5)
    with pytest.raises(ArgumentError, match=f"matmul takes {len(inputs) + 1} arrays"):
        function(A, B, out)


def test_changes_of_the_array_after_the_build_do_not_count():
    a, b = A.copy(), B.copy()
    functions = [autotune.build("matmul", SIZES, constants=c) for c in ({"A": a}, {"B": b})]
    a[:], b[:] = 0, 0
    for function, other in zip(functions, [B, A], strict=True):
        np.testing.assert_allclose(result(function, other), A @ B, rtol=1e-5)


def test_a_constant_may_have_any_layout():
    function = autotune.build("matmul", SIZES, constants={"B": np.asfortranarray(B)})
    np.testing.assert_allclose(result(function, A), A @ B, rtol=1e-5)


def product(m: int, n: int, k: int):
    """C = A @ B."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return [a, b, c]


@pytest.mark.parametrize("target", ["llvm", "cuda -on=cpu"])
def test_a_plain_function_takes_constants(target):
    function = autotune.build(product, SIZES, target, constants={"B": B})
    np.testing.assert_allclose(result(function, A), A @ B, rtol=1e-5)
    with pytest.raises(UsageError, match="constant = \\[2\\]: template 'product' has no input 2"):
        _ = Task(template_of(product), SIZES, target, constant=[2]).space


def test_a_tile_function_takes_constants(tmp_path):
    path = tmp_path / "product.tile"
    path.write_text("function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }")
    sizes = {"M": 7, "N": 20, "K": 33}
    function = autotune.build(str(path), sizes, constants={"B": B})
    np.testing.assert_allclose(result(function, A), A @ B, rtol=1e-5)


MISTAKES = {
    "dtype": (
        {"B": B.astype("f8")},
        "constant 'B' must have dtype float32, got float64: convert it with .astype('float32')",
    ),
    "shape": ({"B": B.T}, "constant 'B' must have shape (33, 20), got (20, 33)"),
    "name": (
        {"W": B},
        "constants: there is no input 'W'; the inputs, with their positions, are 'A' (0), 'B' (1)",
    ),
    "output": ({"C": B}, "constants: there is no input 'C'"),
    "position": ({2: B}, "constants: there is no input 2"),
    "twice": ({"B": B, 1: B}, "constants: input 'B' is given twice"),
    "list": ({"B": [1, 2]}, "constant 'B' must be an array"),
    "no mapping": ([B], "constants must be a mapping such as {'B': array}, got list"),
    "array": (B, "constants must be a mapping such as {'B': array}, got ndarray"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_constants_is_one_line(mistake):
    constants, said = MISTAKES[mistake]
    with pytest.raises(ArgumentError, match=f"^matmul: {re.escape(said)}") as caught:
        autotune.build("matmul", SIZES, constants=constants)
    assert "\n" not in str(caught.value)


def with_any_rows():
    """C = A @ P where P[j, k] = 2 * B[k, j]."""
    a, b = te.placeholder((te.var("m"), 33), name="A"), te.placeholder((33, 20), name="B")
    p = te.compute((20, 33), lambda j, k: b[k, j] * 2.0, name="P")
    k = te.reduce_axis((0, 33), "k")
    c = te.compute((a.shape[0], 20), lambda i, j: te.sum(a[i, k] * p[j, k], axis=k), name="C")
    return te.create_schedule(c.op), [a, b, c]


@pytest.mark.parametrize("rows", [1, 5])
def test_sizes_of_other_inputs_may_be_open(rows):
    function = autotune.build(*with_any_rows(), constants={"B": B})
    for a in (A[:rows], np.asfortranarray(A[:rows]), A[::2][: rows // 2]):
        out = np.empty((len(a), 20), np.float32)
        function(a, out)
        np.testing.assert_allclose(out, 2 * a @ B, rtol=1e-5)


def test_a_constant_of_open_size_is_refused():
    with pytest.raises(ArgumentError, match=r"constant .A. has a size from te\.var: only"):
        autotune.build(*with_any_rows(), constants={"A": A})


# -- records -------------------------------------------------------------------------------------


def test_a_build_uses_records_with_the_same_constant_inputs(tmp_path):
    plain = Task.from_reference("matmul", SIZES)
    fixed = plain.with_constant([1])
    one, other = plain.default_index, fixed.nearest_legal(fixed.default_index + 1)
    store = RecordStore(tmp_path / "log.jsonl")
    store.append([measured(plain, one, 1e-6), measured(fixed, other, 2e-6)])
    assert autotune.build("matmul", SIZES, records=store).config.index == one
    built = autotune.build("matmul", SIZES, records=store, constants={"B": B})
    assert (built.config.index, built.workload.constant) == (other, (1,))
    said = r"no record .* matmul\(m=7, .*constant=\[0\]\) on llvm \(the records are of the same "
    said += r"workload with other sets of constant inputs: \[1\], \[\]\)"
    with pytest.warns(UserWarning, match=said):
        autotune.build("matmul", SIZES, records=store, constants={"A": A})


def test_a_task_with_constant_inputs_needs_their_arrays():
    task = Task.from_reference("matmul", SIZES, constant=[1])
    np.testing.assert_allclose(result(build_task(task, constants={"B": B}), A), A @ B, rtol=1e-5)
    said = (
        r"build: matmul\(.*constant=\[1\]\) needs the arrays of its constant inputs as constants="
    )
    for constants in (None, {"A": A}):
        with pytest.raises(UsageError, match=said):
            build_task(task, constants=constants)


# -- on a GPU ------------------------------------------------------------------------------------


@needs_nvrtc
def test_a_gpu_prepares_constants_at_its_first_call(fake):
    x, b = te.placeholder((20,), name="X"), te.placeholder((33, 20), name="B")
    p = te.compute((20, 33), lambda j, k: b[k, j] * 2.0, name="P")
    y = te.compute((20,), lambda i: x[i] + p[i, 0], name="Y")
    schedule = te.create_schedule(y.op)
    for tensor in (p, y):
        block, thread = schedule[tensor].split(tensor.op.axis[0], factor=8)
        schedule[tensor].bind(block, te.thread_axis("blockIdx.x"))
        schedule[tensor].bind(thread, te.thread_axis("threadIdx.x"))
    function = autotune.build(schedule, [x, b, y], "cuda -arch=sm_90", constants={"B": B})
    calls = []
    fake.on_launch = lambda table: calls.append(passed(table, [8] * (3 if calls else 2)))
    for _ in range(2):
        function(OnGpu(0x1000, (20,)), OnGpu(0x3000, (20,)))
    prepare, first, second = calls
    assert prepare == pointers(0x4000, 0x8000)  # the copy of B, and P
    assert first == second == pointers(0x1000, 0x3000, 0x8000)
    np.testing.assert_array_equal(fake.uploaded[0].view("f4"), B)


def pointers(*addresses):
    return [np.uint64(address).tobytes() for address in addresses]
