"""`autotune doctor`: what is installed, what works here, and what to do about what does not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import typer

from autotune.cli.doctor import machine_checks, software_checks
from autotune.cli.doctor.finding import Check
from autotune.cli.doctor.probe import probe_libraries
from autotune.cli.options.multi_value_options import Command
from autotune.cli.options.shared_options import Json, command_app
from autotune.cli.terminal.output import print_line, width
from autotune.cli.terminal.signals import ending_signals
from autotune.report.text_tables import wrap
from autotune.system.interrupts import ThreadedCall

PROBLEMS_FOUND = 1  # Exit code if something that should work does not.


app = command_app()


@app.command(cls=Command)
def doctor(context: typer.Context, as_json: Json = False) -> None:
    """Check what is installed and which targets work here, and measure a small kernel."""
    with ending_signals():  # so that nothing is left lying about
        done = _run_checks(context.find_root().command)
    problems = [f for check in done for f in check.findings if f.problem]
    print_line(json.dumps(_as_json(done)) if as_json else _as_text(done))
    raise typer.Exit(PROBLEMS_FOUND if problems else 0)


def _run_checks(command: Any) -> list[Check]:
    """Do all checks; other processes probe libraries while the self-test runs."""
    trying = ThreadedCall(partial(probe_libraries, software_checks.STEPS))
    tested = machine_checks.self_test()
    outcomes = trying.result()
    return [
        machine_checks.program(),
        software_checks.libraries(outcomes),
        machine_checks.processor(),
        machine_checks.memory(),
        software_checks.openmp(),
        software_checks.llvm(outcomes),
        software_checks.cuda(outcomes),
        machine_checks.folders(),
        machine_checks.settings(command),
        tested,
    ]


def _as_text(done: Sequence[Check]) -> str:
    label = max(len(check.name) for check in done) + 2
    lines = [
        # A path alone stays whole, to be copied.
        wrap(f"{c.name:{label}}{c.text}", width(), " " * label) if " " in c.text
        else f"{c.name:{label}}{c.text}"
        for c in done
    ]  # fmt: skip
    findings = sorted((f for check in done for f in check.findings), key=lambda f: f.problem)
    for finding in findings:
        kind = "problem" if finding.problem else "note"
        lines.append(wrap(f"{kind}: {finding.what}; {finding.remedy}", width(), "    "))
    count = sum(finding.problem for finding in findings)
    lines.append({0: "no problems", 1: "1 problem"}.get(count, f"{count} problems"))
    return "\n".join(lines)


def _as_json(done: Sequence[Check]) -> dict[str, Any]:
    found: dict[str, list[dict[str, str]]] = {"problems": [], "notes": []}
    for check in done:
        for finding in check.findings:
            kind = "problems" if finding.problem else "notes"
            what = {"check": check.name, "what": finding.what, "remedy": finding.remedy}
            found[kind].append(what)
    facts = {check.name: {**check.facts} for check in done}
    return {"ok": not found["problems"], **found, "checks": facts}
