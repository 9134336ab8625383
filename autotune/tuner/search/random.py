"""Random search without replacement: the baseline every other tuner has to beat."""

from __future__ import annotations

from autotune.tuner.base import Tuner


class RandomTuner(Tuner):
    """Draws feasible candidates uniformly, each once."""

    def _propose(self, n: int) -> list[int]:
        return self._sample(n, self._generator())
