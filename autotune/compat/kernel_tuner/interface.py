"""`tune_kernel` and `run_kernel`: their arguments become a template for `autotune.tune`.

In order: arguments are checked (`arguments`, `strategies`, `restrictions`), the kernel becomes
plain data (`kernels`, `problem`), it is measured (`measuring`), and results are made (`results`).
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autotune.compat.kernel_tuner.arguments import (
    check_folder,
    check_number,
    check_type,
    objective_of,
    refuse,
)
from autotune.compat.kernel_tuner.cache import Cache
from autotune.compat.kernel_tuner.kernels import (
    KernelArguments,
    any_left,
    configurations,
    with_answers,
)
from autotune.compat.kernel_tuner.measuring import (
    check_verified,
    device_facts,
    folder_of,
    measured,
    policy_of,
    run,
)
from autotune.compat.kernel_tuner.problem import Problem, write_problem
from autotune.compat.kernel_tuner.restrictions import (
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
    summary,
    totals_of,
)
from autotune.compat.kernel_tuner.strategies import search_of
from autotune.runtime.cpu.c_compiler import version_of

_MOST_CHECKED = 10_000  # Configurations that restrictions are tried with in advance.

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
    simulation_mode: bool | None = None,
    parallel: bool | int | None = None,
    observers: Any = None,
    objective: str | None = None,
    objective_higher_is_better: bool | None = None,
    objectives: Mapping[str, bool] | None = None,
    seed: int | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    timeout: float = 60.0,
) -> tuple[list[Result], dict[str, Any]]:
    """Tune a kernel in CUDA C++, or a function in C or C++ that returns the milliseconds it took.

    Parameters
    ----------
    kernel_name, kernel_source, problem_size, arguments, tune_params, ...
        As in Kernel Tuner; docs/compat.md has a table. What can have no meaning here is refused;
        for functions in C what is about devices and grids of threads changes nothing.
    folder : path, optional
        Where the arguments and the log of records are kept; by default they are temporary.
    timeout : float
        Seconds that a configuration may take to be compiled, and again to run.

    Returns
    -------
    results : list of dict
        For each configuration its parameters, "time" (the median, in ms) and "times", metrics, and
        what was spent on it, in ms. What failed has an `ErrorConfig` as "time" and "__error__", and
        an "error".
    env : dict
        The device, the compiler, the best configuration and totals.

    Raises
    ------
    UsageError
        If an argument is not what it should be, or is about what this call cannot do; or if a
        function of the user fails. What was measured before is kept: the message says where.
    TargetError
        If a kernel is in CUDA C++, and there is no GPU that can be used.
    """
    begin = time.perf_counter()
    refuse({"observers": observers, "simulation_mode": simulation_mode})
    objective, higher = objective_of(objective, objective_higher_is_better, objectives)
    check_number("atol", atol, 0)
    check_number("iterations", iterations, 1, whole=True)
    if folder is not None:
        check_folder(folder)
    given = KernelArguments(
        kernel_name, kernel_source, problem_size, arguments, grid_div_x, grid_div_y, grid_div_z,
        lang, device, smem_args, cmem_args, texmem_args, compiler, compiler_options, defines,
        block_size_names,
    )  # fmt: skip
    described = given.problem(tune_params)
    parameters = described.parameters
    chosen = check_metrics(metrics, objective, parameters)
    larger = is_larger_better(objective, higher)
    described, answers = with_answers(described, answer, atol, verify)
    rules = restrictions_of(restrictions, list(parameters))
    _try_restrictions(described, rules)
    search, first = search_of(strategy, strategy_options, objective, parameters, seed)
    problem = replace(given.with_text(described, rules), first=first)
    target = given.target(problem)
    facts = device_facts(target)
    known = None
    if cache is not None:
        name = facts["device_name"]
        known = Cache(cache, problem, problem_size, arguments, name, objective)
    options = {
        **search,
        "target": target,
        "policy": policy_of(iterations),
        "timeout": timeout,
        "progress": False if quiet else None,
    }
    with folder_of(folder, known) as at:
        place = write_problem(at, problem, arguments, answers)
        results = _results(problem, rules, place, known, options)
        check_verified(list(results.values()))
        for result in results.values():
            add_metrics(result, chosen)
        listed = list(results.values())
        best = best_of(listed, objective, larger)
    if known is not None and chosen:
        known.add(results)
        known.flush()
    env: dict[str, Any] = {
        **facts,
        **({} if problem.is_cuda else {"CC Version": version_of(problem.compiler)}),
        "iterations": iterations,
        "compiler_options": compiler_options,
        **totals_of(listed, time.perf_counter() - begin),
    }
    if listed:
        env["best_config"] = listed[0] if best is None else best
    if not quiet:
        print(summary(best, listed, [*parameters, "time", *chosen]))
    return listed, env


def _try_restrictions(problem: Problem, rules: Sequence[Restriction]) -> None:
    """Raise UsageError now if a restriction fails for one of the first configurations."""
    for params in itertools.islice(configurations(problem), _MOST_CHECKED):
        is_legal(rules, params)


def _results(
    problem: Problem,
    rules: Sequence[Restriction],
    place: Any,
    known: Cache | None,
    options: Mapping[str, Any],
) -> dict[str, Result]:
    """Return the results of a cache, and then those of what it lacks."""
    results = {} if known is None else known.results(rules)
    is_any_left = not results or any_left(problem, rules, results)
    left = [*rules, unknown(problem.parameters, results.values())] if results else rules
    results.update(measured(problem, left, place, known, options if is_any_left else None))
    return results


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
    """Compile a kernel in C, C++ or CUDA C++ and run it once, in this process.

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
    TargetError
        If it is in CUDA C++, and there is no GPU that can be used.
    """
    check_type("params", params, Mapping, "a dict")
    given = KernelArguments(
        kernel_name, kernel_source, problem_size, arguments, grid_div_x, grid_div_y, grid_div_z,
        lang, device, smem_args, cmem_args, texmem_args, compiler, compiler_options, defines,
        block_size_names,
    )  # fmt: skip
    described = given.problem({name: [value] for name, value in params.items()})
    problem = replace(given.with_text(described, []), outputs=described.arrays)
    values = {name: choices[0] for name, choices in problem.parameters.items()}
    return run(problem, values, arguments, given.target(problem))
