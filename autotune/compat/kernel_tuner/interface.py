"""`tune_kernel` and `run_kernel`: their arguments become a template for `autotune.tune`.

In order: arguments are checked (`arguments`, `strategies`, `restrictions`), the kernel becomes
plain data (`kernels`, `problem`), it is measured or simulated (`runners`), and results are made
(`results`, `metrics`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autotune.compat.kernel_tuner.arguments import (
    RESERVED,
    check_folder,
    check_type,
    number,
    refuse,
    whole_number,
)
from autotune.compat.kernel_tuner.cache import Cache, RecordedCache
from autotune.compat.kernel_tuner.kernels import KernelArguments, first_legal, with_answers
from autotune.compat.kernel_tuner.metrics import Metrics, Scoring
from autotune.compat.kernel_tuner.problem import Array, Problem, write_problem
from autotune.compat.kernel_tuner.restrictions import Restriction, restrictions_of
from autotune.compat.kernel_tuner.results import Result, milliseconds_of, summary, totals_of
from autotune.compat.kernel_tuner.runners.measuring import (
    check_verified,
    folder_of,
    policy_of,
    results_by_key,
)
from autotune.compat.kernel_tuner.runners.simulation import simulated
from autotune.compat.kernel_tuner.runners.single_run import device_facts, run
from autotune.compat.kernel_tuner.strategies import search_of
from autotune.errors import UsageError

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
        function of the user fails. What was measured before is kept: the message says where. So it
        is if the call is interrupted, and a line on stderr says it.
    TargetError
        If a kernel is in CUDA C++, and there is no GPU that can be used.
    """
    begin = time.perf_counter()
    refuse({"observers": observers})
    times, seconds = whole_number("iterations", iterations, 1), number("timeout", timeout, above=0)
    if folder is not None:
        check_folder(folder)
    kernel = KernelArguments(
        kernel_name, kernel_source, problem_size, arguments, grid_div_x, grid_div_y, grid_div_z,
        lang, device, smem_args, cmem_args, texmem_args, compiler, compiler_options, defines,
        block_size_names,
    )  # fmt: skip
    described = kernel.problem(tune_params)
    names = list(described.parameters)
    scoring = Scoring.of(metrics, objective, objective_higher_is_better, objectives, names)
    described, answers = with_answers(described, answer, number("atol", atol, 0), verify)
    rules = restrictions_of(restrictions, names)
    scoring.try_on(first_legal(described, rules))
    search, first = search_of(
        strategy, strategy_options, scoring.objective, described.parameters, seed
    )
    call = _Call(kernel, replace(described, first=first), answers, rules, scoring, search)
    if simulation_mode:
        results, facts = call.simulated(cache)
    else:
        options = {"policy": policy_of(times), "timeout": float(seconds)}
        options["progress"] = False if quiet else None
        results, facts = call.measured(cache, folder, options)
    best = scoring.best(results)
    env = {
        **facts,
        "iterations": times,
        "compiler_options": compiler_options,
        **totals_of(results, time.perf_counter() - begin),
    }
    if results:
        env["best_config"] = results[0] if best is None else best
    if not quiet:
        print(summary(best, results, [*names, "time", *scoring.metrics]))
    return results, env


@dataclass(frozen=True)
class _Call:
    """The arguments of `tune_kernel`, once they are checked."""

    kernel: KernelArguments
    #: What is known of the kernel before its text and its launch are.
    described: Problem
    #: The right values of arrays, by position.
    answers: Mapping[int, Array]
    rules: Sequence[Restriction]
    scoring: Scoring
    #: The arguments of `tune` that say how to search.
    search: Mapping[str, Any]

    def measured(
        self,
        cache: str | os.PathLike[str] | None,
        folder: str | os.PathLike[str] | None,
        options: Mapping[str, Any],
    ) -> tuple[list[Result], dict[str, Any]]:
        """Return the results, those of a cache first, and what is known of the device.

        `options`: of `tune`, beside the search.
        """
        kernel, scoring = self.kernel, self.scoring
        problem = kernel.with_text(self.described, self.rules)
        target = kernel.target(problem)
        facts = device_facts(problem, target)
        opened = None
        if cache is not None:
            size, name = kernel.problem_size, facts["device_name"]
            opened = Cache(cache, problem, size, kernel.arguments, name, scoring.objective)
        options = {**self.search, "target": target, **options}
        with folder_of(folder, opened) as at:
            place = write_problem(at, problem, kernel.arguments, self.answers)
            by_key = results_by_key(problem, self.rules, place, opened, options, scoring.check)
            results = list(by_key.values())
            check_verified(results)
            scoring.add_to(results)
            scoring.best(results)  # what is wrong with it is told while the measurements are kept
        if opened is not None and scoring.metrics:
            opened.add(by_key)
            opened.flush()
        return results, facts

    def simulated(
        self, cache: str | os.PathLike[str] | None
    ) -> tuple[list[Result], dict[str, Any]]:
        """Return the results that a search in a cache visits, and the environment of the call."""
        if cache is None:
            raise UsageError("simulation_mode needs a cache, whose results it returns")
        opened = RecordedCache(cache, self.described, self.kernel.problem_size)
        results = list(simulated(self.described, self.rules, opened, self.search).values())
        self.scoring.add_to(results)
        spent_ms = sum(map(milliseconds_of, results))
        return results, {
            "device_name": opened.device_name,
            "simulation": True,
            "simulated_time": spent_ms,
        }


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
        As in Kernel Tuner; `params` has a value of each parameter, or is a result.

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
    if "time" in params:  # a result of `tune_kernel`
        params = {n: v for n, v in params.items() if n not in RESERVED and n.isidentifier()}
    kernel = KernelArguments(
        kernel_name, kernel_source, problem_size, arguments, grid_div_x, grid_div_y, grid_div_z,
        lang, device, smem_args, cmem_args, texmem_args, compiler, compiler_options, defines,
        block_size_names,
    )  # fmt: skip
    described = kernel.problem({name: [value] for name, value in params.items()})
    problem = replace(kernel.with_text(described, []), outputs=described.arrays)
    values = {name: choices[0] for name, choices in problem.parameters.items()}
    return run(problem, values, arguments, kernel.target(problem))
