"""Finds the default configuration, for builds without measurements, with little tracing."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np

from autotune.errors import InstantiationError
from autotune.trace.explore import known_space
from autotune.trace.structure import Structure
from autotune.trace.tracer import Structures

#: Largest distance in knob steps from illegal defaults, and configurations that are tried.
_FARTHEST: Final = 3
_MAX_TRIED: Final = 16


def default_structure(structures: Structures) -> Structure | None:
    """Return the structure of the knobs' defaults, or of the nearest legal values around.

    The template runs with plain numbers. Only if the defaults break a rule, it is traced with
    symbols: then the rules of the traced paths are known for all values.

    InstantiationError if the template fails for the defaults, other than by a rule about knobs.

    Returns None if no tried configuration around the defaults is legal.
    """
    found = structures.alone({})
    if found.error and not isinstance(found.cause, InstantiationError):
        raise InstantiationError(found.error) from found.cause
    if not found.refusal({}):
        return found
    structures.of({})
    space = known_space(structures)
    defaults = np.array([[knob.default for knob in space.knobs]], dtype=np.int64)
    near = space.by_distance(int(space.indices_of(defaults)[0]), _FARTHEST)
    for index in itertools.islice(near, _MAX_TRIED):
        found = structures.alone(space.config(index).values)
        if not found.refusal({}):
            return found
    return None
