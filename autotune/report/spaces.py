"""A search space as text: knobs, constraints with the configurations they reject, one config."""

from __future__ import annotations

from autotune.report.tables import table, wrap
from search_spaces import Knob, Space
from search_spaces.space import ENUMERABLE

MOST_VALUES = 8
"""Values of a knob that are written out."""

MOST_REASONS = 3
"""Reasons for which a template refuses configurations that are written out."""

_RAISED = "template: "
"""How the name of a rule begins that stands for an exception of the template."""


def space_text(title: str, space: Space, index: int | None, label: str, width: int) -> str:
    """Return the description of a space.

    Parameters
    ----------
    title : str
    space : Space
    index : int or None
        A configuration to show under `label`.
    label : str
    width : int
        Columns of the terminal.
    """
    parts = [wrap(title, width, "    "), _sizes(space)]
    if space.knobs:
        knobs = [(knob.name, str(len(knob)), _values(knob)) for knob in space.knobs]
        parts += ["", table(["knob", "values#", "which"], knobs, width)]
    if space.constraints:
        counts = _rejections(space)
        rules = [(count, name) for name, count in counts.items()]
        parts += ["", table(["rejects#", "constraint"], rules, width)]
    if index is not None:
        config = space.config(index)
        parts += ["", wrap(f"{label} {index}: {config.describe()}", width, "    ")]
    return "\n".join(parts)


def _sizes(space: Space) -> str:
    if len(space) > ENUMERABLE:
        return f"{len(space)} configurations"
    return f"{len(space)} configurations, {len(space.feasible_indices())} allowed"


def legal_lines(space: Space) -> list[str]:
    """Return how much of a space is legal, and what the template itself refuses and why."""
    if len(space) > ENUMERABLE:
        return [f"space {len(space)}, too large to count what is legal"]
    lines = [f"space {len(space)}, {len(space.feasible_indices())} legal"]
    raised = [
        (count, name.removeprefix(_RAISED))
        for name, count in space.rejections().items()
        if count and name.startswith(_RAISED)
    ]
    raised.sort(key=lambda pair: -pair[0])
    lines += [f"{count} of {len(space)} refused: {why}" for count, why in raised[:MOST_REASONS]]
    rest = raised[MOST_REASONS:]
    if rest:
        total = sum(count for count, _ in rest)
        lines.append(f"{total} of {len(space)} refused for {len(rest)} other reasons")
    return lines


def _rejections(space: Space) -> dict[str, str]:
    """Count what each rule rejects; a space too large for that has "?"."""
    if len(space) > ENUMERABLE:
        return {rule.name: "?" for rule in space.constraints}
    return {name: str(count) for name, count in space.rejections().items()}


def _values(knob: Knob) -> str:
    shown = [str(knob.value(position)) for position in range(min(len(knob), MOST_VALUES))]
    return ", ".join(shown) + (", ..." if len(knob) > MOST_VALUES else "")
