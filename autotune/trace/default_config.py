"""Finds the default configuration, which is built without measurements, with little tracing."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np

from autotune.errors import InstantiationError
from autotune.trace.explore import known_space
from autotune.trace.structure import Structure
from autotune.trace.tracer import Structures

#: Steps of knobs away from defaults that are refused, and configurations that are tried there.
_FARTHEST: Final = 3
_MAX_TRIED: Final = 16


def default_structure(structures: Structures) -> Structure | None:
    """Return the structure of the knobs' defaults, or of the nearest legal values around.

    It is made with plain numbers. Only where the defaults break a rule is more traced than this
    one configuration: then what the ways taken so far refuse is known of all values at once.

    Returns
    -------
    Structure or None
        None if nothing that was tried around the defaults is legal.

    Raises
    ------
    InstantiationError
        If the template fails for the defaults, other than by a rule about knobs.
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
