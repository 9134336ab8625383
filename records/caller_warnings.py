"""Warnings that point at the user's line, however deep the call is.

Every package of this distribution warns through this one.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from types import FrameType

_PACKAGES = ("autotune", "features", "records", "search_spaces")
# The folders of these packages, which are installed in one folder.
_OWN = tuple(f"{Path(__file__).parents[1] / name}{os.sep}" for name in _PACKAGES)


def is_own(file: str) -> bool:
    """Whether a file belongs to these packages: messages to users do not name it."""
    return file.startswith(_OWN)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of something at the innermost line outside of these packages."""
    level = 2
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame.f_code.co_filename):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
