import functools
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from support import packed_templates
from support.slow_cases import slow

from autotune.errors import CodegenError
from autotune.extract.feature_kernel import ROWS
from autotune.extract.space_features import CHUNK
from autotune.extract.structure_features import MANY
from autotune.extract.to_loop_nest import LoopNestPlan, loop_nest
from autotune.feature import TaskFeatures, get_flatten_name
from autotune.ir.evaluate.column_arithmetic import LIMIT
from autotune.task.task import Task
from features import flatten_rows, itervar_columns, itervar_rows

TARGET = "llvm -mcpu=x86-64-v4"  # the same spaces on every machine; no candidate is compiled
TASKS = {
    "broadcast_add": {"n": 100},
    "softmax": {"m": 7, "n": 60},
    "conv2d_nchw": {"n": 1, "c": 4, "h": 9, "w": 9, "o": 17, "kh": 3, "kw": 3, "pad": 1},
    "matmul": {"m": 50, "n": 70, "k": 33},
    "packed_conv2d": {"n": 1, "c": 4, "h": 9, "w": 9, "o": 17, "kh": 3, "kw": 3, "pad": 1},
}
PACKED = packed_templates.__file__


@functools.cache
def features_of(reference):
    """Return a task and its features, which tests only ask."""
    where = f"{PACKED}:{reference}" if reference.startswith("packed") else reference
    task = Task.from_reference(where, TASKS[reference], TARGET)
    return task, TaskFeatures(task)


@pytest.mark.parametrize("reference", TASKS)
def test_each_row_holds_what_the_candidate_s_own_loops_give(reference):
    task, source = features_of(reference)
    indices = task.space.sample(20, np.random.default_rng(1))
    matrix = source.matrix(indices)
    for index, row in zip(indices, matrix, strict=True):
        function = task.structure(int(index)).function
        rows = itervar_rows(loop_nest(function, task.knob_values(int(index))))
        own = dict(zip(get_flatten_name(rows), flatten_rows(rows), strict=True))
        for name, value in zip(source.names, row, strict=True):
            if not name.startswith("knob/"):
                assert value == np.float32(own.get(name, 0.0)), name


def test_columns_vary_and_do_not_repeat_one_another():
    task, _ = features_of("matmul")
    source = TaskFeatures(task, sample=500)
    looked_at = np.sort(task.space.sample(500, np.random.default_rng(0)))
    matrix = source.matrix(looked_at)
    assert matrix.dtype == np.float32
    assert matrix.shape == (500, len(source.names))
    assert all(len(np.unique(column)) > 1 for column in matrix.T)
    assert len({column.tobytes() for column in matrix.T}) == matrix.shape[1]


def test_knobs_are_columns_too():
    task, source = features_of("matmul")
    found = {name.split("/")[1] for name in source.names if name.startswith("knob/")}
    assert len(found) > 3
    assert found == {knob.name for knob in task.space.knobs if len(knob) > 1}


def test_a_candidate_s_row_does_not_depend_on_its_neighbours():
    task, source = features_of("broadcast_add")
    indices = np.resize(task.space.feasible_indices(), CHUNK + 100)
    whole = source.matrix(indices)
    picked = np.random.default_rng(2).choice(len(indices), 50)
    alone = np.concatenate([source.matrix(indices[i : i + 1]) for i in picked])
    assert np.array_equal(whole[picked], alone)


def test_some_columns_are_those_of_the_whole_matrix_in_the_order_asked_for():
    task, source = features_of("matmul")
    indices = np.arange(0, len(task.space), 97)
    names = np.random.default_rng(3).permutation(source.names)[:40].tolist()
    places = [source.names.index(name) for name in names]
    assert np.array_equal(
        source.matrix(indices, names), source.matrix(indices)[:, places], equal_nan=True
    )
    assert source.matrix(indices, []).shape == (len(indices), 0)


def test_no_candidates_give_no_rows():
    _, source = features_of("softmax")
    assert source.matrix(np.zeros(0, np.int64)).shape == (0, len(source.names))


@pytest.mark.parametrize(
    ("reference", "limit", "compiled", "on_arrays"),
    [
        ("broadcast_add", LIMIT, True, False),
        slow(("packed_conv2d", LIMIT, True, False)),
        ("packed_conv2d", 3000, True, True),  # as if larger numbers were not exact
        ("packed_conv2d", 2, False, True),  # not even those of the knobs
        ("packed_conv2d", None, False, True),  # as if there were too many of them
    ],
)
def test_compiled_features_are_those_evaluated_on_arrays(
    reference, limit, compiled, on_arrays, monkeypatch
):
    task, source = features_of(reference)
    rng = np.random.default_rng(1)
    indices = rng.choice(task.space.feasible_indices(), ROWS + 500)
    expected = source.matrix(indices)
    monkeypatch.setattr("autotune.extract.structure_features.MANY", 2)
    what = "MAX_OPERATIONS" if limit is None else "VectorArithmetic.limit"
    monkeypatch.setattr(f"autotune.extract.feature_kernel.{what}", limit or 100)
    features = TaskFeatures(task)
    filled = []

    def columns(nest, **options):
        if "names" in options:
            filled.append(options["names"])
        return itervar_columns(nest, **options)

    monkeypatch.setattr("autotune.extract.structure_features.itervar_columns", columns)
    assert np.array_equal(features.matrix(indices), expected)
    kernels = [structure._kernel is not None for structure in features._structures.values()]
    assert (all(kernels), bool(filled)) == (compiled, on_arrays)
    for width in (1, 3, 12):
        places = rng.choice(len(source.names), min(width, len(source.names)), replace=False)
        names = [source.names[place] for place in places]
        assert np.array_equal(features.matrix(indices, names), expected[:, places])


@pytest.mark.parametrize(
    "error", [CodegenError("LLVM refused"), RuntimeError("no host CPU"), MemoryError(), OSError()]
)
def test_features_are_evaluated_on_arrays_where_compiling_fails(error, monkeypatch):
    def fails(*args, **kwargs):
        raise error

    task, source = features_of("broadcast_add")
    indices = task.space.sample(50, np.random.default_rng(1))
    monkeypatch.setattr("autotune.extract.structure_features.MANY", 2)
    monkeypatch.setattr("autotune.runtime.cpu.llvm_compiler.compile_function", fails)
    features = TaskFeatures(task)
    features.prepare(100)
    assert np.array_equal(features.matrix(indices), source.matrix(indices))


def test_what_evaluates_many_candidates_is_compiled_where_that_pays():
    task, _ = features_of("packed_conv2d")  # of two structures, alike in size
    features = TaskFeatures(task)
    for n, compiled in ((MANY // 2, 0), (2 * MANY, 2)):
        features.prepare(n)
        assert sum(s._kernel is not None for s in features._structures.values()) == compiled


def test_threads_that_ask_at_once_share_plans_and_get_the_same_numbers(monkeypatch):
    made = []
    init = LoopNestPlan.__init__

    def counted(self, function):
        made.append(function)
        init(self, function)

    task, source = features_of("conv2d_nchw")
    indices = task.space.sample(200, np.random.default_rng(4))
    structures = len(np.unique(task.classify(indices)))
    seen = TaskFeatures(task)
    monkeypatch.setattr(LoopNestPlan, "__init__", counted)
    begin = Barrier(4)

    def matrix(_):
        begin.wait()
        return seen.matrix(indices)

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(matrix, range(4))
    assert len(made) == structures
    assert all(np.array_equal(first, other) for other in others)
    assert np.array_equal(first, source.matrix(indices))


def one_thread_axis(values):
    """Whether warps are along m alone, of lanes along m alone: digits of one thread axis."""
    return (values["warps_n"], values["lanes_m"], values["virtual_m"]) == (1, 32, 1)


def test_a_kernel_s_features_are_those_of_its_template_run_with_numbers():
    task = Task.from_reference("matmul", {"m": 129, "n": 70, "k": 33}, "cuda -arch=sm_90")
    index = next(
        int(index)
        for index in task.space.sample(4000, np.random.default_rng(0))
        if one_thread_axis(task.space.config(int(index)).values)
    )
    concrete = itervar_rows(loop_nest(task.concrete_structure(index).function))
    traced = itervar_rows(loop_nest(task.structure(index).function, task.knob_values(index)))
    assert get_flatten_name(traced) == get_flatten_name(concrete)
    np.testing.assert_array_equal(flatten_rows(traced), flatten_rows(concrete))
