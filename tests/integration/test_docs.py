"""The Python blocks of the documents run, in order, in one namespace per document."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from autotune.schedule.annotations import Annotations
from autotune.schedule.loops import LoopStructure
from autotune.schedule.placement import Placement

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["te.md", "dtypes.md"])
def test_the_blocks_of_a_document_run(name: str) -> None:
    text = (DOCS / name).read_text()
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    assert blocks
    space: dict[str, Any] = {}
    for block in blocks:
        above = text[: block.start(1)].count("\n")
        code = compile("\n" * above + block[1], str(DOCS / name), "exec")
        exec(code, space)


def test_the_page_of_schedules_is_what_its_generator_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(DOCS)
    generator = importlib.import_module("generate_schedule")
    assert (DOCS / "schedule.md").read_text() == generator.page(), (
        "run python docs/generate_schedule.py"
    )


def test_every_primitive_has_a_section() -> None:
    text = (DOCS / "schedule.md").read_text()
    families = (LoopStructure, Annotations, Placement)
    methods = [name for family in families for name in vars(family) if not name.startswith("_")]
    primitives = {f"s[B].{name}" for name in methods}
    primitives |= {"s.cache_read", "s.cache_write", "s.rfactor"}
    for primitive in primitives:
        assert f"### `{primitive}(" in text, primitive


def test_links_between_documents_lead_somewhere() -> None:
    for path in [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"
