"""New arrays for the outputs of a call, of the library that its inputs are of."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from autotune.ir import dtypes
from autotune.runtime.backends import backend_of
from autotune.runtime.cpu.aligned_arrays import aligned_zeros
from autotune.runtime.device import DeviceFunction
from autotune.runtime.foreign_arrays import library_of
from autotune.runtime.signature import ArrayParameter
from autotune.target import Target


class ReturningCall:
    """A built function that is called with its inputs, and returns its outputs as new arrays.

    They are of PyTorch or JAX (on the CPU) where the first input is, else of NumPy or CuPy.

    `built`: takes inputs, then outputs.
    `parameters`: what it takes, of fixed shapes.
    """

    def __init__(
        self, built: DeviceFunction, parameters: Sequence[ArrayParameter], target: Target
    ) -> None:
        self._built = built
        self._outputs = [
            (p.fixed or (), p.dtype, dtypes.numpy_dtype(p.dtype)) for p in parameters if p.is_output
        ]
        self._target = target

    def __call__(self, *inputs: Any) -> Any:
        """Return the output of some inputs, a tuple if there are several."""
        library = library_of(inputs[0]) if inputs else ""
        is_for_jax = library == "jax" and self._target.on_cpu
        if library == "torch":
            torch = sys.modules["torch"]
            device = inputs[0].device
            made = [
                torch.empty(shape, dtype=getattr(torch, name), device=device)
                for shape, name, _ in self._outputs
            ]
        elif is_for_jax:
            made = [aligned_zeros(shape, dtype) for shape, _, dtype in self._outputs]
        else:
            empty = backend_of(self._target).empty
            made = [empty(shape, dtype, inputs) for shape, _, dtype in self._outputs]
        self._built(*inputs, *made)
        if is_for_jax:
            # Nobody else has these arrays. As they are aligned, JAX copies none.
            device_put, device = sys.modules["jax"].device_put, inputs[0].device
            made = [device_put(array, device, may_alias=True) for array in made]
        return made[0] if len(made) == 1 else tuple(made)
