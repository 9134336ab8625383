"""Arguments of Kernel Tuner's calls: restrictions, sources, helpers for directives, caches."""

from __future__ import annotations

import itertools
import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune.compat import kernel_tuner
from autotune.compat.kernel_tuner import run_kernel, tune_kernel, wrappers
from autotune.compat.kernel_tuner.arguments import objective_of
from autotune.compat.kernel_tuner.cache import Cache
from autotune.compat.kernel_tuner.measuring import check_verified, folder_of
from autotune.compat.kernel_tuner.problem import Problem, key_of, write_problem
from autotune.compat.kernel_tuner.restrictions import (
    RestrictedTemplate,
    is_legal,
    restrictions_of,
    unknown,
)
from autotune.compat.kernel_tuner.results import add_metrics, best_of, is_larger_better
from autotune.compat.kernel_tuner.sources import compiler_of, generated_text
from autotune.compat.kernel_tuner.strategies import search_of
from autotune.compat.kernel_tuner.util import CompilationFailedConfig, ErrorConfig
from autotune.compat.kernel_tuner.utils import directives
from autotune.errors import UsageError
from autotune.task.task import Task
from records import RecordWarning

CHOICES = {"a": [1, 2, 3, 4, 6, 8], "b": [1, 2, 4], "kind": ["x", "y"], "on": [True, False]}


def problem(**changed: Any) -> Problem:
    own = {
        "name": "f", "text": "float f(float *x);", "language": "c++", "compiler": "c++",
        "flags": [], "folder": "", "parameters": CHOICES, "defines": {},
        "arguments": [("float32", [4])], "outputs": [0],
    }  # fmt: skip
    return Problem(**{**own, **changed})


# -- restrictions ----------------------------------------------------------------------------------

RESTRICTIONS = [
    ("a * b <= 8", lambda p: p["a"] * p["b"] <= 8),
    ("a % b == 0 and kind == 'x'", lambda p: p["a"] % p["b"] == 0 and p["kind"] == "x"),
    ("a / b == 1.5", lambda p: p["a"] / p["b"] == 1.5),
    ("not (a > 2 or on)", lambda p: not (p["a"] > 2 or p["on"])),
    ("1 < a <= b ** 2", lambda p: 1 < p["a"] <= p["b"] ** 2),
    ("a in (1, 4, 6) or b == 2", lambda p: p["a"] in (1, 4, 6) or p["b"] == 2),
    ("a not in [1, 2]", lambda p: p["a"] not in [1, 2]),
    ("max(a, b) == 4", lambda p: max(p["a"], p["b"]) == 4),
    ("on", lambda p: p["on"]),
    ("a - b", lambda p: p["a"] != p["b"]),
    ("a == 2 if on else b == 2", lambda p: (p["a"] if p["on"] else p["b"]) == 2),
]


def rows() -> list[dict[str, Any]]:
    return [dict(zip(CHOICES, row, strict=True)) for row in itertools.product(*CHOICES.values())]


def legal_in_space(given: Any, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    monkeypatch.setattr("autotune.compat.kernel_tuner.problem._read", lambda _: problem())
    template = RestrictedTemplate.of(problem(), restrictions_of(given, list(CHOICES)))
    task = Task(template, {"problem": "none"})
    space = task.space
    configs = (dict(space.config(i).values) for i in range(len(space)) if not task.refusal(i))
    return list(configs)


@pytest.mark.parametrize(("text", "meant"), RESTRICTIONS, ids=[text for text, _ in RESTRICTIONS])
@pytest.mark.filterwarnings("ignore:.*cannot be traced")
def test_a_restriction_as_text_or_function_leaves_what_it_says(
    text: str, meant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [row for row in rows() if meant(row)]
    assert 0 < len(expected) < len(rows())
    own = restrictions_of([text], list(CHOICES))
    assert [row for row in rows() if is_legal(own, row)] == expected
    by_key = sorted(map(key_of, expected))
    assert sorted(map(key_of, legal_in_space([text], monkeypatch))) == by_key
    assert sorted(map(key_of, legal_in_space(meant, monkeypatch))) == by_key


def test_functions_may_name_the_parameters_that_they_take() -> None:
    own = restrictions_of([lambda a, b: a > b, (lambda b: b > 1, ["b"])], list(CHOICES))
    legal = {(row["a"], row["b"]) for row in rows() if is_legal(own, row)}
    assert legal == {(a, b) for a in CHOICES["a"] for b in CHOICES["b"] if a > b > 1}


def test_what_is_divided_by_zero_is_not_legal() -> None:
    own = restrictions_of(["4 / (a - 1) > 1"], list(CHOICES))
    assert {row["a"] for row in rows() if is_legal(own, row)} == {2, 3, 4}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a.b == 1"], "Attribute is not allowed"),
        (["c == 1"], "there is no parameter 'c'"),
        (["__import__('os')"], "only min, max, abs can be called"),
        ([3], "restrictions are texts, functions"),
    ],
)
def test_other_restrictions_are_refused(given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        restrictions_of(given, list(CHOICES))


# -- sources ---------------------------------------------------------------------------------------


def test_the_processor_stands_in_for_a_missing_compiler_of_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.warns(UserWarning, match=r"no compiler 'nvc\+\+' .* 'c\+\+' takes its place"):
        found = compiler_of("nvc++", ["-fast", "-acc=gpu", "-mp=gpu", "-gpu=cc80", "-Mx", "-DN=1"])
    assert found == ("c++", ["-O3", "-march=native", "-fopenacc", "-fopenmp", "-DN=1"])
    assert compiler_of("clang", ["-fast"]) == ("clang", ["-fast"])


def test_macros_are_as_given_where_they_are_given() -> None:
    params = {"block": 8, "on": True}
    text = generated_text("body", None, {"kernel_tuner": 1}, params)
    assert text.splitlines()[:3] == ["#define kernel_tuner 1", "#define block 8", "#define on 1"]
    own = {"twice": "2 * block", "made": lambda p: p["block"] + 1}
    text = generated_text(lambda p: f"body of {p['block']}", own, {"kernel_tuner": 1}, params)
    assert text.splitlines() == [
        "#define twice 2 * 8", "#define made 9", '#line 1 "text"', "body of 8",
    ]  # fmt: skip


# -- directives ------------------------------------------------------------------------------------

REGION = """
#include <cmath>
#define N 100
#define ROWS 8
int main() {
  #pragma tuner initialize
  int before = 1;
  #pragma tuner stop
  #pragma tuner start twice x(float*:N) grid(int*:ROWS,COLUMNS) size(int:N) by(double:2)
  #pragma acc parallel vector_length(threads) \\
      num_gangs(4)
  for (int i = 0; i < size; ++i) x[i] *= by;
  #pragma tuner stop
}
"""


def test_a_region_becomes_a_timed_function_and_arguments() -> None:
    code = directives.Code(directives.OpenACC(), directives.Cxx())
    texts, arguments = directives.process_directives(code, REGION, {"COLUMNS": 4})
    assert directives.extract_preprocessor(REGION)[1:] == ["#define N 100", "#define ROWS 8"]
    head = (
        'extern "C" float twice(float * __restrict__ x, int * __restrict__ grid, int size, '
        "double by) {"
    )
    text = texts["twice"]
    assert head in text
    assert "#define COLUMNS 4\n" in text
    assert "num_gangs(4) present(x[:100]) present(grid[:32])" in text
    lines = [line.strip() for line in text.splitlines()]
    order = [
        "int before = 1;", "#pragma acc enter data copyin(grid[:32])",
        "auto autotune_begin = std::chrono::steady_clock::now();",
        "for (int i = 0; i < size; ++i) x[i] *= by;",
        "auto autotune_end = std::chrono::steady_clock::now();",
        "#pragma acc exit data copyout(grid[:32])",
    ]  # fmt: skip
    places = [lines.index(line) for line in order]
    assert places == sorted(places)
    kinds = [(a.dtype.name, np.shape(a)) for a in arguments["twice"]]
    assert kinds == [("float32", (100,)), ("int32", (32,)), ("int32", ()), ("float64", ())]
    assert [*arguments["twice"][2:]] == [100, 2.0]


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("unsigned int *", "uint32"), ("const float*", "float32"), ("long long*", "int64"),
        ("unsigned char*", "uint8"), ("long unsigned int*", "uint64"), ("bool*", "bool"),
        ("uint16_t*", "uint16"), ("const double * restrict", "float64"), ("signed*", "int32"),
    ],
)  # fmt: skip
def test_types_of_arrays_may_be_written_in_many_ways(kind: str, dtype: str) -> None:
    (array,) = directives.allocate_signature_memory({"x": [kind, "100"]})
    assert (array.dtype.name, array.shape) == (dtype, (100,))
    if dtype not in ("bool", "float64"):
        (number,) = directives.allocate_signature_memory({"n": [kind.replace("*", ""), "100"]})
        assert (number.dtype.name, number) == (dtype, 100)


def test_parts_of_a_region_are_told_by_name() -> None:
    assert list(directives.extract_directive_code(REGION, kernel_name="other")) == []
    assert directives.extract_directive_data(REGION)["twice"]["size"] == ["int", "N"]
    assert "elapsed" not in directives.extract_directive_signature(REGION)["twice"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: directives.Fortran(), "regions in Fortran"),
        (lambda: directives.parse_size("M", ["#define N 1"]), "the size 'M' of a region is no"),
        (lambda: directives.allocate_signature_memory({"x": ["Point*", 4]}), "of type 'Point\\*'"),
        (lambda: directives.allocate_signature_memory({"x": ["float**", 4]}), "of type 'float"),
        (lambda: directives.allocate_signature_memory({"x": ["long double", 4]}), "'long double'"),
        (lambda: directives.allocate_signature_memory({"x": ["unsigned float", 4]}), "unsigned"),
        (lambda: directives.allocate_signature_memory({"x": ["", 4]}), "of type ''"),
        (lambda: directives.allocate_signature_memory({"n": ["char", 200]}), "not hold 200"),
        (
            lambda: directives.extract_directive_code("#pragma tuner start f x(int:1)\n"),
            "has no '#pragma tuner stop'",
        ),
    ],
)
def test_regions_that_cannot_be_read_are_refused(call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()


def test_a_wrapper_passes_arrays_as_references_of_their_shape() -> None:
    args = [np.zeros((2, 3)), np.zeros(1, "int32"), np.zeros(4, "float32"), np.int64(1)]
    text = wrappers.cpp("f", "void f();", args, [True, True, False, False])
    assert "f_wrapper(double *arg0, int *arg1, float *arg2, long long arg3)" in text
    assert "f(*reinterpret_cast<double (*)[2][3]>(arg0), *arg1, arg2, arg3);" in text
    with pytest.raises(UsageError, match="argument 3 is no array"):
        wrappers.cpp("f", "", args, [True] * 4)


# -- results ---------------------------------------------------------------------------------------


def test_metrics_are_functions_or_expressions_of_what_comes_before() -> None:
    result = {"a": 4, "time": 2.0}
    add_metrics(result, {"rate": "8 / time", "twice": "rate * 2", "f": lambda r: r["twice"] + 1})
    assert result == {"a": 4, "time": 2.0, "rate": 4.0, "twice": 8.0, "f": 9.0}
    failed = {"time": CompilationFailedConfig()}
    add_metrics(failed, {"rate": "8 / time"})
    assert failed == {"time": "CompilationFailedConfig"}
    with pytest.raises(UsageError, match="metric 'x' fails: ZeroDivisionError: division by zero"):
        add_metrics({"time": 1.0}, {"x": lambda r: 1 / 0})


def test_the_best_is_by_objective_and_never_a_failure() -> None:
    results = [
        {"time": 2.0, "GB/s": 5},
        {"time": ErrorConfig(), "GB/s": 9},
        {"time": 3.0, "GB/s": 7},
    ]
    assert best_of(results, "time", False) is results[0]
    assert best_of(results, "GB/s", is_larger_better("GB/s", None)) is results[2]
    assert best_of(results[1:2], "time", False) is None
    with pytest.raises(UsageError, match="objective_higher_is_better"):
        is_larger_better("own", None)


ROWS: dict[str, dict[str, Any]] = {
    "1,x": {"a": 1, "kind": "x", "time": 0.5, "times": [0.5], "rate": np.float32(2)},
    "2,x": {"a": 2, "kind": "x", "time": CompilationFailedConfig(),
            "__error__": CompilationFailedConfig()},
}  # fmt: skip


def cache_of(path: Path, size: Any = 4, x: float = 0.0, **changed: Any) -> Cache:
    own = problem(**{"parameters": {"a": [1, 2], "kind": ["x"]}, **changed})
    return Cache(path, own, size, [np.full(4, x, "float32")], "a device")


@pytest.fixture
def written(tmp_path: Path) -> Path:
    cache = cache_of(tmp_path / "c")
    cache.add(ROWS)
    cache.flush()
    return tmp_path / "c.json"


def rewritten(path: Path, **changed: Any) -> Path:
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, **changed}))
    return path


def test_a_cache_is_read_as_it_was_written(written: Path) -> None:
    text = written.read_text()
    assert text.endswith("}}\n}")  # what Kernel Tuner takes for a closed file
    document = json.loads(text)
    assert (document["kernel_name"], document["problem_size"]) == ("f", 4)
    assert list(document["cache"]) == ["1,x", "2,x"]
    again = cache_of(written).results([])
    assert again == ROWS
    assert isinstance(again["2,x"]["time"], CompilationFailedConfig)


def test_a_call_gets_the_results_of_its_own_space_and_keeps_the_others(written: Path) -> None:
    cache = cache_of(written, parameters={"a": [2, 3], "kind": ["x"]})
    assert list(cache.results([])) == ["2,x"]
    assert not cache.results(restrictions_of(["a > 2"], ["a", "kind"]))
    cache.add({"3,x": {"a": 3, "kind": "x", "time": 1.0}})
    document = json.loads(written.read_text())
    assert list(document["cache"]) == ["1,x", "2,x", "3,x"]
    assert document["tune_params"] == {"a": [2, 3, 1], "kind": ["x"]}


def test_calls_that_share_a_cache_keep_each_others_results(tmp_path: Path) -> None:
    one, other = cache_of(tmp_path / "c"), cache_of(tmp_path / "c")
    one.add({"1,x": ROWS["1,x"]})
    other.add({"2,x": ROWS["2,x"]})
    one.add({"1,x": ROWS["1,x"]})
    one.flush()
    assert cache_of(tmp_path / "c").results([]) == ROWS


@pytest.mark.parametrize(
    "changed", [{"text": "other"}, {"flags": ["-O3"]}, {"x": 1.0}, {"compiler": "clang++"}]
)
def test_a_cache_of_another_source_is_refused(written: Path, changed: dict[str, Any]) -> None:
    cache = cache_of(written, **changed)
    with pytest.raises(UsageError, match="of another text, other options or arguments: choose"):
        cache.results([])


def test_a_cache_of_something_else_is_refused(written: Path) -> None:
    with pytest.raises(UsageError, match=r"has the problem_size 4, not .5, 2.: choose another"):
        cache_of(written, (5, 2))
    with pytest.raises(UsageError, match=r"has the device_name 'Another', not .*: choose another"):
        cache_of(rewritten(written, device_name="Another"))
    written.write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"cannot read .*c.json: 'utf-8' codec"):
        cache_of(written)


def test_entries_that_are_no_results_are_passed_over(written: Path) -> None:
    known = json.loads(written.read_text())["cache"]
    odd = {"3": 3, "4": {"a": 1, "kind": "x"}, "5": {"time": 1.0}, "6": {**ROWS["2,x"], "time": ""}}
    cache = cache_of(rewritten(written, cache={**known, **odd}))
    with pytest.warns(RecordWarning, match=r"skipped 4 of 6 \(entry 3, 4, 5"):
        assert cache.results([]) == ROWS


def test_what_is_known_is_found_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [row for n, row in enumerate(rows()) if n % 7 and row["a"] != 3]
    monkeypatch.setattr("autotune.compat.kernel_tuner.problem._read", lambda _: problem())
    template = RestrictedTemplate.of(problem(), [unknown(CHOICES, known)])
    task = Task(template, {"problem": "none"})
    left = {
        key_of(task.space.config(i).values) for i in range(len(task.space)) if not task.refusal(i)
    }
    assert left == {*map(key_of, rows())} - {*map(key_of, known)}
    assert not task.untraceable


def test_arrays_that_workers_may_have_mapped_stay(tmp_path: Path) -> None:
    x = np.arange(4, dtype="float32")
    (place,) = {write_problem(tmp_path, problem(), [x], {}) for _ in range(2)}
    before = (place / "argument0.npy").stat()
    write_problem(tmp_path, problem(), [x], {})
    after = (place / "argument0.npy").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    np.testing.assert_array_equal(np.load(place / "argument0.npy"), x)


# -- refused ---------------------------------------------------------------------------------------

X = np.zeros(4, "float32")
REFUSED = [
    ({"strategy": "best"}, "strategy 'best' is not supported: choose one of brute_force"),
    ({"strategy_options": {"fraction": "x"}}, "fraction must be a number >= 0, got 'x'"),
    ({"strategy_options": {"x0": [7]}}, "x0: 7 is no value of a"),
    ({"strategy_options": {"x0": 7}}, "x0 must have a value of each parameter, got 7"),
    ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
    ({"iterations": 0}, "iterations must be a whole number >= 1, got 0"),
    ({"objectives": {"time": False, "a": True}}, "objectives: time, a are several: choose one"),
    ({"lang": "C", "smem_args": {"size": 4}}, "smem_args is not supported.*kernels in C"),
    ({"lang": "CUDA", "cmem_args": {"c": X}}, r"cmem_args is not supported.*CUDA C\+\+"),
    ({"lang": "CUDA", "smem_args": 3}, "smem_args must be a dict with a size in bytes, got 3"),
    ({"lang": "CUDA", "grid_div_x": ["b"]}, "grid_div_x 'b': there is no parameter 'b'"),
    ({"lang": "CUDA", "problem_size": [1] * 4}, "problem_size must be 1 to 3 sizes"),
    ({"lang": "CUDA", "problem_size": lambda p: p["b"]}, "problem_size fails: KeyError: 'b'"),
    ({"lang": "CUDA", "block_size_names": [3]}, "block_size_names must be a list of up to 3"),
    ({"lang": "C", "kernel_source": lambda p: p["b"]}, "kernel_source fails: KeyError: 'b'"),
    ({"defines": {"d": lambda p: p["b"]}}, "defines: d fails: KeyError: 'b'"),
    ({"observers": [1]}, "observers is not supported"),
    ({"simulation_mode": True}, "simulation_mode is not supported"),
    ({"kernel_source": "__kernel void f()"}, "kernels in OpenCL cannot be tuned by this call"),
    ({"kernel_source": "none.cpp"}, "cannot read none.cpp"),
    ({"kernel_source": lambda p: "text"}, "lang must be given"),
    ({"arguments": [X, 3]}, "arguments: 1 must be an array or a number of NumPy"),
    ({"arguments": [np.int32(3)]}, "a kernel needs an array among its arguments"),
    ({"answer": [X[:3]]}, "answer: item 0 has 3 elements, the argument 4"),
    ({"answer": [X, None]}, "answer has 2 items, and arguments fewer"),
    ({"answer": X}, "answer must be a list with an array or None for each argument, got array"),
    ({"answer": 3}, "answer must be a list"),
    ({"arguments": None}, "arguments must be a list of arrays and numbers of NumPy, got None"),
    ({"tune_params": {"a": [(1, 2)]}}, "tune_params: a has .1, 2."),
    ({"tune_params": ["a"]}, "tune_params must be a dict of lists"),
    ({"tune_params": {"block": 4}}, "tune_params: block must be a list, got 4"),
    ({"tune_params": {"block": "14"}}, "tune_params: block must be a list, got '14'"),
    ({"tune_params": {"block": []}}, "tune_params: block has no values"),
    ({"tune_params": {"a": ["1", "1,2"], "b": ["2,3", "3"]}}, "a has '1,2': a value has no comma"),
    ({"tune_params": {"a": [1, "1"]}}, "a has 1 and '1', too alike"),
    ({"tune_params": {"a": [1, True]}}, "a has 1 and True, too alike"),
    ({"tune_params": {"times": [1]}}, "times is what results call something else"),
    ({"defines": ["block"]}, "defines must be a dict"),
    ({"lang": 3}, "lang must be a text"),
    ({"kernel_name": None}, "kernel_name must be a text"),
    ({"compiler_options": "-O3"}, "compiler_options must be a list of texts, got '-O3'"),
    ({"atol": "x"}, "atol must be a number >= 0, got 'x'"),
    ({"atol": -1}, "atol must be a number >= 0, got -1"),
    ({"observers": np.ones(3)}, "observers is not supported"),
    ({"strategy_options": [1]}, "strategy_options must be a dict"),
    ({"strategy_options": {"max_fevals": "x"}}, "max_fevals must be a whole number >= 1, got 'x'"),
    ({"folder": 3}, "folder must be the path of a folder, got 3"),
    ({"folder": __file__}, "folder: .*test_kernel_tuner.py is a file"),
    ({"cache": 3}, "cache must be the path of a file, got 3"),
    ({"cache": ""}, "cache: '' is no name of a file"),
    ({"cache": "/tmp"}, "cache: '/tmp' is no name of a file"),
    ({"cache": "nodir/c"}, "cache: there is no folder .*nodir"),
    ({"metrics": {"g": "1/tim"}}, "metric 'g': there is no 'tim' in the results"),
    ({"metrics": {"g": "1/"}}, "metric 'g': .* is no expression"),
    ({"metrics": {"g": 3}}, "metric 'g' must be a text or a function, got 3"),
    ({"metrics": ["a"]}, "metrics must be a dict"),
    ({"metrics": {"time": "2 * a"}}, "metric 'time': that is what results call something else"),
    ({"metrics": {"a": "2 * time"}}, "metric 'a': that is what results call something else"),
    ({"objective": "GB/s"}, "objective 'GB/s' is no metric and not among the results"),
    (
        {"tune_params": {"a": [1, 2]}, "restrictions": ["a > 0", lambda p: p["b"] > 1]},
        "restriction 2 fails for {'a': 1}: KeyError: 'b'",
    ),
    ({"restrictions": ["a < 'x'"]}, "restriction 1, \"a < 'x'\", fails for {'a': 1}: TypeError"),
    ({"verify": lambda answer, result, atol: True}, "define it with def"),
]


@pytest.mark.parametrize(("changed", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_what_cannot_be_done_is_told_in_one_line(changed: dict[str, Any], message: str) -> None:
    given = {
        "kernel_name": "f", "kernel_source": "float f(float *x);", "problem_size": 4,
        "arguments": [X], "tune_params": {"a": [1]},
    }  # fmt: skip
    with pytest.raises(UsageError, match=message) as told:
        tune_kernel(**{**given, **changed})
    assert "\n" not in str(told.value)


def test_missing_names_say_where_the_others_are() -> None:
    with pytest.raises(AttributeError, match=r"has no 'store_results': docs/compat.md"):
        _ = kernel_tuner.store_results
    with pytest.raises(UsageError, match="smem_args is not supported"):
        run_kernel("f", "", 1, [X], {}, smem_args={"size": 1})
    with pytest.raises(UsageError, match="params must be a dict, got None"):
        run_kernel("f", "", 1, [X], None)  # type: ignore[arg-type]


def test_a_restriction_need_not_work_where_one_before_it_refuses() -> None:
    own = restrictions_of(["a > 2", lambda p: {3: True, 4: False, 6: True, 8: True}[p["a"]]], ["a"])
    assert [a for a in CHOICES["a"] if is_legal(own, {"a": a})] == [3, 6, 8]


def test_sources_that_are_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "f.cpp").write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"cannot read .*f.cpp: 'utf-8' codec"):
        tune_kernel("f", tmp_path / "f.cpp", 4, [X], {"a": [1]})


# -- strategies ------------------------------------------------------------------------------------


def test_a_strategy_of_another_kind_is_told_and_its_options_are_passed_over() -> None:
    parameters = {"a": [1, 2, 3, 4], "b": [1, 2]}
    options = {"popsize": 3, "max_fevals": 5, "x0": (3, 2), "seed": 4}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        search, first = search_of("pso", options, "GB/s", parameters)
    lines = [str(each.message) for each in told]
    assert search == {"tuner": "genetic", "trials": 5, "time": None, "seed": 4}
    assert first == {"a": 3, "b": 2}
    assert "strategy 'pso' is not here: the nearest of our tuners, 'genetic'" in lines[0]
    assert "searches for the least time here" in lines[1]
    assert "popsize have no meaning for our tuner 'genetic'" in lines[2]
    assert len(lines) == 3


def test_a_fraction_of_the_space_is_measured() -> None:
    parameters = {"a": list(range(30))}
    search, _ = search_of("random_sample", {"fraction": 0.25}, "time", parameters, seed=3)
    assert (search["tuner"], search["trials"], search["seed"]) == ("random", 8, 3)


# -- results that are kept -------------------------------------------------------------------------


def fail_after(text: str | None) -> None:
    """Let a mistake be found in a temporary folder, whose log has a text if one is given."""
    with folder_of(None, None) as at:
        if text is not None:
            (at / "f-1").mkdir()
            (at / "f-1" / "log.jsonl").write_text(text)
        raise UsageError(f"mistake in {at}")


def test_what_was_measured_before_a_function_failed_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(UsageError, match=r"^mistake in .*; .* kept: folder='.*' continues"):
        fail_after("measured")
    (log,) = tmp_path.glob("*/f-1/log.jsonl")
    assert log.read_text() == "measured"
    shutil.rmtree(log.parents[1])
    with pytest.raises(UsageError, match=r"^mistake in \S*$"):
        fail_after(None)
    assert not list(tmp_path.iterdir())


def test_a_comparison_that_fails_is_told() -> None:
    wrong = {"error": {"message": "verify 'right' fails: KeyError: 3"}}
    with pytest.raises(UsageError, match=r"verify 'right' fails: KeyError: 3"):
        check_verified([wrong, wrong])
    with pytest.warns(UserWarning, match="and so for 1 of 2 configurations"):
        check_verified([wrong, {"time": 1.0}])


def test_old_and_new_names_of_objectives_mean_the_same() -> None:
    assert objective_of(None, None, None) == ("time", None)
    assert objective_of("GB/s", True, None) == ("GB/s", True)
    assert objective_of(["GB/s"], [True], None) == ("GB/s", True)
    assert objective_of(None, None, {"GB/s": True}) == ("GB/s", True)
