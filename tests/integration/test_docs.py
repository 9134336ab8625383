"""The Python blocks of the documents run, in order, in one namespace per document."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.c_compiler import needs_cc
from support.command_line import QUICK
from support.cuda_compiler import needs_nvrtc
from support.sample_records import log_of, made

from autotune.cli.options.job_files import run_options
from autotune.schedule.annotation_primitives import AnnotationPrimitives
from autotune.schedule.loop_primitives import LoopPrimitives
from autotune.schedule.placement_primitives import PlacementPrimitives
from autotune.tile import parse
from records import Record, RecordStore
from records.formats import write_records

_ARGS = {"m": 512, "n": 512, "k": 512, "dtype": "float32"}
_EPYC = {"kind": "cpu", "name": "AMD EPYC 9R14", "threads": 16}
_M1 = {"kind": "cpu", "name": "Apple M1", "threads": 8}
_FAILURE = {"code": "RUN_TIMEOUT", "stage": "run", "message": "more than 10 s"}
_BEGIN_S = 1795773600.0  # 2026-11-27 10:00 UTC


def _trial(number: int, cost_s: float | None, **changes: Any) -> Record:
    fields: dict[str, Any] = {
        "workload": {"template": "matmul", "args": _ARGS},
        "target": "llvm",
        "config": {"index": 37 * number, "values": {"tile_rows": number}},
        "costs_s": None if cost_s is None else (cost_s,),
        "error": None if cost_s else _FAILURE,
        "device": _EPYC,
        "seed": 0,
        "timestamp": _BEGIN_S + 20 * number,
        "fingerprints": {"space": "3f5c", "template": "64c7"},
    }
    return Record(**{**fields, **changes})


def make_logs(folder: Path) -> None:
    """Write tuned.jsonl, of a run, and other.jsonl, of another one that begins like it."""
    costs_us = [880, 412, None, 395, 1210, 388, None, 640, 402, 391]
    trials = [_trial(n, us and 1e-6 * us) for n, us in enumerate(costs_us)]
    finals = [
        _trial(
            n,
            1e-6 * us,
            timestamp=_BEGIN_S + 300,
            final={"comparison": "e1", "rank": rank, "over_default": over, "range": spread},
        )
        for rank, (n, us, over, spread) in enumerate(
            [(3, 393, 2.25, [2.2, 2.3]), (5, 397, 2.23, [2.2, 2.3]), (0, 884, None, None)]
        )
    ]
    log_of(folder / "tuned.jsonl", *trials, *finals)
    changed = replace(trials[7], costs_s=(1e-6,))
    elsewhere = [
        replace(trials[n], device=_M1, costs_s=(us * 1e-6,), timestamp=_BEGIN_S + 400 + n)
        for n, us in ((0, 930), (1, 655), (3, 702))
    ]
    old = {"template": "old_conv", "args": {"n": 56}}
    gone = [_trial(n, us * 1e-6, workload=old) for n, us in ((20, 527), (21, 498))]
    log_of(folder / "other.jsonl", *trials[:7], changed, *elsewhere, *gone)
    first, second = trials[:2]
    lines = [first.to_json_line(), "[1]", second.to_json_line(), first.to_json_line()[:40]]
    (folder / "damaged.jsonl").write_text("\n".join(lines))


DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "name",
    [
        "te.md", "dtypes.md", "extend.md", "features.md", "tile.md", "tune.md", "compat.md",
        pytest.param("rtc.md", marks=needs_nvrtc), pytest.param("external.md", marks=needs_cc),
    ],
)  # fmt: skip
def test_the_blocks_of_a_document_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / name).read_text()
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    assert blocks
    space: dict[str, Any] = {}
    for block in blocks:
        above = text[: block.start(1)].count("\n")
        code = compile("\n" * above + block[1], str(DOCS / name), "exec")
        exec(code, space)


def test_the_statements_and_commands_of_the_page_of_tile_are_right(
    tmp_path: Path, call: Callable[..., Any]
) -> None:
    text = (DOCS / "tile.md").read_text()
    statements = re.findall(r"`([^`\n]+;)`", text)
    assert len(statements) > 4
    for statement in statements:
        parse(f"function (A) -> (O) {{ {statement} }}")

    matmul = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"
    (tmp_path / "kernel.tile").write_text(matmul)
    commands = re.findall(r"^(?:\| `)?autotune (.* kernel\.tile[^`\n]*)", text, re.MULTILINE)
    assert len(commands) == 6
    for command in commands:
        more = ["--trials", "2", *QUICK] if command.startswith("run") else []
        ended = call(*command.replace("=512", "=8").split(), *more)
        assert (ended.code, ended.err) == (0, ""), command

    job = re.search(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert job is not None
    (tmp_path / "job.toml").write_text(job[1])
    (workload,) = run_options({"job": str(tmp_path / "job.toml")}, {}, "").workloads
    assert (workload.template, workload.shapes) == ("kernel.tile", {"X": "4,5,6", "S": "scalar"})


def test_the_examples_of_the_page_of_tools_for_logs_print_what_it_says(
    tmp_path: Path, call: Callable[..., Any]
) -> None:
    make_logs(tmp_path)
    text = (DOCS / "record_tools.md").read_text()
    blocks = re.findall(r"^```\n(\$ .*?)^```", text, re.MULTILINE | re.DOTALL)
    examples = [example for block in blocks for example in re.split(r"^\$ ", block, flags=re.M)]
    assert len(examples) > 12
    for example in filter(None, examples):
        command, _, printed = example.partition("\n")
        ended = call(*command.split()[1:], variables={"TZ": "UTC"})
        assert (ended.out, ended.err) == (printed, ""), command


@pytest.mark.parametrize(("name", "count"), [("records.md", 2), ("formats.md", 1)])
def test_the_examples_that_read_records_run(
    name: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matmul = {"template": "matmul", "args": {"m": 8, "n": 8, "k": 8}}
    log = log_of(tmp_path / "matmul.jsonl", *(made(n, workload=matmul) for n in range(2)))
    write_records(RecordStore(log).load(), "autotvm", tmp_path / "tuning.log")
    monkeypatch.chdir(tmp_path)
    text = (DOCS / name).read_text()
    blocks = re.findall(r"^```python\n(from records.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == count
    for block in blocks:
        # As a program of its own: what it needs has to be imported.
        command = [sys.executable, "-W", "error", "-c", block]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, ""), block


def test_the_page_of_schedules_is_what_its_generator_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(DOCS)
    generator = importlib.import_module("generate_schedule")
    assert (DOCS / "schedule.md").read_text() == generator.page(), (
        "run python docs/generate_schedule.py"
    )


def test_a_recording_of_a_terminal_becomes_a_cast_and_a_picture_of_key_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(DOCS)
    recorder = importlib.import_module("record_terminal")
    output = ((0.5, "first\r\n"), (2.0, "\x1b[1A\x1b[32m━━\x1b[0m <&\x1b[K\r\n"), (4.0, "end"))
    recording = recorder.Recording("autotune run x", 20, 5, output)
    head, *events = map(json.loads, recording.cast().splitlines())
    assert (head["version"], head["width"], head["height"]) == (2, 20, 5)
    assert events == [[at, "o", text] for at, text in output]
    frames = ["\n".join("".join(c.data for c in line).rstrip() for line in frame.lines)
              for frame in recording.key_frames()]  # fmt: skip
    assert frames == ["first", "━━ <&", "━━ <&\nend"]
    drawn = ElementTree.fromstring(recorder.picture(recording))
    texts = [node.text for node in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert [text.strip() for text in texts if text] == [
        "1 s", "first", "3 s", "<&", "at the end", "<&", "end",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "columns", "words"),
    [
        ("run", 80, ["trials", "speed", "best", "default", "ceiling"]),
        ("run", 40, ["trials", "speed", "best", "default", "ceiling"]),
        ("jobs", 80, ["trials", "reached", "softmax", "default", "3 of 3 workloads"]),
    ],
)
def test_recorded_runs_show_what_they_are_recorded_for(
    name: str, columns: int, words: list[str]
) -> None:
    cast = (DOCS / "pictures" / f"{name}-{columns}.cast").read_text().splitlines()
    assert json.loads(cast[0])["width"] == columns
    said = "".join(json.loads(line)[2] for line in cast[1:])
    assert [word for word in words if word not in said] == []
    ElementTree.parse(DOCS / "pictures" / f"{name}-{columns}.svg")


def test_every_primitive_has_a_section() -> None:
    text = (DOCS / "schedule.md").read_text()
    families = (LoopPrimitives, AnnotationPrimitives, PlacementPrimitives)
    methods = [name for family in families for name in vars(family) if not name.startswith("_")]
    primitives = {f"s[B].{name}" for name in methods}
    primitives |= {"s.cache_read", "s.cache_write", "s.rfactor"}
    for primitive in primitives:
        assert f"### `{primitive}(" in text, primitive


def test_links_between_documents_lead_somewhere() -> None:
    for path in [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_index_of_decisions_lists_each_page_with_its_title_and_status() -> None:
    folder = DOCS / "decisions"
    pattern = r"^\| (\d{3}) \| \[(.+)\]\((.+)\) \| (.+) \|$"
    rows = re.findall(pattern, (folder / "README.md").read_text(), re.MULTILINE)
    assert sorted(row[2] for row in rows) == sorted(p.name for p in folder.glob("[0-9]*.md"))
    for number, title, name, status in rows:
        heading, first = (folder / name).read_text().split("\n\n", 2)[:2]
        assert heading == f"# {number}: {title}"
        assert first.startswith("Status: ") == (status != "accepted"), name


def test_source_files_that_documents_name_exist() -> None:
    root = DOCS.parent
    files = [path.relative_to(root).as_posix() for path in root.glob("[!.]*/**/*.py")]
    for path in [*DOCS.rglob("*.md"), root / "README.md", root / "CONTRIBUTING.md"]:
        for named in re.findall(r"`([\w./-]+/\w+\.py)`", path.read_text()):
            assert any(f"/{file}".endswith(f"/{named}") for file in files), f"{path.name}: {named}"


PACKAGES = ("autotune", "features", "records", "search_spaces")


def test_every_package_says_what_comes_in_what_goes_out_and_which_file_to_read_first() -> None:
    for package in PACKAGES:
        for path in (DOCS.parent / package).rglob("__init__.py"):
            text = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split())
            in_order = re.search(r"In: .*Out: .*Read ", text)
            assert in_order, f"{path}: {text}"
            for named in re.findall(r"`([\w/]+\.(?:py|lark))`", text):
                assert (path.parent / named).exists(), f"{path} names {named}"
