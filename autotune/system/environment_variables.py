"""The environment variables that autotune reads and sets, and the folders that they name.

Empty ones count as not set.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

CACHE_VARIABLE = "AUTOTUNE_CACHE_DIR"  # Folder of compiled code.
CONFIG_VARIABLE = "AUTOTUNE_CONFIG_DIR"  # Folder of the user's settings.

# Most operations of a contraction of a Tile function.
OPERATIONS_VARIABLE = "AUTOTUNE_TILE_OPERATIONS"

VARIABLES = (CACHE_VARIABLE, CONFIG_VARIABLE, OPERATIONS_VARIABLE)  # All of them.


@contextmanager
def changed_environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables for libraries that are loaded, or processes started, meanwhile."""
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


def own_environment() -> dict[str, str]:
    """Return an environment in which child processes import this package, installed or not."""
    environment = dict(os.environ)
    root = Path(__file__).resolve().parents[2]
    paths = sysconfig.get_paths()
    if root not in (Path(paths["purelib"]).resolve(), Path(paths["platlib"]).resolve()):
        inherited = [path for path in [environment.get("PYTHONPATH")] if path]
        environment["PYTHONPATH"] = os.pathsep.join([str(root), *inherited])
    return environment


_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def load_numpy_for_one_thread() -> None:
    """Load NumPy with a BLAS that uses no threads of its own, unless the environment says more.

    Threads of a BLAS spin for a while after each call, next to builds and kernels that are being
    timed; for matrices as small as a tuner's two threads took four times as long as one on a busy
    machine. Other processes that are started later are not affected.
    """
    if "numpy" in sys.modules:
        return
    with changed_environment({name: os.environ.get(name, "1") for name in _VARIABLES}):
        import numpy  # noqa: F401, it reads the environment now


def cache_folder() -> Path:
    """Return the folder of cached files; it need not exist."""
    return _folder(CACHE_VARIABLE, "user_cache_path")


def config_folder() -> Path:
    """Return the folder of the user's settings; it need not exist."""
    return _folder(CONFIG_VARIABLE, "user_config_path")


def _folder(variable: str, usual: str) -> Path:
    chosen = os.environ.get(variable)
    if chosen:
        return Path(os.path.expanduser(chosen))
    import platformdirs

    found: Path = getattr(platformdirs, usual)("autotune")
    return found
