"""Options of a run: what each may be, the same for the command line and for job files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autotune.cli.options.input_files import check_readable
from autotune.cli.options.task_arguments import closest, parse_settings
from autotune.errors import UsageError
from autotune.measure.timing_policy import FLUSHES, TimingPolicy
from autotune.tuner.factory import check_tuner
from autotune.tuner.run.goal import Goal
from autotune.tuner.run.limits import BATCH, Limits
from autotune.tuner.run.patience import check_share

TRIALS = 64
"""Trials of a workload where neither they nor the time are given."""

MAX_TIMEOUT_S = 1e6
"""The longest time-out, eleven days: the system limits it, too."""

Values = Mapping[str, Any]
"""Options by name, without dashes before it; values as typed words or as a job file has them."""


@dataclass(frozen=True)
class WorkloadOptions:
    """What to tune, how to search and to measure, and when to end.

    Attributes
    ----------
    template : str
    settings, shapes : mapping of str to str
        Arguments of the template; of a Tile function, shapes of inputs without dimensions.
    target, tuner : str
    limits : Limits
    policy : TimingPolicy
    log, storage : str or None
    timeout_s : float
    transfer : tuple of str
    weight : float
        How much its time matters beside that of other workloads.
    name : str or None
        What to call it.
    """

    template: str
    settings: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, str] = field(default_factory=dict)
    target: str = "llvm"
    tuner: str = "model"
    limits: Limits = field(default_factory=lambda: Limits(TRIALS))
    policy: TimingPolicy = field(default_factory=TimingPolicy)
    log: str | None = None
    storage: str | None = None
    timeout_s: float = 10.0
    transfer: tuple[str, ...] = ()
    weight: float = 1.0
    name: str | None = None


def whole(least: int) -> Callable[[Any], int]:
    """Return a reader of whole numbers of at least so many."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise UsageError(f"must be a whole number >= {least}, not {value!r}")
        return value

    return read


def duration(value: Any) -> float:
    """Read "90s", "30m", "1h30m" or "1.5h" as seconds."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    parts = re.findall(r"([\d.]+)\s*([a-z]+)\s*", value) if isinstance(value, str) else []
    written = [unit for _, unit in parts]
    in_order = sorted(set(written), key=list("hms").index) if set(written) <= set("hms") else []
    if in_order and in_order == written and re.fullmatch(r"(\s*[\d.]+\s*[hms]\s*)+", value):
        try:
            seconds = sum(float(number) * units[unit] for number, unit in parts)
        except ValueError:
            seconds = 0.0
        if seconds > 0:
            return seconds
    raise UsageError(f"must be a time > 0 such as 90s, 30m or 1h30m, not {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _at_least_zero(value: Any) -> float:
    if not (_is_number(value) and math.isfinite(value) and value >= 0):
        raise UsageError(f"must be a number >= 0, not {value!r}")
    return float(value)


def _positive(value: Any) -> float:
    if not (_is_number(value) and math.isfinite(value) and value > 0):
        raise UsageError(f"must be a number > 0, not {value!r}")
    return float(value)


def _timeout(value: Any) -> float:
    seconds = _positive(value)
    if seconds > MAX_TIMEOUT_S:
        raise UsageError(f"must be at most {MAX_TIMEOUT_S:.0f} seconds, not {value!r}")
    return seconds


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f"must be text, not {value!r}")
    return value


def _name(value: Any) -> str:
    name = _text(value)
    if not (name.strip() and name.isprintable()):  # what steers a terminal would be obeyed
        raise UsageError(f"must be one line of printable text, not {value!r}")
    return name


def _texts(value: Any) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise UsageError(f"must be text or a list of it, not {value!r}")
    return tuple(texts)


def _flush(value: Any) -> str:
    if value not in FLUSHES:
        raise UsageError(f"must be {' or '.join(FLUSHES)}, not {value!r}")
    return str(value)


def _goal(value: Any) -> Goal:
    return Goal.parse(_text(value))


def _share(value: Any) -> float:
    if not _is_number(value):
        raise UsageError(f"must be a number, not {value!r}")
    check_share(value)
    return float(value)


def _settings(value: Any) -> dict[str, str]:
    """Read NAME=VALUE words, or a table of numbers, texts and truth values."""
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return parse_settings(value)
    if not isinstance(value, dict):
        raise UsageError(f"must be a table such as {{n = 512}}, not {value!r}")
    for name, item in value.items():
        if not isinstance(name, str):
            raise UsageError(f"names must be text, not {name!r}: write it in quotes")
        if not isinstance(item, str | int | float):
            raise UsageError(f"{name} must be a number, text, true or false, not {item!r}")
    return {n: str(v).lower() if isinstance(v, bool) else str(v) for n, v in value.items()}


def _shapes(value: Any) -> dict[str, str]:
    """Read NAME=SIZE,SIZE words, or a table of lists of sizes."""
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return parse_settings(value, "--shape")
    if not isinstance(value, dict):
        raise UsageError(f"must be a table such as {{X = [4, 5]}}, not {value!r}")
    for name, sizes in value.items():
        if not isinstance(sizes, list) or any(type(size) is not int for size in sizes):
            raise UsageError(f"{name} must be a list of sizes such as [4, 5], not {sizes!r}")
    return {str(name): ",".join(map(str, sizes)) or "scalar" for name, sizes in value.items()}


RUN: dict[str, Callable[[Any], Any]] = {"time": duration, "seed": whole(0)}
"""Readers of what concerns a run as a whole."""

_POLICY: dict[str, Callable[[Any], Any]] = {
    "repeats": whole(1),
    "warmup": whole(1),
    "min-repeat-ms": _at_least_zero,
    "flush": _flush,
    "race": _at_least_zero,
}
_LIMITS: dict[str, Callable[[Any], Any]] = {
    "trials": whole(1),
    "until": _goal,
    "patience": _share,
    "batch": whole(1),
}
WORKLOAD: dict[str, Callable[[Any], Any]] = {
    "template": _text,
    "set": _settings,
    "shape": _shapes,
    "target": _text,
    "tuner": _text,
    "log": _text,
    "storage": _text,
    "timeout": _timeout,
    "transfer": _texts,
    **_LIMITS,
    **_POLICY,
}
"""Readers of what concerns a workload."""

JOB_ONLY: dict[str, Callable[[Any], Any]] = {"weight": _positive, "name": _name}
"""Readers of what makes sense among several workloads only."""

_ATTRIBUTES = {"set": "settings", "shape": "shapes", "timeout": "timeout_s"}
"""Attributes of `WorkloadOptions` that are not called like their options."""


def read(values: Values, readers: Mapping[str, Callable[[Any], Any]], prefix: str) -> Values:
    """Return options read; `prefix` goes before their names in messages.

    Raises
    ------
    UsageError
        If a name is not known, or a value is not what it should be.
    """
    found = {}
    for name, value in values.items():
        reader = readers.get(name)
        if reader is None:
            likely = closest(name, readers)
            hint = f"did you mean {likely!r}?" if likely else f"known are {', '.join(readers)}"
            raise UsageError(f"{prefix}{name}: there is no such option; {hint}")
        try:
            found[name] = reader(value)
        except UsageError as error:
            said = str(error)
            if not said.startswith(f"{prefix}{name}"):
                said = f"{prefix}{name}{' ' if said.startswith('must ') else ': '}{said}"
            raise UsageError(said) from error
    return found


def workload_options(values: Values, timed: bool) -> WorkloadOptions:
    """Return the options of one workload from what `read` returned.

    Parameters
    ----------
    values : mapping
        With a "template".
    timed : bool
        Whether the run has a time to end at: then trials are not limited unless it is said.

    Raises
    ------
    UsageError
        If options do not go together, or a file is missing.
    """
    policy = {name.replace("-", "_"): values[name] for name in _POLICY if name in values}
    own = {name: value for name, value in values.items() if name not in {*_LIMITS, *_POLICY}}
    options = WorkloadOptions(
        **{_ATTRIBUTES.get(name, name): value for name, value in own.items()},
        limits=Limits(
            values.get("trials", None if timed else TRIALS),
            values.get("until"),
            values.get("patience"),
            values.get("batch", BATCH),
        ),
        policy=TimingPolicy(**policy),
    )
    check_tuner(options.tuner, bool(options.transfer), options.storage is not None)
    if "patience" in values and options.tuner != "model":
        raise UsageError("patience needs a tuner that estimates its gain: use --tuner model")
    for log in options.transfer:
        check_readable(log, "--transfer")
    return options
