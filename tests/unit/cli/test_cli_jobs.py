"""Options of a run: the same from words and from job files; each mistake is one line."""

import re
from pathlib import Path

import pytest
import typer

from autotune.cli.app import app
from autotune.cli.main import main
from autotune.cli.options import run_plans
from autotune.cli.options.job_files import run_options
from autotune.cli.options.run_options import WORKLOAD
from autotune.cli.options.run_plans import check_target
from autotune.errors import UsageError
from autotune.measure.timing_policy import TimingPolicy
from autotune.target import Target
from autotune.task.task import Task
from autotune.tuner.run.limits import BATCH, TRIALS, Goal, Limits, parse_duration
from autotune.tuner.run.workload_labels import labels

ROOT = Path(__file__).parents[3]


@pytest.fixture
def job(tmp_path):
    """Write a job file and read it, with words of the command line."""

    def job(text, suffix=".toml", defaults=None, **words):
        path = tmp_path / f"jobs{suffix}"
        path.write_text(text)
        return run_options({"job": str(path), **words}, defaults or {}, "progress")

    return job


MATMUL = 'workload = [{ template = "matmul", set = { m = 8, n = 8, k = 8 } }]\n'


# -- what they mean ----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".toml", ".yaml", ".yml"])
def test_a_file_with_one_workload_says_the_same_as_words(job, suffix):
    words = {
        "template": "matmul",
        "set": ["m=8", "n=8", "k=8", "dtype=float64"],
        "time": "90s",
        "seed": 3,
        "trials": 12,
        "until": "0.9 of copy",
        "patience": 0.01,
        "batch": 4,
        "log": "x.jsonl",
        "timeout": 2.5,
        "repeats": 7,
        "warmup": 2,
        "min-repeat-ms": 1.0,
        "flush": "repeats",
        "race": 3.0,
    }
    toml = """
        time = "90s"
        seed = 3
        [defaults]
        timeout = 2.5
        trials = 99
        [[workload]]
        template = "matmul"
        set = { m = 8, n = 8, k = 8, dtype = "float64" }
        trials = 12
        until = "0.9 of copy"
        patience = 0.01
        batch = 4
        log = "x.jsonl"
        repeats = 7
        warmup = 2
        min_repeat_ms = 1
        flush = "repeats"
        race = 3
    """
    yaml = """
time: 90s
seed: 3
defaults: {timeout: 2.5, trials: 99}
workload:
  - template: matmul
    set: {m: 8, n: 8, k: 8, dtype: float64}
    trials: 12
    until: 0.9 of copy
    patience: 0.01
    batch: 4
    log: x.jsonl
    repeats: 7
    warmup: 2
    min-repeat-ms: 1
    flush: repeats
    race: 3
"""
    from_words = run_options(words, {}, "progress")
    from_file = job(toml if suffix == ".toml" else yaml, suffix)
    assert from_file.workloads == from_words.workloads
    assert (from_file.time_s, from_file.seed) == (from_words.time_s, from_words.seed) == (90.0, 3)
    (workload,) = from_file.workloads
    assert workload.limits == Limits(12, Goal(0.9, "copy"), 0.01, 4)
    policy = TimingPolicy(warmup=2, repeats=7, min_repeat_ms=1.0, flush="repeats", race=3.0)
    assert workload.policy == policy


def test_what_is_not_said_has_the_defaults_that_the_help_names(job):
    (workload,) = job(MATMUL).workloads
    assert workload.limits == Limits(TRIALS, None, None, BATCH)
    assert workload.policy == TimingPolicy()
    (command,) = [c for name, c in typer.main.get_command(app).commands.items() if name == "run"]
    shown = {p.name: str(getattr(p, "help", "")) for p in command.params}
    policy = TimingPolicy()
    expected = {
        "trials": f"[{TRIALS};", "batch": f"[{BATCH}]", "repeats": f"[{policy.repeats}]",
        "warmup": f"[{policy.warmup}]", "min_repeat_ms": f"[{policy.min_repeat_ms:g}]",
        "flush": f"[{policy.flush}]", "race": f"[{policy.race:g}]",
    }  # fmt: skip
    assert {name for name, text in expected.items() if text not in shown[name]} == set()


def test_every_option_of_a_workload_stands_on_the_command_line_too():
    command = typer.main.get_command(app).commands["run"]
    names = {name.removeprefix("--") for p in command.params for name in [*p.opts, p.name]}
    assert set(WORKLOAD) <= names


def test_with_a_time_trials_are_unlimited_unless_they_are_given(job):
    assert job(MATMUL, time="1m").workloads[0].limits.trials is None
    assert job('time = "1m"\n' + MATMUL).workloads[0].limits.trials is None
    assert job(MATMUL, time="1m", trials=5).workloads[0].limits.trials == 5
    until = run_options({"template": "matmul", "until": "1 ms"}, {}, "")
    assert until.workloads[0].limits.trials == TRIALS


def test_words_go_before_the_file_and_the_file_before_the_configuration(job):
    text = """
        [defaults]
        trials = 10
        tuner = "grid"
        set = { m = 8, n = 8 }
        [[workload]]
        template = "matmul"
        set = { k = 8 }
        [[workload]]
        template = "matmul"
        set = { k = 16, n = 4 }
        trials = 20
        weight = 2
    """
    one, two = job(text, defaults={"tuner": "random", "timeout": 3.0}).workloads
    assert [w.limits.trials for w in (one, two)] == [10, 20]
    assert (one.tuner, one.timeout_s) == ("grid", 3.0)
    assert one.settings == {"m": "8", "n": "8", "k": "8"}
    assert two.settings == {"m": "8", "n": "4", "k": "16"}
    assert (one.weight, two.weight) == (1.0, 2.0)
    one, two = job(text, trials=5, tuner="model").workloads
    assert [(w.limits.trials, w.tuner) for w in (one, two)] == [(5, "model")] * 2
    assert run_options({"template": "matmul"}, {"trials": 7}, "").workloads[0].limits.trials == 7


def test_the_job_file_of_the_documents_is_the_example_and_can_be_read(monkeypatch):
    example = (ROOT / "examples" / "jobs.toml").read_text()
    shown = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "run.md").read_text(), re.M | re.S)
    assert shown == [example[example.index("time =") :]]
    options = run_options({"job": str(ROOT / "examples" / "jobs.toml")}, {}, "progress")
    assert options.time_s == 600.0
    assert [w.template for w in options.workloads] == ["matmul", "softmax", "broadcast_add"]
    assert [w.limits.trials for w in options.workloads] == [None, 200, None]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("1.5h", 5400), ("1h 2m 3s", 3723), ("2 m", 120)],
)
def test_times_have_units(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "90", "m", "30min", "1m1m", "1s1h", "-5s", "0s", "1..2s", 30])
def test_anything_else_is_no_time(text):
    with pytest.raises(UsageError, match="must be a time > 0 such as 90s, 30m or 1h30m, not"):
        parse_duration(text)


def test_workloads_are_called_by_what_sets_them_apart():
    size = {"m": 8, "n": 8, "k": 8}
    tasks = [
        Task.from_reference("matmul", size),
        Task.from_reference("matmul", {**size, "m": 16}),
        Task.from_reference("softmax", {"m": 8, "n": 8}),
    ]
    assert labels(tasks, [None] * 3, "f") == ["matmul m=8", "matmul m=16", "softmax"]
    assert labels(tasks, [None, "big", None], "f") == ["matmul", "big", "softmax"]
    assert labels(tasks[:1], [None], "f") == [""]
    targets = [tasks[0], Task.from_reference("matmul", size, "llvm -threads=1")]
    assert labels(targets, [None] * 2, "f") == ["matmul on llvm", "matmul on llvm -threads=1"]
    with pytest.raises(UsageError, match="two workloads have the name 'a'"):
        labels(tasks[:2], ["a", "a"], "f")


def test_more_threads_than_cpus_are_a_warning_with_both_numbers(monkeypatch, caplog):
    monkeypatch.setattr(run_plans, "thread_count", lambda: 2)
    check_target(Target.parse("llvm"))
    check_target(Target.parse("llvm -threads=2"))
    assert not caplog.messages
    check_target(Target.parse("llvm -threads=1000"))
    assert len(caplog.messages) == 1
    assert "up to 1000 threads, but this process has only 2 CPUs" in caplog.messages[0]


def test_labels_have_no_more_arguments_than_tell_workloads_apart():
    sizes = [(8, 8, 16), (16, 8, 8), (8, 16, 16)]
    tasks = [Task.from_reference("matmul", dict(zip("mnk", size, strict=True))) for size in sizes]
    assert labels(tasks, [None] * 3, "f") == [
        "matmul m=8 n=8",
        "matmul m=16 n=8",
        "matmul m=8 n=16",
    ]


def test_the_same_work_with_and_without_constants_is_two_workloads(job):
    one = 'template = "matmul"\nset = { m = 8, n = 8, k = 8 }\n'
    text = f'[[workload]]\nname = "fixed"\n{one}constant = [1]\n[[workload]]\n{one}'
    options = job(text).workloads
    assert [(o.name, o.constant) for o in options] == [("fixed", (1,)), (None, ())]
    tasks = [
        Task.from_reference(o.template, {"m": 8, "n": 8, "k": 8}, constant=o.constant)
        for o in options
    ]
    assert labels(tasks, ["fixed", None], "f") == ["fixed", "matmul"]
    assert labels(tasks, [None, None], "f") == ["matmul constant=[1]", "matmul"]


@pytest.mark.parametrize("given", ["1", '["B"]', "[-1]", "[true]", "[1.0]"])
def test_constants_are_positions(job, given):
    with pytest.raises(UsageError, match="constant must be a list of positions of inputs such as"):
        job(f'[[workload]]\ntemplate = "matmul"\nconstant = {given}\n')


# -- mistakes ----------------------------------------------------------------------------------

ONE = '[[workload]]\ntemplate = "matmul"\nset = { m = 8, n = 8, k = 8 }\n'

MISTAKES = [
    ("", "has no workload: list them as"),
    ("workload = 3", "workload must be a list of tables"),
    ("workload = [3]", "workload 1 must be a table"),
    ("[[workload]]\ntrials = 3", "workload 1: template is missing"),
    ("[[workload]]\ntemplate = 3", "workload 1: template must be text, not 3"),
    ("[[workload", "is not valid TOML: Expected"),
    ("a = 1\na = 2\n", "is not valid TOML"),
    ("trails = 3\n" + ONE, "trails has no meaning outside a workload"),
    ("trials = 3\n" + ONE, r"trials has no meaning .*put it into \[defaults\]"),
    ("tiem = '3m'\n" + ONE, "did you mean 'time'"),
    ("time = 90\n" + ONE, "time must be a time > 0"),
    ("seed = -1\n" + ONE, "seed must be a whole number >= 0"),
    ("defaults = 3\n" + ONE, "defaults must be a table"),
    ("[defaults]\ntrails = 3\n" + ONE, "defaults: trails: .* did you mean 'trials'"),
    (ONE + "trials = 0", "workload 1: trials must be a whole number >= 1, not 0"),
    (ONE + "trials = true", "trials must be a whole number"),
    (ONE + "trials = '8'", "trials must be a whole number"),
    (ONE + "time = '3m'", "workload 1: time is for all workloads: put it at the top"),
    ("[defaults]\nseed = 3\n" + ONE, "defaults: seed is for all workloads"),
    (ONE + "timeout = 0", "timeout must be a number > 0"),
    (ONE + "timeout = inf", "timeout must be a number > 0"),
    (ONE + "weight = -1", "weight must be a number > 0"),
    (ONE + r'name = "a\u001b[31m"', "workload 1: name must be one line of printable text"),
    (ONE + 'name = " "', "name must be one line of printable text"),
    (ONE + "patience = 3", "patience.* between 0 and 1"),
    (ONE + "patience = 'much'", "patience must be a number"),
    (ONE + "patience = 0.1\ntuner = 'grid'", "workload 1: patience needs a tuner"),
    (ONE + "tuner = 'modle'", "workload 1: .*did you mean 'model'"),
    (ONE + "until = 'soon'", "workload 1: until: a goal is"),
    (ONE + "until = 3", "until must be text"),
    (ONE + "batch = 0", "batch must be a whole number >= 1"),
    (ONE + "repeats = 0", "repeats must be a whole number >= 1"),
    (ONE + "min-repeat-ms = -1", "min-repeat-ms must be a number >= 0"),
    (ONE + "flush = 'always'", "flush must be off or repeats"),
    (ONE + "race = 0.5", "workload 1: .*race must be a factor > 1"),
    (ONE + "min-repeat-ms = 1\nmin_repeat_ms = 2", "min-repeat-ms is given twice"),
    (ONE + "transfer = 'no.jsonl'", "workload 1: .*--transfer no.jsonl: No such file"),
    (ONE + "transfer = [3]", "transfer must be text or a list"),
    (ONE + "log = 'no_folder/x.jsonl'", "workload 1: .*there is no folder no_folder"),
    (ONE + "target = 'gpu'", "workload 1: .*'gpu'"),
    (ONE + ONE, "workloads 1 and 2 are the same"),
    (ONE.replace("matmul", "matmull"), "workload 1: there is no template 'matmull'"),
    (ONE.replace("m = 8", "m = [[8]]"), "workload 1: set: m must be a number"),
    (ONE.replace("m = 8", "m = 'x'"), "workload 1: .*m must be an integer"),
    (ONE.replace("m = 8", "mm = 8"), "workload 1: .*did you mean"),
    (ONE.replace("{ m = 8, n = 8, k = 8 }", "3"), r"set must be a table such as \{n = 512\}"),
    (ONE.replace("{ m = 8, n = 8, k = 8 }", "['m']"), "NAME=VALUE"),
]

YAML_MISTAKES = [
    ("", "has no workload: list them as a list named workload"),
    ("- 3", "must be a table of options"),
    ("workload: [", "is not valid YAML: .*line"),
    ("workload: {template: a, template: b}", r"template is given twice \(line 1\)"),
    ("seed: !!python/object/apply:os.system ['true']", "is not valid YAML"),
    ("a: " + "[" * 1500, "nested too deeply|is not valid YAML"),
]


def one_line(capsys):
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("autotune: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_a_mistake_in_a_toml_file_is_one_line(text, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.toml").write_text(text)
    assert main(["run", "--job", "jobs.toml"]) == 2
    err = one_line(capsys)
    assert re.search(said, err)
    assert "jobs.toml" in err
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.toml"]


@pytest.mark.parametrize(("text", "said"), YAML_MISTAKES, ids=range(len(YAML_MISTAKES)))
def test_a_mistake_in_a_yaml_file_is_one_line(text, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.yaml").write_text(text)
    assert main(["run", "--job", "jobs.yaml"]) == 2
    assert re.search(said, one_line(capsys))
