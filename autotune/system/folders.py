"""Folders of this user's compiled code and settings.

AUTOTUNE_CACHE_DIR and AUTOTUNE_CONFIG_DIR name others; empty, they count as not set.
"""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "AUTOTUNE_CACHE_DIR"
CONFIG_VARIABLE = "AUTOTUNE_CONFIG_DIR"


def cache_folder() -> Path:
    """Return the folder of cached files; it need not exist."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(os.path.expanduser(chosen))
    from platformdirs import user_cache_path

    return user_cache_path("autotune")


def config_folder() -> Path:
    """Return the folder of the user's settings; it need not exist."""
    chosen = os.environ.get(CONFIG_VARIABLE)
    if chosen:
        return Path(os.path.expanduser(chosen))
    from platformdirs import user_config_path

    return user_config_path("autotune")
