"""`autotune.autotuned`: functions that are tuned for the arrays they are called with."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.errors import ArgumentError, NoRecordError, UsageError
from autotune.task.task import Task
from autotune.template import template
from records import RecordStore


def doubled(n: int, dtype: str = "float32") -> te.Tensor:
    A = te.placeholder((n,), dtype, name="A")
    return te.compute((n,), lambda i: A[i] * 2, name="B")


def ones(n: int, dtype: str = "f4") -> Any:
    return np.ones(n, dtype)


def trials(log: Path) -> list[Any]:
    """Return the arguments of the trials in a log."""
    records = RecordStore(log).load() if log.exists() else []
    return [dict(record.args) for record in records if record.is_trial]


def afresh(log: Path, when: str, **options: Any) -> Any:
    """Return the function as another process has it: with the log, and nothing in memory."""
    return autotune.autotuned(doubled, log=log, when=when, trials=2, seed=0, **options)


def test_the_first_call_tunes_and_later_ones_and_other_processes_build(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    made = autotune.autotuned(log=log, trials=2, seed=0)(doubled)
    b = made(ones(500))
    assert b.tolist() == [2.0] * 500
    assert trials(log) == [{"n": 500, "dtype": "float32"}] * 2

    b[:] = 0
    assert made(ones(500), b) is None
    assert b.tolist() == [2.0] * 500
    for when in ("call", "never", "default"):
        other = afresh(log, when)
        assert other(ones(500)).tolist() == [2.0] * 500
        assert other.built(ones(500)).grade == "exact"
    assert len(trials(log)) == 2

    assert made(ones(500, "f8")).dtype == "float64"
    assert trials(log)[2:] == [{"n": 500, "dtype": "float64"}] * 2


def test_what_a_run_has_left_unfinished_is_continued(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    autotune.tune(doubled, {"n": 300}, trials=2, seed=0, log=log)
    first_trial, *_ = log.read_text().splitlines(keepends=True)
    log.write_text(first_trial)
    autotune.autotuned(doubled, log=log, trials=2, seed=0)(ones(300))
    assert len(trials(log)) == 2


def test_without_a_record_never_raises_and_default_warns(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with pytest.raises(NoRecordError, match=r"^no record that can be used for doubled\(n=9"):
        autotune.autotuned(doubled, log=log, when="never")(ones(9))
    made = autotune.autotuned(doubled, log=log, when="default")
    with pytest.warns(UserWarning, match="building the default configuration"):
        assert made(ones(9)).tolist() == [2.0] * 9
    assert made(ones(9)).tolist() == [2.0] * 9  # without a second warning
    assert not log.exists()


def test_only_new_values_of_the_key_are_tuned(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    made = autotune.autotuned(doubled, key=["dtype"], log=log, trials=1, seed=0)
    made(ones(500))
    assert made(ones(300)).tolist() == [2.0] * 300
    assert made.built(ones(300)).grade == "shape"
    assert trials(log) == [{"n": 500, "dtype": "float32"}]
    made(ones(300, "f8"))
    assert trials(log)[1:] == [{"n": 300, "dtype": "float64"}]
    other = afresh(log, "never", key=["dtype"])
    assert other.built(ones(200, "f8")).record.args == {"n": 300, "dtype": "float64"}


def test_with_an_empty_key_one_size_is_tuned_of_each_type(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    made = autotune.autotuned(doubled, key=[], log=log, trials=1, seed=0)
    for n in (200, 300, 400):
        assert made(ones(n)).sum() == 2 * n
    assert trials(log) == [{"n": 200, "dtype": "float32"}]
    assert made(ones(200, "f8")).sum() == 400  # a type is no size
    assert trials(log)[1:] == [{"n": 200, "dtype": "float64"}]


def test_arguments_that_no_array_tells_are_given_by_name(tmp_path: Path) -> None:
    def shifted(n: int, by: int = 1) -> te.Tensor:
        A = te.placeholder((n + by,), name="A")
        return te.compute((n,), lambda i: A[i + by], name="B")

    made = autotune.autotuned(shifted, log=tmp_path / "log.jsonl", when="default")
    with pytest.warns(UserWarning, match="default"):
        assert made(np.arange(8, dtype="f4"), n=5, by=3).tolist() == [3, 4, 5, 6, 7]
    assert made(np.arange(8, dtype="f4"), by=3, n=5).tolist() == [3, 4, 5, 6, 7]
    with pytest.warns(UserWarning, match="default"):
        assert made(np.arange(8, dtype="f4"), n=7).tolist() == [1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(UsageError, match="the arrays do not tell argument 'n'"):
        made(np.arange(8, dtype="f4"))


def test_a_value_that_is_equal_to_python_alone_is_another_value(tmp_path: Path) -> None:
    def moved(n: int, by: int = 0, down: bool = False) -> te.Tensor:
        A = te.placeholder((n,), name="A")
        return te.compute((n,), lambda i: A[i] - by if down else A[i] + by, name="B")

    made = autotune.autotuned(moved, log=tmp_path / "log.jsonl", when="default")
    with pytest.warns(UserWarning, match="default"):
        assert made(ones(3), by=1, down=True).tolist() == [0, 0, 0]
    for other in ({"by": True, "down": True}, {"by": 1, "down": 1}, {"by": 1.0, "down": True}):
        with pytest.raises(UsageError, match=r"argument (by|down) must be"):
            made(ones(3), **other)


def test_arrays_that_do_not_fit_are_refused_before_anything_is_tuned(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    made = autotune.autotuned("matmul", log=log)
    a, b = np.ones((4, 5), "f4"), np.ones((6, 3), "f4")
    with pytest.raises(ArgumentError, match=r"argument 2, 'B', must have shape \(5, 3\), got"):
        made(a, b)
    with pytest.raises(ArgumentError, match="argument 1 must be an array, got list"):
        made([1.0], b)
    with pytest.raises(ArgumentError, match="takes 2 arrays"):
        made(a, b, a, b)
    assert not log.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"when": "sometimes"}, "when='sometimes'"),
        ({"when": []}, "when=."),
        ({"trails": 3}, "no argument 'trails'; did you mean 'trials'"),
        ({"constant": [0]}, "no argument 'constant'"),
        ({"key": "n"}, "key must be names of arguments"),
        ({"key": 5}, "key must be names of arguments"),
        ({"log": 5}, "autotuned: log must be the path of a file, not 5"),
        ({"target": ""}, "unknown target kind ''"),
        ({"whne": "never"}, "no argument 'whne'; did you mean 'when'"),
        ({"key": ["m"]}, "key has 'm'"),
        ({"tuner": "optuna:tpf"}, "unknown tuner 'optuna:tpf'"),
        ({"cost_model": "xgbost"}, "unknown cost model 'xgbost'"),
        ({"features": "lops"}, "unknown feature extractor 'lops'"),
        ({"measurer": "locla"}, "unknown measurer 'locla'"),
    ],
)
def test_mistakes_are_told_where_they_stand(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        autotune.autotuned(**options)(doubled)


def test_parts_in_files_are_loaded_when_a_call_tunes_and_not_before(tmp_path: Path) -> None:
    made = autotune.autotuned(
        doubled, log=tmp_path / "log.jsonl", trials=1, tuner=f"{tmp_path}/gone.py:Mine"
    )
    with pytest.raises(UsageError, match=r"gone\.py"):
        made(ones(4))


def test_a_decorated_template_keeps_its_name_and_is_tuned_as_a_function(tmp_path: Path) -> None:
    @autotune.autotuned(log=tmp_path / "log.jsonl", when="never")
    @template("thrice", reference=lambda a: 3 * a)
    def tripled(n: int) -> te.Tensor:
        """Three times a vector."""
        A = te.placeholder((n,), name="A")
        return te.compute((n,), lambda i: A[i] * 3, name="B")

    assert (tripled.__name__, tripled.__doc__) == ("tripled", "Three times a vector.")
    assert "thrice" in repr(tripled)
    tuned = autotune.tune(tripled, {"n": 50}, trials=1, log=tripled.log, seed=0)
    assert not tuned.summary.failures
    assert tripled(ones(50)).tolist() == [3.0] * 50


SCRIPT = """
import sys
import autotune
import numpy as np
from autotune import te

@autotune.autotuned(log="log.jsonl", trials=2, seed=0)
def doubled(n: int):
    A = te.placeholder((n,), name="A")
    return te.compute((n,), lambda i: A[i] * 2, name="B")

if __name__ == "__main__":
    print(doubled(np.ones(400, "f4")).sum())
"""


def test_a_call_that_workers_would_repeat_is_refused_and_does_not_wait(tmp_path: Path) -> None:
    script = SCRIPT.replace('if __name__ == "__main__":\n    print', "print")
    script = script.replace("    A = te", "    unknown\n    A = te")  # it has no text
    (tmp_path / "script.py").write_text(script.replace("@", "unknown = object()\n\n@"))
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 1
    (last,) = done.stderr.splitlines()[-1:]
    assert 'put the call under `if __name__ == "__main__":`' in last


def test_a_file_of_a_template_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ops.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    made = autotune.autotuned("ops.py:doubled", when="default")
    assert made.log == tmp_path / "doubled.jsonl"
    monkeypatch.chdir(tmp_path.parent)
    with pytest.warns(UserWarning, match="default"):
        assert made(ones(9)).tolist() == [2.0] * 9


def test_processes_that_meet_the_same_sizes_tune_them_once(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py"]
    started = [
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [process.communicate()[0] for process in started] == ["800.0\n"] * 2
    records = RecordStore(tmp_path / "log.jsonl").load()
    assert len([record for record in records if record.is_trial]) == 2
    comparisons = {record.final["comparison"] for record in records if record.final is not None}
    assert len(comparisons) <= 1
    # The command line finds the function in its file.
    task = Task.from_reference(str(tmp_path / "script.py:doubled"), {"n": 400})
    assert str(task.workload) == "doubled(n=400)"


def test_threads_that_meet_the_same_sizes_tune_them_once(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    made = autotune.autotuned(doubled, log=log, trials=2, seed=0)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(made(ones(350)))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.sum() for result in results] == [700.0] * 3
    assert len(trials(log)) == 2
