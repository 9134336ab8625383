"""Results of Kernel Tuner's calls: metrics, the best one, caches, and what is kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.kernel_tuner_problems import ROWS, cache_of, problem

from autotune.compat.kernel_tuner.cache import Cache
from autotune.compat.kernel_tuner.metrics import Scoring
from autotune.compat.kernel_tuner.problem import write_problem
from autotune.compat.kernel_tuner.restrictions import restrictions_of
from autotune.compat.kernel_tuner.runners.measuring import check_verified, folder_of
from autotune.compat.kernel_tuner.util import CompilationFailedConfig, ErrorConfig
from autotune.errors import UsageError
from records import RecordWarning


def test_metrics_are_functions_or_expressions_of_what_comes_before() -> None:
    result = {"a": 4, "time": 2.0}
    rates = {"rate": "8 / time", "twice": "rate * 2", "f": lambda r: r["twice"] + 1}
    Scoring(rates, "time", False).add_to([result])
    assert result == {"a": 4, "time": 2.0, "rate": 4.0, "twice": 8.0, "f": 9.0}
    failed = {"time": CompilationFailedConfig()}
    Scoring({"rate": "8 / time"}, "time", False).add_to([failed])
    assert failed == {"time": "CompilationFailedConfig"}
    with pytest.raises(UsageError, match="metric 'x' fails: ZeroDivisionError: division by zero"):
        Scoring({"x": lambda r: 1 / 0}, "time", False).add_to([{"time": 1.0}])


def test_a_metric_that_is_divided_by_zero_has_no_value() -> None:
    with pytest.raises(UsageError, match="metric 'x' fails: ZeroDivisionError: division by zero"):
        Scoring({"x": "time / (a - 1)"}, "time", False).add_to([{"a": 1, "time": 1.0}])


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (lambda p: p["tim"], "KeyError: 'tim'"),
        (lambda p: undefined, "NameError: name 'undefined'"),  # type: ignore[name-defined]  # noqa: F821
        (lambda p: p["time"] + p["kind"], "TypeError: unsupported operand"),
        (lambda p, q: 1, "TypeError: .* missing 1 required positional"),
        (lambda p: p["time"].median, "AttributeError: 'float' object has no attribute"),
        ("time * kind", "TypeError: a text is not a number"),
    ],
)
def test_a_metric_that_fails_for_any_result_is_told_before_there_is_one(
    metric: Any, message: str
) -> None:
    own = Scoring.of({"first": "2 * time", "x": metric}, None, None, None, ["a", "kind"])
    with pytest.raises(UsageError, match=f"metric 'x' fails: {message}"):
        own.try_on({"a": 1, "kind": "x"})


@pytest.mark.parametrize(
    "metric",
    [
        "1 / (time - 1)",
        lambda p: 1 / (p["time"] - 1),
        lambda p: {3: 4}[p["a"]],
        lambda p: p["times"][2],
        lambda p: p.get("energy"),
        lambda p: p["timestamp"].partition(" ")[0],
    ],
)
def test_a_metric_that_may_be_right_for_measured_numbers_is_tried_on_them(metric: Any) -> None:
    own = Scoring.of({"x": metric}, None, None, None, ["a"])
    own.try_on({"a": 1})
    own.check({"a": 3, "time": 2.0, "times": [2.0] * 3, "timestamp": "2000-01-01 00:00:00"})


def test_an_objective_that_is_no_number_is_told_at_a_result() -> None:
    own = Scoring.of({"x": lambda p: None}, "x", True, None, ["a"])
    own.try_on({"a": 1})
    with pytest.raises(UsageError, match="objective 'x' is None, which is no number"):
        own.check({"a": 1, "time": 1.0})
    own.check({"a": 1, "time": CompilationFailedConfig()})


@pytest.mark.parametrize("larger", [True, False])
def test_what_is_not_a_number_is_never_the_best(larger: bool) -> None:
    results = [{"time": 1.0, "x": x} for x in (float("nan"), 2.0, float("nan"))]
    scoring = Scoring({}, "x", larger)
    assert scoring.best(results) is results[1]
    assert scoring.best(results[:1]) is results[0]


def test_the_best_is_by_objective_and_never_a_failure() -> None:
    results = [
        {"time": 2.0, "GB/s": 5},
        {"time": ErrorConfig(), "GB/s": 9},
        {"time": 3.0, "GB/s": 7},
    ]
    by_time = Scoring.of(None, None, None, None, [])
    assert by_time.best(results) is results[0]
    assert Scoring.of({"GB/s": "1 / time"}, "GB/s", None, None, []).best(results) is results[2]
    assert by_time.best(results[1:2]) is None
    with pytest.raises(UsageError, match="objective_higher_is_better"):
        Scoring.of({"own": "time"}, "own", None, None, [])


@pytest.fixture
def written(tmp_path: Path) -> Path:
    cache = cache_of(tmp_path / "c")
    cache.add(ROWS)
    cache.flush()
    return tmp_path / "c.json"


def rewritten(path: Path, **changed: Any) -> Path:
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, **changed}))
    return path


def test_a_cache_is_read_as_it_was_written(written: Path) -> None:
    text = written.read_text()
    assert text.endswith("}}\n}")  # what Kernel Tuner takes for a closed file
    document = json.loads(text)
    assert (document["kernel_name"], document["problem_size"]) == ("f", 4)
    assert list(document["cache"]) == ["1,x", "2,x"]
    again = cache_of(written).results([])
    assert again == ROWS
    assert isinstance(again["2,x"]["time"], CompilationFailedConfig)


def test_a_call_gets_the_results_of_its_own_space_and_keeps_the_others(written: Path) -> None:
    cache = cache_of(written, parameters={"a": [2, 3], "kind": ["x"]})
    assert list(cache.results([])) == ["2,x"]
    assert not cache.results(restrictions_of(["a > 2"], ["a", "kind"]))
    cache.add({"3,x": {"a": 3, "kind": "x", "time": 1.0}})
    document = json.loads(written.read_text())
    assert list(document["cache"]) == ["1,x", "2,x", "3,x"]
    assert document["tune_params"] == {"a": [2, 3, 1], "kind": ["x"]}


def test_calls_that_share_a_cache_keep_each_others_results(tmp_path: Path) -> None:
    one, other = cache_of(tmp_path / "c"), cache_of(tmp_path / "c")
    one.add({"1,x": ROWS["1,x"]})
    other.add({"2,x": ROWS["2,x"]})
    one.add({"1,x": ROWS["1,x"]})
    one.flush()
    assert cache_of(tmp_path / "c").results([]) == ROWS


@pytest.mark.parametrize(
    "changed", [{"text": "other"}, {"flags": ["-O3"]}, {"x": 1.0}, {"compiler": "clang++"}]
)
def test_a_cache_of_another_source_is_refused(written: Path, changed: dict[str, Any]) -> None:
    cache = cache_of(written, **changed)
    with pytest.raises(UsageError, match="of another text, other options or arguments: choose"):
        cache.results([])


def test_a_cache_of_something_else_is_refused(written: Path) -> None:
    with pytest.raises(UsageError, match=r"has the problem_size 4, not .5, 2.: choose another"):
        cache_of(written, (5, 2))
    with pytest.raises(UsageError, match=r"has the device_name 'Another', not .*: choose another"):
        cache_of(rewritten(written, device_name="Another"))
    document = json.loads(written.read_text())
    del document["device_name"]
    written.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=r"c.json does not say its device_name"):
        cache_of(written)
    written.write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"cannot read .*c.json: 'utf-8' codec"):
        cache_of(written)


def test_entries_that_are_no_results_are_passed_over(written: Path) -> None:
    known = json.loads(written.read_text())["cache"]
    odd = {"3": 3, "4": {"a": 1, "kind": "x"}, "5": {"time": 1.0}, "6": {**ROWS["2,x"], "time": ""}}
    cache = cache_of(rewritten(written, cache={**known, **odd}))
    with pytest.warns(RecordWarning, match=r"skipped 4 of 6 \(entry 3, 4, 5"):
        assert cache.results([]) == ROWS


def test_arrays_that_workers_may_have_mapped_stay(tmp_path: Path) -> None:
    x = np.arange(4, dtype="float32")
    (place,) = {write_problem(tmp_path, problem(), [x], {}) for _ in range(2)}
    before = (place / "argument0.npy").stat()
    write_problem(tmp_path, problem(), [x], {})
    after = (place / "argument0.npy").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    np.testing.assert_array_equal(np.load(place / "argument0.npy"), x)


# -- results that are kept -------------------------------------------------------------------------


def fail_after(text: str | None) -> None:
    """Let a mistake be found in a temporary folder, whose log has a text if one is given."""
    with folder_of(None, None) as at:
        if text is not None:
            (at / "f-1").mkdir()
            (at / "f-1" / "log.jsonl").write_text(text)
        raise UsageError(f"mistake in {at}")


def test_what_was_measured_before_a_function_failed_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(UsageError, match=r"^mistake in .*; .* kept: folder='.*' continues"):
        fail_after("measured")
    (log,) = tmp_path.glob("*/f-1/log.jsonl")
    assert log.read_text() == "measured"
    shutil.rmtree(log.parents[1])
    with pytest.raises(UsageError, match=r"^mistake in \S*$"):
        fail_after(None)
    assert not list(tmp_path.iterdir())


def end_by(
    error: BaseException, given: Path | None = None, cache: Cache | None = None, **more: Any
) -> None:
    """Measure something in a folder, and end by an error; a cache gets more results before."""
    with folder_of(given, cache) as at:
        (at / "f-1").mkdir(exist_ok=True)
        (at / "f-1" / "log.jsonl").write_text("measured")
        if cache is not None:
            cache.add(more)
            cache.flush()
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, RuntimeError])
def test_what_was_measured_before_an_interrupt_is_kept(
    error: type[BaseException],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(error):
        end_by(error())
    (log,) = tmp_path.glob("*/f-1/log.jsonl")
    kept = log.parents[1]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"tune_kernel: the measurements are kept: folder={str(kept)!r} ")
    with pytest.raises(error):
        end_by(error(), kept)
    assert capsys.readouterr().err.splitlines() == [line]
    assert log.exists()


def test_an_interrupt_before_anything_is_measured_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt), folder_of(None, None):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    assert not capsys.readouterr().err


def test_a_folder_is_kept_if_its_cache_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cache = cache_of(tmp_path / "c")
    with pytest.raises(KeyboardInterrupt):
        end_by(KeyboardInterrupt(), None, cache, **{"1,x": ROWS["1,x"]})
    assert capsys.readouterr().err == "tune_kernel: the measurements are kept in the cache\n"
    assert not list(tmp_path.glob("*/f-1/log.jsonl"))
    monkeypatch.setattr(cache, "_write", refused)
    told = r"cannot rewrite .*c\.json.*; the measurements are kept: folder="
    with pytest.raises(UsageError, match=told):
        end_by(KeyboardInterrupt(), None, cache, **{"2,x": ROWS["2,x"]})
    assert len(list(tmp_path.glob("*/f-1/log.jsonl"))) == 1


def test_a_comparison_that_fails_is_told() -> None:
    wrong = {"error": {"message": "verify 'right' fails: KeyError: 3"}}
    with pytest.raises(UsageError, match=r"verify 'right' fails: KeyError: 3"):
        check_verified([wrong, wrong])
    with pytest.warns(UserWarning, match="and so for 1 of 2 configurations"):
        check_verified([wrong, {"time": 1.0}])
