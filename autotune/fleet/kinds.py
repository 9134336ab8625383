"""Groups devices by kind, and chooses the devices that measure for a search.

By default one search uses devices of one kind only: two devices are of one kind if a time on one
is valid for the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotune.errors import UsageError
from autotune.reuse.grades import Grade, device_grade, device_text
from autotune.system.words import counted, named

ANY = "any"  # Devices of all kinds.
EACH = "each"  # A search for each kind.

Facts = Mapping[str, Any]  # A device, in the form of `Record.device`.
Wanted = str | Facts | None  # Which devices measure for a search, see `choose`.


def same_kind(one: Facts, other: Facts) -> bool:
    """Whether a time measured on one device is valid for the other."""
    return device_grade(one, other)[0] is Grade.EXACT


def by_kind(devices: Mapping[str, Facts]) -> list[list[str]]:
    """Return the names of devices, those of one kind together; the largest kind first."""
    kinds: list[list[str]] = []
    for name, facts in devices.items():
        own = next((kind for kind in kinds if same_kind(devices[kind[0]], facts)), None)
        if own is None:
            kinds.append([name])
        else:
            own.append(name)
    return sorted(kinds, key=len, reverse=True)


def choose(devices: Mapping[str, Facts], wanted: Wanted) -> list[str]:
    """Return the names of the devices that measure for a search; the first says its kind.

    wanted: "any", part of the name of a kind of device, or a device of that kind; None for the kind
        of most devices. Of "each" kind, all are taken: the caller makes a search of each.

    UsageError if there is no such device.
    """
    if wanted in (ANY, EACH):
        return [name for kind in by_kind(devices) for name in kind]
    if wanted is None:
        return by_kind(devices)[0]
    fitting = {name: facts for name, facts in devices.items() if is_wanted(facts, wanted)}
    if not fitting:
        has = named(device_text(facts) for facts in devices.values())
        what = f"called {wanted!r}" if isinstance(wanted, str) else f"a {device_text(wanted)}"
        raise UsageError(f"no device of the fleet is {what}: it has {has}")
    return by_kind(fitting)[0]


def is_wanted(facts: Facts, wanted: str | Facts) -> bool:
    """Whether a device is of a kind, or part of its name is a text, in any case of letters."""
    if not isinstance(wanted, str):
        return same_kind(wanted, facts)
    return wanted.casefold() in str(facts.get("name", "")).casefold()


def kinds_text(devices: Mapping[str, Facts], chosen: Sequence[str]) -> str:
    """Return a message that names the kinds of devices that do not measure; "" if all do."""
    others = [kind for kind in by_kind(devices) if kind[0] not in chosen]
    if not others:
        return ""
    first = devices[chosen[0]]
    counts = ", ".join(f"{len(kind)} of {device_text(devices[kind[0]], first)}" for kind in others)
    return (
        f"{counted(len(chosen), 'device')} of {device_text(first)} "
        f"{'measures' if len(chosen) == 1 else 'measure'}; not {counts}: devices of one kind "
        "measure for one search unless others are asked for"
    )


def kind_names(kinds: Sequence[Facts]) -> list[str]:
    """Return a different label for each kind: its name, with more facts where names are equal."""
    names = [str(facts.get("name") or device_text(facts)) for facts in kinds]
    found: list[str] = []
    for number, (facts, name) in enumerate(zip(kinds, names, strict=True)):
        same = [other for at, other in enumerate(kinds) if at != number and names[at] == name]
        text = device_text(facts, same[0]) if same else name
        found.append(f"{text}, no. {number + 1}" if text in found else text)
    return found
