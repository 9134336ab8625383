"""`autotune bench`: lines over sizes, maps over two knobs, records used again, mistakes."""

from __future__ import annotations

import html
import json
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.bench import bench_measurements
from autotune.cli.main import main
from autotune.cli.options.multi_value_options import close_optional
from autotune.measure.result import MeasureError, MeasureErrorNo, MeasureResult
from autotune.operators.template_lookup import BUILTIN
from autotune.report import plots
from autotune.system import host
from records import RecordStore
from search_spaces import Config

ON_CPU = ["--target", "cuda -on=cpu"]
ADD, COPY = ["add", *ON_CPU], ["copy", *ON_CPU]
Result = tuple[int, str, str]
Call = Callable[..., Result]


class Instead:
    """A measurer whose times are a formula: the more threads, the faster; nothing runs."""

    asked: list[dict[str, Any]]
    fails: Callable[[Config], bool]
    baseline_s: tuple[float, ...] | None
    scatter: Callable[[Config], float]
    noise: float | None

    def __init__(self, template: str, args: Any, target: Any, policy: Any, *_: Any) -> None:
        self.policy, self._n = policy, args.get("n", 4)

    def __enter__(self) -> Instead:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def start(self) -> None:
        """Nothing starts."""

    def baseline(self) -> tuple[float, ...] | None:
        return self.baseline_s

    def measure(self, inputs: Any) -> Any:
        for candidate in inputs:
            values = candidate.config.values
            self.asked.append(dict(values))
            if type(self).fails(candidate.config):
                wrong = MeasureError(MeasureErrorNo.WRONG_ANSWER, "check", "7 is wrong")
                yield candidate, MeasureResult(error=wrong)
                continue
            factor = 2.0 if values.get("schedule") == "continuous" else 1.0
            cost_s = factor * self._n**2 * 1e-9 * 64 / values.get("nt", 64)
            scatter = type(self).scatter(candidate.config) * cost_s
            costs_s = (cost_s, cost_s - scatter, cost_s + scatter)
            yield candidate, MeasureResult(costs_s=costs_s, noise=self.noise)


@pytest.fixture
def bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Return a function that runs the command where times are a formula."""
    Instead.asked, Instead.baseline_s = [], (2e-6, 1e-6, 3e-6)
    Instead.fails = lambda config: False
    Instead.scatter, Instead.noise = lambda config: 0.0, None
    monkeypatch.setattr(bench_measurements, "LocalMeasurer", Instead)
    for name in ("add", "copy"):
        monkeypatch.setitem(BUILTIN, (name, "cuda"), f"support.bench_templates:{name}")
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Result:
        code = main(["bench", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


# -- lines over sizes ------------------------------------------------------------------------------


def test_a_line_for_each_schedule_beside_the_baseline_in_gflops(bench: Call) -> None:
    code, out, _ = bench(*ADD, "--sizes", "n=16,32")
    assert code == 0
    title, *place, conditions, head, first, second = out.splitlines()
    assert title == "add(kind=plain, dtype=float32) on cuda -on=cpu"
    assert " ".join(" ".join(place).split()).endswith("these times say nothing of a GPU")
    assert conditions == "GFLOPS, nt=64, nb=256, lanes=1"
    assert head.split() == ["n", "data", "alternate", "continuous", "NumPy"]
    # n * n additions in n * n nanoseconds; NumPy takes 2 us.
    assert first.split() == ["16", "2.06", "KiB", "1.00", "0.500", "0.128"]
    assert second.split() == ["32", "8.12", "KiB", "1.00", "0.500", "0.512"]


def test_the_spread_of_the_repeats_is_shown_and_large_ones_are_marked(
    bench: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    Instead.scatter = lambda config: 0.2 if config.values["schedule"] == "continuous" else 0.02
    _, out, _ = bench(*ADD, "--sizes", "n=16,32")
    lines = [line.split() for line in out.splitlines()]
    (row,) = [line for line in lines if line[:1] == ["16"]]
    assert row == ["16", "2.06", "KiB", "1.00", "0.500~", "0.128"]
    assert " ".join(out.split()).endswith(
        "spread of the repeats: 11 % as a rule, 20 % at most (continuous at 32); "
        "~ marks more than 10 %"
    )
    _, out, _ = bench(*ADD, "--sizes", "n=16,32", "--json")
    points = json.loads(out)["lines"]
    assert [p["spread"] for p in points["continuous"]] == pytest.approx([0.2, 0.2])
    assert [p["spread"] for p in points["alternate"]] == pytest.approx([0.02, 0.02])


def test_a_machine_that_was_noisy_is_told_of(bench: Call) -> None:
    Instead.noise = 0.09
    assert "noisy" not in bench(*ADD, "--sizes", "n=16")[1]
    Instead.noise = 0.43
    _, out, _ = bench(*ADD, "--sizes", "n=16,32")
    assert "the machine was noisy (up to 43 %): speeds closer than that may be equal" in " ".join(
        out.split()
    )
    _, out, _ = bench(*ADD, "--sizes", "n=16,32", "--json")
    assert [p["noise"] for p in json.loads(out)["lines"]["alternate"]] == [0.09, 0.43]


def test_a_map_over_knobs_shows_spread_and_noise_too(bench: Call) -> None:
    Instead.scatter, Instead.noise = lambda config: config.values["nt"] / 2048, 0.5
    _, out, _ = bench(*ADD, "--set", "n=64", "--heatmap", "nt,nb")
    said = " ".join(out.split())
    assert "50 % at most (continuous, nt=1024, nb=" in said
    assert "~ marks more than 10 %" in said
    assert "the machine was noisy (up to 50 %)" in said


def test_what_is_measured_goes_to_the_log_and_is_not_measured_again(bench: Call) -> None:
    bench(*ADD, "--sizes", "n=16,32", "--log", "l.jsonl")
    records = RecordStore("l.jsonl").load()
    assert [(r.args["n"], r.config["values"]["schedule"]) for r in records] == [
        (16, "alternate"), (16, "continuous"), (32, "alternate"), (32, "continuous"),
    ]  # fmt: skip
    assert all(record.target == "cuda -on=cpu" and record.steps for record in records)
    first = len(Instead.asked)
    again = bench(*ADD, "--sizes", "n=16,32,48", "--log", "l.jsonl", "--json")
    assert len(Instead.asked) == first + 2
    speeds = [point["speed"] for point in json.loads(again[1])["lines"]["alternate"]]
    assert speeds == pytest.approx([1.0, 1.0, 1.0])


def test_the_fastest_record_is_a_line_of_its_own_where_it_is_faster(bench: Call) -> None:
    bench(*ADD, "--sizes", "n=16", "--knob", "nt=512", "--knob", "schedule=continuous")
    _, out, _ = bench(*ADD, "--sizes", "n=16,32", "--json")
    lines = json.loads(out)["lines"]
    assert list(lines) == ["alternate", "continuous", "best recorded"]
    assert [p["speed"] for p in lines["best recorded"]] == pytest.approx([4.0, 1.0])
    assert lines["best recorded"][0]["config"]["nt"] == 512


def test_a_knob_can_be_fixed_and_another_one_make_the_lines(bench: Call) -> None:
    words = ["--set", "n=64", "--knob", "schedule=continuous", "--by", "nt"]
    _, out, _ = bench(*ADD, *words, "--json")
    data = json.loads(out)
    assert list(data["lines"])[:2] == ["nt=32", "nt=64"]
    assert data["lines"]["nt=32"][0]["speed"] == pytest.approx(0.25)
    refused = data["lines"]["nt=2048"][0]
    assert refused["speed"] is None
    assert refused["why"] == "a block has at most 1024 of nt"
    assert {values["schedule"] for values in Instead.asked} == {"continuous"}


def test_a_table_that_is_too_wide_stands_in_parts(bench: Call) -> None:
    _, out, _ = bench(*ADD, "--set", "n=64", "--by", "nb")
    heads = [line for line in out.splitlines() if "nb=" in line]
    names = [f"nb={2**power}" for power in range(5, 15)]
    assert [word for head in heads for word in head.split()[1:]] == [*names, "NumPy"]
    assert max(map(len, heads)) <= 80
    assert len(heads) == 2


FIXED = """
from autotune import te
from autotune.template import template

@template("fixed", target="llvm", reference=lambda a: a + 1)
def fixed(cfg):
    cfg.define_knob("nt", [64, 32])
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1, name="B")
    return te.create_schedule(B.op), [A, B]
"""


def test_lines_of_a_template_of_one_size_are_told_without_a_size(bench: Call) -> None:
    Path("fixed.py").write_text(FIXED)
    Instead.scatter = lambda config: 0.2
    code, out, _ = bench("fixed.py:fixed")
    assert code == 0
    (line,) = re.findall(r"% at most \((.*)\)", " ".join(out.split()))
    assert line
    assert " at " not in line
    Instead.fails = lambda config: True
    _, out, _ = bench("fixed.py:fixed", "--log", "other.jsonl")
    assert f"\n{line}: " in out


def test_sizes_are_powers_of_two_unless_they_are_given(bench: Call) -> None:
    data = json.loads(bench(*ADD, "--json")[1])
    assert [size["args"]["n"] for size in data["sizes"]] == [32, 64, 128, 256, 512]
    assert data["sizes"][0]["bytes"] == 4 * (32 + 2 * 32 * 32)
    assert data["times_mean_nothing"] is True


def test_several_arguments_vary_together(bench: Call) -> None:
    words = [*COPY, "--sizes", "m=16,32", "--sizes", "n=8,8", "--json"]
    Instead.fails = lambda config: True
    code, out, err = bench(*words)
    data = json.loads(out)
    assert [size["args"] for size in data["sizes"]] == [{"m": 16, "n": 8}, {"m": 32, "n": 8}]
    assert data["unit"] == "GB/s"  # it computes nothing
    assert (code, err) == (
        3,
        "autotune: nothing valid was measured: WRONG_ANSWER: 7 is wrong\n",
    )


def test_a_template_without_categories_has_one_line(bench: Call) -> None:
    Instead.fails = lambda config: True
    data = json.loads(bench(*COPY, "--sizes", "m=n=16", "--json")[1])
    assert list(data["lines"]) == ["default"]


def test_wrong_answers_are_gaps_whose_reason_is_told(bench: Call) -> None:
    Instead.fails = lambda config: config.values["schedule"] == "continuous"
    code, out, _ = bench(*ADD, "--sizes", "n=16,32")
    assert code == 0
    *_, row, _, last = out.splitlines()
    assert row.split() == ["16", "2.06", "KiB", "1.00", "-", "0.128"]
    assert last == "continuous at 16, 32: WRONG_ANSWER: 7 is wrong"


def test_times_taken_with_other_versions_are_used_and_told(bench: Call) -> None:
    bench(*ADD, "--sizes", "n=16", "--log", "l.jsonl")
    log = Path("l.jsonl")
    log.write_text(log.read_text().replace('"numpy":"', '"numpy":"0.'))
    code, _, err = bench(*ADD, "--sizes", "n=16", "--log", "l.jsonl")
    assert code == 0
    assert err.startswith("autotune: 2 of the times are records of l.jsonl with other versions")


def test_times_of_another_device_are_told_and_taken_anew(bench: Call) -> None:
    bench(*ADD, "--sizes", "n=16", "--log", "l.jsonl")
    log = Path("l.jsonl")
    log.write_text(log.read_text().replace('"threads":', '"threads":1'))
    code, _, err = bench(*ADD, "--sizes", "n=16", "--log", "l.jsonl")
    assert code == 0
    assert "2 records of" in err
    assert "from other devices" in err
    assert len(log.read_text().splitlines()) == 4


def test_without_a_baseline_there_is_no_column_of_it(bench: Call) -> None:
    Instead.baseline_s = None
    assert "NumPy" not in bench(*ADD, "--sizes", "n=16")[1]


# -- maps over two knobs ---------------------------------------------------------------------------


def test_a_map_has_a_panel_for_each_schedule_and_names_the_fastest(bench: Call) -> None:
    code, out, _ = bench(*ADD, "--set", "n=32", "--heatmap")
    assert code == 0
    blocks = out.split("\n\n")
    assert [block.splitlines()[0] for block in blocks[1:3]] == ["alternate", "continuous"]
    head, first = blocks[1].splitlines()[1:3]
    assert head.split() == ["nb", "\\", "nt", "32", "64", "128", "256", "512", "1024", "2048"]
    assert first.split() == ["32", "0.500", "1.00", "2.00", "4.00", "8.00", "16.0", "-"]
    assert blocks[3].splitlines() == [
        "best 16.0 GFLOPS (64.0 ns): schedule=alternate, nt=1024, nb=32, lanes=1",
        "NumPy 0.512 GFLOPS",
        "20 of them have no time: a block has at most 1024 of nt",
    ]


def test_the_knobs_of_a_map_can_be_named(bench: Call) -> None:
    words = ["--set", "n=32", "--heatmap", "lanes,nt", "--knob", "schedule=alternate", "--json"]
    data = json.loads(bench(*ADD, *words)[1])
    assert data["across"] == {"knob": "lanes", "values": [1, 2, 4]}
    assert data["down"]["knob"] == "nt"
    assert list(data["panels"]) == [""]
    assert [point["config"]["lanes"] for point in data["panels"][""][0]] == [1, 2, 4]


TILES = """
from autotune import te
from autotune.template import template

@template("tiles", target="llvm")
def tiles(cfg, n: int):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    sizes = cfg.define_split("tile", n, 2)
    notes = cfg.define_annotate("note", ["outer", "inner"], ["none", "unroll"])
    cfg.define_knob("unused", [3])
    notes.apply(s[B], sizes.apply(s[B], s[B].op.axis[0]))
    return s, [A, B]
"""


def test_splits_and_annotations_are_axes_of_a_map(bench: Call) -> None:
    Path("tiles.py").write_text(TILES)
    words = ["tiles.py:tiles", "--set", "n=8", "--heatmap"]
    code, out, _ = bench(*words)
    assert code == 0
    head, *rows = out.split("\n\n")[1].splitlines()
    assert head.split() == ["note", "\\", "tile", "1,8", "2,4", "4,2", "8,1"]
    notes = ["none,none", "none,unroll", "unroll,none", "unroll,unroll"]
    assert [row.split()[0] for row in rows] == notes
    assert "best " in out
    assert ": tile=1,8, note=none,none, unused=3" in out
    data = json.loads(bench(*words, "note,tile", "--json")[1])
    assert data["across"] == {"knob": "note", "values": [note.split(",") for note in notes]}
    assert data["down"]["values"] == [[1, 8], [2, 4], [4, 2], [8, 1]]


def test_a_map_of_splits_is_drawn(bench: Call) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    Path("tiles.py").write_text(TILES)
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        words = ["--set", "n=8", "--heatmap", "note,tile", "--plot", "p.svg"]
        assert bench("tiles.py:tiles", *words)[0] == 0
    drawn = text_of("p.svg")
    assert all(text in drawn for text in ["none,unroll", "2,4", "note", "tile"])


def test_a_knob_with_one_value_is_no_axis(bench: Call) -> None:
    Path("tiles.py").write_text(TILES)
    code, _, err = bench("tiles.py:tiles", "--set", "n=8", "--heatmap", "tile,unused")
    assert (code, "unused has one value only" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "closed"),
    [
        (["t", "--heatmap"], ["t", "--heatmap="]),
        (["t", "--heatmap", "a,b"], ["t", "--heatmap", "a,b"]),
        (["--heatmap", "t", "--json"], ["--heatmap=", "t", "--json"]),
        (["t", "--heatmap=a,b"], ["t", "--heatmap=a,b"]),
    ],
)
def test_the_option_of_a_map_may_stand_alone(words: list[str], closed: list[str]) -> None:
    assert close_optional(words, "--heatmap", lambda word: "," in word) == closed


# -- pictures --------------------------------------------------------------------------------------


def text_of(picture: str) -> str:
    """Return all text of an SVG; lines of one text follow each other."""
    drawn = Path(picture).read_text()
    return " ".join(map(html.unescape, re.findall(r"<text [^>]*>([^<]*)</text>", drawn)))


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (
            ["--sizes", "n=16,32"],
            ["alternate", "continuous", "NumPy", "GFLOPS", "data (MB)", "say nothing of a GPU"],
        ),
        (
            ["--set", "n=16", "--heatmap", "lanes,nt"],
            ["alternate", "lanes", "nt", "2048", "refused, or failed"],
        ),
    ],
    ids=["lines", "map"],
)
def test_pictures_name_what_they_show(bench: Call, words: list[str], texts: list[str]) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        code, out, _ = bench(*ADD, *words, "--plot", "p.svg")
    assert code == 0
    assert out.endswith("drawn into p.svg\n")
    drawn = text_of("p.svg")
    for text in texts:
        assert text in drawn


def test_the_name_of_the_processor_is_shown_as_it_is(
    bench: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = r"[bold]X[/bold] (R) Xeon[R] {cpu} %s $a_{$ <b>&amp; \1 'q', the first of 2 processors"
    monkeypatch.setattr(host, "cpuinfo", lambda: {"model name": name})
    words = [*ADD, "--sizes", "n=16"]
    _, out, _ = bench(*words)
    assert f"GPU threads as loops on {name}, " in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        assert bench(*words, "--plot", "p.svg")[0] == 0
    assert f"GPU threads as loops on {name}, " in text_of("p.svg")


def test_gaps_and_single_points_can_be_drawn(bench: Call) -> None:
    pytest.importorskip("matplotlib")
    Instead.fails = lambda config: config.values["nt"] != 64
    Instead.baseline_s = None
    assert bench(*ADD, "--set", "n=16", "--by", "nt", "--plot", "p.png")[0] == 0
    assert bench(*ADD, "--set", "n=16", "--heatmap", "lanes,nt", "--plot", "q.png")[0] == 0
    assert min(Path(name).stat().st_size for name in ("p.png", "q.png")) > 10_000


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--sizes", "n="], "--sizes 'n=': expected NAME=VALUE,VALUE,..., such as --sizes n=256"),
        (["--sizes", ""], "--sizes '': expected NAME=VALUE"),
        (["--sizes", "n=1", "--sizes", "n=2"], "--sizes gives n twice"),
        (["--sizes", "n=1,2", "--sizes", "kind=row"], "as many of each: 2 of n, 1 of kind"),
        (["--sizes", "n=4", "--set", "n=4"], "--sizes and --set both give n"),
        (["--sizes", "n=x"], "argument n must be an integer, got 'x'"),
        (["--sizes", "k=1"], "template 'add' has no argument 'k'"),
        (["--knob", "nt"], "--knob 'nt': expected NAME=VALUE, such as --knob nt=128"),
        (["--knob", "nt=3"], "--knob nt=3: nt is one of 64, 32, 128"),
        (["--knob", "nt=64", "--knob", "nt=64"], "--knob gives nt twice"),
        (["--knob", "threads=3"], "--knob 'threads': there is no such knob; the knobs are"),
        (["--by", "shedule"], "--by 'shedule': there is no such knob; did you mean 'schedule'?"),
        (["--by", "nt", "--knob", "nt=64"], "--by and --knob both give nt"),
        (["--heatmap"], "--heatmap is of one size: give n by --set"),
        (["--heatmap", "--sizes", "n=4,8"], "--heatmap is of one size: give one value to each"),
        (["--heatmap", "nt,nt", "--set", "n=4"], "expected two knobs, such as --heatmap nt,nb"),
        (["--heatmap", "nt,nx", "--set", "n=4"], "--heatmap 'nx': there is no such knob"),
        (["--heatmap", "nt,nb", "--set", "n=4", "--knob", "nb=32"], "--knob both give nb"),
        (["--plot", "p.nothing"], "the picture p.nothing: its suffix says the format"),
        (["--plot", "no/p.png"], "the picture no/p.png: there is no folder no"),
        (["--repeats", "0"], "--repeats must be a whole number >= 1"),
        (["--log", "no/l.jsonl"], "there is no folder no"),
    ],
)
def test_mistakes_are_one_line(bench: Call, words: list[str], told: str) -> None:
    if "--plot" in words:
        pytest.importorskip("matplotlib")
    code, out, err = bench(*ADD, *words)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
    assert Instead.asked == []


def test_a_picture_needs_the_extra_report(bench: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.backend_bases", None)
    _, _, err = bench(*ADD, "--plot", "p.png")
    assert err == "autotune: a picture needs Matplotlib: pip install 'kernel-autotune[report]'\n"


def test_a_picture_that_may_not_be_written_is_told_before_anything_runs(
    bench: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    access = os.access

    def elsewhere(path: Any, *how: Any, **more: Any) -> bool:
        return Path(path) != Path() and access(path, *how, **more)

    monkeypatch.setattr(plots.os, "access", elsewhere)  # the first plot asks for its cache, too
    code, _, err = bench(*ADD, "--plot", "p.png")
    assert code == 2
    assert err == "autotune: the picture p.png: it may not be written; choose another file\n"


# -- truly measured --------------------------------------------------------------------------------


def test_two_schedules_are_checked_and_timed_beside_numpy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    quick = ["--repeats", "2", "--min-repeat-ms", "0"]
    words = ["broadcast_add", *ON_CPU, "--sizes", "n=24", "--json", *quick]
    assert main(["bench", *words]) == 0
    data = json.loads(capsys.readouterr().out)
    (size,) = data["sizes"]
    assert size["flops"] == 24 * 24
    assert len(size["baseline_costs_s"]) == 2
    for name in ("alternate", "continuous"):
        (point,) = data["lines"][name]
        assert math.isclose(point["speed"], 1e-9 * 24 * 24 / point["cost_s"])
    records = RecordStore("broadcast_add.jsonl").load()
    assert [record.max_error for record in records] == [0.0, 0.0]
