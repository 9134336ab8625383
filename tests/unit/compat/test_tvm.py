"""TVM's names: each does what it did there, by what is here."""

import subprocess
import sys

import numpy as np
import pytest

import autotune
from autotune.compat import tvm
from autotune.compat.tvm import te
from autotune.errors import ArgumentError, IRError, TargetError, UsageError

NO_GPU = "no GPU is here; meanwhile the processor takes the place of gpu"


def doubled(threads=None):
    """Return a schedule that doubles 40 numbers, by blocks of threads if they are given."""
    X = te.placeholder((40,), name="X")
    Y = te.compute((40,), lambda i: X[i] * 2, name="Y")
    s = te.create_schedule(Y.op)
    if threads:
        block, thread = s[Y].split(Y.op.axis[0], factor=threads)
        s[Y].bind(block, te.thread_axis("blockIdx.x"))
        s[Y].bind(thread, te.thread_axis("threadIdx.x"))
    return s, [X, Y]


def run(module, device):
    x = np.arange(40, dtype="float32")
    a, b = tvm.nd.array(x, device), tvm.nd.empty((40,), "float32", device)
    module(a, b)
    tvm.testing.assert_allclose(b.asnumpy(), 2 * x)


def test_import_autotune_does_not_load_it():
    code = "import autotune, sys; autotune.build; print([m for m in sys.modules if 'compat' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "autotune.compat" not in done.stdout


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: tvm.nd.array([[1, 2], [3]]), "these are no elements of an array: "),
        (lambda: tvm.nd.empty(3, object()), "there are no arrays of <object"),
        (lambda: tvm.nd.array([1.0]).copyto(3), "copyto: expected an NDArray or a device, got 3"),
        (lambda: tvm.nd.array([1.0]).copyfrom([1j]), "copyfrom: float64 cannot hold complex128"),
    ],
)
def test_what_is_no_array_is_told_in_one_line(wrong, message):
    with pytest.raises(ArgumentError, match=message) as told:
        wrong()
    assert "\n" not in str(told.value)


# -- names ---------------------------------------------------------------------------------------


def test_te_and_tir_are_ours():
    assert tvm.te is autotune.te
    assert tvm.tir.if_then_else is te.if_then_else


@pytest.mark.parametrize("name", sorted(tvm._EARLIER))
def test_names_that_stood_in_tvm_itself_are_those_of_te(name):
    assert getattr(tvm, name) is getattr(te, name)


@pytest.mark.parametrize("name", ["relay", "autotvm", "IRModule", "sort"])
def test_other_names_are_refused_with_the_page_that_lists_them(name):
    with pytest.raises(AttributeError, match=f"tvm has no '{name}': docs/compat.md lists what it"):
        getattr(tvm, name)


# -- devices and arrays --------------------------------------------------------------------------


def test_devices_have_their_earlier_names():
    assert str(tvm.cpu()) == "cpu(0)"
    assert str(tvm.gpu(1)) == "gpu(1)"
    assert tvm.cuda is tvm.gpu
    assert tvm.context is tvm.device
    assert tvm.context("cuda", 1) == tvm.device("gpu", 1) == tvm.gpu(1)
    for kind in ("cpu", "llvm", "cuda -on=cpu"):
        assert tvm.device(kind) == tvm.cpu()
    with pytest.raises(TargetError, match="unknown target kind 'opencl'"):
        tvm.device("opencl")
    for number in (-1, "0", 1.0):
        with pytest.raises(UsageError, match="gpu: expected the number of a device, from 0 on"):
            tvm.gpu(number)


def test_a_device_says_whether_it_exists(no_gpu):
    assert tvm.cpu(0).exist
    assert not tvm.gpu(0).exist


def test_an_array_is_a_copy_and_so_is_what_is_read_of_it():
    values = np.arange(6, dtype="int64").reshape(2, 3)
    array = tvm.nd.array(values)
    assert (array.shape, array.dtype, array.device) == ((2, 3), "int64", tvm.cpu(0))
    assert array.ctx is array.context is array.device
    values[:] = 0
    array.numpy()[:] = 1
    assert array.asnumpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert repr(array) == f"<NDArray (2, 3) int64 on cpu(0)>\n{array.numpy()}"
    array.wait_to_read()


def test_functions_of_numpy_take_arrays():
    array = tvm.nd.array(np.arange(4, dtype="int8"))
    assert np.asarray(array).dtype == np.int8
    assert np.asarray(array, "float32").tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(array, np.arange(4))


def test_an_empty_array_has_the_shape_and_type_that_are_asked_for():
    assert tvm.nd.empty((2, 5)).dtype == "float32"
    assert tvm.nd.empty(7, "bfloat16").dtype == "bfloat16"
    assert tvm.nd.empty(np.array([2, 3]), ctx=tvm.cpu(0)).shape == (2, 3)
    assert tvm.nd.empty((2,), np.int8).dtype == "int8"
    with pytest.raises(IRError, match="float99"):
        tvm.nd.empty((2,), "float99")
    for shape in ((-1,), "x", 2.5, None):
        with pytest.raises(ArgumentError, match="a shape is a tuple of whole numbers >= 0, got"):
            tvm.nd.empty(shape)


@pytest.mark.parametrize("values", [["a"], [None], np.zeros(2, "complex64")])
def test_arrays_of_no_numbers_are_refused(values):
    with pytest.raises(ArgumentError, match="there are no arrays of "):
        tvm.nd.array(values)


def test_arrays_are_copied_into_each_other():
    array = tvm.nd.empty((3,), "float64")
    assert array.copyfrom([1, 2, 3]) is array
    other = tvm.nd.empty((3,), "float32")
    assert array.copyto(other) is other
    assert other.numpy().tolist() == array.copyto(tvm.cpu(0)).numpy().tolist() == [1, 2, 3]
    with pytest.raises(ArgumentError, match=r"of shape \(3,\) cannot take one of \(4,\)"):
        array.copyfrom(np.zeros(4))


def test_a_device_is_given_once_and_is_a_device():
    with pytest.raises(UsageError, match=r"nd\.array: device and ctx are two names of one"):
        tvm.nd.array([1], tvm.cpu(0), ctx=tvm.cpu(0))
    with pytest.raises(UsageError, match=r"nd\.empty: expected a device .* got 'cpu'"):
        tvm.nd.empty((2,), device="cpu")


def test_without_a_gpu_its_arrays_are_in_the_memory_of_the_processor_as_one_warning_says(no_gpu):
    with pytest.warns(UserWarning, match=NO_GPU) as told:
        array = tvm.nd.array([1.0], tvm.gpu(0))
    assert [one.filename for one in told] == [__file__]
    empty = tvm.nd.empty((1,), device=tvm.gpu(0))  # a second warning would be an error
    tvm.gpu(0).sync()
    assert type(array.data) is type(empty.data) is np.ndarray
    assert array.device == tvm.gpu(0)


def test_arrays_of_a_gpu_are_in_its_memory(one_gpu):
    values = np.arange(6, dtype="float16").reshape(2, 3)
    array = tvm.nd.array(values, tvm.gpu(0))
    assert type(array.data) is one_gpu.ndarray
    assert (array.shape, array.dtype) == ((2, 3), "float16")
    assert type(array.numpy()) is np.ndarray
    np.testing.assert_array_equal(array.numpy(), values)
    empty = tvm.nd.empty((2, 3), "float32", tvm.gpu(0))
    array.copyto(empty)
    assert type(empty.data) is one_gpu.ndarray
    tvm.testing.assert_allclose(empty, values.astype("float32"))
    with pytest.raises(TargetError, match="there is no device cuda:7"):
        tvm.nd.array(values, tvm.gpu(7))
    assert tvm.gpu(0).exist
    assert not tvm.gpu(7).exist


# -- targets -------------------------------------------------------------------------------------


def test_a_target_is_current_inside_of_its_with_statement():
    Target = tvm.target.Target
    assert Target.current() is None
    with tvm.target.create("cuda -arch=sm_90") as outer:
        assert Target.current(allow_none=False) is outer
        assert outer.max_num_threads == 1024
        with tvm.target.create(autotune.Target("llvm")) as inner, outer:
            assert Target.current() is outer
        assert str(inner) == "llvm"
        assert Target.current() is outer
    with pytest.raises(UsageError, match="no target is current; write `with tvm"):
        Target.current(allow_none=False)
    with pytest.raises(TargetError, match="unknown target kind 'metal'"):
        tvm.target.create("metal")


def test_a_target_is_left_by_an_error():
    with pytest.raises(ZeroDivisionError), tvm.target.cuda():
        raise ZeroDivisionError
    assert tvm.target.Target.current() is None


# -- functions -----------------------------------------------------------------------------------


def test_a_lowered_schedule_shows_its_loops():
    s, args = doubled()
    lowered = tvm.lower(s, args, simple_mode=True)
    assert str(lowered) == repr(lowered) == str(autotune.lower(s, args, simple_mode=True))
    assert tvm.lower(s, args, "twice").function.name == "twice"
    assert tvm.lower(s, args).function.name == "default_function"
    with pytest.raises(UsageError, match=r"lower: buffers of one's own \(binds\) are not"):
        tvm.lower(s, args, binds={})


def test_a_built_function_takes_arrays_of_both_kinds():
    module = tvm.build(*doubled(), name="twice")
    assert module.entry_name == "twice"
    assert module.imported_modules == []
    assert "define" in module.get_source()
    run(module, tvm.cpu(0))
    x, y = np.ones(40, "float32"), np.zeros(40, "float32")
    module(x, y)
    assert y.tolist() == [2.0] * 40


def test_the_target_of_a_build_is_the_current_one_by_default():
    assert str(tvm.build(*doubled()).built.target) == "llvm"
    with tvm.target.create("cuda -on=cpu"):
        assert str(tvm.build(*doubled(8)).built.target) == "cuda -on=cpu"
        assert str(tvm.build(*doubled(), "llvm", "llvm").built.target) == "llvm"


def test_kernels_for_gpus_run_on_the_processor_where_there_is_no_gpu(no_gpu):
    with pytest.warns(UserWarning, match=NO_GPU) as told:
        module = tvm.build(*doubled(8), tvm.target.create("cuda -arch=sm_90"))
    assert [one.filename for one in told] == [__file__]
    run(module, tvm.gpu(0))
    assert str(module.built.target) == "cuda -arch=sm_90 -on=cpu"
    (kernels,) = module.imported_modules
    assert "__global__" in kernels.get_source()


def test_kernels_are_built_for_a_gpu_that_is_there(one_gpu):
    module = tvm.build(*doubled(8), "cuda")
    assert str(module.built.target) == "cuda"
    assert module.imported_modules == [module]
    assert "__global__" in module.get_source()
    with pytest.raises(UsageError, match="the function is for GPUs; give one, such as gpu"):
        module.time_evaluator(module.entry_name)


def test_what_a_build_does_not_support_is_refused():
    s, args = doubled()
    for words, said in (
        ({"binds": {}}, "binds"),
        ({"target_host": "cuda"}, "target_host must be 'llvm', got 'cuda'"),
        ({"target": "llvm -model=x"}, "no option -model"),
    ):
        with pytest.raises(UsageError, match=said):
            tvm.build(s, args, **words)
    with pytest.raises(UsageError, match=r"give the schedule's tensors, as in build\(s, \[A, B\]"):
        tvm.build(s)
    with pytest.raises(UsageError, match="build: expected a schedule, got LoweredFunction"):
        tvm.build(tvm.lower(s, args), args)


def test_a_function_is_called_as_often_as_its_times_say():
    module = tvm.build(*doubled())
    a, b = tvm.nd.array(np.ones(40, "float32")), tvm.nd.empty((40,))
    calls = []
    bind = module.built.bind

    def counted(*arrays):
        call = bind(*arrays)
        return lambda: calls.append(call())

    module.built.bind = counted
    timed = module.time_evaluator(module.entry_name, tvm.cpu(0), number=3, repeat=4)(a, b)
    assert len(calls) == 1 + 3 * 4
    assert len(timed.results) == 4
    assert 0 < min(timed.results) <= timed.median <= max(timed.results) < 1
    assert timed.mean == pytest.approx(np.mean(timed.results))
    assert b.numpy().tolist() == [2.0] * 40
    calls.clear()
    module.time_evaluator("__tvm_main__", ctx=tvm.cpu(0), min_repeat_ms=1)(a, b)
    assert len(calls) > 50


def test_times_are_of_the_only_function_and_of_a_number_of_calls():
    module = tvm.build(*doubled())
    with pytest.raises(UsageError, match="only the function 'default_function', not 'other'"):
        module.time_evaluator("other", tvm.cpu(0))
    for number in (0, 2.5, True):
        with pytest.raises(UsageError, match="number must be a whole number >= 1"):
            module.time_evaluator(module.entry_name, tvm.cpu(0), number)
    with pytest.raises(UsageError, match="repeats must be a whole number >= 1"):
        module.time_evaluator(module.entry_name, tvm.cpu(0), repeat=0)


@pytest.mark.parametrize(
    ("actual", "desired"), [([1.0], [1.0 + 1e-4]), ([1.0, 1.0], [1.0]), ([1.0], [np.nan])]
)
def test_arrays_that_differ_are_told(actual, desired):
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(tvm.nd.array(actual), desired)


def test_arrays_within_the_tolerance_are_the_same():
    tvm.testing.assert_allclose([1.0], tvm.nd.array([1.0 + 1e-8]))
    tvm.testing.assert_allclose([1.0], [1.1], rtol=0.2)
    tvm.testing.assert_allclose([0.0], [0.1], atol=0.2)
