"""The Python blocks of the documents run, in order, in one namespace per document."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["te.md"])
def test_the_blocks_of_a_document_run(name: str) -> None:
    text = (DOCS / name).read_text()
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    assert blocks
    space: dict[str, Any] = {}
    for block in blocks:
        above = text[: block.start(1)].count("\n")
        code = compile("\n" * above + block[1], str(DOCS / name), "exec")
        exec(code, space)


def test_links_between_documents_lead_somewhere() -> None:
    for path in [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"
