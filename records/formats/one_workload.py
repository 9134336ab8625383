"""Shared code for formats with one workload per file: extra fields, and knobs with list values.

Such a format has no fields for the template, its arguments, the target and the device. They are
written under the key "autotune", which other tools ignore.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from records.record import Record

Values = Mapping[str, Any]
Names = dict[str, list[str]]  # The knobs that stand for the items of a list, by its knob.


def description(record: Record, names: Names | None = None) -> dict[str, Any]:
    """Return what records of one workload, target and device have in common."""
    kept = ("template", "args", "constant")
    return {
        "workload": {key: record.workload[key] for key in kept if key in record.workload},
        "target": record.target,
        "device": dict(record.device),
        **({"knobs": names} if names else {}),
    }


def described(block: object) -> dict[str, Any] | None:
    """Return the fields of records that a description gives; None if it is none."""
    if not isinstance(block, dict):
        return None
    workload, target, device = (block.get(key) for key in ("workload", "target", "device"))
    if not isinstance(workload, dict) or not isinstance(device, dict):
        return None
    template, args = workload.get("template"), workload.get("args")
    if not all(isinstance(text, str) for text in (template, target)) or not isinstance(args, dict):
        return None
    return {"workload": workload, "target": target, "device": device}


def shape_of(values: Values) -> tuple[tuple[str, int | None], ...] | None:
    """Return the knobs and the lengths of those that are lists; None if lists are in lists."""
    found: list[tuple[str, int | None]] = []
    for name, value in values.items():
        if isinstance(value, list) and any(isinstance(item, list) for item in value):
            return None
        found.append((name, len(value) if isinstance(value, list) and value else None))
    return tuple(found)


def expanded(values: Values) -> tuple[Names, Callable[[Values], dict[str, Any]]]:
    """Return the knobs "tile_0", "tile_1" for a knob "tile" that is a list, and what makes them.

    The function takes values of the same shape (`shape_of`).
    """
    taken, names = set(values), Names()
    for name, value in values.items():
        if isinstance(value, list) and value:
            names[name] = [_free(f"{name}_{k}", taken) for k in range(len(value))]

    def expand(values: Values) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in values.items():
            if name in names:
                found.update(zip(names[name], value, strict=True))
            else:
                found[name] = value
        return found

    return names, expand


def _free(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, and take it."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def joined(block: object, knobs: Sequence[object]) -> Callable[[Values], Values]:
    """Return a function that undoes `expanded`, by the description that `names` were written into.

    `knobs`: the knobs of the file. A list with a part that is not among them is left as it is.
    """
    given = block.get("knobs") if isinstance(block, dict) else None
    given = given if isinstance(given, dict) else {}
    names = {name: parts for name, parts in given.items() if _is_names(parts, knobs)}
    every = [part for parts in names.values() for part in parts]
    if len(set(every)) < len(every) or any(n in knobs and n not in every for n in names):
        return lambda values: values  # a knob would be lost
    owners = {part: (name, k) for name, parts in names.items() for k, part in enumerate(parts)}

    def join(values: Values) -> Values:
        found: dict[str, Any] = {}
        for key, value in values.items():
            name, number = owners.get(key, (key, 0))
            if number:
                continue
            parts: Sequence[str] = names.get(name, ())
            found[name] = [values[part] for part in parts] if key in owners else value
        return found

    return join


def _is_names(parts: object, knobs: Sequence[object]) -> bool:
    """Whether something is a list of knobs."""
    if not isinstance(parts, list) or not parts:
        return False
    return all(isinstance(part, str) and part in knobs for part in parts)
