"""The environment of child processes: they import the same package as their parent."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path


def own_environment() -> dict[str, str]:
    """Return an environment in which child processes import this package, installed or not."""
    environment = dict(os.environ)
    root = Path(__file__).resolve().parents[2]
    paths = sysconfig.get_paths()
    if root not in (Path(paths["purelib"]).resolve(), Path(paths["platlib"]).resolve()):
        inherited = [path for path in [environment.get("PYTHONPATH")] if path]
        environment["PYTHONPATH"] = os.pathsep.join([str(root), *inherited])
    return environment
