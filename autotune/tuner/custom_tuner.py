"""Tuners that users write: their proposals are checked, and their errors take one line."""

from __future__ import annotations

import itertools
import operator
import reprlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from autotune.cost_model.base import FeatureSource
from autotune.errors import AutotuneError, UsageError
from autotune.system.plugins import errors_of, make_object
from autotune.system.words import one_line
from autotune.tuner.base import Observation, Tuner
from search_spaces.space import Space


class CustomTuner(Tuner):
    """Asks and tells an object of a user.

    make: called with the space, the seed, and ``features`` if it has a parameter of this name. It
        returns an object with the methods `ask` and `tell` of a `Tuner`; others are optional.
    name: what messages call it.

    UsageError if the object lacks a method; AutotuneError, here and later, if its code fails, or it
    proposes something that is no candidate, or was proposed before.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        name: str,
        space: Space,
        seed: int,
        features: FeatureSource | None = None,
    ) -> None:
        super().__init__(space, seed)
        self._name = f"tuner {name!r}"
        self._own = make_object(make, self._name, space, seed, features=features)
        for method in ("ask", "tell"):
            if not callable(getattr(self._own, method, None)):
                raise UsageError(f"{self._name} makes an object without the method {method!r}")
        self.why_no_more = f"{self._name} proposes no more"
        self.held_back = getattr(self._own, "held_back", 0)
        self.estimates_gain = getattr(self._own, "estimates_gain", False)

    def _propose(self, n: int) -> list[int]:
        with errors_of(f"{self._name} fails at ask"):
            found = self._own.ask(n)
            several = itertools.islice(found, n + 1) if isinstance(found, Iterable) else None
            proposals = None if several is None else list(several)
        if proposals is None:
            raise self._fault(f"returned {reprlib.repr(found)}, not a list of candidates")
        if len(proposals) > n:
            raise self._fault(f"returned more candidates than the {n} it was asked for")
        checked: dict[int, None] = {}
        for proposal in proposals:
            index = self._checked(proposal)
            if index in checked or index in self._seen:
                raise self._fault(f"proposed candidate {index} again: each may be proposed once")
            checked[index] = None
        return list(checked)

    def _checked(self, proposal: object) -> int:
        """Return a candidate's index; AutotuneError if there is no such candidate."""
        try:
            index = operator.index(proposal)  # type: ignore[arg-type]
        except TypeError:
            index = -1
        if not 0 <= index < len(self.space):
            raise self._fault(
                f"proposed {reprlib.repr(proposal)}: candidates are indices from 0 to "
                f"{len(self.space) - 1}"
            )
        return index

    def _fault(self, what: str) -> AutotuneError:
        return AutotuneError(one_line(f"{self._name} {what}"))

    def tell(self, observations: Iterable[Observation]) -> None:
        """Take in measurements; see :meth:`Tuner.tell`."""
        told = list(observations)
        super().tell(told)
        if told:
            with errors_of(f"{self._name} fails at tell"):
                self._own.tell(told)

    def think(self) -> None:
        """Let it work for its next proposals, if it does; see :meth:`Tuner.think`."""
        with errors_of(f"{self._name} fails at think"):
            self._optional("think")

    def preparations(self) -> Iterator[None]:
        """Let it prepare, if it does; see :meth:`Tuner.preparations`."""
        with errors_of(f"{self._name} fails at preparations"):
            yield from self._optional("preparations") or ()

    def expected_gain(self) -> float | None:
        """Return its estimate, if it has one; see :meth:`Tuner.expected_gain`."""
        with errors_of(f"{self._name} fails at expected_gain"):
            gain = self._optional("expected_gain")
            return None if gain is None else float(gain)

    def _optional(self, method: str) -> Any:
        """Call a method that it may have; None if it has none."""
        return getattr(self._own, method, lambda: None)()
