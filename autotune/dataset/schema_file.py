"""The schema file of a data set: a description of its columns for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotune.errors import UsageError
from features import FEATURE_VERSION
from records.files import open_to_read
from records.table import Field, csv_options

FORMAT = "autotune data set"
VERSION = 1  # Version of the schema file and of the columns beside the features.


def schema_path(data: Path) -> Path:
    """Return where the schema of a data set is."""
    return data.with_name(f"{data.name}.schema.json")


def schema_text(data: Path, fields: Sequence[Field], layouts: Sequence[str], rows: int) -> str:
    """Return the content of the schema file."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "feature_version": FEATURE_VERSION,
        "file": data.name,
        "rows": rows,
        "layouts": list(layouts),
        "columns": [field.to_json() for field in fields],
    }
    if data.suffix == ".csv":
        content["read_csv"] = csv_options(fields)
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read_schema(data: Path) -> list[Field]:
    """Return the columns of a data set, from the schema file beside it.

    UsageError if there is none, or it is not one that this version understands. RecordError if a
    column is not what it should be.
    """
    path = schema_path(data)
    try:
        with open_to_read(path) as file:
            content = json.loads(file.read())
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}; the schema stands beside its data set"
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UsageError(f"{path} is not a schema of a data set: its format is not {FORMAT!r}")
    if content.get("version") != VERSION:
        raise UsageError(
            f"{path} is of version {content.get('version')}, this autotune reads {VERSION}"
        )
    columns = content.get("columns")
    if not isinstance(columns, list):
        raise UsageError(f"{path} is not a schema of a data set: it has no list of columns")
    return [Field.from_json(column) for column in columns]
