"""A package that is installed, as far as anybody can tell: modules and entry points in a folder."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    points: Mapping[str, Mapping[str, str]],
    modules: Mapping[str, str] | None = None,
    name: str = "somebodys_package",
) -> None:
    """Make a distribution and put its folder on the path.

    points: entry points by group, each a place by name.
    modules: texts by name.
    """
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = [
        "\n".join([f"[{group}]", *(f"{key} = {place}" for key, place in named.items())])
        for group, named in points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups) + "\n")
    for module, text in (modules or {}).items():
        (folder / f"{module}.py").write_text(text)
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.syspath_prepend(folder)
