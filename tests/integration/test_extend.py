"""Runs with tuners, cost models, features and measurers of users, from Python and by command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import ROOT, environment
from support.fake_measurer import FakeMeasurer, run
from support.installed import install

import autotune
from autotune.errors import AutotuneError, UsageError
from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.measurer import Measurer
from autotune.measure.timing_policy import TimingPolicy
from autotune.testing.cost_model_suite import CostModelSuite
from autotune.testing.feature_suite import FeatureSuite
from autotune.testing.measurer_suite import MeasurerSuite
from autotune.testing.tuner_suite import TunerSuite
from autotune.tuner.factory import make_tuner
from autotune.tuner.run.events import End
from records import RecordStore

PAGE = (ROOT / "docs" / "extend.md").read_text()

# A measurer that needs no process, and other parts, some of them faulty.
FORMULA = """
from autotune.measure.measurer import Measurer
from autotune.measure.result import MeasureResult

class Formula(Measurer):
    def __init__(self, task):
        self.task = task

    def run(self, candidate):
        return MeasureResult(costs_s=((1 + candidate.config.index % 1000) * 1e-3,))

class Odd(Formula):
    def run(self, candidate):
        return 3.0

class Texts(Formula):
    def run(self, candidate):
        return MeasureResult(costs_s=("fast",))

class Board(Formula):
    device = "my board"

class Broken(Formula):
    def run(self, candidate):
        raise OSError("no connection")

class Farm(Formula):
    width, most, nodes = 3, 0, "abc"

    def __init__(self, task):
        super().__init__(task)
        self.flight = []

    def submit(self, candidate):
        self.flight.append(candidate)
        Farm.most = max(Farm.most, len(self.flight))

    def next_result(self):
        candidate = self.flight.pop(len(self.flight) // 2)
        result = self.run(candidate)
        node = self.nodes[candidate.config.index % 3]
        device = {"kind": "measurer", "name": "farm", "node": node}
        return candidate, MeasureResult(costs_s=result.costs_s, device=device)

class Wide(Farm):
    width = "three"

class Lonely(Farm):
    def next_result(self):
        return super().next_result()[1]

class Twice(Farm):
    def next_result(self):
        self.last = getattr(self, "last", None) or super().next_result()
        return self.last

class Backwards:
    def __init__(self, space, seed):
        self.left = space.feasible_indices().tolist()

    def ask(self, n):
        return [self.left.pop() for _ in range(n)]

    def tell(self, observations):
        self.left = [i for i in self.left if i not in {o.index for o in observations}]

class Silent(Backwards):
    def ask(self, n):
        return None

class Flat:
    def __init__(self, seed):
        pass

    def fit(self, features, throughput):
        if features.shape[1] != 2:
            raise ValueError(f"{features.shape[1]} columns")

    def predict(self, features):
        return features[:, 0] * 0.0

class Two:
    names = ("one", "two")

    def __init__(self, task):
        self.space = task.space

    def matrix(self, indices):
        return self.space.positions(indices)[:, :2]

class Three(Two):
    names = ("one", "two", "three")
"""
SIZES = {"m": 16, "n": 16, "k": 16}
WORDS = [f"{name}=16" for name in SIZES]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with formula.py, in which the test is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "formula.py").write_text(FORMULA)
    return tmp_path


def written(page: str) -> dict[str, Any]:
    """Return what the page's examples define, without running a search."""
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    space: dict[str, Any] = {"autotune": autotune}
    for block in blocks:
        if re.search(r"^class ", block, re.MULTILINE):
            text = (
                "import numpy as np\n"
                + block.partition("\nmatmul = ")[0].partition("\ntuned = ")[0]
            )
            exec(text, space)
    return space


WRITTEN = written(PAGE)


class TestTheTunerOfThePage(TunerSuite):
    tuner = WRITTEN["Climber"]


class TestTheMeasurerOfThePage(MeasurerSuite):
    measurer = WRITTEN["InProcess"]


class TestTheFeaturesOfThePage(FeatureSuite):
    features = WRITTEN["Logarithms"]


class TestTheFeaturesOfLoops(FeatureSuite):
    features = "loops"


class TestTheMeasurerOfThisMachine(MeasurerSuite):
    def make(self) -> Measurer:
        policy = TimingPolicy(repeats=2, min_repeat_ms=1.0)
        return LocalMeasurer(self.template, self.args, self.target, policy)


class TestAMeasurerOfSeveralDevices(MeasurerSuite):
    @staticmethod
    def measurer(task: Any) -> Any:
        space: dict[str, Any] = {}
        exec(FORMULA, space)
        return space["Farm"](task)


class TestTheCostModelOfThePage(CostModelSuite):
    cost_model = WRITTEN["Ridge"]


def test_a_tuner_that_fails_ends_the_run_and_nothing_measured_is_lost(
    task: Any, store: RecordStore
) -> None:
    class Tired(WRITTEN["Climber"]):
        def tell(self, observations):
            super().tell(observations)
            if len(self.costs) > 4:
                raise RuntimeError("tired")

    tuner = make_tuner(Tired, task.space)
    with pytest.raises(AutotuneError, match="fails at tell: RuntimeError: tired"):
        run(task, store, 20, FakeMeasurer(), tuner, batch=3)
    done = [record.index for record in store.load() if record.is_trial]
    assert len(done) == len(set(done)) == 6
    summary, measurer = run(task, store, 8)
    assert (summary.trials, len(measurer.asked)) == (8, 2)


def test_a_tuner_that_proposes_no_more_ends_the_run_with_its_result(
    task: Any, store: RecordStore
) -> None:
    class Short(WRITTEN["Climber"]):
        def ask(self, n):
            return super().ask(1) if len(self.costs) < 3 else []

    summary, _ = run(task, store, 20, FakeMeasurer(), make_tuner(Short, task.space))
    assert summary.ended is End.EXHAUSTED
    assert summary.why.endswith("Short' proposes no more")
    assert summary.trials == 3
    assert summary.best is not None


def test_a_measurer_names_itself_as_the_device_and_its_records_continue(here: Path) -> None:
    how: dict[str, Any] = {"measurer": "formula.py:Formula", "log": "x.jsonl", "seed": 0}
    tuned = autotune.tune("matmul", SIZES, trials=12, tuner="random", **how)
    assert tuned.best is not None
    assert tuned.best.device == {"kind": "measurer", "name": "formula.py:Formula"}
    assert tuned.summary.measured == 12
    again = autotune.tune("matmul", SIZES, trials=14, tuner="random", **how)
    assert (again.summary.trials, again.summary.measured) == (14, 2)
    with pytest.warns(match="no record that can"), pytest.warns(match="from other devices"):
        assert autotune.build("matmul", SIZES, records="x.jsonl").record is None
    built = autotune.build("matmul", SIZES, records="x.jsonl", devices="any")
    assert built.record is not None
    assert built.record.config == again.best.config
    assert again.build().config.values == again.best.config["values"]


def test_a_measurer_of_several_devices_gets_several_candidates_at_a_time(here: Path) -> None:
    space: dict[str, Any] = {}
    exec(FORMULA, space)
    tuned = autotune.tune(
        "matmul", SIZES, trials=20, tuner="random", measurer=space["Farm"], log="x.jsonl", seed=0
    )
    assert (tuned.summary.trials, tuned.summary.measured) == (20, 20)
    records = RecordStore("x.jsonl").load()
    assert len({record.index for record in records}) == 20
    assert {record.device["node"] for record in records} == set("abc")
    assert space["Farm"].most >= 3


def test_a_decorated_function_uses_what_an_own_measurer_has_found(here: Path) -> None:
    how: dict[str, Any] = {"measurer": "formula.py:Formula", "trials": 4, "seed": 0}
    arrays = [np.ones((8, 8), np.float32) for _ in range(2)]
    found = []
    for _ in range(2):  # the second is another process' object
        made = autotune.autotuned("matmul", log="x.jsonl", **how)
        assert made(*arrays).tolist() == (arrays[0] @ arrays[1]).tolist()
        found.append(made.built(*arrays).record)
    assert found[0] is not None
    assert found[0].config == found[1].config
    assert len(Path("x.jsonl").read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("choice", "error", "said"),
    [
        ({"tuner": "formula.py:Silent"}, AutotuneError, "returned None, not a list of"),
        ({"measurer": "formula.py:Odd"}, AutotuneError, "must return a MeasureResult, not float"),
        ({"measurer": "formula.py:Broken"}, AutotuneError, "fails at run: OSError: no connection"),
        ({"measurer": "formula.py:Wide"}, AutotuneError, "width must be a number of devices, not"),
        ({"measurer": "formula.py:Lonely"}, AutotuneError, "a candidate and its result, not Measu"),
        ({"measurer": "formula.py:Twice"}, AutotuneError, "a candidate that it does not have"),
        ({"measurer": "formula.py:Two"}, UsageError, "must make a Measurer, not Two"),
        ({"measurer": "formula.py:Texts"}, AutotuneError, "returns costs that are no seconds > 0"),
        ({"measurer": "formula.py:Board"}, UsageError, "device must be a mapping with kind and"),
        ({"measurer": 3}, UsageError, "measurer must be a name, a class or a function, not 3"),
        (
            {"cost_model": "formula.py:Flat", "trials": 40},
            AutotuneError,
            "fails at fit: ValueError",
        ),
        ({"cost_model": "xgbost"}, UsageError, "unknown cost model 'xgbost': did you mean 'xgboo"),
        (
            {"features": "formula.py:Three", "trials": 40},
            AutotuneError,
            "returns features of shape",
        ),
    ],
)
def test_a_faulty_part_is_one_line(
    choice: dict[str, Any], error: type[AutotuneError], said: str, here: Path
) -> None:
    given = {"measurer": "formula.py:Formula", "trials": 20, "log": "x.jsonl", "seed": 0, **choice}
    with pytest.raises(error) as caught:
        autotune.tune("matmul", SIZES, **given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_cost_model_and_features_of_a_user_are_what_the_model_tuner_reads(here: Path) -> None:
    fitted = []

    class Seen(WRITTEN["Ridge"]):  # type: ignore[misc]
        def fit(self, features: Any, throughput: Any) -> None:
            fitted.append(features.shape)
            super().fit(features, throughput)

    space: dict[str, Any] = {}
    exec(FORMULA, space)
    autotune.tune(
        "matmul", SIZES, trials=40, cost_model=Seen, features=space["Two"],
        measurer=space["Formula"], log="x.jsonl", seed=0,
    )  # fmt: skip
    assert fitted
    assert {width for _, width in fitted} == {2}


@pytest.mark.parametrize("method", ["ask", "tell"])
def test_of_several_workloads_those_without_the_faulty_tuner_go_on(here: Path, method: str) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no more")

    faulty = type("Faulty", (WRITTEN["Climber"],), {method: fail})
    common = {"args": SIZES, "measurer": "formula.py:Formula", "trials": 4}
    autotune.tune("matmul", SIZES, trials=2, measurer="formula.py:Formula", log="a.jsonl")
    found = autotune.tune_job(
        [
            {"what": "matmul", "tuner": faulty, "log": "a.jsonl", **common},
            {"what": "batch_matmul", "log": "b.jsonl", **common, "args": {"b": 2, **SIZES}},
        ],
        seed=0,
    )
    assert [tuned.summary.ended for tuned in found] == [End.FAILED, End.TRIALS]
    assert f"Faulty' fails at {method}: RuntimeError: no more (test_extend.py:" in (
        found[0].summary.why
    )
    assert found[1].summary.trials == 4
    assert len(RecordStore("a.jsonl").load()) >= 2


def test_parts_are_named_on_the_command_line_and_in_job_files(
    here: Path, call: Callable[..., Any]
) -> None:
    parts = {
        "tuner": "mine.py:Climber", "measurer": "formula.py:Formula", "features": "formula.py:Two",
        "cost-model": "formula.py:Flat",
    }  # fmt: skip
    block = next(b for b in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "Climber:" in b)
    (here / "mine.py").write_text(block.partition("\ntuned = ")[0])
    options = [word for name, part in parts.items() for word in (f"--{name}", part)]
    done = call("run", "matmul", "--set", *WORDS, "--trials", 6, *options, "--quiet")
    assert (done.code, done.err) == (0, "")
    assert "6 trials" in done.out
    lines = "\n".join(f'{name} = "{part}"' for name, part in parts.items())
    (here / "job.toml").write_text(
        f'[[workload]]\ntemplate = "matmul"\nset = {{m = 16, n = 16, k = 16}}\n{lines}\n'
        '[[workload]]\ntemplate = "softmax"\nset = {m = 8, n = 64}\n'
        'measurer = "formula.py:Broken"\n'
    )
    done = call("run", "--job", "job.toml", "--trials", 8, "--quiet")
    assert done.code == 2
    assert "measurer 'formula.py:Broken' fails at run: OSError: no connection" in done.err
    assert "Traceback" not in done.err
    assert len(RecordStore(here / "matmul.jsonl").load()) == 8


def test_a_tuner_of_an_installed_package_is_taken_by_its_name(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {
        "autotune.tuners": {"backwards": "formula:Backwards", "bad": "nowhere:Bad"},
        "autotune.measurers": {"formula": "formula:Formula"},
    }
    install(here, monkeypatch, points, {"formula": FORMULA})

    def command(tuner: str) -> subprocess.CompletedProcess[str]:
        words = ["run", "matmul", "--set", *WORDS, "--trials", "6", "--measurer", "formula"]
        return subprocess.run(
            [sys.executable, "-m", "autotune", *words, "--tuner", tuner, "--quiet"],
            capture_output=True,
            text=True,
            check=False,
            env=environment(PYTHONPATH=os.pathsep.join([str(here), str(ROOT)])),
        )

    assert command("backwards").stderr == ""
    (first, *_) = (here / "matmul.jsonl").read_text().splitlines()
    assert json.loads(first)["device"] == {"kind": "measurer", "name": "formula"}
    failed = command("bad")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == (
        "autotune: tuner 'bad': nowhere:Bad cannot be loaded: ModuleNotFoundError: "
        "No module named 'nowhere'\n"
    )


def test_a_device_of_an_installed_package_builds_measures_and_is_recorded(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = next(b for b in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "OneCore" in b)
    points = {"autotune.devices": {"one_core": "cores:one_core"}}
    install(here, monkeypatch, points, {"cores": block})
    (here / "program.py").write_text(
        "import numpy as np, autotune\n"
        f"tuned = autotune.tune('matmul', {SIZES}, trials=3, target='one_core', log='x.jsonl',\n"
        "                      seed=0, tuner='random', progress=False)\n"
        "a, b, c = np.ones((16, 16), 'f4'), np.ones((16, 16), 'f4'), np.empty((16, 16), 'f4')\n"
        "tuned.build()(a, b, c)\n"
        "print(tuned.summary.trials, tuned.summary.failures, c.min(), c.max())\n"
        f"built = autotune.build('matmul', {SIZES}, target='one_core', records='x.jsonl')\n"
        "print(built.grade, built.record.target, built.record.device['name'])\n"
    )
    done = subprocess.run(
        [sys.executable, "program.py"], capture_output=True, text=True, check=False,
        env=environment(PYTHONPATH=os.pathsep.join([str(here), str(ROOT)])),
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout == "3 {} 16.0 16.0\nexact one_core one core\n"


def test_a_measurer_of_a_user_needs_no_device_here(here: Path, call: Callable[..., Any]) -> None:
    words = ["run", "broadcast_add", "--set", "n=64", "--target", "cuda -arch=sm_90"]
    done = call(*words, "--trials", 3, "--measurer", "formula.py:Formula", "--quiet")
    assert (done.code, done.err) == (0, "")
    records = RecordStore(here / "broadcast_add.jsonl").load()
    assert {(r.target, r.device["name"]) for r in records} == {
        ("cuda -arch=sm_90", "formula.py:Formula")
    }


def test_a_tuner_of_a_user_is_replayed(here: Path, call: Callable[..., Any]) -> None:
    autotune.tune("matmul", SIZES, trials=20, measurer="formula.py:Formula", tuner="random",
                  log="x.jsonl", seed=0)  # fmt: skip
    (here / "mine.py").write_text(FORMULA)
    done = call("replay", "run", "x.jsonl", "--tuner", "random", "formula.py:Silent", "--budget", 5)
    assert done.code == 2
    assert done.err.startswith("autotune: tuner 'formula.py:Silent' returned None")
