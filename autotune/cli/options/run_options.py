"""Options of `autotune run`: each is declared once, for the command line and for job files.

The command line is made of the fields of `WorkloadOptions`, and job files are read by them. Nothing
that takes long to import is imported: a run starts a process before that.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum, auto
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.options import shared_options as shared
from autotune.cli.options.shared_options import parse_settings
from autotune.errors import UsageError
from autotune.measure.timing_policy import FLUSHES, TimingPolicy
from autotune.system.words import did_you_mean
from autotune.tuner.run.limits import BATCH, TRIALS, Goal, Limits, check_share, parse_duration

if TYPE_CHECKING:
    from autotune.fleet.fleet import Fleet

MAX_TIMEOUT_S = 1e6  # The longest time-out, eleven days: the system limits it, too.

# Options by name, without dashes before it; values as typed words or as a job file has them.
Values = Mapping[str, Any]


class OptionScope(Enum):
    """Where an option may stand."""

    WORKLOAD = auto()  # on the command line, or in each workload of a job file
    RUN = auto()  # on the command line, or at the top of a job file
    JOB_FILE = auto()  # in each workload of a job file, and nowhere else
    COMMAND_LINE = auto()


def option(
    declared: Any,
    read: Callable[[Any], Any] | None = None,
    default: Any = None,
    scope: OptionScope = OptionScope.WORKLOAD,
    name: str = "",
) -> Any:
    """Return a field of `WorkloadOptions`.

    declared: the annotation of Typer; None if the command line does not have it.
    read: checks a value and returns what the field holds.
    default: what the field holds if the option is not given, or what makes that.
    name: that of the option; by default the field's, with dashes for underscores.
    """
    data = {"declared": declared, "read": read, "scope": scope, "name": name}
    if callable(default):
        return field(default_factory=default, metadata=data)
    return field(default=default, metadata=data)


def _typer(text: str, metavar: str | None, kind: Any = str | None, *flags: str, **more: Any) -> Any:
    """Return the annotation of an option with this help."""
    return Annotated[kind, typer.Option(*flags, metavar=metavar, help=text, **more)]


def _count(help_text: str, least: int = 1, scope: OptionScope = OptionScope.WORKLOAD) -> Any:
    """Return a field for a whole number of at least `least`."""
    return option(_typer(help_text, "N", int | None, min=least), whole(least), scope=scope)


def whole(least: int) -> Callable[[Any], int]:
    """Return a reader of whole numbers that are at least `least`."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise UsageError(f"must be a whole number >= {least}, not {value!r}")
        return value

    return read


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


def _positions(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or any(type(one) is not int or one < 0 for one in value):
        raise UsageError(f"must be a list of positions of inputs such as [1], not {value!r}")
    return tuple(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"must be true or false, not {value!r}")
    return value


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


def _fleet(value: Any) -> Fleet:
    from autotune.fleet.fleet import Fleet  # slow import

    return Fleet.parse(_text(value))


def _compare_on(value: Any) -> str:
    from autotune.fleet.fleet_measurer import COMPARE_ON  # slow import

    if value not in COMPARE_ON:
        raise UsageError(f"must be {' or '.join(COMPARE_ON)}, not {value!r}")
    return str(value)


def _settings(value: Any) -> dict[str, str]:
    """Read NAME=VALUE words, or a table of numbers, texts and truth values."""
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return parse_settings(value)
    if not isinstance(value, dict):
        raise UsageError(f"must be a table such as {{n = 512}}, not {value!r}")
    for name, item in value.items():
        if not isinstance(name, str):
            raise UsageError(f"names must be text, not {name!r}: write it in quotes")
        sizes = isinstance(item, list) and item and all(type(size) is int for size in item)
        if not sizes and not isinstance(item, str | int | float):
            raise UsageError(f"{name} must be a number, text, true or false, not {item!r}")
    return {name: _setting(item) for name, item in value.items()}


def _setting(value: Any) -> str:
    """Return a value as it is written after --set; a list of sizes with commas."""
    if isinstance(value, list):
        return ",".join(map(str, value)) + ("," if len(value) == 1 else "")
    return str(value).lower() if isinstance(value, bool) else str(value)


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


@dataclass(frozen=True, kw_only=True)
class WorkloadOptions:
    """What to tune, how to search and to measure, and when to end; in the order of the help."""

    template: str = option(Annotated[str | None, shared.TEMPLATE], _text)
    settings: Mapping[str, str] = option(shared.Set, _settings, dict, name="set")
    shapes: Mapping[str, str] = option(shared.Shape, _shapes, dict, name="shape")
    constant: tuple[int, ...] = option(shared.Constant, _positions, ())
    target: str = option(shared.TargetText, _text, "llvm")
    job: str | None = option(
        _typer("Tune the workloads of a TOML or YAML file.", "FILE"), scope=OptionScope.COMMAND_LINE
    )
    trials: int | None = _count("Measurements wanted in the log.  [64; no limit with --time]")
    time_s: float | None = option(
        _typer("Begin no measurement after 90s, 30m or 1h30m.", "TIME", str | None, "--time"),
        parse_duration,
        scope=OptionScope.RUN,
        name="time",
    )
    until: Goal | None = option(
        _typer("Stop at '0.9 of copy', '0.8 of peak', '200 GFLOPS' or '1.2 ms'.", "GOAL"), _goal
    )
    patience: float | None = option(shared.Patience, _share)
    batch: int | None = _count("Candidates asked for at once.  [8]")
    tuner: str = option(
        _typer(
            "model, random, grid, genetic, local, optuna:SAMPLER or your MODULE:CLASS.",
            "TUNER",
            str,
        ),
        _text,
        "model",
    )
    cost_model: str = option(
        _typer("xgboost, or your MODULE:CLASS, for the tuner model.", "NAME", str),
        _text,
        "xgboost",
    )
    features: str = option(
        _typer("loops, or your MODULE:CLASS: what cost models read.", "NAME", str), _text, "loops"
    )
    transfer: tuple[str, ...] = option(shared.Transfer, _texts, ())
    log: str | None = option(_typer("Log of measurements.  [TEMPLATE.jsonl]", "FILE"), _text)
    any_device: bool = option(shared.AnyDevice, _flag, False)
    seed: int | None = _count(
        "Seed of every random choice.  [chosen and printed]", 0, scope=OptionScope.RUN
    )
    timeout_s: float = option(shared.Timeout, _timeout, 10.0, name="timeout")
    repeats: int | None = _count("Times to take of a candidate; their median counts.  [5]")
    warmup: int | None = _count("Calls before the first timed one.  [1]")
    min_repeat_ms: float | None = option(shared.MinRepeat, _at_least_zero)
    flush: str | None = option(shared.Flush, _flush)
    race: float | None = option(
        _typer(
            "Give up what is so many times slower than the best; 0: never.  [1.5]",
            "FACTOR",
            float | None,
        ),
        _at_least_zero,
    )
    measurer: str = option(
        _typer("local, or your MODULE:CLASS, which measures elsewhere.", "NAME", str),
        _text,
        "local",
    )
    fleet: Fleet | None = option(
        _typer("Measure on a cluster of Ray: ray://HOST:10001, auto, local or local:N.", "ADDRESS"),
        _fleet,
        scope=OptionScope.RUN,
    )
    devices: str | None = option(
        _typer(
            "Which devices of the fleet: part of a name, any, or a search for each kind of them: "
            "each.  [most of a kind]",
            "NAME",
        ),
        _name,
    )
    compare_on: str = option(
        _typer("Devices of the fleet that time the finalists: one, or all.", "WORD", str),
        _compare_on,
        "one",
    )
    storage: str | None = option(
        _typer(
            "Mirror trials to an Optuna storage, such as sqlite:///run.db, for its dashboard.",
            "URL",
        ),
        _text,
    )
    quiet: bool = option(
        _typer("Print nothing but the last line.", None, bool, "--quiet", "-q"),
        default=False,
        scope=OptionScope.COMMAND_LINE,
    )
    json_lines: bool = option(
        _typer("Print events as lines of JSON, nothing else.", None, bool, "--json-lines"),
        default=False,
        scope=OptionScope.COMMAND_LINE,
    )
    weight: float = option(None, _positive, 1.0, OptionScope.JOB_FILE)
    name: str | None = option(None, _name, scope=OptionScope.JOB_FILE)

    @property
    def limits(self) -> Limits:
        """When it ends; without --trials and --time, after `TRIALS`."""
        usual = TRIALS if self.time_s is None else None
        trials = usual if self.trials is None else self.trials
        batch = BATCH if self.batch is None else self.batch
        return Limits(trials, self.until, self.patience, batch)

    @property
    def policy(self) -> TimingPolicy:
        """How a candidate is timed."""
        return timing_policy(vars(self))


# The fields by the names of their options.
_FIELDS = {f.metadata["name"] or f.name.replace("_", "-"): f for f in fields(WorkloadOptions)}


def _readers(*scopes: OptionScope) -> dict[str, Callable[[Any], Any]]:
    found = {name: f.metadata for name, f in _FIELDS.items()}
    return {name: data["read"] for name, data in found.items() if data["scope"] in scopes}


RUN = _readers(OptionScope.RUN)  # Readers of what concerns a run as a whole.
WORKLOAD = _readers(OptionScope.WORKLOAD)  # Readers of what concerns a workload.

# Readers of what a workload of a job file may have.
IN_JOB = _readers(OptionScope.WORKLOAD, OptionScope.JOB_FILE)


def timing_policy(values: Values) -> TimingPolicy:
    """Return how to time by the options that are among these; the rest, and None, is by default."""
    given = {f.name: values.get(f.name) for f in fields(TimingPolicy)}
    return TimingPolicy(**{name: value for name, value in given.items() if value is not None})


def on_command_line() -> list[inspect.Parameter]:
    """Return the options of the command line as parameters of the command's function."""
    return [
        inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=f.default if isinstance(f.default, str | float) else None,
            annotation=f.metadata["declared"],
        )
        for f in fields(WorkloadOptions)
        if f.metadata["scope"] is not OptionScope.JOB_FILE
    ]


def given_options(context: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options from the command line, and the options from config.toml, by name."""
    words: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for name, declared in _FIELDS.items():
        source = context.get_parameter_source(declared.name)
        if source is None or name in ("quiet", "json-lines"):
            continue
        if source.name in ("COMMANDLINE", "ENVIRONMENT"):
            words[name] = context.params[declared.name]
        elif source.name == "DEFAULT_MAP":
            defaults[name] = context.params[declared.name]
    return words, defaults


def workload_options(values: Values) -> WorkloadOptions:
    """Return the options of a workload from what `read` returned."""
    return WorkloadOptions(**{_FIELDS[name].name: value for name, value in values.items()})


def read(values: Values, readers: Mapping[str, Callable[[Any], Any]], prefix: str) -> Values:
    """Return options read; `prefix` goes before their names in messages.

    UsageError if a name is not known, or a value is not what it should be.
    """
    found = {}
    for name, value in values.items():
        reader = readers.get(name)
        if reader is None:
            hint = did_you_mean(name, readers, "known are")
            raise UsageError(f"{prefix}{name}: there is no such option; {hint}")
        try:
            found[name] = reader(value)
        except UsageError as error:
            said = str(error)
            if not said.startswith(f"{prefix}{name}"):
                said = f"{prefix}{name}{' ' if said.startswith('must ') else ': '}{said}"
            raise UsageError(said) from error
    return found
