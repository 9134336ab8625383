"""Checks that NumPy, the interpreter before and after finalising, and LLVM agree on a schedule.

Inputs are small whole numbers unless given, so that the order of sums does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import KnobVar
from autotune.ir.stmt import PrimFunc
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import PlaceholderOp, Tensor
from support.te_reference import Reference, random_array
from support.verify import verify


def lowered(
    schedule: Schedule, tensors: Sequence[Tensor], knobs: Mapping[KnobVar, int] | None = None
) -> tuple[PrimFunc, PrimFunc]:
    """Return the analysed and the final function, verified."""
    function = verify(lower_schedule(schedule, tensors), allow_knobs=True)
    analysed = verify(analyse(function, knobs))
    return analysed, verify(finalise(analysed))


def assert_computes(
    schedule: Schedule,
    tensors: Sequence[Tensor],
    arrays: Mapping[Tensor, Any] | None = None,
    knobs: Mapping[KnobVar, int] | None = None,
    compiled: bool = True,
) -> PrimFunc:
    """Run the schedule in every way and compare the outputs; return the final function."""
    analysed, final = lowered(schedule, tensors, knobs)
    rng = np.random.default_rng(0)
    given = dict(arrays or {})
    for tensor in tensors:
        if isinstance(tensor.op, PlaceholderOp) and tensor not in given:
            given[tensor] = random_array(rng, tensor.shape, tensor.dtype)
    reference = Reference(given)
    expected = {t: reference.array(t) for t in tensors if t not in given}
    ways: dict[str, Any] = {
        "interpreted before finalising": lambda *a: interpret(analysed, a),
        "interpreted after finalising": lambda *a: interpret(final, a),
    }
    if compiled:
        ways["compiled"] = compile_function(final, cache=ObjectCache(None))
    for how, run in ways.items():
        results = {t: np.full(want.shape, 77, want.dtype) for t, want in expected.items()}
        run(*(results[t] if t in results else np.array(given[t]) for t in tensors))
        for tensor, want in expected.items():
            np.testing.assert_allclose(
                results[tensor], want, rtol=1e-5, atol=1e-6, err_msg=f"{how}: {tensor.name}"
            )
    return final


def assert_gives(
    schedule: Schedule, tensors: Sequence[Tensor], inputs: Sequence[Any], want: Any
) -> PrimFunc:
    """Check the only output against `want`, in every way; return the analysed function."""
    analysed, final = lowered(schedule, tensors)
    compiled = compile_function(final, cache=ObjectCache(None))
    for execute in (
        lambda *a: interpret(analysed, a),
        lambda *a: interpret(final, a),
        compiled,
    ):
        out = np.full_like(want, 77)
        execute(*inputs, out)
        np.testing.assert_allclose(out, want, rtol=1e-6)
    return analysed


def numbers(*shape: int, dtype: str = "float32") -> Any:
    """Return small whole numbers, always the same."""
    return np.random.default_rng(1).integers(-9, 10, shape).astype(dtype)
