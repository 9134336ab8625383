"""The interface by which rules define knobs, and how many knobs they define.

The knobs of one stage have its number in their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, Protocol

from autotune.target import Target


class KnobDefiner(Protocol):
    """Defines knobs: `autotune.template.Knobs`, or an object that replaces it."""

    @property
    def target(self) -> Target:
        """The target of the schedule."""

    def define_knob(self, name: str, values: Sequence[Any], default: Any = None) -> Any:
        """Define a knob and return its value; its default is the first one if none is given."""

    def add_constraint(self, condition: Any, message: str) -> None:
        """Make configurations infeasible in which a condition is false."""


#: Most configurations of one structure: spaces have at most 2^63, and structures other knobs.
_CONFIGURATIONS: Final = 1 << 54


class LimitedKnobs:
    """Defines knobs until the space is large; what would be further knobs have their defaults."""

    def __init__(self, cfg: KnobDefiner) -> None:
        self.target = cfg.target
        self.add_constraint = cfg.add_constraint
        self._define = cfg.define_knob
        self._left = _CONFIGURATIONS

    def define_knob(self, name: str, values: Sequence[Any], default: Any = None) -> Any:
        """Define a knob and return its value, or return its default."""
        if len(values) > self._left:
            return values[0] if default is None else default
        self._left //= len(values)
        return self._define(name, values, default)


class StageKnobs:
    """Defines the knobs of one stage: `name`, or `name_2` for the second stage of a computation.

    `cfg`: where knobs are defined.
    `number`: number of the stage, from 1.
    """

    def __init__(self, cfg: KnobDefiner, number: int) -> None:
        self.cfg = cfg
        self.target = cfg.target
        self.add_constraint = cfg.add_constraint
        self.suffix = f"_{number}" if number > 1 else ""

    def define_knob(self, name: str, values: Sequence[Any], default: Any = None) -> Any:
        """Define a knob of this stage and return its value, as `KnobDefiner.define_knob`."""
        return self.cfg.define_knob(f"{name}{self.suffix}", values, default)


class Effort(IntEnum):
    """Number of knobs of a contraction; each multiplies the size of the space and the traces."""

    FEW = 0  # the width of its tiles
    NUMBERS = 1  # no axes or orders to choose
    ALL = 2
