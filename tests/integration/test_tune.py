"""`autotune.tune`: one call tunes a template or a function, wherever that is written."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.errors import NoRecordError, UsageError
from autotune.template import template
from autotune.tuner.run.events import Finished, Measured, Started

FEW: dict[str, Any] = {"trials": 3, "seed": 1}


def doubled(n: int) -> list[te.Tensor]:
    A = te.placeholder((n,), "float32", name="A")
    return [A, te.compute((n,), lambda i: A[i] * 2, name="B")]


def test_a_template_is_tuned_looked_into_and_built(tmp_path: Path) -> None:
    log, events = tmp_path / "matmul.jsonl", list[Any]()
    args = {"m": 16, "n": 24, "k": 8}
    tuned = autotune.tune("matmul", args, log=log, callbacks=[events.append], **FEW)
    assert tuned.best is not None
    assert tuned.default is not None
    assert tuned.log == log
    assert tuned.seed == 1
    kinds = [type(event) for event in events]
    assert (kinds[0], kinds.count(Measured), kinds[-1]) == (Started, 3, Finished)
    if tuned.speedup is not None:
        assert tuned.speedup.low <= tuned.speedup.value <= tuned.speedup.high
    trials = tuned.records[tuned.records["rank"] == -1]
    assert len(trials) == 3
    assert set(tuned.records["template"]) == {"matmul"}

    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, dtype=np.float32) for shape in ((16, 8), (8, 24)))
    c = np.zeros((16, 24), np.float32)
    tuned.build()(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)

    again = autotune.tune("matmul", args, log=log, **FEW)
    assert again.summary.measured == 0
    assert again.best == tuned.best


def test_what_was_found_is_shown_as_text_and_as_html(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned = autotune.tune(doubled, {"n": 400}, log=tmp_path / "log.jsonl", **FEW)
    assert capsys.readouterr() == ("", "")
    assert str(tuned).startswith("doubled(n=400) on llvm: best ")
    assert repr(tuned) == f"<tuned {tuned}>"
    page = tuned._repr_html_()
    assert page.startswith("<table><tr><th")
    assert "default</td>" in page
    from rich.console import Console

    console = Console(width=120)
    with console.capture() as shown:
        console.print(tuned)
    assert "over default" in shown.get()


def test_records_are_those_of_the_workload_alone(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    first, second = (autotune.tune(doubled, {"n": n}, log=log, **FEW) for n in (40, 50))
    assert len(first.records) + len(second.records) == len(log.read_text().splitlines())
    assert set(second.records["args"]) == {'{"n":50}'}


def test_a_function_inside_of_another_is_tuned_with_what_it_uses(tmp_path: Path) -> None:
    factor = 3

    def times(x: Any) -> Any:
        return x * factor

    @template("tripled", reference=lambda a: np.float32(factor) * a)
    def tripled(n: int) -> list[te.Tensor]:
        A = te.placeholder((n,), "float32", name="A")
        return [A, te.compute((n,), lambda i: times(A[i]), name="B")]

    tuned = autotune.tune(tripled, {"n": 100}, log=tmp_path / "log.jsonl", **FEW)
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    tuned.build()(x, y)
    np.testing.assert_array_equal(y, 3 * x)


def test_a_script_tunes_its_own_function_without_a_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import autotune
            from autotune import te

            def halved(n: int):
                A = te.placeholder((n,), "float32", name="A")
                return [A, te.compute((n,), lambda i: A[i] * 0.5, name="B")]

            tuned = autotune.tune(halved, {"n": 300}, trials=2, seed=0, log="halved.jsonl")
            print("tuned", tuned.summary.trials)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "tuned 2\n", "")


def test_several_workloads_share_a_run(tmp_path: Path) -> None:
    found = autotune.tune_job(
        [
            {"what": doubled, "args": {"n": n}, "trials": 2, "log": tmp_path / "log.jsonl"}
            for n in (60, 70)
        ],
        seed=0,
    )
    assert [tuned.task.args for tuned in found] == [{"n": 60}, {"n": 70}]
    assert all(tuned.best is not None and tuned.summary.trials == 2 for tuned in found)


def test_the_time_ends_a_run(tmp_path: Path) -> None:
    tuned = autotune.tune(doubled, {"n": 50}, time="1s", log=tmp_path / "log.jsonl", seed=0)
    assert tuned.summary.elapsed_s < 60


def test_nothing_is_built_of_nothing(tmp_path: Path) -> None:
    tuned = autotune.tune(doubled, {"n": 50}, trials=0, log=tmp_path / "log.jsonl", seed=0)
    assert (tuned.best, tuned.default, tuned.speedup) == (None, None, None)
    assert "nothing valid was found" in str(tuned)
    with pytest.raises(NoRecordError, match="there is nothing to build"):
        tuned.build()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"what": "matmull"}, "tune: there is no template 'matmull'"),
        ({"what": 3}, "tune: expected the name of a template or a function"),
        ({"args": {"q": 3}}, "tune: template 'doubled' has no argument 'q'"),
        ({"args": [3]}, "tune: args must be a mapping such as {'n': 512}, not [3]"),
        ({"time": "soon"}, "tune: time must be seconds > 0, or text such as '30m', not 'soon'"),
        ({"time": -1}, "tune: time must be seconds > 0, or text such as '30m', not -1"),
        ({"seed": -1}, "tune: seed must be a whole number >= 0, not -1"),
        ({"trials": -1}, "tune: trials must be >= 0"),
        ({"tuner": "modle"}, "tune: unknown tuner 'modle': did you mean 'model'?"),
        ({"until": "fast"}, "tune: a goal is "),
        ({"patience": 0.1, "tuner": "random"}, "tune: patience needs a tuner"),
        ({"transfer": "x.jsonl", "tuner": "random"}, "tune: tuner 'random' cannot learn"),
        ({"storage": "sqlite:///x"}, "tune: tuner 'model' does not use a storage"),
        ({"time_out": 3}, "tune: there is no argument 'time_out'; did you mean 'timeout'?"),
        ({"timeout": 0}, "a time-out must be a number of seconds > 0, not 0"),
        ({"target": "cuda -arch=sm"}, "sm"),
    ],
)
def test_a_mistake_is_one_clear_line(
    given: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        autotune.tune(**{"what": doubled, "args": {"n": 5}, **given})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("workloads", "said"),
    [
        ([], "tune_job: workloads must be a list of mappings"),
        (["matmul"], "tune_job: workloads must be a list of mappings"),
        ([{"args": {}}], "tune_job: 'what' is missing: it says what to tune"),
        (
            [{"what": doubled, "args": {"n": 5}}, {"what": doubled}],
            "tune_job, workload 2: ",
        ),
        (
            [{"what": doubled, "args": {"n": 5}}] * 2,
            "tune_job: workloads 1 and 2 are the same",
        ),
    ],
)
def test_a_mistake_in_one_of_several_says_in_which(
    workloads: list[Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        autotune.tune_job(workloads)
    assert said in str(caught.value)
