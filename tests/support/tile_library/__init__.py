"""Tile functions as operator libraries write them, with NumPy's equals and what is differentiated.

They use what the tutorial of Tile does not have: sizes computed by `max` and `min`, sizes given as
numbers, assertions, built-in functions, `default`, bits, random numbers.
"""

from __future__ import annotations

from support.tile_library import elements, layers, shapes
from support.tile_library.table import LIBRARY

__all__ = ["LIBRARY", "elements", "layers", "shapes"]
