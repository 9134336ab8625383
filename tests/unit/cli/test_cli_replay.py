"""`autotune replay run` and `compare`: tables, JSON, pictures, and mistakes in one line."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.footprint import alive, wait_for

from autotune.cli.main import main
from autotune.cli.options.multi_value_options import expand_lists

NAMES = ["block_size_x", "tile", "use_shmem"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of two recorded spaces, a copy of one, and a file that is none."""
    for name, best in (("one", 64), ("two", 128)):
        cache = {}
        for x, tile, shmem in itertools.product([32, 64, 96, 128, 256], [1, 2, 4], [0, 1]):
            time = 1 + abs(x - best) / 64 + abs(tile - 2) + shmem
            values = dict(zip(NAMES, (x, tile, shmem), strict=True))
            failed = "RuntimeFailedConfig" if x * tile > 512 else time
            entry = {**values, "time": failed, "compile_time": 1000.0, "benchmark_time": 500.0}
            cache[f"{x},{tile},{shmem}"] = entry
        document = {"kernel_name": "k", "device_name": name, "tune_params_keys": NAMES}
        (tmp_path / f"{name}.json").write_text(json.dumps({**document, "cache": cache}))
    (tmp_path / "three_again.json").write_text((tmp_path / "one.json").read_text())
    (tmp_path / "input.json").write_text("{}")
    for name, cache in (("empty", {}), ("odd", {"1": {"x": None, "time": 1.0}})):
        document = {"kernel_name": "k", "tune_params_keys": ["x"], "cache": cache}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["replay", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_compare_prints_json_of_the_documented_form(folder, capsys):
    words = ["--tuner", "random", "genetic", "--budget", "30", "--repeats", "2", "--seed", "1"]
    code, out, err = call(capsys, "compare", str(folder), *words, "--json")
    assert code == 0
    data = json.loads(out)
    assert list(data) == ["tuners"]
    assert list(data["tuners"]) == ["random", "genetic"]
    for tuner in data["tuners"].values():
        assert set(tuner) == {"share", "within_5_percent", "median_to_5_percent", "per_space"}
        assert set(tuner["share"]) == {"25", "50", "100", "200"}
        assert set(tuner["per_space"]) == {"one", "two"}
        assert 0.5 < tuner["share"]["25"] <= 1.0
        assert tuner["share"]["50"] is None
        assert tuner["within_5_percent"] == 1.0
    assert "input.json is of no known format" in err
    assert "three_again.json: the same measurements as one" in err


def test_the_same_seed_gives_the_same_comparison(folder, capsys):
    words = ["--tuner", "model", "--budget", "15", "--repeats", "1", "--json"]
    first = call(capsys, "compare", str(folder), *words)[1]
    assert call(capsys, "compare", str(folder), *words)[1] == first


def test_compare_prints_a_table_of_means_and_one_per_tuner(folder, capsys):
    code, out, _ = call(capsys, "compare", str(folder), "--tuner", "grid", "--repeats", "1")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "2 spaces, 1 run each, 200 measurements"
    assert lines[1].split()[:5] == ["tuner", "25", "50", "100", "200"]
    assert lines[2].startswith("grid")
    assert [line.split()[0] for line in lines[5:]] == ["one", "two"]


def test_run_says_what_each_run_found(folder, capsys):
    file = str(folder / "one.json")
    code, out, _ = call(capsys, "run", file, "--tuner", "random", "--budget", "100")
    assert code == 0
    assert "one: 30 configurations, optimum 1.00 ms" in out
    assert "random, seed 0: best 1.00 ms in 30 measurements (45 s recorded)" in out
    assert "the space is exhausted" in out


def test_run_as_json_holds_the_sequence(folder, capsys):
    file = str(folder / "one.json")
    out = call(capsys, "run", file, "--tuner", "random", "--budget", "5", "--json")[1]
    data = json.loads(out)
    (run,) = data["runs"]["random"]
    assert len(run["indices"]) == len(run["costs_s"]) == len(run["seconds"]) == 5
    assert data["space"] == "one"


def test_transfer_proposes_the_other_cards_best_from_the_first_measurement(folder, capsys):
    file, other = str(folder / "one.json"), str(folder / "two.json")
    words = ["run", file, "--budget", "4", "--json", "--transfer", other]
    first = json.loads(call(capsys, *words)[1])["runs"]["model"][0]
    # The fastest of the other card, x = 128, tile = 2, takes 2 ms here; the median takes 3.5.
    assert first["costs_s"][0] is not None
    assert first["costs_s"][0] <= 2.6e-3


def test_curves_are_drawn(folder, capsys):
    pytest.importorskip("matplotlib")
    picture = folder / "curves.svg"
    words = ["--tuner", "random", "grid", "--budget", "10", "--plot", str(picture)]
    code, out, _ = call(capsys, "run", str(folder / "one.json"), *words)
    assert code == 0
    assert "<svg" in picture.read_text()
    assert f"curves in {picture}" in out


def test_a_space_in_which_nothing_works_is_said_to_be_one(tmp_path, capsys):
    entry = {"x": 1, "time": "CompilationFailedConfig"}
    document = {"tune_params_keys": ["x"], "cache": {"1": entry, "2": {**entry, "x": 2}}}
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(document))
    code, out, err = call(capsys, "run", str(file), "--tuner", "random", "grid")
    assert code == 3
    assert "random, seed 0: nothing worked in 2 measurements" in out
    assert err == "autotune: broken: every recorded measurement failed\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "{}/one.json", "--tuner", "modle"], "did you mean 'model'"),
        (["run", "{}/one.json", "--tuner", "grid", "--patience", "0.1"], "use --tuner model"),
        (["run", "{}/one.json", "--patience", "7"], "between 0 and 1"),
        (["run", "{}/one.json", "--tuner", "grid", "--transfer", "{}/two.json"], "only the model"),
        (["run", "{}/empty.json"], "holds no measurements to replay"),
        (["run", "{}/odd.json"], "odd.json: knob 'x': None is not a finite number"),
        (["run", "{}/one.json", "--transfer", "{}/one.json"], "--transfer: no workload"),
        (["compare"], "Missing argument"),
        (["run", "{}/one.json", "--budget", "0"], "--budget"),
    ],
)
def test_a_mistake_is_one_clear_line(folder, capsys, words, message):
    code, _, err = call(capsys, *(word.replace("{}", str(folder)) for word in words))
    assert code == 2
    lines = [line for line in err.splitlines() if "left out" not in line]
    assert len(lines) == 1
    assert message in lines[0]


def test_what_makes_no_space_is_left_out_of_a_comparison_and_said_to_be(folder, capsys):
    code, _, err = call(capsys, "compare", str(folder), "--tuner", "random", "--budget", "5")
    assert code == 0
    assert "left out: " in err
    for name in ("empty.json holds no measurements", "odd.json: knob 'x': None"):
        assert name in err


def test_own_measurements_are_not_transferred(folder, capsys):
    """Also not those of a file that holds them a second time."""
    words = ["--budget", "5", "--json", "--transfer", f"{folder}/two.json"]
    own = [f"{folder}/one.json", f"{folder}/three_again.json"]
    found = []
    for sources in (words, words + own):
        code, out, _ = call(capsys, "run", f"{folder}/one.json", *sources)
        assert code == 0
        found.append(json.loads(out)["runs"]["model"][0]["indices"])
    assert found[0] == found[1]


def test_processes_of_a_comparison_end_with_it_however_it_ends(folder):
    words = ["compare", str(folder), "--tuner", "optuna:tpe", "--repeats", "1000", "--jobs", "2"]
    run = subprocess.Popen(
        [sys.executable, "-m", "autotune", "replay", *words], stderr=subprocess.DEVNULL
    )
    try:
        own = psutil.Process(run.pid)
        wait_for(lambda: any("spawn_main" in " ".join(p.cmdline()) for p in own.children()))
        workers = own.children()
    finally:
        run.kill()
        run.wait()
    wait_for(lambda: not any(map(alive, workers)))


@pytest.mark.parametrize(
    ("words", "expanded"),
    [
        (["F", "--tuner", "a", "b"], ["F", "--tuner", "a", "--tuner", "b"]),
        (["--tuner", "a", "F"], ["--tuner", "a", "F"]),
        (["--json", "F", "--tuner", "a", "b"], ["--json", "F", "--tuner", "a", "--tuner", "b"]),
        (["F", "--seed", "1", "--tuner", "a"], ["F", "--seed", "1", "--tuner", "a"]),
        (["F", "--tuner=a", "--budget", "5"], ["F", "--tuner=a", "--budget", "5"]),
    ],
)
def test_a_list_option_takes_words_up_to_the_next_option(words, expanded):
    assert expand_lists(words, 1, ["--tuner", "--transfer"], ["--json"]) == expanded
