"""Grid, block and shared memory of kernels in CUDA C++, as Kernel Tuner's arguments give them."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune import te
from autotune.compat.kernel_tuner.arguments import shown, whole_number
from autotune.compat.kernel_tuner.expressions import called, parsed, value_of
from autotune.errors import UsageError
from search_spaces.expression import parse_expression

BLOCK_SIZE_NAMES = ("block_size_x", "block_size_y", "block_size_z")

_THREADS = 256  # Of a block, if no parameter says how many.

#: A number or an expression of parameters.
Size = int | str


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched, for all configurations: plain data."""

    #: Elements along x, y and z.
    problem_size: Sequence[Size]
    #: What is computed by a block, along each: the product of some sizes.
    divisors: Sequence[Sequence[Size]]
    #: Names of the parameters that are the threads of a block.
    block_size_names: Sequence[str]
    #: Bytes of dynamic shared memory.
    shared: Size = 0

    def at(self, values: Mapping[str, Any]) -> tuple[list[Any], list[Any], Any]:
        """Return blocks, threads of a block, and shared memory for values or symbols."""
        grid = [
            _blocks(_size(size, values), [_size(one, values) for one in divisors])
            for size, divisors in zip(self.problem_size, self.divisors, strict=True)
        ]
        block = [
            values.get(name, default)
            for name, default in zip(self.block_size_names, (_THREADS, 1, 1), strict=True)
        ]
        return grid, block, _size(self.shared, values)

    def macros(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the macros of grid and block."""
        grid, block, _ = self.at(values)
        found = dict(zip(("grid_size_x", "grid_size_y", "grid_size_z"), grid, strict=True))
        return {**found, **dict(zip(self.block_size_names, block, strict=True))}


@dataclass(frozen=True)
class LaunchArguments:
    """The arguments that say how a kernel is launched, some of which may be functions."""

    problem_size: Any
    divisors: Sequence[Any]
    block_size_names: Sequence[str]
    smem_args: Any = None

    @property
    def any_function(self) -> bool:
        """Whether a launch depends on a function of the user."""
        found = [self.problem_size, self._shared, *self.divisors]
        found += [one for each in self.divisors if isinstance(each, (list, tuple)) for one in each]
        return any(map(callable, found))

    @property
    def _shared(self) -> Any:
        return (self.smem_args or {}).get("size", 0)

    def launch(self, params: Mapping[str, Any], names: Collection[str]) -> Launch:
        """Return the launch of a configuration, or of all if no function is among the arguments.

        `names`: of the parameters.

        Raises UsageError if an argument is not what it should be, or a function fails.
        """
        size = _made("problem_size", self.problem_size, params)
        is_one = isinstance(size, (str, int, float, np.number))
        listed = [size] if is_one else size
        if not isinstance(listed, (list, tuple, np.ndarray)) or not 1 <= len(listed) <= 3:
            raise UsageError(f"problem_size must be 1 to 3 sizes, got {shown(size)}")
        sizes = [_checked("problem_size", one, params, names) for one in listed]
        own: list[list[Size]] = []
        for axis, given, name in zip("xyz", self.divisors, self.block_size_names, strict=True):
            what = f"grid_div_{axis}"
            if given is None:
                own.append([name] if name in names else [])
                continue
            several = given if isinstance(given, (list, tuple)) else [given]
            own.append([_checked(what, one, params, names) for one in several])
        shared = _checked("smem_args: size", self._shared, params, names)
        return Launch([*sizes, 1, 1][:3], own, list(self.block_size_names), shared)


def block_size_names_of(given: Any, names: Collection[str]) -> list[str]:
    """Return the names of the parameters that are the threads of a block.

    By default they are `BLOCK_SIZE_NAMES`, in any case.

    Raises UsageError if they are no names.
    """
    by_default = [
        next((name for name in names if name.lower() == own), own) for own in BLOCK_SIZE_NAMES
    ]
    if given is None:
        return by_default
    listed = given if isinstance(given, (list, tuple)) else [given]
    if len(listed) > 3 or not all(isinstance(name, str) for name in listed):
        raise UsageError(f"block_size_names must be a list of up to 3 names, got {shown(given)}")
    return [*listed, *by_default[len(listed) :]]


def check_shared_memory(smem_args: Any) -> None:
    """Raise UsageError unless an argument says how much shared memory there is."""
    if smem_args is not None and (not isinstance(smem_args, Mapping) or "size" not in smem_args):
        raise UsageError(f"smem_args must be a dict with a size in bytes, got {shown(smem_args)}")


def _made(what: str, given: Any, params: Mapping[str, Any]) -> Any:
    return called(what, given, dict(params)) if callable(given) else given


def _checked(what: str, given: Any, params: Mapping[str, Any], names: Collection[str]) -> Size:
    """Return a size; UsageError if it is none."""
    made = _made(what, given, params)
    if isinstance(made, str):
        parsed(made, what, names)
        return made
    try:
        return whole_number(what, made, 0)
    except UsageError:
        raise UsageError(
            f"{what}: {shown(made)} is no whole number >= 0 and no expression of parameters"
        ) from None


@functools.cache
def _parsed(text: str) -> Callable[[Mapping[str, Any]], Any]:
    return functools.partial(value_of, parse_expression(text))


def _size(given: Size, values: Mapping[str, Any]) -> Any:
    found = _parsed(given)(values) if isinstance(given, str) else given
    return int(found) if isinstance(found, (float, bool)) else found


def _blocks(size: Any, divisors: Sequence[Any]) -> Any:
    divisor = functools.reduce(operator.mul, divisors, 1)
    if isinstance(divisor, int) and divisor < 1:
        raise UsageError(f"grid divisors must be at least 1, got {divisor}")
    if isinstance(size, int) and isinstance(divisor, int):
        return math.ceil(size / divisor)
    return te.ceildiv(size, divisor)
