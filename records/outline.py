"""The outline of a record: what indexes and tables need of a line, read without making a record.

Neighbouring lines of a log have most of their text in common. What they have in common is read
once, and then only compared; what a line has of its own is parsed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Generic, NamedTuple, TypeVar, cast

from records.json_lines import parse_plain, parse_shallow
from records.record import MAX_S, MIN_S, Record
from records.record_errors import RecordError

T = TypeVar("T")


class Outline(NamedTuple):
    """A record without its schedule, policy and resources."""

    workload: Mapping[str, Any]
    target: str
    config: Mapping[str, Any]
    device: Mapping[str, Any]
    fingerprint: str | None  # Of the template.
    cost_s: float | None  # Median of the costs, in seconds; None for a failure.
    error: Mapping[str, Any] | None
    final: Mapping[str, Any] | None
    timestamp: float
    seed: int

    @property
    def template(self) -> str:
        """Name of the template."""
        return cast(str, self.workload["template"])

    @property
    def args(self) -> Mapping[str, Any]:
        """Arguments of the template."""
        return cast(Mapping[str, Any], self.workload["args"])

    @property
    def constant(self) -> tuple[int, ...]:
        """Positions of the inputs that did not change."""
        return tuple(self.workload.get("constant", ()))

    @property
    def ok(self) -> bool:
        """Whether the measurement succeeded."""
        return self.cost_s is not None

    @classmethod
    def of_line(cls, line: bytes) -> Outline:
        """Return the outline of a line; ValueError or RecursionError if it is no record.

        NewerSchemaError, a ValueError, if a later version wrote it.
        """
        parts = read_parts(line)
        if isinstance(parts, Record):
            return cls.of_record(parts)
        workload, target, _, device, _ = parts.shared
        own, more = parts.own, parts.more
        costs, prints = own.get("costs_s"), more.get("fingerprints")
        return cls(
            workload,
            target,
            own["config"],
            device,
            None if prints is None else prints.get("template"),
            None if costs is None else statistics.median(costs),
            own.get("error"),
            None,
            more["timestamp"],
            more["seed"],
        )

    @classmethod
    def of_record(cls, record: Record) -> Outline:
        """Return the outline of a record."""
        return cls(
            record.workload,
            record.target,
            record.config,
            record.device,
            record.fingerprint,
            record.cost_s if record.ok else None,
            record.error,
            record.final,
            record.timestamp,
            record.seed,
        )


def outlines(lines: Iterable[bytes]) -> Iterator[Outline | RecordError]:
    """Yield the outline of each line that is not blank, or why it is no record."""
    for line in lines:
        if line.isspace():
            continue
        try:
            yield Outline.of_line(line)
        except RecordError as error:
            yield error
        except (ValueError, RecursionError) as error:
            yield RecordError(str(error))


class Shared(NamedTuple):
    """What many records share; the same object for lines with the same text."""

    workload: Mapping[str, Any]
    target: str
    policy: Mapping[str, Any]
    device: Mapping[str, Any]
    versions: Mapping[str, Any]


class LineParts(NamedTuple):
    """A record of a trial in parts, as its line has them."""

    shared: Shared
    own: dict[str, Any]  # The configuration, and costs or an error.
    more: dict[str, Any]  # What follows, without the schedule.
    config: bytes  # The text of the configuration.


def read_parts(line: bytes) -> LineParts | Record:
    """Return the parts of a line that is written as ours are, else its record.

    ValueError or RecursionError as `Record.from_line`.
    """
    found = _reader.parts(line)
    if found is not None:
        return found
    record = Record.from_line(line)
    _reader.learn(line, record)
    return record


# Texts with which the parts of a line begin. None can be inside of a text, where a quotation mark
# follows a backslash; but it can be inside of an object, so that each part is parsed by itself.
_CONFIG, _POLICY, _SEED, _STEPS = b',"config":', b',"policy":', b',"seed":', b',"steps":[['
_END = b"]]}"
_BETWEEN = b"],["

_HEAD, _MIDDLE = {"schema", "workload", "target"}, {"policy", "device", "versions"}
_OWN = {("config", "costs_s"), ("config", "error")}
_CONFIG_KEYS = ("index", "values")
_SCALARS = {int, str, bool, type(None)}
_NUMBERS = {int, float}
_FLOAT, _TEXT = {float}, {str}
_ERROR_KEYS = {"code", "stage", "message"}
_EXACT = 2**63  # A larger number may be a rounded integer.
_MORE_TYPES: dict[str, set[type]] = {
    "seed": {int}, "timestamp": _NUMBERS, "fingerprints": {dict}, "build_s": _NUMBERS,
    "run_s": _NUMBERS, "max_error": _NUMBERS, "raced": {bool}, "noise": _NUMBERS,
    "kernels": {list}, "clocks": {dict}, "steps": {list},
}  # fmt: skip
_FIELDS = {field.name for field in fields(Record)}

_MOST_REMEMBERED = 1 << 16  # Texts of each kind.
_DEEPEST_STEP = 8  # Brackets in a step.
_DEEPEST_VALUE = 16


class _Reader:
    """Reads lines in parts; remembers what it has seen of them."""

    def __init__(self) -> None:
        self._shared: dict[tuple[bytes, bytes], Shared] = {}
        # What the line before began with, and had in its middle, up to what is its own.
        self._last: tuple[bytes, bytes, Shared] | None = None
        self._steps: set[bytes] = set()
        self._layouts: _ByLayout[bool | None] = _ByLayout(_shallow)
        self._knobs: _ByLayout[bool] = _ByLayout(_plain)

    def parts(self, line: bytes) -> LineParts | None:
        """Return the parts of a line; None if a record has to be made to know what it is."""
        if self._last is not None:
            head, middle, shared = self._last
            if line.startswith(head):
                config_at = len(head) - len(_CONFIG)
                policy_at = line.find(_POLICY, config_at)
                if line.startswith(middle, policy_at):
                    seed_at = policy_at + len(middle) - len(_SEED)
                    return self._parts(line, config_at, policy_at, seed_at, shared)
        config_at = line.find(_CONFIG)
        policy_at = line.find(_POLICY, config_at)
        seed_at = line.find(_SEED, policy_at)
        known = self._shared.get((line[:config_at], line[policy_at:seed_at]))
        if known is None:
            return None
        begin, end = config_at + len(_CONFIG), seed_at + len(_SEED)
        self._last = line[:begin], line[policy_at:end], known
        return self._parts(line, config_at, policy_at, seed_at, known)

    def _parts(
        self, line: bytes, config_at: int, policy_at: int, seed_at: int, shared: Shared
    ) -> LineParts | None:
        own: Any = parse_shallow(b"{" + line[config_at + 1 : policy_at] + b"}")
        steps_at = line.find(_STEPS, seed_at)
        if steps_at < 0:
            text = b"{" + line[seed_at + 1 :]
        else:
            end = line.rstrip(b" \t\r\n")
            if not end.endswith(_END) or not self._are_steps(
                end[steps_at + len(_STEPS) : -len(_END)]
            ):
                return None
            text = b"{" + line[seed_at + 1 : steps_at] + b"}"
        more: Any = parse_shallow(text)
        if type(own) is not dict or type(more) is not dict:
            return None
        if not self._is_own(own) or not self._is_more(more, text):
            return None
        return LineParts(shared, own, more, line[config_at + len(_CONFIG) : policy_at])

    def learn(self, line: bytes, record: Record) -> None:
        """Remember what the next lines may share with this one."""
        config_at = line.find(_CONFIG)
        policy_at = line.find(_POLICY, config_at)
        seed_at = line.find(_SEED, policy_at)
        if min(config_at, policy_at, seed_at) < 0:
            return
        head, middle = line[:config_at], line[policy_at:seed_at]
        if (head, middle) in self._shared:
            return
        parsed: Any = parse_plain(head + b"}"), parse_plain(b"{" + middle[1:] + b"}")
        if not all(type(part) is dict for part in parsed):
            return
        if parsed[0].keys() != _HEAD or parsed[1].keys() != _MIDDLE:
            return
        shared = Shared(
            record.workload, record.target, record.policy, record.device, record.versions
        )
        # The line may have said something else of it later on.
        if self._parts(line, config_at, policy_at, seed_at, shared) is not None:
            _remember(self._shared, (head, middle), shared)

    def _are_steps(self, text: bytes) -> bool:
        """Whether the text between the outer brackets of steps is that of lists, one per step."""
        steps = text.split(_BETWEEN)
        if self._steps.issuperset(steps):
            return True
        for step in steps:
            if step in self._steps:
                continue
            if step.count(b"[") + step.count(b"{") > _DEEPEST_STEP:
                return False
            if parse_plain(b"[" + step + b"]") is None:
                return False
            if len(self._steps) >= _MOST_REMEMBERED:
                self._steps.clear()
            self._steps.add(step)
        return True

    def _is_own(self, own: dict[str, Any]) -> bool:
        if tuple(own) not in _OWN:
            return False
        config = own["config"]
        if type(config) is not dict or tuple(config) != _CONFIG_KEYS:
            return False
        values = config["values"]
        if type(config["index"]) is not int or type(values) is not dict:
            return False
        plain = self._knobs.of(values)
        if not plain and not (all(map(str.isprintable, values)) and _are_exact(values)):
            return False
        return _are_costs(own["costs_s"]) if "costs_s" in own else _is_error(own["error"])

    def _is_more(self, more: dict[str, Any], text: bytes) -> bool:
        shallow = self._layouts.of(more)
        if shallow is None or (not shallow and parse_plain(text) is None):
            return False
        prints = more.get("fingerprints")
        return prints is None or _TEXT.issuperset(map(type, prints.values()))


class _ByLayout(Generic[T]):
    """What is true of all objects with the same names and types; asked for once each."""

    def __init__(self, tell: Callable[[dict[str, Any]], T]) -> None:
        self._tell = tell
        self._known: dict[tuple[Any, ...], T] = {}
        # The layout of the object before, which mostly is the same; replaced as a whole, as there
        # may be several threads.
        self._last: tuple[tuple[Any, ...], T] = (), tell({})

    def of(self, values: dict[str, Any]) -> T:
        """Return it for an object."""
        layout = (*values, *map(type, values.values()))
        last, told = self._last
        if layout != last:
            known = self._known.get(layout)
            told = self._tell(values) if known is None else known
            _remember(self._known, layout, told)
            self._last = layout, told
        return told


def _remember(known: dict[Any, Any], key: object, value: object) -> None:
    if len(known) >= _MOST_REMEMBERED:
        known.clear()
    known[key] = value


def _plain(values: dict[str, Any]) -> bool:
    """Whether knobs may have these names, and these types of values hold nothing inside."""
    return all(map(str.isprintable, values)) and _SCALARS.issuperset(map(type, values.values()))


def _shallow(more: dict[str, Any]) -> bool | None:
    """Whether fields with these names and types hold no lists; None if a record must tell.

    A record has no field of the others.
    """
    for name, value in more.items():
        if type(value) not in _MORE_TYPES.get(name, {type(value)}):
            return None
    others = more.keys() - _MORE_TYPES.keys()
    if not {"seed", "timestamp"} <= more.keys() or not others.isdisjoint(_FIELDS | {"schema"}):
        return None
    return not others and more.keys().isdisjoint({"kernels", "clocks", "steps"})


def _are_exact(values: object, depth: int = 0) -> bool:
    """Whether knobs can have these values, and no integer among them was rounded."""
    if type(values) is float:
        return -_EXACT < values < _EXACT
    if type(values) is not list and (depth or type(values) is not dict):
        return type(values) in _SCALARS
    inside = values.values() if type(values) is dict else values
    return depth < _DEEPEST_VALUE and all(_are_exact(value, depth + 1) for value in inside)


def _are_costs(costs: object) -> bool:
    return (
        type(costs) is list
        and len(costs) > 0
        and _FLOAT.issuperset(map(type, costs))
        and min(costs) >= MIN_S
        and max(costs) <= MAX_S
    )


def _is_error(error: object) -> bool:
    return (
        type(error) is dict
        and all(type(value) is str for value in error.values())
        and error.keys() >= _ERROR_KEYS
    )


_reader = _Reader()
