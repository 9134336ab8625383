"""What a kernel should compute, as a template's NumPy reference says it.

Computed once per workload, from the inputs that candidates see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autotune.errors import UsageError, told
from autotune.measure.accuracy import Array


def expected_outputs(
    reference: Callable[..., Any], inputs: Sequence[Array], outputs: Sequence[Array], name: str
) -> list[Array]:
    """Call a template's reference, and check that it returns arrays like the outputs.

    Parameters
    ----------
    reference : callable
        Takes the input arrays, which are read-only; returns the output array or a sequence of them.
    inputs, outputs : sequence of ndarray
        Outputs give shapes and dtypes only.
    name : str
        The template's name, for messages.

    Returns
    -------
    list of ndarray
        C-contiguous, of the outputs' dtypes, sharing no memory with the inputs.

    Raises
    ------
    UsageError
        If it fails, or returns something of another number or shape.
    """
    try:
        with np.errstate(all="ignore"):
            returned = reference(*map(_read_only, inputs))
    except Exception as error:
        hint = "; it may not change its inputs, only return new arrays"
        raise UsageError(
            f"the reference of template {name!r} failed: {type(error).__name__}: {told(error)}"
            + (hint if "read-only" in told(error) else "")
        ) from error
    found = list(returned) if isinstance(returned, list | tuple) else [returned]
    if len(found) != len(outputs):
        raise UsageError(
            f"the reference of template {name!r} returned {len(found)} arrays, "
            f"but the template has {len(outputs)} outputs"
        )
    for number, (got, output) in enumerate(zip(found, outputs, strict=True)):
        if np.shape(got) != output.shape:
            raise UsageError(
                f"the reference of template {name!r} returned shape {np.shape(got)} "
                f"for output {number}, which has shape {output.shape}"
            )
    with np.errstate(all="ignore"):
        return [
            np.array(got, dtype=output.dtype, order="C")
            for got, output in zip(found, outputs, strict=True)
        ]


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view
