"""Options of `autotune bench`: sizes, lines and knobs, read from the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from autotune.cli.options import shared_options as shared
from autotune.cli.options.run_options import WORKLOAD, read, timing_policy
from autotune.cli.options.shared_options import parse_settings
from autotune.errors import UsageError
from autotune.measure.timing_policy import TimingPolicy
from autotune.report.bench_speeds import value_text
from autotune.system.words import did_you_mean
from autotune.target import Target
from autotune.template import Template
from search_spaces import Knob, KnobValue, Space

MAX_LINES = 8  # A knob with more values makes no lines unless it is named.

_LARGEST_POWER = {"llvm": 11, "cuda": 13, "on cpu": 9}
_SMALLEST_POWER = 5


@dataclass(frozen=True)
class BenchOptions:
    """Options of `autotune bench`, in the order of its help."""

    template: shared.TemplateName
    settings: shared.Set = None
    shapes: shared.Shape = None
    target: shared.TargetText = "llvm"
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N,N,...",
            help="Sizes to compare at, such as n=256,512 or m=n=k=256,512; repeat it for others "
            "that go with them.  [powers of two]",
        ),
    ] = None
    by: Annotated[
        str | None,
        typer.Option(
            metavar="KNOB", help="The knob whose values are the lines.  [the first without numbers]"
        ),
    ] = None
    knobs: Annotated[
        list[str] | None,
        typer.Option(
            "--knob", metavar="NAME=VALUE", help="Fix a knob, else at its default; repeat it."
        ),
    ] = None
    heatmap: Annotated[
        str | None,
        typer.Option(
            metavar="[K,K]",
            help="Compare the values of two knobs at one size instead.  [the first two]",
        ),
    ] = None
    plot: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Draw it into a picture, whose suffix says its format."),
    ] = None
    log: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Log of measurements, which are used again.  [TEMPLATE.jsonl]",
        ),
    ] = None
    timeout_s: shared.Timeout = 10.0
    repeats: Annotated[
        int | None, typer.Option(metavar="N", help="Times to take; their median counts.  [5]")
    ] = None
    min_repeat_ms: shared.MinRepeat = None
    flush: shared.Flush = None
    as_json: shared.Json = False

    @property
    def policy(self) -> TimingPolicy:
        """The timing of a configuration; UsageError if an option is wrong."""
        own = {"repeats": self.repeats, "min-repeat-ms": self.min_repeat_ms, "flush": self.flush}
        given = {name: value for name, value in own.items() if value is not None}
        read({**given, "timeout": self.timeout_s}, WORKLOAD, "--")
        return timing_policy(vars(self))


# -- sizes ---------------------------------------------------------------------------------------


def sizes_of(options: BenchOptions, template: Template, target: Target) -> list[dict[str, str]]:
    """Return the arguments that vary, as texts, size by size.

    By default those vary together that must be whole numbers and are not set: over powers of two.

    UsageError if they are not written as they should be, or set as well.
    """
    settings = parse_settings(options.settings)
    if options.sizes:
        sizes = _written(options.sizes)
        for name in sizes[0]:
            if name in settings:
                raise UsageError(f"--sizes and --set both give {name}: leave one of them out")
        return sizes
    free = [
        parameter.name
        for parameter in template.parameters
        if parameter.required and parameter.type is int and parameter.name not in settings
    ]
    if not free:
        return [{}]
    if options.heatmap is not None:
        raise UsageError(f"--heatmap shows one size: give {', '.join(free)} by --set")
    kind = "on cpu" if target.kind == "cuda" and target.on_cpu else target.kind
    largest = _LARGEST_POWER.get(kind, _LARGEST_POWER["llvm"])
    return [dict.fromkeys(free, str(2**power)) for power in range(_SMALLEST_POWER, largest + 1)]


def _written(words: Iterable[str]) -> list[dict[str, str]]:
    """Read words such as ``n=256,512`` and ``m=n=256,512``, whose values go together."""
    columns: dict[str, list[str]] = {}
    for word in words:
        *names, texts = (part.strip() for part in word.split("="))
        values = [text.strip() for text in texts.split(",")]
        if not names or not all(names) or not all(values):
            raise UsageError(
                f"--sizes {word!r}: expected NAME=VALUE,VALUE,..., such as --sizes n=256,512"
            )
        for name in names:
            if name in columns:
                raise UsageError(f"--sizes gives {name} twice")
            columns[name] = values
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{count} of {name}" for name, count in lengths.items())
        raise UsageError(f"--sizes: values are paired in order, so give as many of each: {counts}")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [row for number, row in enumerate(rows) if row not in rows[:number]]


# -- knobs ---------------------------------------------------------------------------------------


def fixed_knobs(words: Sequence[str] | None, space: Space) -> dict[str, KnobValue]:
    """Return the knobs that --knob NAME=VALUE fixes.

    UsageError if a knob or a value of it is not known, or a knob is given twice.
    """
    fixed: dict[str, KnobValue] = {}
    for name, text in parse_settings(words, "--knob").items():
        knob = find_knob(space, name, "--knob")
        values = {value_text(knob.value(i)): knob.value(i) for i in range(len(knob))}
        if text not in values:
            known = ", ".join(list(values)[:20])
            raise UsageError(f"--knob {name}={text}: {name} is one of {known}")
        fixed[name] = values[text]
    return fixed


def find_knob(space: Space, name: str, option: str) -> Knob:
    """Return a knob by its name; UsageError, which begins with the option, if there is none."""
    known = {knob.name: knob for knob in space.knobs}
    if name in known:
        return known[name]
    hint = did_you_mean(name, known, "the knobs are")
    raise UsageError(f"{option} {name!r}: there is no such knob; {hint}")


def line_knob(space: Space, name: str | None, fixed: Mapping[str, KnobValue]) -> Knob | None:
    """Return the knob whose values are the lines: the named one, else the first without numbers.

    None: there is none, or it is fixed; then there is one line.
    """
    if name is not None:
        if name in fixed:
            raise UsageError(f"--by and --knob both give {name}: leave one of them out")
        return find_knob(space, name, "--by")
    for knob in space.knobs:
        if not knob.numeric and 1 < len(knob) <= MAX_LINES:
            return None if knob.name in fixed else knob
    return None


def grid_knobs(space: Space, words: str, fixed: Mapping[str, KnobValue]) -> tuple[Knob, Knob]:
    """Return the two knobs of --heatmap, by default the first two of more than one value.

    Knobs of numbers come before splits, and splits before all others.

    UsageError if there are no such knobs, or those named are none.
    """
    if not words:
        free = [knob for knob in space.knobs if len(knob) > 1 and knob.name not in fixed]
        if len(free) < 2:
            raise UsageError(
                "--heatmap needs two knobs with several values: this template has "
                f"{len(free) or 'none'} left"
            )
        free.sort(key=lambda knob: (not _has_numbers(knob), not knob.numeric))
        return free[0], free[1]
    names = [name.strip() for name in words.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise UsageError(f"--heatmap {words!r}: expected two knobs, such as --heatmap nt,nb")
    across, down = (find_knob(space, name, "--heatmap") for name in names)
    for knob in (across, down):
        if len(knob) < 2:
            raise UsageError(f"--heatmap {words}: {knob.name} has one value only")
        if knob.name in fixed:
            raise UsageError(f"--heatmap and --knob both give {knob.name}: leave one of them out")
    return across, down


def along_axis(knob: Knob) -> list[KnobValue]:
    """Return the values of a knob: numbers and splits ascending, others in their own order."""
    values = [knob.value(i) for i in range(len(knob))]
    return sorted(values) if knob.numeric else values


def _has_numbers(knob: Knob) -> bool:
    return knob.numeric and isinstance(knob.value(0), int | float)
