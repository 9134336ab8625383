"""MetaSchedule's JSON database: a file of workloads and one of tuning records, a line for each.

A workload is [hash, module in base64]; a tuning record is [number of its workload, [trace, seconds
per run, target, arguments]]. A trace is [instructions, decisions]; a decision is [number of its
instruction, value]. Modules are kept as text and never decoded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from records.formats.malformed import as_list, as_number, as_object
from records.formats.outcomes import failure
from records.formats.skipped import SkippedParts
from records.json_lines import parse_json, parse_plain
from records.record import MIN_S, Record, canonical, expect
from records.record_errors import RecordError

TEMPLATE = "MetaSchedule"  # All its records have this template; the hash of the module tells more.
WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"

FAILED_S = 1e10  # What MetaSchedule writes as the time of a failure.
_POSTPROCESSING = "EnterPostproc"  # Instructions from this one on follow from the decisions.


class Module(NamedTuple):
    """A line of the file of workloads."""

    hash: str
    text: str  # in base64


def is_workload(line: object) -> bool:
    """Whether a parsed line is of a file of workloads."""
    return isinstance(line, list) and len(line) == 2 and all(isinstance(x, str) for x in line)


def is_record(line: object) -> bool:
    """Whether a parsed line is of a file of tuning records."""
    if not isinstance(line, list) or len(line) != 2 or type(line[0]) is not int:
        return False
    return isinstance(line[1], list) and len(line[1]) == 4


def files_of(path: Path) -> tuple[Path, Path]:
    """Return the files of workloads and of tuning records, given the folder or one of the two.

    Raises RecordError if there is no second file beside the first.
    """
    if path.is_dir():
        found = path / WORKLOADS, path / RECORDS
    elif "tuning_record" in path.name:
        found = path.with_name(path.name.replace("tuning_record", "workload")), path
    elif "workload" in path.name:
        found = path, path.with_name(path.name.replace("workload", "tuning_record"))
    else:
        raise RecordError(
            f"{path} is one file of a MetaSchedule database; the other one is found if they are "
            f"named {WORKLOADS} and {RECORDS}"
        )
    for file in found:
        if not file.is_file():
            raise RecordError(f"{path} is of a MetaSchedule database, which also needs {file}")
    return found


def modules_of(lines: Iterable[bytes], name: str) -> list[Module | None]:
    """Return the modules of a file of workloads, None in place of a line that is none.

    Raises RecordError if none of the lines is a workload.
    """
    skipped, found = SkippedParts(name, "no MetaSchedule workload", "line"), list[Module | None]()
    for number, line in enumerate(lines, 1):
        found.append(None)
        with skipped.reading(number):
            parsed = _parsed(line)
            if not is_workload(parsed):
                raise ValueError("it is not a hash and a module")
            found[-1] = Module(*parsed)
    skipped.tell()
    return found


def records_of(
    lines: Iterable[bytes], modules: Sequence[Module | None], name: str
) -> Iterator[Record]:
    """Yield the measurements in a file of tuning records.

    `modules`: the workloads that they count in.
    `name`: what messages call the file.

    Lines that are none are passed over with a `RecordWarning`.

    Raises RecordError if none of the lines is a measurement.
    """
    skipped = SkippedParts(name, "no MetaSchedule tuning record", "line")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        with skipped.reading(number):
            parsed = _parsed(line)
            if not is_record(parsed):
                raise ValueError("it is not the number of a workload and four entries")
            which, parts = parsed
            module = modules[which] if 0 <= which < len(modules) else None
            if module is None:
                raise ValueError(f"there is no workload {which} in the other file")
            yield _record(skipped.found, module, *parts)
    skipped.tell()


def _parsed(line: bytes) -> Any:
    found = parse_plain(line)
    return parse_json(line) if found is None else found


def _record(index: int, module: Module, trace: Any, run_s: Any, target: Any, inputs: Any) -> Record:
    instructions, decisions = as_list(trace, "the trace", 2)[:2]
    as_list(instructions, "the instructions")
    own = {"module": module.text, "target": target, "inputs": inputs}
    return Record(
        workload={
            "template": TEMPLATE,
            "args": {"hash": module.hash, "sketch": _sketch(instructions)},
            "metaschedule": own,
        },
        target=_target_text(target),
        config={
            "index": index,
            "values": _knob_values(instructions, as_list(decisions, "the decisions")),
            "trace": instructions,
        },
        seed=0,
        timestamp=0.0,
        **_outcome(run_s),
    )


def _knob_values(instructions: list[Any], decisions: list[Any]) -> dict[str, Any]:
    """Return the decisions by the name and number of their instruction."""
    values: dict[str, Any] = {}
    for decision in decisions:
        number, value = as_list(decision, "a decision", 2)[:2]
        expect("the number of an instruction", number, int)
        if not 0 <= number < len(instructions):
            raise RecordError(f"a decision is of instruction {number} of {len(instructions)}")
        kind = as_list(instructions[number], "an instruction", 1)[0]
        values[f"{kind}.{number}"] = value
    return values


def _sketch(instructions: list[Any]) -> str:
    """Return a digest of the instructions that decisions do not change: they make the space."""
    fixed: list[Any] = []
    for instruction in instructions:
        if as_list(instruction, "an instruction", 1)[0] == _POSTPROCESSING:
            break
        fixed.append(instruction)
    return hashlib.sha256(canonical({"trace": fixed}).encode()).hexdigest()[:8]


def _target_text(target: Any) -> str:
    """Return an exported target as text, such as "llvm -mcpu=skylake -num-cores=4"."""
    if not isinstance(target, Mapping):
        return str(target)
    options = []
    for name in sorted(target.keys() - {"kind", "tag", "keys"}):
        value = target[name]
        if isinstance(value, Mapping):
            value = value.get("kind", "")
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        options.append(f"-{name}={text}")
    return " ".join([str(target.get("kind", "unknown")), *options])


def _outcome(run_s: Any) -> dict[str, Any]:
    if run_s is None:
        return failure("UNKNOWN", "MetaSchedule has no time")
    costs = [as_number(cost, "a time") for cost in as_list(run_s, "the times")]
    if not costs or not all(MIN_S <= cost < FAILED_S for cost in costs):
        return failure("UNKNOWN", "MetaSchedule has no time")
    return {"costs_s": tuple(costs)}


def why_not(record: Record) -> str | None:
    """Return why this format cannot hold a record; None if it can."""
    own, trace = record.workload.get("metaschedule"), record.config.get("trace")
    if not isinstance(own, Mapping) or not isinstance(trace, list):
        return "no TVM module and trace: it was not imported from MetaSchedule"
    if not isinstance(own.get("module"), str) or not isinstance(record.args.get("hash"), str):
        return "no TVM module"
    for name in record.config["values"]:
        number = name.rpartition(".")[2]
        if not number.isascii() or not number.isdecimal() or int(number[:9]) >= len(trace):
            return f"a knob that is no instruction of its trace, such as {name[:60]!r}"
    return None


def lines_of(records: Iterable[Record]) -> Iterator[tuple[str | None, str]]:
    """Yield the line of a new workload, or None, and that of each tuning record."""
    numbers: dict[tuple[str, str], int] = {}
    for record in records:
        own = as_object(record.workload["metaschedule"], "the workload")
        module = (record.args["hash"], own["module"])
        new = module not in numbers
        number = numbers.setdefault(module, len(numbers))
        decisions = [
            [int(name.rpartition(".")[2]), value] for name, value in record.config["values"].items()
        ]
        trace = [record.config["trace"], sorted(decisions, key=lambda decision: decision[0])]
        costs = [FAILED_S] if record.costs_s is None else list(record.costs_s)
        line = [number, [trace, costs, own.get("target"), own.get("inputs")]]
        yield json.dumps(list(module)) if new else None, json.dumps(line, allow_nan=False)
