"""A digest of the package's files: nodes with the same version may still have different code.

In: the installed packages. Out: versions and a digest, which must be equal on all machines.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from autotune.runtime import environment

# Packages whose versions have to be the same everywhere; of Python its first two numbers.
SAME_VERSIONS = ("autotune", "llvmlite", "numpy")

# The packages of this distribution, all in one folder.
PACKAGES = ("autotune", "features", "records", "search_spaces")


def package_folders() -> list[Path]:
    """Return the folders of the packages, as this process has loaded them."""
    import importlib.util

    found = (importlib.util.find_spec(name) for name in PACKAGES)
    return [Path(spec.origin).parent for spec in found if spec is not None and spec.origin]


def package_facts() -> dict[str, str]:
    """Return what has to be the same on all machines: versions, and our own files."""
    versions = environment.versions()
    found = {"Python": ".".join(versions["python"].split(".")[:2])}
    found |= {name: versions[name] for name in SAME_VERSIONS if name in versions}
    return found | {"files of autotune": package_digest()}


@functools.cache
def package_digest() -> str:
    """Return a digest of all files of Python of the packages."""
    digest = hashlib.sha256()
    for name, folder in zip(PACKAGES, package_folders(), strict=True):
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{name}/{path.relative_to(folder)}".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
