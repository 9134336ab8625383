"""What a dispatch makes: a function that picks one of a few kernels by the sizes of its arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any

from autotune.runtime.cpu.dispatch_rule import Rule, pick
from autotune.runtime.cpu.llvm_compiler import ChoiceFunction, compile_function
from autotune.runtime.signature import Signature
from autotune.shape_dispatch.candidates import Candidate
from autotune.task.task import Task


@dataclass(frozen=True)
class ShapeLoss:
    """The loss of one shape: how much slower the picked kernel is than the best one for it.

    `sizes`: its open sizes.
    `best_s`: seconds of the best kernel for this shape alone, timed in turns with the others.
    `kernel`: number of the kernel that is picked.
    `loss`: 0.1 if it takes 1.1 times as long as the best.
    `left_out`: the same for the kernel that is picked if this shape is not known beforehand.
    """

    sizes: Mapping[str, int]
    best_s: float
    kernel: int
    loss: float
    left_out: float


class Dispatch:
    """A function for many shapes: a few kernels for all sizes, and the rule that picks one.

    Nothing is compiled in this process, nor written, before it is called or saved.

    Attributes
    ----------
    template : Template
    target : Target
    open_sizes : tuple of str
        The arguments that calls know.
    args : dict
        The others.
    kernels : tuple of Candidate
        What the kernels are made by.
    rule : Rule
        Which of them is picked.
    shapes : list of ShapeLoss
        What each shape loses.
    shortfall : str
        A line that says which shapes lose more than was asked for, and why; empty if none does.
    """

    def __init__(
        self,
        task: Task,
        open_sizes: Sequence[str],
        kernels: Sequence[Candidate],
        rule: Rule,
        shapes: Sequence[ShapeLoss],
        name: str | None = None,
        shortfall: str = "",
    ) -> None:
        self._task = task
        self.template = task.template
        self.target = task.target
        self.open_sizes = tuple(open_sizes)
        self.kernels = tuple(kernels)
        self.rule = rule
        self.shapes = list(shapes)
        self.shortfall = shortfall
        self.name = name or task.template.name
        first = kernels[0].args
        self.args = {n: value for n, value in first.items() if n not in open_sizes}

    def pick(self, **sizes: int) -> int:
        """Return the number of the kernel for some sizes, by their names."""
        return pick(self.rule, sizes)

    @cached_property
    def function(self) -> ChoiceFunction:
        """The compiled kernels and rule as one function."""
        made = []
        for number, kernel in enumerate(self.kernels):
            function = kernel.task(self._task.with_args).prepared_of(kernel.config).main
            named = replace(function, name=f"{self.name}_{number}")
            made.append(compile_function(named, self.target))
        whole = next(
            kernel.signature
            for kernel, by in zip(made, self.kernels, strict=True)
            if by.open_sizes == self.open_sizes
        )
        signature = Signature(self.name, whole.parameters, whole.sizes, whole.at_least)
        return ChoiceFunction(signature, self.rule, made)

    @property
    def source(self) -> str:
        """Text that is compiled."""
        return self.function.source

    def __call__(self, *arrays: Any) -> None:
        """Run on arrays of the CPU, inputs then outputs, C-contiguous and of any sizes that fit.

        Raises
        ------
        ArgumentError
            As of a built function.
        """
        self.function(*arrays)

    def bind(self, *arrays: Any) -> Callable[[], None]:
        """Check the arrays once and return a call without arguments, for calls in a row."""
        return self.function.bind(*arrays)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a shared library and its C header, as `BuiltFunction.save` does."""
        from autotune.runtime.save_library import save

        workload = {
            "template": self.template.name,
            "args": self.args,
            "open_sizes": list(self.open_sizes),
        }
        save(self.function, path, workload=workload)

    def __repr__(self) -> str:
        sizes = ", ".join(self.open_sizes)
        return f"<dispatch of {self.template.name} over {sizes}: {len(self.kernels)} kernels>"
