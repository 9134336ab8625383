"""Grades of reuse: how similar the workload and the device of records are to those of a task.

In: a task, and a group of records. Out: a `Match`: its grade, and the distance within the grade.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from autotune.errors import TargetError
from autotune.runtime import environment
from autotune.system.words import counted, named
from autotune.target import Target
from autotune.task.task import Task
from records.groups import RecordGroup

# Facts that define the kind of a device, if they are known of both devices.
_KIND = ("kind", "name", "model", "arch", "vector_bytes")
# Facts of a device by which rules choose schedules.
_SCHEDULES = ("kind", "arch", "vector_bytes")
# Facts that may differ within a kind, and that change times.
_WITHIN_KIND = ("threads", "max_mhz", "multiprocessors", "l2_bytes")

# Weight of a distance of shapes against one of devices; larger than any distance of devices.
_OTHER_SHAPE = 1e3


class Grade(StrEnum):
    """How a record was found for a build, the closest first."""

    EXACT = "exact"  # The same workload, measured on this kind of device with as many threads.
    KIND = "kind"  # The same workload and kind of device, another clock or number of threads.
    SHAPE = "shape"  # The nearest shape, measured on this kind of device.
    ANY = "any"  # Another device, or another version of the template.

    @property
    def rank(self) -> int:
        """0 for the closest grade."""
        return list(Grade).index(self)


class Match(NamedTuple):
    """How a group of records relates to a task; matches compare, the closer one is less."""

    rank: int  # Of the grade.
    distance: float  # Within the grade, >= 0.
    same_shape: bool
    same_schedules: bool  # Whether one version of a template has one fingerprint on both.

    @property
    def grade(self) -> Grade:
        """The grade."""
        return list(Grade)[self.rank]


def match(task: Task, here: Mapping[str, Any], group: RecordGroup) -> Match | None:
    """Return how records relate to a task; None if they can never be used for it.

    `here`: the device that the task's target runs on, as records describe it.
    """
    if group.template != task.workload.template or group.constant != task.workload.constant:
        return None
    shape = shape_distance(task.workload.args, group.args)
    targets = _target_grade(task.target, group.target)
    if shape is None or targets is None:
        return None
    device, apart = device_grade(here, group.device)
    grade = max(targets, device, key=lambda one: one.rank)
    if shape:
        grade = max(grade, Grade.SHAPE, key=lambda one: one.rank)
    same = targets is not Grade.ANY and same_schedules(here, group.device)
    return Match(grade.rank, shape * _OTHER_SHAPE + apart, not shape, same)


def device_grade(here: Mapping[str, Any], there: Mapping[str, Any]) -> tuple[Grade, float]:
    """Return the grade of a device that records describe, and its distance within the grade.

    A fact that is known of one device only does not count, since earlier versions recorded fewer
    facts. A device without a name is unknown.
    """
    if here == there:
        return Grade.EXACT, 0.0
    known = {key for key in here if key in there}
    if "name" not in known or any(here[key] != there[key] for key in _KIND if key in known):
        return Grade.ANY, float(sum(here[key] != there[key] for key in _KIND if key in known))
    differing = [key for key in _WITHIN_KIND if key in known and here[key] != there[key]]
    if not differing:
        return Grade.EXACT, 0.0
    return Grade.KIND, sum(_apart(here[key], there[key]) for key in differing)


def same_schedules(here: Mapping[str, Any], there: Mapping[str, Any]) -> bool:
    """Whether rules make the same schedules on two devices.

    Otherwise the fingerprint of a record does not say which version of the template made it.
    """
    return all(here.get(key) == there.get(key) for key in _SCHEDULES)


def shape_distance(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> float | None:
    """Return how far the sizes among two sets of arguments are apart, 0 if all are equal.

    This is the Euclidean distance of the logarithms of the sizes, which are integers >= 1. None if
    anything else differs, such as a data type.
    """
    if wanted.keys() != found.keys():
        return None
    parts = [_argument_distance(value, found[name]) for name, value in wanted.items()]
    known = [part for part in parts if part is not None]
    return math.hypot(*known) if len(known) == len(parts) else None


def _argument_distance(a: Any, b: Any) -> float | None:
    if a == b:
        return 0.0
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        return shape_distance(dict(enumerate(a)), dict(enumerate(b)))  # type: ignore[arg-type]
    return _apart(a, b) if _is_size(a) and _is_size(b) else None


def _is_size(value: object) -> bool:
    return type(value) is int and value >= 1


def _apart(a: Any, b: Any) -> float:
    """Return the logarithm of the ratio of two positive numbers; 1 if they are no such thing."""
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) and x > 0 for x in (a, b))
    return abs(math.log2(a) - math.log2(b)) if numbers else 1.0


def _target_grade(wanted: Target, text: str) -> Grade | None:
    """Return the grade of a recorded target; None if it is of another kind."""
    if text == wanted.recorded:
        return Grade.EXACT
    try:
        found = Target.parse(text)
    except TargetError:
        return None
    if found.kind != wanted.kind:
        return None
    differing = {
        name
        for name in {*wanted.options, *found.options} - {"device"}
        if wanted.options.get(name) != found.options.get(name)
    }
    return Grade.KIND if differing <= {"threads"} else Grade.ANY


def device_text(device: Mapping[str, Any], beside: Mapping[str, Any] | None = None) -> str:
    """Return a recorded device in a few words, such as ``Apple M1, 8 threads``.

    `beside`: a device; if both have the same name, the facts that differ are added.
    """
    name = device.get("name")
    if not isinstance(name, str) or not name:
        return "an unknown device"
    words = [name]
    if isinstance(device.get("threads"), int):
        words.append(counted(device["threads"], "thread"))
    if beside is not None and beside.get("name") == name:
        words += [
            f"{key} {device[key]}"
            for key in (*_KIND, *_WITHIN_KIND)
            if key != "threads" and key in device and key in beside and device[key] != beside[key]
        ]
    return ", ".join(words)


def told_apart(devices: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return devices in a few words each, those that would read the same with all that differs."""
    given = list(devices)
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for device in given:
        known = alike.setdefault(device_text(device), [])
        if device not in known:
            known.append(device)

    def text_of(device: Mapping[str, Any]) -> str:
        text = device_text(device)
        differing = (
            f"{key} {value}"
            for key, value in device.items()
            if any(other.get(key) != value for other in alike[text])
        )
        return ", ".join([text, *differing])

    return [*map(text_of, given)]


def named_devices(devices: Iterable[Mapping[str, Any]], here: Mapping[str, Any]) -> str:
    """Return a text with some recorded devices, each once, and how they differ from `here`."""
    return named(device_text(device, here) for device in devices)


def present_device(task: Task) -> dict[str, Any]:
    """Return the device that a task's target runs on, as records describe it."""
    return environment.device(task.target)
