"""`tune_kernel` and `run_kernel`: their arguments become a template for `autotune.tune`."""

from __future__ import annotations

import inspect
import itertools
import math
import os
import tempfile
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from autotune.compat.kernel_tuner.arguments import (
    answers_of,
    arguments_of,
    check_folder,
    check_number,
    check_texts,
    check_type,
    parameters_of,
    refuse,
    search_of,
)
from autotune.compat.kernel_tuner.cache import Cache
from autotune.compat.kernel_tuner.problem import VERIFY, Array, Problem, flat, key_of, write_problem
from autotune.compat.kernel_tuner.restrictions import (
    RestrictedTemplate,
    Restriction,
    is_legal,
    restrictions_of,
    unknown,
)
from autotune.compat.kernel_tuner.results import (
    Metrics,
    Result,
    add_metrics,
    best_of,
    check_metrics,
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
from autotune.tuner.run.events import Event, Measured
from autotune.tuning import tune
from records.storage.append_only_log import RecordStore

_MOST_TEXTS = 100_000  # Configurations whose texts are made in advance.
_MOST_CHECKED = 10_000  # Configurations that restrictions are tried with in advance.
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
        As in Kernel Tuner; docs/compat.md has a table. What can have no meaning here is refused;
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
    refuse({**gpu_only, "observers": observers, "simulation_mode": simulation_mode})
    objective = objective or "time"
    check_number("atol", atol, 0)
    check_type("objective", objective, str, "the name of a metric")
    if folder is not None:
        check_folder(folder)
    problem = _problem(
        kernel_name, kernel_source, arguments, tune_params, lang, compiler, compiler_options
    )
    search = search_of(strategy, strategy_options, objective, problem)
    chosen = check_metrics(metrics, objective, problem.parameters)
    larger = is_larger_better(objective, objective_higher_is_better)
    answers = answers_of(answer, problem)
    rules = restrictions_of(restrictions, list(problem.parameters))
    for params in itertools.islice(_configurations(problem), _MOST_CHECKED):
        is_legal(rules, params)  # tells now of one that fails
    whole = replace(
        problem,
        text=_texts(problem, kernel_source, defines, rules),
        outputs=_outputs(problem, answers, verify is not None),
        answered=list(answers),
        atol=float(atol),
        verify="" if verify is None else _verify_text(verify),
    )
    known = None if cache is None else Cache(cache, whole, problem_size, arguments)
    results = {} if known is None else known.results(rules)
    any_left = not results or _any_left(whole, rules, results)
    if results:
        rules = [*rules, unknown(problem.parameters, results.values())]
    options = {
        **search,
        "policy": _policy(iterations),
        "timeout": timeout,
        "progress": False if quiet else None,
    }
    with tempfile.TemporaryDirectory() if folder is None else nullcontext(os.fspath(folder)) as at:
        place = write_problem(Path(at).absolute(), whole, arguments, answers)
        new = _measured(whole, rules, place, known, options if any_left else None)
    results.update(new)
    for result in results.values():
        add_metrics(result, chosen)
    if known is not None and chosen:
        known.add(results)
        known.flush()
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
        print(_told(best, listed, [*problem.parameters, "time", *chosen]))
    return listed, env


def _measured(
    problem: Problem,
    rules: Sequence[Restriction],
    place: Path,
    known: Cache | None,
    options: Mapping[str, Any] | None,
) -> dict[str, Result]:
    """Measure configurations, and return their results, which a cache gets as they come.

    `place`: the folder of the problem; its log may have some of them.
    `options`: of `tune`; None if there is nothing to measure.
    """
    log = place / "log.jsonl"

    def on_event(event: Event) -> None:
        if known is not None and isinstance(event, Measured):
            known.add(results_of([event.record]))

    try:
        if options is not None:
            template = RestrictedTemplate.of(problem, rules)
            tune(template, {"problem": str(place)}, log=log, callbacks=[on_event], **options)
        trials = [r for r in RecordStore(log).load() if is_legal(rules, r.config["values"])]
        found = results_of(trials)
        if known is not None:
            known.add(found)
    finally:
        if known is not None:
            known.flush()
    return found


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
        As in Kernel Tuner; `params` has a value of each parameter.

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
    refuse({"smem_args": smem_args, "cmem_args": cmem_args, "texmem_args": texmem_args})
    check_type("params", params, Mapping, "a dict")
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
    check_type("kernel_name", name, str, "a text")
    check_type("compiler", compiler, (str, NoneType), "a text")
    if options is not None:
        check_texts("compiler_options", options)
    check_language(lang, source)
    chosen, flags = compiler_of(compiler, options)
    if not is_generated(source):
        flags += openmp_flags(text_of(source), flags)
    return Problem(
        name,
        "",
        language_of(source, chosen),
        chosen,
        flags,
        os.getcwd(),
        parameters_of(choices),
        {"kernel_tuner": 1},
        arguments_of(arguments),
        [],
    )


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
    check_type("defines", defines, (Mapping, NoneType), "a dict")
    if not is_generated(source) and defines is None:
        return text_of(source)
    if _size(problem) > _MOST_TEXTS:
        raise UsageError(
            f"texts are made for {_MOST_TEXTS} configurations at most: give a text that uses the "
            "parameters as macros"
        )
    return {
        key_of(params): generated_text(source, defines, problem.defines, params)
        for params in _configurations(problem)
        if is_legal(rules, params)
    }


def _size(problem: Problem) -> int:
    return math.prod(map(len, problem.parameters.values()))


def _configurations(problem: Problem) -> Iterator[dict[str, Any]]:
    rows = itertools.product(*problem.parameters.values())
    return (dict(zip(problem.parameters, row, strict=True)) for row in rows)


def _any_left(problem: Problem, rules: Sequence[Restriction], known: Container[str]) -> bool:
    """Whether a configuration is to be measured still; of a large space it is taken to be so."""
    return _size(problem) > _MOST_TEXTS or any(
        key_of(params) not in known and is_legal(rules, params)
        for params in _configurations(problem)
    )


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
