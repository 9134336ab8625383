"""A search space as text and as JSON: knobs, what rules reject, one configuration."""

from __future__ import annotations

from typing import Any

from autotune.report.text_tables import table, wrap
from autotune.report.units import percent_text
from autotune.system.words import counted
from search_spaces import FeasibilityCounts, Knob, Space
from search_spaces.rejection_counts import SAMPLE

MAX_VALUES = 8  # Most values of a knob that are listed.
MAX_REASONS = 3  # Most reasons for refused configurations that are listed.

# The beginning of the name of a rule that is an exception of the template.
_RAISED = "template: "


def space_text(
    title: str, space: Space, counts: FeasibilityCounts, index: int | None, label: str, width: int
) -> str:
    """Return the description of a space.

    counts: what its rules reject, and those that show only when a configuration is tried.
    index: a configuration to show under `label`.
    width: columns of the terminal.
    """
    parts = [wrap(title, width, "    "), wrap(_sizes(counts), width, "    ")]
    if space.knobs:
        knobs = [(knob.name, str(len(knob)), _values(knob)) for knob in space.knobs]
        parts += ["", table(["knob", "values#", "which"], knobs, width)]
    if counts.rules:
        rules = [
            (str(rule.first), "?" if rule.total is None else str(rule.total), rule.name)
            for rule in counts.rules
        ]
        parts += ["", table(["rejects#", "in all#", "constraint"], rules, width)]
    if index is not None:
        config = space.config(index)
        parts += ["", wrap(f"{label} {index}: {config.describe()}", width, "    ")]
    return "\n".join(parts)


def space_json(space: Space, counts: FeasibilityCounts, index: int | None) -> dict[str, Any]:
    """Return the description of a space as data; parameters as of `space_text`."""
    return {
        "configurations": counts.size,
        "counted": counts.counted,
        "allowed": counts.feasible,
        "rules": [
            {"rule": rule.name, "rejects": rule.first, "rejects_in_all": rule.total}
            for rule in counts.rules
        ],
        "knobs": [
            {"name": knob.name, "values": len(knob), "default": knob.value(knob.default)}
            for knob in space.knobs
        ],
        "config": None if index is None else space.config(index).to_json(),
    }


def _sizes(counts: FeasibilityCounts) -> str:
    if counts.exact:
        return f"{counted(counts.size, 'configuration')}, {counts.feasible} allowed"
    if not counts.feasible:
        return f"{counts.size} configurations, none of {counts.counted} drawn is allowed"
    share = percent_text(counts.feasible / counts.counted)
    return (
        f"{counts.size} configurations, about {share} allowed: "
        f"{counts.feasible} of {counts.counted} drawn"
    )


def legal_lines(space: Space, one_by_one: bool = False) -> list[str]:
    """Return the legal share of a space, and the template's own refusals with their reasons.

    Of a template that runs for one configuration at a time nothing is known beforehand. A run
    begins with these lines, so that only small spaces are counted and others sampled: in 0.1 s.
    """
    if one_by_one:
        return [f"space {len(space)}, what is legal shows when it is proposed"]
    counts = space.tally(most=SAMPLE >> 2, sample=SAMPLE >> 4)
    of = f"of {counts.counted}{'' if counts.exact else ' drawn'}"
    legal = f"{counts.feasible} legal" if counts.exact else f"{counts.feasible} {of} legal"
    lines = [f"space {counts.size}, {legal}"]
    raised = [
        (rule.first, rule.name.removeprefix(_RAISED))
        for rule in counts.rules
        if rule.first and rule.name.startswith(_RAISED)
    ]
    raised.sort(key=lambda pair: -pair[0])
    lines += [f"{count} {of} refused: {why}" for count, why in raised[:MAX_REASONS]]
    rest = raised[MAX_REASONS:]
    if rest:
        total = sum(count for count, _ in rest)
        lines.append(f"{total} {of} refused for {len(rest)} other reasons")
    return lines


def _values(knob: Knob) -> str:
    shown = [str(knob.value(position)) for position in range(min(len(knob), MAX_VALUES))]
    return ", ".join(shown) + (", ..." if len(knob) > MAX_VALUES else "")
