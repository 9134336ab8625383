"""Names of the environment variables that autotune reads; empty, they count as not set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

CACHE_VARIABLE = "AUTOTUNE_CACHE_DIR"
"""Folder of compiled code."""

CONFIG_VARIABLE = "AUTOTUNE_CONFIG_DIR"
"""Folder of the user's settings."""

OPERATIONS_VARIABLE = "AUTOTUNE_TILE_OPERATIONS"
"""Most operations of a contraction of a Tile function."""

VARIABLES = (CACHE_VARIABLE, CONFIG_VARIABLE, OPERATIONS_VARIABLE)
"""All of them."""


@contextmanager
def changed_environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables for what is loaded or started meanwhile."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
