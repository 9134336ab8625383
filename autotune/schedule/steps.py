"""Schedule steps as data, to print, store, replay and fingerprint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autotune.errors import ScheduleError
from autotune.schedule.expr_serialization import Term, knobs_of, term_text, with_knobs


@dataclass(frozen=True)
class Step:
    """One primitive applied to one stage.

    Attributes
    ----------
    primitive : str
        Its name, such as "split".
    stage : str
        Label of the stage, unique in its schedule; of the new stage if the primitive makes one.
    args : tuple
        Plain data: axes as name#position among all axes of their stage, as names repeat; stages
        and tensors by label, sizes and conditions as terms (see `expr_serialization`), None for
        omitted arguments.
    """

    primitive: str
    stage: str
    args: tuple[Term | None, ...]

    def __str__(self) -> str:
        return f"{self.stage}.{self.primitive}({', '.join(map(term_text, self.args))})"

    def with_knobs(self, values: Mapping[str, int]) -> Step:
        """Return the step with knobs replaced by their values."""
        return Step(self.primitive, self.stage, tuple(with_knobs(a, values) for a in self.args))

    def to_json(self) -> list[Any]:
        """Return ``[primitive, stage, arguments...]``.

        Raises
        ------
        ScheduleError
            If a size depends on a knob: a stored step belongs to a single configuration.
        """
        for name in (name for arg in self.args for name in knobs_of(arg)):
            raise ScheduleError(
                f"step `{self}` depends on knob {name!r}; give its value, as in "
                f"to_json({{{name!r}: 4}})"
            )
        return [self.primitive, self.stage, *map(_plain, self.args)]

    @classmethod
    def from_json(cls, data: object) -> Step:
        """Return the step of ``[primitive, stage, arguments...]``, or of a step.

        Raises
        ------
        ScheduleError
            If it is neither.
        """
        if isinstance(data, Step):
            return data
        if isinstance(data, (list, tuple)) and [isinstance(s, str) for s in data[:2]] == [True] * 2:
            return cls(data[0], data[1], tuple(map(_frozen, data[2:])))
        raise ScheduleError(
            f"expected a step as [primitive, stage, arguments...], got {data!r}; give what to_json "
            "gave"
        )


def _plain(value: Term) -> Any:
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Term:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value
