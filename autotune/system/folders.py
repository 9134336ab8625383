"""Folders of this user's compiled code and settings; environment variables name others."""

from __future__ import annotations

import os
from pathlib import Path

from autotune.system.environment_variables import CACHE_VARIABLE, CONFIG_VARIABLE


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
