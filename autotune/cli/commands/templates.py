"""`autotune templates`: the templates that have a name, and their arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from autotune.cli.terminal.output import print_error, print_line, width
from autotune.errors import UsageError

if TYPE_CHECKING:
    from autotune.operators.template_lookup import TemplateEntry
    from autotune.template import Template, TemplateParameter


def templates_command(as_json: bool) -> None:
    """Print the templates, as a table or as JSON; warn of those that cannot be loaded."""
    from autotune.report.text_tables import table

    found = list(_loaded())
    if as_json:
        rows = [
            {
                "name": entry.name,
                "target": entry.target,
                "location": entry.location,
                "description": template.description,
                "parameters": [_as_json(parameter) for parameter in template.parameters],
            }
            for entry, template in found
        ]
        print_line(json.dumps(rows))
        return
    lines = [
        (entry.name, entry.target, f"{', '.join(map(_as_text, template.parameters))}")
        for entry, template in found
    ]
    print_line(table(["template", "target", "arguments"], lines, width()))


def _loaded() -> Iterator[tuple[TemplateEntry, Template]]:
    from autotune.operators.template_lookup import list_templates

    for entry in list_templates():
        try:
            yield entry, entry.load()
        except UsageError as error:
            print_error(f"warning: {error}")


def _as_json(parameter: TemplateParameter) -> dict[str, Any]:
    described: dict[str, Any] = {"name": parameter.name, "type": parameter.type.__name__}
    if not parameter.required:
        described["default"] = parameter.default
    return described


def _as_text(parameter: TemplateParameter) -> str:
    return parameter.name if parameter.required else f"{parameter.name}={parameter.default}"
