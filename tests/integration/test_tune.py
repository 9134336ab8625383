"""`autotune.tune`: one call tunes a template or a function, wherever that is written."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.slow_cases import slow

import autotune
from autotune import te
from autotune.errors import NoRecordError, UsageError
from autotune.template import template
from autotune.tuner.run.events import Finished, Measured, Started
from records import RecordError

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


HEAD = """
import autotune
from autotune import te

SCALE = 2

def scaled(n: int):
    A = te.placeholder((n,), "float32", name="A")
    return [A, te.compute((n,), lambda i: A[i] * SCALE, name="B")]

def found(function, n=300):
    tuned = autotune.tune(function, {"n": n}, trials=1, seed=0, log="log.jsonl")
    return tuned.summary.failures, tuned.summary.trials

"""


def run_script(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(HEAD + textwrap.dedent(text))
    return subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "text",
    [
        slow("print(found(scaled))"),  # as the next one does first
        # What is defined, or changed, between two calls.
        """
        print(found(scaled))
        def later(n: int):
            return scaled(n)
        SCALE = 3
        print(found(later, 301))
        """,
        """
        if __name__ == "__main__":
            def inside(n: int):
                return scaled(n)
            print(found(inside))
        """,
    ],
)
def test_a_script_tunes_its_functions_without_a_guard(text: str, tmp_path: Path) -> None:
    done = run_script(tmp_path, text)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "({}, 1)\n" * text.count("print")


def test_workers_compute_with_what_a_function_uses_now(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        SCALE = 1000.0
        task = autotune.tune(scaled, {"n": 50}, trials=1, seed=0, log="log.jsonl").task
        print(task.worker_source[1].decode())
        """,
    )
    assert "SCALE = 1000.0" in done.stdout


def test_a_module_that_was_edited_after_its_import_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(HEAD)
    done = run_script(
        tmp_path,
        """
        import kernels, pathlib
        path = pathlib.Path(kernels.__file__)
        path.write_text(path.read_text().replace("A[i] * SCALE", "te.exp(A[i] * SCALE)"))
        try:
            found(kernels.scaled)
        except autotune.errors.UsageError as error:
            print(error)
        """,
    )
    assert done.stdout.startswith("tune: scaled(n=300): the text of function 'scaled' computes")
    assert done.stdout.count("\n") == 1


def test_a_function_of_a_package_may_import_from_its_neighbours(tmp_path: Path) -> None:
    package = tmp_path / "layers"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "scale.py").write_text("SCALE = 3\ndef times(x):\n    return x * SCALE\n")
    (package / "main.py").write_text(
        HEAD.replace("SCALE = 2", "from .scale import times").replace("A[i] * SCALE", "times(A[i])")
    )
    done = run_script(tmp_path, "from layers.main import scaled as own\nprint(found(own))")
    assert (done.returncode, done.stdout, done.stderr) == (0, "({}, 1)\n", "")


def test_a_file_that_tunes_while_it_is_loaded_is_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "unguarded.py").write_text(f"{HEAD}\nfound(scaled)\n")
    reference = f"{tmp_path / 'unguarded.py'}:scaled"
    with pytest.raises(UsageError, match="put the call under `if __name__ == "):
        autotune.tune(reference, {"n": 5}, log=tmp_path / "log.jsonl")


def test_what_was_found_does_not_depend_on_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tuned = autotune.tune(doubled, {"n": 90}, trials=1, seed=0, log="log.jsonl")
    monkeypatch.chdir("/")
    assert len(tuned.records) == 1
    tuned.build()


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


def test_a_time_that_is_too_short_says_so(tmp_path: Path) -> None:
    tuned = autotune.tune(doubled, {"n": 50}, time=1e-6, log=tmp_path / "log.jsonl", seed=0)
    assert "nothing was measured before the time was over: give more; 0 trials" in repr(tuned)
    with pytest.raises(NoRecordError, match="before the time was over: give more"):
        tuned.build()


def test_nothing_is_built_of_nothing(tmp_path: Path) -> None:
    tuned = autotune.tune(doubled, {"n": 50}, trials=0, log=tmp_path / "log.jsonl", seed=0)
    assert (tuned.best, tuned.default, tuned.speedup) == (None, None, None)
    assert ": nothing was measured; 0 trials; " in str(tuned)
    assert len(tuned.records) == 0
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
        ({"trials": -1}, "tune: trials must be a whole number >= 0, not -1"),
        ({"tuner": "modle"}, "tune: unknown tuner 'modle': did you mean 'model'?"),
        ({"until": "fast"}, "tune: a goal is "),
        ({"patience": 0.1, "tuner": "random"}, "tune: patience needs a tuner"),
        ({"transfer": "x.jsonl", "tuner": "random"}, "tune: tuner 'random' cannot learn"),
        ({"storage": "sqlite:///x"}, "tune: tuner 'model' does not use a storage"),
        ({"time_out": 3}, "tune: there is no argument 'time_out'; did you mean 'timeout'?"),
        ({"timeout": 0}, "tune: timeout must be a number > 0, not 0"),
        ({"timeout": 1e30}, "tune: timeout must be a number > 0, not 1e+30"),
        ({"trials": True}, "tune: trials must be a whole number >= 0, not True"),
        ({"trials": 2.5}, "tune: trials must be a whole number >= 0, not 2.5"),
        ({"batch": 2.5}, "tune: batch must be a whole number >= 1, not 2.5"),
        ({"log": 5}, "tune: log must be the path of a file, not 5"),
        ({"log": ""}, "tune: log is empty: give the name of a file, such as doubled.jsonl"),
        ({"target": ""}, "tune: unknown target kind '': expected one of llvm, cuda"),
        ({"tim": 3}, "tune: there is no argument 'tim'; did you mean 'time'?"),
        ({"sed": 3}, "tune: there is no argument 'sed'; did you mean 'seed'?"),
        ({"callback": 3}, "tune: there is no argument 'callback'; did you mean 'callbacks'?"),
        ({"zzz": 3}, "progress, seed, "),
        ({"until": 3}, "tune: until must be text such as '0.9 of peak', not 3"),
        ({"patience": "x"}, "tune: patience must be a number > 0, not 'x'"),
        ({"constant": 0}, "tune: constant must be positions of inputs such as [1], not 0"),
        ({"transfer": 3}, "tune: transfer must be paths of logs, not 3"),
        ({"tuner": None}, "tune: tuner must be a name, a class or a function, not None"),
        ({"policy": "fast"}, "tune: policy must be a TimingPolicy, not 'fast'"),
        ({"any_device": "x"}, "tune: any_device must be True or False, not 'x'"),
        ({"weight": float("nan")}, "tune: weight must be a number > 0, not nan"),
        ({"callbacks": [3]}, "tune: callbacks must be functions of an event, not [3]"),
        ({"callbacks": None}, "tune: callbacks must be functions of an event, not None"),
        ({"progress": "x"}, "tune: progress must be True, False or None, not 'x'"),
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
    ("log", "said"),
    [
        ("a\0b", "it has a character that no name of a file has"),
        ("a" * 300, "File name too long"),
        (f"{__file__}/a.jsonl", "Not a directory"),
    ],
)
def test_a_path_that_can_be_no_log_is_told_before_anything_is_measured(
    log: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecordError, match=f"^tune: .* cannot be a log: {said}$"):
        autotune.tune(doubled, {"n": 5}, log=log)


@pytest.mark.parametrize(
    ("workloads", "said"),
    [
        ([], "tune_job: workloads must be a list of mappings"),
        (["matmul"], "tune_job: workloads must be a list of mappings"),
        ([{"args": {}}], "tune_job: 'what' is missing: it says what to tune"),
        ([{"what": doubled, "time": 3}], "'time'; time is for all workloads together: give it"),
        (
            [{"what": doubled, "args": {"n": 5}}, {"what": doubled}],
            "tune_job, workload 2: ",
        ),
        (
            [{"what": doubled, "args": {"n": 5}}, {"what": doubled, "args": {"n": -6}}],
            "tune_job: doubled(n=-6): ",
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


def test_a_function_that_fails_says_what_it_does_wrong(tmp_path: Path) -> None:
    def nothing(n: int) -> None:
        te.placeholder((n,), name="A")

    with pytest.raises(UsageError) as caught:
        autotune.tune(nothing, {"n": 8}, trials=1, log=tmp_path / "x.jsonl")
    assert "text" not in str(caught.value)
    assert "must return" in str(caught.value)


def test_what_cannot_be_measured_is_called_by_its_name_and_by_no_file(tmp_path: Path) -> None:
    @template("halved", reference=lambda a: a[:2])
    def halved(n: int) -> list[te.Tensor]:
        return doubled(n)

    with pytest.raises(UsageError) as caught:
        autotune.tune(halved, {"n": 8}, trials=1, log=tmp_path / "x.jsonl")
    assert str(caught.value).startswith("template 'halved' cannot be measured: the reference of ")
    assert ".py" not in str(caught.value)
