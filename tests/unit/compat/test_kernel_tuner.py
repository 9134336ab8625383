"""Arguments of Kernel Tuner's calls: what is refused, strategies and their options."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.kernel_tuner_problems import CHOICES

from autotune.compat import kernel_tuner
from autotune.compat.kernel_tuner import run_kernel, tune_kernel, wrappers
from autotune.compat.kernel_tuner.arguments import objective_of
from autotune.compat.kernel_tuner.restrictions import is_legal, restrictions_of
from autotune.compat.kernel_tuner.strategies import search_of
from autotune.errors import UsageError

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
    ({"lang": "CUDA", "texmem_args": {"c": X}}, r"texmem_args is not supported.*CUDA C\+\+"),
    ({"lang": "C", "cmem_args": {"c": X}}, "cmem_args is not supported.*kernels in C"),
    ({"lang": "CUDA", "cmem_args": 3}, "cmem_args must be a dict of arrays by their names, got 3"),
    ({"lang": "CUDA", "cmem_args": {"c": 3}}, "cmem_args: c must be an array of NumPy, got 3"),
    ({"lang": "CUDA", "cmem_args": {"c": X + np.inf}}, "c must have elements, which are finite"),
    ({"lang": "CUDA", "cmem_args": {"c": X.astype("float16")}}, "c is of float16"),
    ({"lang": "CUDA", "cmem_args": {"c": X}}, "does not declare '__constant__ ... c'"),
    ({"lang": "CUDA", "problem_size": float("inf")}, "problem_size: inf is no whole number"),
    ({"lang": "CUDA", "problem_size": 2.5}, "problem_size: 2.5 is no whole number"),
    ({"lang": "CUDA", "problem_size": -4}, "problem_size: -4 is no whole number >= 0"),
    ({"lang": "CUDA", "smem_args": 3}, "smem_args must be a dict with a size in bytes, got 3"),
    ({"lang": "CUDA", "grid_div_x": ["b"]}, "grid_div_x 'b': there is no parameter 'b'"),
    ({"lang": "CUDA", "problem_size": [1] * 4}, "problem_size must be 1 to 3 sizes"),
    ({"lang": "CUDA", "problem_size": lambda p: p["b"]}, "problem_size fails: KeyError: 'b'"),
    ({"lang": "CUDA", "block_size_names": [3]}, "block_size_names must be a list of up to 3"),
    ({"lang": "C", "kernel_source": lambda p: p["b"]}, "kernel_source fails: KeyError: 'b'"),
    ({"defines": {"d": lambda p: p["b"]}}, "defines: d fails: KeyError: 'b'"),
    ({"observers": [1]}, "observers is not supported"),
    ({"simulation_mode": True}, "simulation_mode needs a cache, whose results it returns"),
    ({"simulation_mode": True, "cache": "none"}, "cannot read .*none.json: No such file"),
    ({"compiler": "no-such-compiler"}, "compiler: there is no 'no-such-compiler' on this machine"),
    ({"restrictions": "a > 1"}, "leave none of the 1 configurations .*: restriction 1, 'a > 1'$"),
    (
        {"tune_params": {n: range(30) for n in "abc"}, "restrictions": "a > 30", "defines": {}},
        "leave none of the 27000 configurations .*: restriction 1, 'a > 30'$",
    ),
    ({"restrictions": lambda p: False}, "leave none of the 1 configurations .*: restriction 1$"),
    ({"restrictions": [(lambda a: True, 3)]}, "restriction 1: 3 are no names of parameters"),
    ({"timeout": 0}, "timeout must be a number > 0, got 0"),
    ({"strategy_options": {"time_limit": 0}}, "time_limit must be a number > 0, got 0"),
    ({"strategy_options": {"max_fevals": 2.5}}, "max_fevals must be a whole number >= 1, got 2.5"),
    ({"strategy_options": {"x0": {"b": 1}}}, "x0 must have a value of each parameter, got {'b': 1"),
    ({"iterations": True}, "iterations must be a whole number >= 1, got True"),
    ({"seed": float("nan")}, "seed must be a whole number >= 0, got nan"),
    ({"arguments": [X, np.array([None])]}, "arguments: 1 is an array of object: known are"),
    ({"arguments": [X.astype(complex)]}, "arguments: 0 is an array of complex128: known are"),
    ({"arguments": [X.astype(">f4")]}, "arguments: 0 has the bytes of its numbers in another"),
    ({"arguments": [X[:0]]}, "arguments: 0 is an array without elements"),
    ({"tune_params": {"a": np.ones((2, 99))}}, "a has array.* which is no number and no text"),
    ({"metrics": {"g": lambda p: p["tim"]}}, "metric 'g' fails: KeyError: 'tim'"),
    ({"kernel_source": "__kernel void f()"}, "kernels in OpenCL cannot be tuned by this call"),
    ({"kernel_source": "none.cpp"}, "cannot read none.cpp"),
    ({"kernel_source": "a\0b.cpp"}, "kernel_source: cannot read a.b.cpp: embedded null byte"),
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
    ({"folder": ""}, "folder must be the path of a folder, and is empty"),
    ({"folder": "a\0b"}, "folder: 'a.*b': it has a character that no name of a file has"),
    ({"folder": "a" * 300}, "folder: 'a*[.]*: File name too long"),
    ({"folder": f"{__file__}/a"}, "folder: .*: Not a directory"),
    ({"cache": ""}, "cache must be the path of a file, and is empty"),
    ({"cache": "/tmp"}, "cache: '/tmp' is a folder"),
    ({"cache": "a\0b"}, "cache: 'a.*b': it has a character that no name of a file has"),
    ({"cache": "a\ud800b"}, "cache: 'a.*b': it has a character that no name of a file has"),
    ({"cache": "a" * 252}, "cache: .*: File name too long"),
    ({"cache": f"{__file__}/a"}, "cache: .*: Not a directory"),
    ({"cache": "a\0b", "simulation_mode": True}, "cache: 'a.*b': it has a character that no"),
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
    ({"verify": lambda answer, result, atol: True}, "^verify: .*define it with def"),
    ({"folder": "/proc/none"}, "folder: cannot make /proc/none/f-"),
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
    with pytest.raises(UsageError, match="a kernel needs an array among its arguments"):
        run_kernel("f", "", 1, [np.int32(3)], {})
    with pytest.raises(UsageError, match="args must be a list of arrays and numbers of NumPy"):
        wrappers.cpp("f", "", None)  # type: ignore[arg-type]


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


@pytest.mark.parametrize("two", [2, 2.0, np.int64(2), np.float32(2)])
def test_whole_numbers_may_be_floats_or_of_numpy(two: Any) -> None:
    options = {"max_fevals": two, "seed": two}
    search, _ = search_of("random_sample", options, "time", {"a": [1, 2, 3]})
    assert (search["trials"], search["seed"]) == (2, 2)
    assert type(search["trials"]) is type(search["seed"]) is int


def test_a_configuration_to_begin_with_is_read_by_its_names() -> None:
    parameters = {"a": [1, 2], "b": [1, 2]}
    _, first = search_of("mls", {"x0": {"b": 1, "a": 2}}, "time", parameters)
    assert first == {"a": 2, "b": 1}


def test_a_fraction_of_the_space_is_measured() -> None:
    parameters = {"a": list(range(30))}
    search, _ = search_of("random_sample", {"fraction": 0.25}, "time", parameters, seed=3)
    assert (search["tuner"], search["trials"], search["seed"]) == ("random", 8, 3)


def test_old_and_new_names_of_objectives_mean_the_same() -> None:
    assert objective_of(None, None, None) == ("time", None)
    assert objective_of("GB/s", True, None) == ("GB/s", True)
    assert objective_of(["GB/s"], [True], None) == ("GB/s", True)
    assert objective_of(None, None, {"GB/s": True}) == ("GB/s", True)
