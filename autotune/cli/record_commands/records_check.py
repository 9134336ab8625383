"""`autotune records validate` and `diff`: what is wrong with logs, and how they differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Annotated

import typer

from autotune.cli.options.record_filters import Files, Known, opened_logs
from autotune.cli.options.shared_options import Json
from autotune.cli.record_commands.records_list import line_text
from autotune.cli.terminal.output import DIFFERENT, print_line, width
from autotune.report.text_tables import wrap
from autotune.report.units import time_text
from autotune.reuse.grades import told_apart
from autotune.system.words import counted
from autotune.task.workload import Workload
from records import Record, SummaryRow
from records.outline import Outline
from records.tools.diff import BestChange, LogDiff
from records.tools.log_lines import every_line, records_of


def validate(
    files: Files,
    templates: Annotated[
        bool,
        typer.Option(
            "--templates",
            help="Also compare records of this kind of device with today's templates.",
        ),
    ] = False,
    known: Known = None,
    as_json: Json = False,
) -> None:
    """Check every line of logs; name those that are no records, and say why.

    Exit code 1 if there are any.
    """
    ask = _asking(known or ()) if templates else None
    records, wrong, problems = 0, 0, Counter[str]()
    for line in every_line(opened_logs(files)):
        if isinstance(line.found, Outline):
            records += 1
            if ask is not None and (problem := ask(Record.from_line(line.data))):
                problems[problem] += 1
            continue
        wrong += 1
        if as_json:
            found = {"file": str(line.path), "line": line.number, "problem": str(line.found)}
            print_line(json.dumps(found))
        else:
            print_line(f"{line.path}, line {line.number}: {' '.join(str(line.found).split())}")
    if as_json:
        print_line(json.dumps({"records": records, "wrong": wrong, "templates": dict(problems)}))
    else:
        for text in _checked(records, wrong, problems):
            print_line(wrap(text, width(), "  "))
    if wrong:
        raise typer.Exit(DIFFERENT)


def _asking(known: Iterable[str]) -> Callable[[Record], str]:
    from autotune.reuse.current_templates import CurrentTemplates

    return CurrentTemplates([*known]).problem


def _checked(records: int, wrong: int, problems: Counter[str]) -> Iterable[str]:
    from autotune.reuse.current_templates import PROBLEMS

    for problem, count in problems.most_common():
        yield f"{counted(count, 'record')}: {PROBLEMS[problem]}"
    yield f"{counted(records, 'record')}, {counted(wrong, 'line')} of no record"


def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="A log, or a folder of logs.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    brief: Annotated[
        bool, typer.Option("--brief", help="Print numbers of records, and not each of them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the records that only one of two logs has, and workloads whose best differ.

    Exit code 1 if there is a difference.
    """
    names = (before, after)
    sides = [opened_logs([name]) for name in names]
    found = LogDiff(*((lambda logs=logs: records_of(every_line(logs))) for logs in sides))
    if as_json:
        best = [_as_json(change) for change in found.best]
        counts = {"same": found.same, "only_a": found.only[0], "only_b": found.only[1]}
        print_line(json.dumps({**counts, "best": best}))
    else:
        _print_diff(found, names, brief)
    if found:
        raise typer.Exit(DIFFERENT)


def _print_diff(found: LogDiff, names: tuple[str, str], brief: bool) -> None:
    for side, sign in enumerate("-+"):
        for line in () if brief else found.lines(side):
            print_line(f"{sign} {line_text(line)}")
    devices = told_apart(change.row.device for change in found.best)
    for change, device in zip(found.best, devices, strict=True):
        row = change.row
        workload = f"{Workload(row.template, row.args, row.constant)} on {row.target}"
        print_line(wrap(f"{workload}, {device}", width(), "    "))
        print_line(f"  best {_best(change.before)} -> {_best(change.after)}")
    only = (f"{count} only in {name}" for count, name in zip(found.only, names, strict=True))
    print_line(wrap(f"{counted(found.same, 'record')} in both, {', '.join(only)}", width(), "  "))


def _best(row: SummaryRow | None) -> str:
    if row is None or row.best_cost_s is None:
        return "none"
    return f"{time_text(row.best_cost_s)} (config {row.best_index})"


def _as_json(change: BestChange) -> dict[str, object]:
    rows = {"a": change.before, "b": change.after}
    return {name: None if row is None else asdict(row) for name, row in rows.items()}
