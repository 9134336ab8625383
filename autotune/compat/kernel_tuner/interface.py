"""`tune_kernel` and `run_kernel`: their arguments become a template for `autotune.tune`."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import operator
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from autotune.compat.kernel_tuner.problem import VERIFY, Array, Problem, flat, key_of, write_problem
from autotune.compat.kernel_tuner.restrictions import (
    RestrictedTemplate,
    Restriction,
    is_legal,
    negated,
    restrictions_of,
)
from autotune.compat.kernel_tuner.results import (
    Cache,
    Metrics,
    Result,
    add_metrics,
    best_of,
    is_larger_better,
    results_of,
    totals_of,
)
from autotune.compat.kernel_tuner.sources import (
    check_language,
    compiler_of,
    generated_text,
    is_generated,
    language_of,
    openmp_flags,
    text_of,
)
from autotune.compat.kernel_tuner.util import ErrorConfig
from autotune.errors import UsageError
from autotune.external.c_kernel import BY_VALUE
from autotune.measure.timing_policy import TimingPolicy
from autotune.operators.function_source import text_with_what_it_uses
from autotune.runtime.cpu.c_compiler import (
    LoadedObject,
    PreprocessedSource,
    compile_shared,
    version_of,
)
from autotune.system.host import processor_name
from autotune.target import Target
from autotune.tuner.factory import TUNERS
from autotune.tuning import tune
from records.storage.append_only_log import RecordStore

#: Strategies of Kernel Tuner, and the tuner that takes the place of each.
STRATEGIES = {
    "brute_force": "grid", "random_sample": "random", "genetic_algorithm": "genetic",
    "greedy_ils": "local", "greedy_mls": "local", "ordered_greedy_mls": "local", "mls": "local",
    "bayes_opt": "model",
}  # fmt: skip

#: Measurements of a strategy, if `max_fevals` does not say how many.
MEASUREMENTS = 100

_MOST_TEXTS = 100_000  # Configurations whose texts are made in advance.
_FOREVER_MS = 1e9

Params = Mapping[str, Any]


def tune_kernel(
    kernel_name: str,
    kernel_source: Any,
    problem_size: Any,
    arguments: Sequence[Any],
    tune_params: Mapping[str, Sequence[Any]],
    grid_div_x: Any = None,
    grid_div_y: Any = None,
    grid_div_z: Any = None,
    restrictions: Any = None,
    answer: Sequence[Any] | None = None,
    atol: float = 1e-6,
    verify: Callable[..., Any] | None = None,
    verbose: bool = False,
    lang: str | None = None,
    device: int = 0,
    platform: int = 0,
    smem_args: Any = None,
    cmem_args: Any = None,
    texmem_args: Any = None,
    compiler: str | None = None,
    compiler_options: Sequence[str] | None = None,
    defines: Mapping[str, Any] | None = None,
    log: Any = None,
    iterations: int = 7,
    block_size_names: Sequence[str] | None = None,
    quiet: bool = False,
    strategy: str | None = None,
    strategy_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
    metrics: Metrics | None = None,
    simulation_mode: bool = False,
    observers: Any = None,
    objective: str | None = None,
    objective_higher_is_better: bool | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    timeout: float = 60.0,
) -> tuple[list[Result], dict[str, Any]]:
    """Tune a function in C or C++ that returns the milliseconds it took, as Kernel Tuner does.

    Parameters
    ----------
    kernel_name, kernel_source, problem_size, arguments, tune_params, ...
        As of Kernel Tuner; docs/compat.md has a table. What can have no meaning here is refused;
        what is about devices and grids of threads changes nothing.
    folder : path, optional
        Where the arguments and the log of records are kept; by default they are temporary.
    timeout : float
        Seconds that a configuration may take to be compiled, and again to run.

    Returns
    -------
    results : list of dict
        For each configuration its parameters, "time" (the median, in ms) and "times", metrics, and
        what was spent on it, in ms. What failed has an `ErrorConfig` as "time", and an "error".
    env : dict
        The device, the compiler, the best configuration and totals.

    Raises
    ------
    UsageError
        If an argument is not what it should be, or is about what this call cannot do.
    """
    begin = time.perf_counter()
    gpu_only = {"smem_args": smem_args, "cmem_args": cmem_args, "texmem_args": texmem_args}
    _refuse({**gpu_only, "observers": observers, "simulation_mode": simulation_mode})
    objective = objective or "time"
    larger = is_larger_better(objective, objective_higher_is_better)
    problem = _problem(
        kernel_name, kernel_source, arguments, tune_params, lang, compiler, compiler_options
    )
    search = _search(strategy, strategy_options, objective, problem)
    rules = restrictions_of(restrictions, list(problem.parameters))
    known = None if cache is None else Cache(cache, problem, problem_size)
    results = {} if known is None else dict(known.results)
    if results:
        rules.append(_unknown(list(problem.parameters), results))
    answers = _answers(answer, problem)
    whole = replace(
        problem,
        text=_texts(problem, kernel_source, defines, rules),
        outputs=_outputs(problem, answers, verify is not None),
        answered=list(answers),
        atol=atol,
        verify="" if verify is None else _verify_text(verify),
    )
    with tempfile.TemporaryDirectory() if folder is None else nullcontext(os.fspath(folder)) as at:
        place = write_problem(Path(at).absolute(), whole, arguments, answers)
        path = place / "log.jsonl"
        try:
            if not results or _any_left(whole, rules):
                tune(
                    RestrictedTemplate.of(whole, rules),
                    {"problem": str(place)},
                    log=path,
                    policy=_policy(iterations),
                    timeout=timeout,
                    progress=False if quiet else None,
                    **search,
                )
        finally:
            trials = [r for r in RecordStore(path).load() if is_legal(rules, r.config["values"])]
            results.update(results_of(trials))
            for result in results.values():
                add_metrics(result, metrics or {})
            if known is not None and results:
                known.write(results, processor_name())
    listed = list(results.values())
    env: dict[str, Any] = {
        "device_name": processor_name(),
        "CC Version": version_of(problem.compiler),
        "iterations": iterations,
        "compiler_options": compiler_options,
        **totals_of(listed, time.perf_counter() - begin),
    }
    best = best_of(listed, objective, larger)
    if best is not None:
        env["best_config"] = best
    if not quiet:
        print(_told(best, listed, [*problem.parameters, "time", *(metrics or ())]))
    return listed, env


def run_kernel(
    kernel_name: str,
    kernel_source: Any,
    problem_size: Any,
    arguments: Sequence[Any],
    params: Params,
    grid_div_x: Any = None,
    grid_div_y: Any = None,
    grid_div_z: Any = None,
    lang: str | None = None,
    device: int = 0,
    platform: int = 0,
    smem_args: Any = None,
    cmem_args: Any = None,
    texmem_args: Any = None,
    compiler: str | None = None,
    compiler_options: Sequence[str] | None = None,
    defines: Mapping[str, Any] | None = None,
    block_size_names: Sequence[str] | None = None,
    quiet: bool = False,
    log: Any = None,
) -> list[Any]:
    """Compile a function in C or C++ and run it once, in this process.

    Parameters
    ----------
    kernel_name, kernel_source, problem_size, arguments, params, ...
        As of Kernel Tuner; `params` has a value of each parameter.

    Returns
    -------
    list of array or number
        What the arguments are afterwards; those that were given are not changed.

    Raises
    ------
    UsageError
        As `tune_kernel`.
    CompileError
        If the compiler refuses the text.
    """
    _refuse({"smem_args": smem_args, "cmem_args": cmem_args, "texmem_args": texmem_args})
    choices = {name: [value] for name, value in params.items()}
    problem = _problem(
        kernel_name, kernel_source, arguments, choices, lang, compiler, compiler_options
    )
    text = _texts(problem, kernel_source, defines, [])
    whole = replace(problem, text=text, outputs=problem.arrays)
    values = {name: choices[0] for name, choices in problem.parameters.items()}
    function = whole.kernel(values, times_itself=False).lowered(kernel_name)
    loaded = LoadedObject(compile_shared(PreprocessedSource.of(function), Target.of("llvm")))
    inputs = [flat(arguments[n]) for n in problem.arrays]
    outputs = list(map(np.empty_like, inputs))
    loaded(*inputs, *outputs)
    found = dict(zip(problem.arrays, outputs, strict=True))
    return [
        found[n].reshape(np.shape(given)) if n in found else given
        for n, given in enumerate(arguments)
    ]


def _refuse(given: Mapping[str, Any]) -> None:
    """Raise UsageError if an argument is given that has no meaning here."""
    for name, value in given.items():
        if value:
            raise UsageError(
                f"{name} is not supported: docs/compat.md lists the arguments that have a meaning "
                "for kernels in C"
            )


def _problem(
    name: str,
    source: Any,
    arguments: Sequence[Any],
    choices: Mapping[str, Sequence[Any]],
    lang: str | None,
    compiler: str | None,
    options: Sequence[str] | None,
) -> Problem:
    """Return what is known of a kernel before its text and its answers are."""
    check_language(lang, source)
    chosen, flags = compiler_of(compiler, options)
    if not is_generated(source):
        flags += openmp_flags(text_of(source), flags)
    if not isinstance(choices, Mapping):
        raise UsageError(f"tune_params must be a dict of lists, got {choices!r}")
    return Problem(
        name,
        "",
        language_of(source, chosen),
        chosen,
        flags,
        os.getcwd(),
        {str(key): _choices(key, values) for key, values in choices.items()},
        {"kernel_tuner": 1},
        [_argument(n, given) for n, given in enumerate(arguments)],
        [],
    )


def _choices(name: str, values: Sequence[Any]) -> list[Any]:
    """Return the values of a parameter as plain ones, each once."""
    found = [v.item() if isinstance(v, np.generic) else v for v in values]
    for value in found:
        if not isinstance(value, (bool, int, float, str)):
            raise UsageError(f"tune_params: {name} has {value!r}, which is no number and no text")
    return list(dict.fromkeys(found))


def _argument(number: int, given: Any) -> tuple[str, Any]:
    """Return dtype and shape of an array, or dtype and value of a number."""
    if isinstance(given, np.ndarray):
        return given.dtype.name, list(given.shape)
    if isinstance(given, np.generic) and given.dtype.name in BY_VALUE:
        return given.dtype.name, given.item()
    raise UsageError(
        f"arguments: {number} must be an array or a number of NumPy, such as numpy.int32(3), got "
        f"{given!r}"
    )


def _answers(answer: Sequence[Any] | None, problem: Problem) -> dict[int, Array]:
    """Return the right values of arrays, by position; what is left out at the end has none."""
    found: dict[int, Array] = {}
    for n, (right, own) in enumerate(
        itertools.zip_longest(answer or [], problem.arguments, fillvalue=None)
    ):
        if own is None:
            raise UsageError(f"answer has {len(answer or [])} items, and arguments fewer")
        if right is None or n not in problem.arrays:
            continue
        if np.size(right) != math.prod(own[1]):
            raise UsageError(
                f"answer: item {n} has {np.size(right)} elements, the argument {math.prod(own[1])}"
            )
        found[n] = np.asarray(right)
    return found


def _outputs(problem: Problem, answers: Mapping[int, Array], verified: bool) -> list[int]:
    """Return the positions of the arrays that are checked: one at least, if it may be anything."""
    if not problem.arrays:
        raise UsageError("tune_kernel: a kernel needs an array among its arguments")
    if verified:
        return problem.arrays
    smallest = min(problem.arrays, key=lambda n: math.prod(problem.arguments[n][1]))
    return list(answers) or [smallest]


def _texts(
    problem: Problem,
    source: Any,
    defines: Mapping[str, Any] | None,
    rules: Sequence[Restriction],
) -> str | dict[str, str]:
    """Return the text; that of each configuration if macros alone do not tell them apart."""
    if not is_generated(source) and defines is None:
        return text_of(source)
    if math.prod(map(len, problem.parameters.values())) > _MOST_TEXTS:
        raise UsageError(
            f"texts are made for {_MOST_TEXTS} configurations at most: give a text that uses the "
            "parameters as macros"
        )
    return {
        key_of(params): generated_text(source, defines, problem.defines, params)
        for params in _configurations(problem, rules)
    }


def _configurations(problem: Problem, rules: Sequence[Restriction]) -> list[dict[str, Any]]:
    rows = itertools.product(*problem.parameters.values())
    every = (dict(zip(problem.parameters, row, strict=True)) for row in rows)
    return [params for params in every if is_legal(rules, params)]


def _any_left(problem: Problem, rules: Sequence[Restriction]) -> bool:
    """Whether a configuration is to be measured still; of a large space it is taken to be so."""
    size = math.prod(map(len, problem.parameters.values()))
    return size > _MOST_TEXTS or bool(_configurations(problem, rules))


def _unknown(names: Sequence[str], known: Mapping[str, Result]) -> Restriction:
    """Return what keeps configurations away whose results are known."""
    rows = [{name: result[name] for name in names} for result in known.values()]

    def holds(values: Params) -> Any:
        found = [
            functools.reduce(operator.and_, (values[n] == value for n, value in row.items()))
            for row in rows
        ]
        while len(found) > 1:  # by halves, so that the expression is not deep
            pairs = itertools.zip_longest(found[::2], found[1::2], fillvalue=False)
            found = [a | b for a, b in pairs]
        return negated(found[0])

    return Restriction("its result is not known yet", holds)


def _verify_text(verify: Callable[..., Any]) -> str:
    """Return the text of the user's comparison for workers, which call it by one name."""
    if not inspect.isfunction(verify):
        raise UsageError(f"verify must be a function that is written with def, not {verify!r}")
    takes_atol = "atol" in inspect.signature(verify).parameters
    given = "answer, result" + ", atol=atol" * takes_atol
    return (
        f"{text_with_what_it_uses(verify)}\n\ndef {VERIFY}(answer, result, atol):\n"
        f"    return {verify.__name__}({given})\n"
    )


def _policy(iterations: int) -> TimingPolicy:
    """Return how each configuration is timed: one call for each of the times."""
    return TimingPolicy(repeats=iterations, min_repeat_ms=0.0, budget_ms=_FOREVER_MS, race=0.0)


def _search(
    strategy: str | None, options: Mapping[str, Any] | None, objective: str, problem: Problem
) -> dict[str, Any]:
    """Return the arguments of `tune` that say how to search."""
    given, name = dict(options or {}), strategy or "brute_force"
    tuner = STRATEGIES.get(name, name if name in TUNERS else None)
    if tuner is None:
        known = ", ".join([*STRATEGIES, *TUNERS])
        raise UsageError(f"strategy {name!r} is not supported: choose one of {known}")
    if objective != "time" and tuner != "grid":
        raise UsageError(
            f"strategy {name!r} searches for the least time, not for {objective!r}: brute_force "
            "finds the best of any objective"
        )
    size = math.prod(map(len, problem.parameters.values()))
    most = given.get("max_fevals", size if tuner == "grid" else MEASUREMENTS)
    return {"tuner": tuner, "trials": min(int(most), size), "time": given.get("time_limit")}


def _told(best: Result | None, results: Sequence[Result], names: Sequence[str]) -> str:
    """Return the line that ends a call."""
    if best is not None:
        shown = ", ".join(f"{name}={_short(best[name])}" for name in names)
        return f"best performing configuration: {shown}"
    failed = [result for result in results if isinstance(result["time"], ErrorConfig)]
    why = failed[0].get("error", {}).get("message", "") if failed else ""
    return f"no configuration worked{why and f'; first: {why}'}"


def _short(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
