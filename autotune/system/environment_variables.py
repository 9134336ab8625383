"""Names of the environment variables that autotune reads; empty, they count as not set."""

from __future__ import annotations

CACHE_VARIABLE = "AUTOTUNE_CACHE_DIR"
"""Folder of compiled code."""

CONFIG_VARIABLE = "AUTOTUNE_CONFIG_DIR"
"""Folder of the user's settings."""

OPERATIONS_VARIABLE = "AUTOTUNE_TILE_OPERATIONS"
"""Most operations of a contraction of a Tile function."""

VARIABLES = (CACHE_VARIABLE, CONFIG_VARIABLE, OPERATIONS_VARIABLE)
"""All of them."""
