"""Wrong command lines and inputs: exit code 2 and exactly one plain line on the standard error."""

import re
from pathlib import Path

import pytest

from autotune.cli.main import main
from autotune.errors import ScheduleError

SIZE = ["--set", "m=8", "--set", "n=8", "--set", "k=8"]
MATMUL = ["run", "matmul", *SIZE]

TEMPLATES = """
import numpy as np
from autotune import te
from autotune.template import template

def add_one(n, knobs=()):
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    return te.create_schedule(B.op), [A, B]

@template("good", reference=lambda a: a + 1)
def good(cfg, n: int, flag: bool = False, x: float = 1.0):
    return add_one(n)

@template("raises")
def raises(cfg, n: int):
    raise RuntimeError("it never\\nworks")

@template("returns_none")
def returns_none(cfg, n: int):
    return None

@template("bad_flops", flops=lambda n: 1 / 0)
def bad_flops(cfg, n: int):
    return add_one(n)

@template("for_cuda", target="cuda")
def for_cuda(cfg, n: int):
    return add_one(n)

not_a_template = 3
"""

FILES = {
    "templates.py": TEMPLATES,
    "raises_on_import.py": "x = 1\n\nraise ValueError('boom')\n",
    "bad_syntax.py": "x = 1\ndef f(:\n    pass\n",
    "exits.py": "import sys\nsys.exit(0)\n",
    "no_such_module.py": "import module_that_is_not_there\n",
    "deep.py": "def f():\n    raise KeyError\n\nf()\n",
    "bad_annotation.py": (
        "from autotune.template import template\n@template('t')\ndef t(cfg, n: list):\n    pass\n"
    ),
    "empty.py": "",
    "not_text.py": "\0\0\0",
    "newer.jsonl": '{"schema": 99}\n',
    "plain_file": "",
}

#: Command line, and what its one line must say.
MISTAKES: list[tuple[list[str], str]] = [
    # words that are no command
    ([], "Missing command"),
    (["frobnicate"], "frobnicate.*--help"),
    (["rum", "matmul"], "rum.*run"),
    (["--frob"], "--frob"),
    (["--versoin"], "--version"),
    (["records"], "Missing command"),
    (["records", "sumary", "x"], "sumary"),
    # options and arguments of run
    (["run"], "TEMPLATE"),
    ([*MATMUL, "extra"], "extra"),
    ([*MATMUL, "--trails", "3"], "--trails.*--trials"),
    ([*MATMUL, "--trials"], "--trials"),
    ([*MATMUL, "--trials", "many"], "--trials"),
    ([*MATMUL, "--trials", "0"], "--trials"),
    ([*MATMUL, "--trials", "-5"], "--trials"),
    ([*MATMUL, "--trials", "1.5"], "--trials"),
    ([*MATMUL, "--seed", "-1"], "--seed"),
    ([*MATMUL, "--seed", "x"], "--seed"),
    ([*MATMUL, "--timeout", "0"], "--timeout.*> 0"),
    ([*MATMUL, "--timeout", "-3"], "--timeout.*> 0"),
    ([*MATMUL, "--timeout", "nan"], "--timeout.*> 0"),
    ([*MATMUL, "--timeout", "inf"], "--timeout.*> 0"),
    ([*MATMUL, "--timeout", "soon"], "--timeout"),
    ([*MATMUL, "--tuner", "modle"], "did you mean 'model'"),
    ([*MATMUL, "--tuner", "oracle"], "model, random, grid"),
    ([*MATMUL, "--tuner", ""], "unknown tuner ''"),
    ([*MATMUL, "--tuner", "model", "grid"], "grid"),
    ([*MATMUL, "--tuner", "grid", "--patience", "0.1"], "use --tuner model"),
    ([*MATMUL, "--patience", "3"], "between 0 and 1"),
    ([*MATMUL, "--transfer", "missing.jsonl"], "missing.jsonl: there is no such file"),
    ([*MATMUL, "--tuner", "local", "--transfer", "x.jsonl"], "only the model tuner"),
    ([*MATMUL, "--storage", "sqlite:///x.db"], "no use for --storage"),
    # arguments of the template
    (["run", "matmul", "--set"], "--set"),
    (["run", "matmul", "--set", "m"], "NAME=VALUE"),
    (["run", "matmul", "--set", "=8"], "NAME=VALUE"),
    (["run", "matmul", "--set", "m="], "NAME=VALUE"),
    (["run", "matmul", "--set", "m=8", "n=8"], "n=8"),
    (["run", "matmul", "--set", "m=8", "--set", "m=9"], "m twice"),
    (["run", "matmul", "--set", "m=8"], "n, k"),
    ([*MATMUL, "--set", "stride=2"], "'stride'.*m, n, k, dtype"),
    ([*MATMUL, "--set", "dtpye=float32"], "did you mean 'dtype'"),
    (["run", "matmul", *SIZE[:4], "--set", "k=eight"], "k must be an integer, got 'eight'"),
    (["run", "matmul", *SIZE[:4], "--set", "k=8.5"], "k must be an integer"),
    ([*MATMUL, "--set", "dtype=floaty"], "float32.*got floaty"),
    (["run", "templates.py:good", "--set", "n=4", "--set", "flag=perhaps"], "true or false"),
    (["run", "templates.py:good", "--set", "n=4", "--set", "x=much"], "x must be a number"),
    (["run", "templates.py:good", "--set", "n=4", "--set", "x=nan"], "x must be a number"),
    # targets
    ([*MATMUL, "--target", ""], "llvm"),
    ([*MATMUL, "--target", "gpu"], "'gpu'.*llvm, cuda"),
    ([*MATMUL, "--target", "llvm -mcpu"], "-name=value"),
    ([*MATMUL, "--target", "llvm -speed=high"], "-speed.*-mcpu="),
    ([*MATMUL, "--target", "llvm -threads=none"], "-threads"),
    ([*MATMUL, "--target", "llvm -mcpu=pentium99"], "pentium99"),
    ([*MATMUL, "--target", "cuda"], "llvm targets, not 'cuda'"),
    (["run", "templates.py:for_cuda", "--set", "n=4"], "'cuda' targets, not 'llvm'"),
    (["run", "templates.py:for_cuda", "--set", "n=4", "--target", "cuda"], "cuda.*llvm"),
    # templates
    (["run", "matmull", *SIZE], "matmull.*matmul"),
    (["run", "", *SIZE], "there is no template ''"),
    (["run", "templates.py", *SIZE], "file.py:function"),
    (["run", "templates.py:", *SIZE], "good"),
    (["run", "templates.py:godo", *SIZE], "godo.*good"),
    (["run", "templates.py:not_a_template", *SIZE], "not a template"),
    (["run", "missing.py:f", *SIZE], "missing.py"),
    (["run", "folder.py:f", *SIZE], "folder.py"),
    (["run", "empty.py:f", *SIZE], "no templates"),
    (["run", "raises_on_import.py:f"], r"raises_on_import.py:3: .*ValueError: boom"),
    (["run", "bad_syntax.py:f"], r"bad_syntax.py:2: .*SyntaxError"),
    (["run", "exits.py:f"], r"exits.py:2: .*SystemExit"),
    (["run", "no_such_module.py:f"], r"no_such_module.py:1: .*module_that_is_not_there"),
    (["run", "deep.py:f"], r"deep.py:2: .*KeyError"),
    (["run", "not_text.py:f"], "not_text.py"),
    (["run", "bad_annotation.py:t"], "n: list.*annotated"),
    (["run", "templates.py:raises", "--set", "n=4"], r"templates.py:\d+"),
    (["run", "templates.py:returns_none", "--set", "n=4"], "must return"),
    (["run", "templates.py:bad_flops", "--set", "n=4"], "flops.*ZeroDivisionError"),
    # logs
    ([*MATMUL, "--log", ""], "--log is empty"),
    ([*MATMUL, "--log", "folder.py"], "folder.py is a folder"),
    ([*MATMUL, "--log", "/dev/full"], "/dev/full is a device"),
    ([*MATMUL, "--log", "/dev/null"], "/dev/null is a device"),
    ([*MATMUL, "--log", "no_folder/log.jsonl"], "there is no folder no_folder"),
    (["run", "matmull", "--log", "/dev/full"], "/dev/full is a device"),
    ([*MATMUL, "--log", "plain_file/log.jsonl"], "plain_file/log.jsonl: Not a directory"),
    ([*MATMUL, "--log", "/proc/log.jsonl"], "/proc/log.jsonl.*--log"),
    ([*MATMUL, "--log", "newer.jsonl"], "newer.jsonl, line 1.*99"),
    (["best", "matmul", *SIZE], "--log"),
    (["best", "matmul", *SIZE, "--log", "missing.jsonl"], "missing.jsonl"),
    (["best", "matmul", *SIZE, "--log", "newer.jsonl"], "99"),
    (["best", "matmul", "--set", "m=8", "--log", "newer.jsonl"], "n, k"),
    (["build", "matmul", *SIZE, "--log", "missing.jsonl"], "missing.jsonl"),
    (["build", "matmul", *SIZE, "--name", "a b"], "name must be letters, digits and _, got 'a b'"),
    (["build", "matmul", *SIZE, "-o", "no_folder/f.so"], "make the folder no_folder first"),
    (["build", "matmul", *SIZE, "-o", "folder.py"], "folder.py: it is a folder"),
    (["build", "matmul", *SIZE, "-o", "templates.py"], "templates.py: there is something else"),
    (["build", "matmul", *SIZE, "-o", "f.h"], "f.so"),
    (["build", "matmul", *SIZE, "--target", "llvm -mcpu=nehalem"], "nehalem.*not known"),
    (["build", "matmul", *SIZE, "--target", "cuda"], "expected kind llvm|llvm targets"),
    (["records", "summary"], "FILE"),
    (["records", "summary", "missing.jsonl"], "missing.jsonl"),
    (["records", "summary", "folder.py"], "Is a directory"),
    (["records", "summary", "newer.jsonl", "--json"], "99"),
    # show and templates
    (["show"], "TEMPLATE"),
    (["show", "matmul"], "m, n, k"),
    (["show", "matmul", *SIZE, "--ir", "--source"], "--ir and --source"),
    (["show", "matmul", *SIZE, "--config", "x"], "--config"),
    (["show", "matmul", *SIZE, "--config", "-1"], "--config"),
    (["show", "matmul", *SIZE, "--config", "999999999"], "outside the space"),
    (["show", "matmul", *SIZE, "--config", "999999999", "--space"], "outside the space"),
    (["show", "templates.py:raises", "--set", "n=4"], "RuntimeError: it never"),
    (["templates", "matmul"], "matmul"),
    (["templates", "--jsno"], "--json"),
    # characters that would steer the terminal
    (["run", "mat\x1b[31mmul", *SIZE], r"mat\\x1b"),
    (["best", "matmul", *SIZE, "--log", "no\nsuch.jsonl"], "no such.jsonl"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder.py").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_table_is_long_enough():
    assert len(MISTAKES) >= 80


@pytest.mark.parametrize(("words", "said"), MISTAKES, ids=lambda v: " ".join(v)[:60] or "-")
def test_a_mistake_is_one_line_and_exit_code_2(words, said, folder, capsys):
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert err.startswith("autotune: ")
    assert re.search(said, err)
    assert "Traceback" not in err
    assert err.strip().isprintable()
    assert err.isascii()  # so no box is drawn around it
    left = {p.name for p in folder.iterdir()} - {"__pycache__"}
    assert left == {*FILES, "folder.py"}  # no log, no temporary file


def test_a_configuration_that_a_rule_rejects_is_named_with_the_rule_and_a_way_out(folder, capsys):
    (folder / "rule.py").write_text(
        TEMPLATES + "\n@template('rule')\ndef rule(cfg, n: int):\n"
        "    k = cfg.define_knob('k', [1, 2, 4])\n"
        "    cfg.add_constraint(k < 4, 'k is small')\n"
        "    return add_one(n)\n"
    )
    assert main(["show", "rule.py:rule", "--set", "n=4", "--config", "2"]) == 2
    said = capsys.readouterr().err
    assert re.search("configuration 2: 'k is small'.*nearest one allowed is 1", said)


def test_an_error_of_our_own_that_is_no_usage_error_is_one_line_too(monkeypatch, capsys):
    def fail(*_: object) -> None:
        raise ScheduleError("split: no such axis")

    monkeypatch.setattr("autotune.cli.templates.templates_command", fail)
    assert main(["templates"]) == 2
    assert capsys.readouterr().err == "autotune: split: no such axis\n"


def test_a_bug_is_not_dressed_up_as_a_mistake(monkeypatch):
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("autotune.cli.templates.templates_command", fail)
    with pytest.raises(ZeroDivisionError):
        main(["templates"])


def test_interrupting_a_command_is_exit_code_130(monkeypatch, capsys):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("autotune.cli.templates.templates_command", stop)
    assert main(["templates"]) == 130
    assert capsys.readouterr().err == "autotune: interrupted\n"
