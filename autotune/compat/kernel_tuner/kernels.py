"""The kernel of a call, from the arguments that describe it, as plain data that workers read."""

from __future__ import annotations

import inspect
import itertools
import math
import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import NoneType
from typing import Any

import numpy as np

from autotune.compat.kernel_tuner.arguments import (
    arguments_of,
    check_texts,
    check_type,
    parameters_of,
    refuse,
    whole_number,
)
from autotune.compat.kernel_tuner.launches import (
    LaunchArguments,
    block_size_names_of,
    check_shared_memory,
)
from autotune.compat.kernel_tuner.problem import VERIFY, Array, Problem, key_of
from autotune.compat.kernel_tuner.restrictions import Restriction, is_legal
from autotune.compat.kernel_tuner.sources import (
    UNROLL,
    check_constants,
    checked_language,
    compiler_of,
    generated_text,
    is_generated,
    language_of,
    nvrtc_flags,
    openmp_flags,
    text_of,
    with_constants,
)
from autotune.errors import UsageError
from autotune.operators.function_source import text_with_what_it_uses
from autotune.target import Target

_MOST_TEXTS = 100_000  # Configurations whose texts are made in advance.
_MOST_CHECKED = 10_000  # Configurations that restrictions are tried with in advance.


@dataclass(frozen=True)
class KernelArguments:
    """The arguments of a call that are about the kernel alone, as they are given."""

    kernel_name: Any
    kernel_source: Any
    problem_size: Any
    arguments: Any
    grid_div_x: Any
    grid_div_y: Any
    grid_div_z: Any
    lang: Any
    device: Any
    smem_args: Any
    cmem_args: Any
    texmem_args: Any
    compiler: Any
    compiler_options: Any
    defines: Any
    block_size_names: Any

    def problem(self, choices: Any) -> Problem:
        """Return what is known of the kernel before its text, its launch and its answers are.

        `choices`: of each parameter.

        Raises UsageError if an argument is not what it should be.
        """
        check_type("kernel_name", self.kernel_name, str, "a text")
        check_type("compiler", self.compiler, (str, NoneType), "a text")
        check_type("defines", self.defines, (Mapping, NoneType), "a dict")
        if self.compiler_options is not None:
            check_texts("compiler_options", self.compiler_options)
        is_cuda = checked_language(self.lang, self.kernel_source) == "CUDA"
        refuse({"texmem_args": self.texmem_args}, is_cuda)
        if not is_cuda:
            refuse({"smem_args": self.smem_args, "cmem_args": self.cmem_args})
        language, compiler, flags = (self._by_nvrtc if is_cuda else self._by_compiler)()
        return Problem(
            self.kernel_name,
            "",
            language,
            compiler,
            flags,
            os.getcwd(),
            parameters_of(choices),
            {"kernel_tuner": 1},
            arguments_of(self.arguments),
            [],
        )

    def _by_nvrtc(self) -> tuple[str, str, list[str]]:
        whole_number("device", self.device, 0)
        check_shared_memory(self.smem_args)
        check_constants(self.cmem_args)
        return "cuda", "", nvrtc_flags(self.compiler_options, os.getcwd())

    def _by_compiler(self) -> tuple[str, str, list[str]]:
        chosen, flags = compiler_of(self.compiler, self.compiler_options)
        if not is_generated(self.kernel_source):
            flags += openmp_flags(text_of(self.kernel_source), flags)
        return language_of(self.kernel_source, chosen), chosen, flags

    def with_text(self, problem: Problem, rules: Sequence[Restriction]) -> Problem:
        """Return a problem with its text and its launch, for each legal configuration if need be.

        Raises UsageError if a function of the user fails, or there are too many configurations.
        """
        if not problem.is_cuda:
            return replace(problem, text=self._texts(problem, rules))
        names = block_size_names_of(self.block_size_names, list(problem.parameters))
        divisors = (self.grid_div_x, self.grid_div_y, self.grid_div_z)
        given = LaunchArguments(self.problem_size, divisors, names, self.smem_args)
        if not given.any_function:
            launch = asdict(given.launch({}, list(problem.parameters)))
        else:
            launch = {
                key_of(params): asdict(given.launch(params, list(problem.parameters)))
                for params in _legal(problem, rules)
            }
        whole = replace(problem, launch=launch)
        return replace(whole, text=self._texts(whole, rules))

    def _texts(self, problem: Problem, rules: Sequence[Restriction]) -> str | dict[str, str]:
        """Return the text, or one per configuration if they differ in more than macros."""
        source, unrolls = self.kernel_source, any(UNROLL in name for name in problem.parameters)
        if not is_generated(source) and self.defines is None and not (problem.is_cuda and unrolls):
            return with_constants(text_of(source), self.cmem_args)
        return {
            key_of(params): generated_text(
                with_constants(text_of(source, params), self.cmem_args),
                self.defines,
                {**problem.defines, **problem.launch_macros(params)},
                params,
                problem.is_cuda,
            )
            for params in _legal(problem, rules)
        }

    def target(self, problem: Problem) -> Target:
        """Return the target that a problem is tuned for."""
        if not problem.is_cuda:
            return Target.of("llvm")
        return Target.of(f"cuda -device={int(self.device)}" if self.device else "cuda")


def with_answers(
    problem: Problem, answer: Any, atol: float, verify: Callable[..., Any] | None
) -> tuple[Problem, dict[int, Array]]:
    """Return a problem with what its answers are compared by, and the right values of arrays.

    Raises UsageError if an argument is not what it should be.
    """
    answers = _answers_of(answer, problem)
    whole = replace(
        problem,
        outputs=_outputs(problem, answers, verify is not None),
        answered=list(answers),
        atol=float(atol),
        verify="" if verify is None else _verify_text(verify),
        verify_name=getattr(verify, "__name__", ""),
    )
    return whole, answers


def _answers_of(answer: Sequence[Any] | None, problem: Problem) -> dict[int, Array]:
    """Return the right values of arrays, by position; what is left out at the end has none."""
    found: dict[int, Array] = {}
    given = [] if answer is None else answer
    check_type("answer", given, (list, tuple), "a list with an array or None for each argument")
    for n, (right, own) in enumerate(itertools.zip_longest(given, problem.arguments)):
        if own is None:
            raise UsageError(f"answer has {len(given)} items, and arguments fewer")
        if right is None or n not in problem.arrays:
            continue
        if np.size(right) != math.prod(own[1]):
            raise UsageError(
                f"answer: item {n} has {np.size(right)} elements, the argument {math.prod(own[1])}"
            )
        found[n] = np.asarray(right)
    return found


def size_of(problem: Problem) -> int:
    """Return the number of configurations, legal or not."""
    return math.prod(map(len, problem.parameters.values()))


def configurations(problem: Problem) -> Iterator[dict[str, Any]]:
    """Return all configurations, legal or not."""
    rows = itertools.product(*problem.parameters.values())
    return (dict(zip(problem.parameters, row, strict=True)) for row in rows)


def _legal(problem: Problem, rules: Sequence[Restriction]) -> list[dict[str, Any]]:
    """Return the legal configurations; UsageError if there are too many to list, or none."""
    if size_of(problem) > _MOST_TEXTS:
        raise UsageError(
            f"texts and launches are made for {_MOST_TEXTS} configurations at most: give a text "
            "that uses the parameters as macros, and launches without functions"
        )
    found = [params for params in configurations(problem) if is_legal(rules, params)]
    if not found:
        raise _none_left(problem, rules)
    return found


def _none_left(problem: Problem, rules: Sequence[Restriction]) -> UsageError:
    names = ", ".join(one.name.rstrip(",") for one in rules)
    return UsageError(
        f"restrictions leave none of the {size_of(problem)} configurations of tune_params: {names}"
    )


def any_left(problem: Problem, rules: Sequence[Restriction], known: Container[str]) -> bool:
    """Whether a configuration is left to measure; assumed to be true for a large space."""
    return size_of(problem) > _MOST_TEXTS or any(_left(problem, rules, known))


def count_left(problem: Problem, rules: Sequence[Restriction], known: Container[str]) -> int:
    """Return how many legal configurations are not known; 0 of a space that is too large."""
    return 0 if size_of(problem) > _MOST_TEXTS else sum(_left(problem, rules, known))


def _left(problem: Problem, rules: Sequence[Restriction], known: Container[str]) -> Iterator[bool]:
    """Yield for each configuration whether it is legal and not known."""
    return (
        key_of(params) not in known and is_legal(rules, params)
        for params in configurations(problem)
    )


def first_legal(problem: Problem, rules: Sequence[Restriction]) -> dict[str, Any]:
    """Return a legal configuration; of a large space without one among the first, any.

    Raises UsageError if there is none, or a restriction fails for one of the first.
    """
    listed = itertools.islice(configurations(problem), _MOST_CHECKED)
    legal = [params for params in listed if is_legal(rules, params)]
    if legal:
        return legal[0]
    if size_of(problem) > _MOST_CHECKED:
        return next(configurations(problem))
    raise _none_left(problem, rules)


def _outputs(problem: Problem, answers: Mapping[int, Array], verified: bool) -> list[int]:
    """Return the positions of the arrays that are checked: one at least, if it may be anything."""
    if verified:
        return problem.arrays
    smallest = min(problem.arrays, key=lambda n: math.prod(problem.arguments[n][1]))
    return list(answers) or [smallest]


def _verify_text(verify: Callable[..., Any]) -> str:
    """Return the text of the user's comparison for workers, which call it by one name."""
    if not inspect.isfunction(verify):
        raise UsageError(f"verify must be a function that is written with def, not {verify!r}")
    try:
        text = text_with_what_it_uses(verify)
    except UsageError as error:
        raise UsageError(f"verify: {error}") from error
    takes_atol = "atol" in inspect.signature(verify).parameters
    given = "answer, result" + ", atol=atol" * takes_atol
    return f"{text}\n\ndef {VERIFY}(answer, result, atol):\n    return {verify.__name__}({given})\n"
