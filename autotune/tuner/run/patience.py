"""The stop rule: enough when a tuner expects too little of what is left to measure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from autotune.errors import UsageError

if TYPE_CHECKING:  # what a command line is read with costs no imports
    from autotune.tuner.base import Tuner

CALM = 8
"""The estimate must stay low over so many measurements: a model may be sure too early."""


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
        check_share(share)
        if not tuner.estimates_gain:
            raise UsageError("patience needs a tuner that estimates its gain: use the tuner model")
        self._tuner = tuner
        self._share = share
        self._low_since: int | None = None

    def reason_to_stop(self, gain: float | None) -> str | None:
        """Return why to stop now, with the tuner's estimate of its gain; None to go on.

        Asked before each proposal.
        """
        if gain is None:
            return None
        known = len(self._tuner.observations)
        if gain >= self._share:
            self._low_since = None
            return None
        if self._low_since is None:
            self._low_since = known
        if known < self._low_since + CALM:
            return None
        return (
            f"further measurements are expected to gain {100 * gain:.2g} %, "
            f"less than the {100 * self._share:g} % asked for"
        )


def check_share(share: float) -> None:
    """Raise UsageError unless patience is a share."""
    if not (math.isfinite(share) and 0.0 < share < 1.0):
        raise UsageError(
            f"patience is a share between 0 and 1, such as 0.01 for 1 %, not {share:g}"
        )
