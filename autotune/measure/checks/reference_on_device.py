"""The reference of a template on the arrays of a device, if it takes them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from autotune.measure.candidate import describe
from autotune.runtime.device import Device, Host

_log = logging.getLogger(__name__)


class ReferenceOnDevice:
    """A reference that is computed on a device where that is possible, else on the CPU.

    NumPy's functions hand their work to the library that an array is of. So a reference that is
    written with them may run on either; what it raises on the device decides.

    function: function of the input arrays: of the device's library, or of NumPy alone.
    """

    def __init__(self, device: Device, function: Callable[..., Any]) -> None:
        self._device = device
        self._function = function
        self._only_on_cpu = device.is_host

    def __call__(self, *inputs: Host) -> Any:
        """Return the right answers."""
        found = self.on_device(*inputs)
        return self._function(*inputs) if found is None else found

    def on_device(self, *inputs: Host) -> list[Host] | None:
        """Return the right answers computed on the device; None if it takes NumPy's arrays only."""
        device, xp = self._device, self._device.xp
        if self._only_on_cpu or any(device.stored_as(a.dtype.name) != a.dtype for a in inputs):
            return None
        try:
            returned = self._function(*map(xp.asarray, inputs))
            found = list(returned) if isinstance(returned, list | tuple) else [returned]
            if all(isinstance(array, xp.ndarray) for array in found):
                return [device.download(array) for array in found]
        except Exception as error:  # whatever NumPy has and the library has not; too large for it
            _log.info("the reference runs on the CPU: %s", describe(error))
        self._only_on_cpu = True
        return None

    def timed_call(self, inputs: list[Any], outputs: list[Any]) -> Callable[[], object]:
        """Return a call on arrays of the device that leaves whole outputs in memory.

        NumPy's own functions write into the outputs, as candidates do; what others return counts
        when it lies in memory like an output: a view of the inputs is copied.
        """
        function, contiguous = self._function, self._device.xp.ascontiguousarray
        if isinstance(function, np.ufunc):
            return partial(function, *inputs, out=tuple(outputs))

        def call() -> None:
            found = function(*inputs)
            for array in found if isinstance(found, list | tuple) else [found]:
                contiguous(array)

        return call
