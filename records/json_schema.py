"""The JSON Schema of a line of a log, for other programs (draft 2020-12).

Reading a log does not use it: `record_checks.py` says the same, and says it in words.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def json_schema() -> dict[str, Any]:
    """Return the schema that a line of a log follows, as parsed JSON."""
    text = resources.files("records").joinpath("record.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
