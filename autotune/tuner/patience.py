"""The stop rule: enough when a tuner expects too little of what is left to measure."""

from __future__ import annotations

import math
from collections import deque

from autotune.errors import UsageError
from autotune.tuner.base import Tuner

CALM = 8
"""So many estimates in a row must be low: a model that knows little may be sure too early."""


class Patience:
    """Says when further measurements are not worth their while.

    Parameters
    ----------
    tuner : Tuner
        One that estimates the gain of going on.
    share : float
        Stop when the expected gain, as a share of the best time so far, is below this.

    Raises
    ------
    UsageError
        If `share` is not between 0 and 1, or the tuner estimates no gain.
    """

    def __init__(self, tuner: Tuner, share: float) -> None:
        if not (math.isfinite(share) and 0.0 < share < 1.0):
            raise UsageError(
                f"patience is a share between 0 and 1, such as 0.01 for 1 %, not {share:g}"
            )
        if not tuner.estimates_gain:
            raise UsageError("patience needs a tuner that estimates its gain: use --tuner model")
        self._tuner = tuner
        self._share = share
        self._estimates: deque[float] = deque(maxlen=CALM)

    def reason_to_stop(self) -> str | None:
        """Return why to stop now, with the estimate; None to go on. Asked before each proposal."""
        gain = self._tuner.expected_gain()
        if gain is None:
            return None
        self._estimates.append(gain)
        if len(self._estimates) < CALM or max(self._estimates) >= self._share:
            return None
        return (
            f"further measurements are expected to gain {100 * max(self._estimates):.2g} %, "
            f"less than the {100 * self._share:g} % asked for"
        )
