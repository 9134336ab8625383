"""Each damaged line or entry of another tool is a record, or is counted and explained.

`AUTOTUNE_EXAMPLES=n` damages n lines of each format, and n T1 files and conditions; others with
another number `AUTOTUNE_SEED`.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from support import foreign_logs
from support.log_fuzz import Damage, text_of, tree_of

from records import Record, RecordError, RecordWarning
from records.formats import autotvm, kernel_tuner, metaschedule, t4
from search_spaces import Expression, SpaceError
from search_spaces.t1 import document_of, parse_t1

EXAMPLES = int(os.environ.get("AUTOTUNE_EXAMPLES", "300"))
SEED = 10 * int(os.environ.get("AUTOTUNE_SEED", "0"))
AT_ONCE = 200

_SKIPPED = re.compile(r"file: skipped (\d+) of (\d+) \(\w+ .*\): [^:]+: .+")


def in_one_line(error: Exception) -> None:
    assert "\n" not in str(error)
    assert len(str(error)) < 600


def outcome(read: Callable[[], Iterator[Record]], parts: int) -> int:
    """Return how many of some parts are records; the others have to be counted."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = len(list(read()))
        except RecordError as error:
            in_one_line(error)
            return 0
    told = [str(warning.message) for warning in caught]
    assert all(issubclass(warning.category, RecordWarning) for warning in caught)
    counts = [match for text in told if (match := _SKIPPED.fullmatch(text))]
    assert len(counts) == len(told) <= 1
    skipped = int(counts[0][1]) if counts else 0
    assert found + skipped == parts
    return found


def damaged_lines(lines: list[Any], count: int, seed: int) -> Iterator[list[bytes]]:
    """Yield lists of damaged lines, which bytes may have split."""
    damage = Damage(seed)
    made: list[bytes] = []
    for number in range(count):
        line = lines[number % len(lines)]
        if number % 4:
            data = damage.text(line).encode("utf-8", "surrogatepass")
        else:
            data = damage.bytes(json.dumps(line), json.dumps(lines[0]))
        made += (data.replace(b"\n", b" ") + b"\n").splitlines(keepends=True)
        if len(made) >= AT_ONCE or number == count - 1:
            # One that is sound: a file without any is refused as a whole.
            yield [*made, f"{json.dumps(lines[0])}\n".encode()]
            made = []


def measurements(line: bytes) -> bool:
    """Whether a line may be one: neither empty nor a comment."""
    return bool(line.strip()) and not line.startswith(b"#")


def test_each_damaged_line_of_autotvm_is_a_record_or_counted():
    found = 0
    for lines in damaged_lines(foreign_logs.autotvm(0)[1:], EXAMPLES, seed=SEED + 3):
        parts = sum(map(measurements, lines))
        found += outcome(lambda lines=lines: autotvm.records_of(lines, "file"), parts)
    assert found > EXAMPLES // 10


def test_each_damaged_line_of_metaschedule_is_a_record_or_counted():
    workloads, records = foreign_logs.metaschedule(2)
    modules = metaschedule.modules_of(
        foreign_logs.as_lines(workloads).splitlines(keepends=True), "file"
    )
    found = 0
    for lines in damaged_lines(records, EXAMPLES, seed=SEED + 4):
        parts = sum(bool(line.strip()) for line in lines)
        found += outcome(lambda lines=lines: metaschedule.records_of(lines, modules, "file"), parts)
    assert found > EXAMPLES // 10


def test_each_damaged_entry_of_a_cache_is_a_record_or_counted():
    (document,) = foreign_logs.kernel_tuner(0)
    entries = list(document["cache"].items())
    damage, found = Damage(SEED + 5), 0
    for start in range(0, EXAMPLES, AT_ONCE):
        some = range(start, min(EXAMPLES, start + AT_ONCE))
        damaged = [damage.text(entries[number % len(entries)][1]) for number in some]
        parts = [f'"{number}":{entry}' for number, entry in zip(some, damaged, strict=True)]
        parts.append(f'"last":{json.dumps(entries[0][1])}')
        text = json.dumps({**document, "cache": {}})[:-2] + ",\n".join(parts)
        parsed = kernel_tuner.parse_document(text + "}" * (start // AT_ONCE % 3))
        assert isinstance(parsed, dict)
        found += outcome(lambda p=parsed: kernel_tuner.records_of(p, "file"), len(parts))
    assert found > EXAMPLES // 10


def test_each_damaged_result_of_t4_is_a_record_or_counted():
    (document,) = foreign_logs.t4(0)
    damage, found = Damage(SEED + 6), 0
    for number in range(0, EXAMPLES, 5):
        results = [text_of(tree_of(result)) for result in document["results"]]
        results[number % 5] = damage.text(document["results"][number % 5])
        text = f'{{"results":[{",".join(results)}]}}'
        parsed = kernel_tuner.parse_document(text)
        if isinstance(parsed, dict):
            found += outcome(lambda p=parsed: t4.records_of(p, "file"), 5)
    assert found > EXAMPLES // 10


def test_a_damaged_t1_file_is_a_space_or_one_line():
    damage, outcomes = Damage(SEED + 7), {"space": 0, "refused": 0}
    rng = np.random.default_rng(0)
    for number in range(EXAMPLES):
        data = foreign_logs.t1(number)
        text = damage.text(data) if number % 3 else json.dumps(data)
        try:
            problem = parse_t1(damage.file(text), "file")
            places = rng.integers(len(problem.space), size=16)
            assert problem.space.feasible(places).dtype == np.bool_
            outcomes["space"] += 1
            again = parse_t1(json.dumps(document_of(problem)).encode(), "file")
        except SpaceError as error:
            in_one_line(error)
            outcomes["refused"] += 1
            continue
        assert (again.space.feasible(places) == problem.space.feasible(places)).all()
    assert min(outcomes.values()) > EXAMPLES // 20


PIECES = [
    *("x", "y", "mode", "'fast'", "1", "0", "2.5", "True", "(", ")", "[1, 2]", "min(", ",", "in"),
    *("+", "-", "*", "/", "//", "%", "**", "<", "==", "!=", ">=", "and", "or", "not", "if", "else"),
    *("&&", "||", "!", "lambda", "x.y", "x[0]", "__import__", "1" * 30, "9" * 5000, "{", ":=", ";"),
]


def test_a_condition_of_any_pieces_is_evaluated_or_one_line():
    draw, evaluated = np.random.default_rng(SEED + 8), 0
    tables = {"mode": np.array(["fast", "safe"])}
    columns = {
        "x": np.array([0, 1, 2**40]),
        "y": np.array([-1.5, 0.0, 3.0]),
        "mode": np.array([0, 1, 0]),
    }
    for _ in range(EXAMPLES):
        size = int(draw.integers(1, 9))
        text = " ".join(PIECES[k] for k in draw.integers(len(PIECES), size=size))
        try:
            rule = Expression(text, tables)
        except SpaceError as error:
            in_one_line(error)
            continue
        if not set(rule.names) <= columns.keys():
            continue
        try:
            holds = rule(columns)
        except TypeError:  # a text was computed with, which a constraint tells as SpaceError
            continue
        assert holds.dtype == np.bool_
        assert holds.shape in ((), (3,))
        evaluated += 1
    assert evaluated > EXAMPLES // 100
