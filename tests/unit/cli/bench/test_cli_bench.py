"""`autotune bench`: lines over sizes, records used again, mistakes."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from support.formula_times import ADD, COPY, ON_CPU, Call, FormulaMeasurer

from autotune.cli.main import main
from records import RecordStore


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
    FormulaMeasurer.scatter = lambda config: (
        0.2 if config.values["schedule"] == "continuous" else 0.02
    )
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
    FormulaMeasurer.noise = 0.09
    assert "noisy" not in bench(*ADD, "--sizes", "n=16")[1]
    FormulaMeasurer.noise = 0.43
    _, out, _ = bench(*ADD, "--sizes", "n=16,32")
    assert "the machine was noisy (up to 43 %): speeds closer than that may be equal" in " ".join(
        out.split()
    )
    _, out, _ = bench(*ADD, "--sizes", "n=16,32", "--json")
    assert [p["noise"] for p in json.loads(out)["lines"]["alternate"]] == [0.09, 0.43]


def test_what_is_measured_goes_to_the_log_and_is_not_measured_again(bench: Call) -> None:
    bench(*ADD, "--sizes", "n=16,32", "--log", "l.jsonl")
    records = RecordStore("l.jsonl").load()
    assert [(r.args["n"], r.config["values"]["schedule"]) for r in records] == [
        (16, "alternate"), (16, "continuous"), (32, "alternate"), (32, "continuous"),
    ]  # fmt: skip
    assert all(record.target == "cuda -on=cpu" and record.steps for record in records)
    first = len(FormulaMeasurer.asked)
    again = bench(*ADD, "--sizes", "n=16,32,48", "--log", "l.jsonl", "--json")
    assert len(FormulaMeasurer.asked) == first + 2
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
    assert {values["schedule"] for values in FormulaMeasurer.asked} == {"continuous"}


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
    FormulaMeasurer.scatter = lambda config: 0.2
    code, out, _ = bench("fixed.py:fixed")
    assert code == 0
    (line,) = re.findall(r"% at most \((.*)\)", " ".join(out.split()))
    assert line
    assert " at " not in line
    FormulaMeasurer.fails = lambda config: True
    _, out, _ = bench("fixed.py:fixed", "--log", "other.jsonl")
    assert f"\n{line}: " in out


def test_sizes_are_powers_of_two_unless_they_are_given(bench: Call) -> None:
    data = json.loads(bench(*ADD, "--json")[1])
    assert [size["args"]["n"] for size in data["sizes"]] == [32, 64, 128, 256, 512]
    assert data["sizes"][0]["bytes"] == 4 * (32 + 2 * 32 * 32)
    assert data["times_mean_nothing"] is True


def test_several_arguments_vary_together(bench: Call) -> None:
    words = [*COPY, "--sizes", "m=16,32", "--sizes", "n=8,8", "--json"]
    FormulaMeasurer.fails = lambda config: True
    code, out, err = bench(*words)
    data = json.loads(out)
    assert [size["args"] for size in data["sizes"]] == [{"m": 16, "n": 8}, {"m": 32, "n": 8}]
    assert data["unit"] == "GB/s"  # it computes nothing
    assert (code, err) == (
        3,
        "autotune: nothing valid was measured: WRONG_ANSWER: 7 is wrong\n",
    )


def test_a_template_without_categories_has_one_line(bench: Call) -> None:
    FormulaMeasurer.fails = lambda config: True
    data = json.loads(bench(*COPY, "--sizes", "m=n=16", "--json")[1])
    assert list(data["lines"]) == ["default"]


def test_wrong_answers_are_gaps_whose_reason_is_told(bench: Call) -> None:
    FormulaMeasurer.fails = lambda config: config.values["schedule"] == "continuous"
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
    FormulaMeasurer.baseline_s = None
    assert "NumPy" not in bench(*ADD, "--sizes", "n=16")[1]


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
        (["--heatmap"], "--heatmap shows one size: give n by --set"),
        (["--heatmap", "--sizes", "n=4,8"], "--heatmap shows one size: give one value to each"),
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
    assert FormulaMeasurer.asked == []


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
