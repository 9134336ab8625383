"""`autotune templates`: the templates that have a name, and their arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from autotune.cli.options.multi_value_options import Command
from autotune.cli.options.shared_options import Json, command_app
from autotune.cli.terminal.output import print_error, print_line, width
from autotune.errors import UsageError
from autotune.operators.template_lookup import ANY, TemplateEntry, list_templates
from autotune.report.text_tables import table
from autotune.template import Template, TemplateParameter

app = command_app()


@app.command(cls=Command)
def templates(as_json: Json = False) -> None:
    """List the named templates and their arguments."""
    found = list(_loaded())
    if as_json:
        rows = [
            {
                "name": entry.name,
                "target": entry.target or ANY,
                "location": entry.location,
                "description": template.description,
                "parameters": [_as_json(parameter) for parameter in template.parameters],
            }
            for entry, template in found
        ]
        print_line(json.dumps(rows))
        return
    lines = [
        (entry.name, entry.target or ANY, f"{', '.join(map(_as_text, template.parameters))}")
        for entry, template in found
    ]
    print_line(table(["template", "target", "arguments"], lines, width()))


def _loaded() -> Iterator[tuple[TemplateEntry, Template]]:
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
