"""Wrong command lines and inputs: exit code 2 and exactly one plain line on the standard error.

Most are run in the process of the tests, every eighth in a pseudo-terminal, too, by a server that
forks. That is done with each that needs a process of its own, as code of templates or another
environment does: with pipes or in a pseudo-terminal, which alternate. The slow tests run each in
both ways; some are also run as processes that a user starts.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from support.command_line import CLOSED, PIPE, Ended, run_process
from support.command_mistake import MATMUL, Mistake, N
from support.command_mistakes import MISTAKES
from support.slow_cases import slow

from autotune.cli.main import main
from autotune.errors import ScheduleError
from records import Record

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

@template("returns_number")
def returns_number(cfg, n: int):
    return 3

@template("returns_strings")
def returns_strings(cfg, n: int):
    s, _ = add_one(n)
    return s, ["A", "B"]

@template("raises_base")
def raises_base(cfg, n: int):
    class Odd(BaseException):
        pass
    raise Odd("so odd")

@template("leaves")
def leaves(cfg, n: int):
    import sys
    sys.exit(0)

@template("empty_knob")
def empty_knob(cfg, n: int):
    cfg.define_knob("k", [])
    return add_one(n)

@template("twice")
def twice(cfg, n: int):
    cfg.define_knob("k", [1])
    cfg.define_knob("k", [2])
    return add_one(n)

@template("bad_schedule")
def bad_schedule(cfg, n: int):
    s, (A, B) = add_one(n)
    s[B].split(B.op.axis[0], factor=0)
    return s, [A, B]

@template("asks_for_keyboard")
def asks_for_keyboard(cfg, n: int):
    input("n?")
    return add_one(n)

@template("reference_raises", reference=lambda a: 1 / 0)
def reference_raises(cfg, n: int):
    return add_one(n)

@template("reference_of_other_shape", reference=lambda a: a[:2])
def reference_of_other_shape(cfg, n: int):
    return add_one(n)

@template("wrong", reference=lambda a: a)
def wrong(cfg, n: int):
    return add_one(n)

not_a_template = 3
"""


RECORD = Record(
    workload={"template": "matmul", "args": {"m": 8, "n": 8, "k": 8, "dtype": "float32"}},
    target="llvm",
    config={"index": 0, "values": {"k": 1}},
    costs_s=(0.001,),
    seed=0,
    timestamp=1.0,
).to_json_line()

JOB = '[[workload]]\ntemplate = "matmul"\nset = { m = 8, n = 8, k = 8 }\n'

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)
)
"""A small YAML file that stands for a billion words."""

FILES: dict[str, str | bytes] = {
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
    "raises_base.py": "class E(BaseException): pass\nraise E('odd')\n",
    "recursion.py": "def f():\n    f()\n\nf()\n",
    "memory.py": "raise MemoryError\n",
    "crashes.py": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
    "leaves_at_once.py": "import os\nos._exit(0)\n",
    "hangs.py": "import time\ntime.sleep(60)\n",
    "spins.py": "while True:\n    pass\n",
    "deaf.py": (
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True:\n    pass\n"
    ),
    "closes.py": "import os\nos.closerange(0, 256)\nraise ValueError('closed all')\n",
    "prints.py": "print('noise ' * 100000)\nraise ValueError('loud')\n",
    "tabs.py": "if True:\n\tx = 1\n        y = 2\n",
    "latin1.py": b"name = '\xe9'\n",
    "unreadable.py": "x = 1\n",
    "empty.jsonl": "",
    "binary.jsonl": bytes(range(256)) * 64,
    "picture.jsonl": b"\x89PNG\r\n\x1a\n" + bytes(1000),
    "story.jsonl": "Once upon a time\nthere was no record.\n",
    "list.jsonl": "[1, 2]\n",
    "deep.jsonl": "[" * 100_000 + "\n",
    "long.jsonl": "x" * 5_000_000,
    "latin1.jsonl": b'{"schema": 1, "note": "\xe9"}\n',
    "nan.jsonl": RECORD.replace("0.001", "NaN") + "\n",
    "good.jsonl": RECORD + "\n",
    "unreadable.jsonl": RECORD + "\n",
    "cut.json.gz": b"\x1f\x8b\x08\x00\x00",
    "number.json": "3",
    "no_cache.json": '{"cache": 3}',
    "job.toml": JOB,
    "job.yaml": "workload:\n  - template: matmul\n    set: {m: 8, n: 8, k: 8}\n",
    "job.json": "{}",
    "job_latin1.toml": b'name = "\xe9"\n',
    "job_bomb.yaml": BOMB,
    "job_key.toml": JOB + "trails = 3\n",
    "job_log.toml": JOB + 'log = "pipe.jsonl"\n',
    "job_size.toml": JOB.replace("k = 8", "k = 0"),
    "job_mark.toml": "\ufeff" + JOB.replace("k = 8", "k = 0"),
    "job_digits.toml": f"seed = {'9' * 5000}\n" + JOB,
    "job_digits.yaml": f"seed: {'9' * 5000}\n",
    "job_large.toml": "#" * 2_000_000,
    "job_single.toml": JOB.replace("[[workload]]", "[workload]"),
    "job_single.yaml": "workload: {template: matmul}\n",
    "job_comment.yaml": "# nothing yet\n",
    "job_date.yaml": "time: 2026-13-45\n",
    "job_integer.yaml": "seed: !!int many\n",
    "job_goal.toml": (
        '[[workload]]\ntemplate = "templates.py:good"\nset.n = 4\nuntil = "5 GFLOPS"\n'
    ),
    "job_names.yaml": "workload: [{template: matmul, set: {on: 3}}]\n",
    "job_nul.toml": JOB + 'log = "a\\u0000b"\n',
    "job_unused.toml": "[defaults]\nset = 3\n" + JOB,
    "cfg_latin1/config.toml": b'[run]\nlog = "\xe9"\n',
    "cfg_time/config.toml": '[run]\ntime = "5 fortnights"\n',
}


def make_files(folder: Path) -> None:
    """Fill a folder with them, and with what is no file."""
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for name in ("folder.py", "no_files", "cfg_folder/config.toml"):
        (folder / name).mkdir(parents=True)
    for name in ("pipe.jsonl", "pipe.py", "pipe.tile", "pipe.toml"):
        os.mkfifo(folder / name)
    for name in ("loop.jsonl", "loop.py"):
        (folder / name).symlink_to(name)
    (folder / "dangling.jsonl").symlink_to("no_folder/log.jsonl")
    (folder / "closed").mkdir(mode=0o555)
    for name in ("unreadable.py", "unreadable.jsonl"):
        (folder / name).chmod(0)


PLAIN = [mistake for mistake in MISTAKES if not (mistake.setup or mistake.unprivileged)]
AS_PROCESSES = PLAIN[:: len(PLAIN) // 3]


def needs_process(mistake: Mistake) -> bool:
    """Whether a mistake may change the process that makes it, or may be another one in ours."""
    own = mistake.setup or mistake.unprivileged or mistake.variables or mistake.printed
    return bool(own) or any(".py" in word for word in mistake.words)


HERE = [mistake for mistake in MISTAKES if not needs_process(mistake)]


def ways() -> Iterator[Any]:
    """Yield the mistakes with the ways to run them as processes: whether in a terminal."""
    alone = cycle([False, True])
    for number, mistake in enumerate(MISTAKES):
        usual = next(alone) if needs_process(mistake) else True if number % 8 == 0 else None
        for terminal in (False, True):
            case = (mistake, terminal)
            yield case if terminal is usual else slow(case)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder of files, which nobody may enter too: it is not one of pytest's."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    make_files(place)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def unchanged(folder: Path) -> Iterator[set[str]]:
    """Check that a command leaves no files, but for those that are added to the set."""
    before = names(folder)
    allowed: set[str] = set()
    yield allowed
    left = names(folder) - before
    for name in left:
        (folder / name).unlink()
    assert left <= allowed


def names(folder: Path) -> set[str]:
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return {name for name in found if "__pycache__" not in name}


def assert_one_line(mistake: Mistake, ended: Ended, terminal: bool) -> None:
    assert ended.code == mistake.code
    text = ended.out.replace("\r\n", "\n") if terminal else ended.err
    assert "Traceback" not in text
    if mistake.printed and terminal:
        text = "autotune: " + text.rpartition("autotune: ")[2]
    assert text.startswith("autotune: ")
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert re.search(mistake.said, text.strip())
    assert text.strip().isprintable()
    assert not re.search("[\u2500-\u257f]", text)  # no box is drawn around it
    if not terminal and not mistake.printed:
        assert ended.out == ""


def test_the_table_is_long_enough():
    assert len(MISTAKES) >= 250
    assert len({(*m.words, *m.variables.items(), m.setup) for m in MISTAKES}) == len(MISTAKES)


@pytest.mark.parametrize("mistake", HERE, ids=str)
def test_a_mistake_is_one_line_and_an_exit_code(mistake, folder, unchanged, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    unchanged.update(mistake.leaves)
    code = main(mistake.words)
    assert_one_line(mistake, Ended(code, *capsys.readouterr()), terminal=False)


@pytest.mark.parametrize(("mistake", "terminal"), list(ways()), ids=str)
def test_a_process_says_it_in_a_pipe_and_in_a_terminal(
    mistake, terminal, server, folder, unchanged
):
    unchanged.update(mistake.leaves)
    command = server.start(
        mistake.words,
        folder,
        terminal=terminal,
        setup=mistake.setup,
        variables=mistake.variables,
        unprivileged=mistake.unprivileged,
    )
    assert_one_line(mistake, command.ended(), terminal)


@pytest.mark.parametrize(
    ("mistake", "terminal"), list(zip(AS_PROCESSES, cycle([False, True]))), ids=str
)
def test_a_process_of_its_own_says_the_same(mistake, terminal, server, folder, unchanged):
    unchanged.update(mistake.leaves)
    how = {"terminal": terminal, "variables": mistake.variables}
    alone = run_process(mistake.words, folder, **how)
    assert_one_line(mistake, alone, terminal)
    assert server.start(mistake.words, folder, **how).ended() == alone


FULL = "/dev/full"


@pytest.mark.parametrize(
    ("words", "streams", "code", "said"),
    [
        (["frobnicate"], (CLOSED, PIPE, PIPE), 2, "No such command"),
        (["frobnicate"], (os.devnull, CLOSED, PIPE), 2, "No such command"),
        (["frobnicate"], (os.devnull, PIPE, CLOSED), 2, ""),
        (["frobnicate"], (CLOSED, CLOSED, CLOSED), 2, ""),
        (["frobnicate"], (os.devnull, PIPE, FULL), 2, ""),
        (["frobnicate"], (os.devnull, FULL, PIPE), 2, "No such command"),
        (["templates"], (os.devnull, CLOSED, PIPE), 2, "cannot write the output: it is closed"),
        (["templates"], (os.devnull, FULL, PIPE), 2, "cannot write the output: No space left"),
        (["--help"], (os.devnull, FULL, PIPE), 2, "No space left"),
        (["run", "--help"], (os.devnull, CLOSED, PIPE), 2, "closed"),
        (["--version"], (os.devnull, FULL, PIPE), 2, "No space left"),
        (["cache", "info", "--json"], (os.devnull, FULL, PIPE), 2, "No space left"),
        (["records", "summary", "good.jsonl"], (os.devnull, FULL, FULL), 2, ""),
        (MATMUL, (CLOSED, FULL, PIPE), 2, "No space left"),
        (["run", "templates.py:asks_for_keyboard", *N], (CLOSED, PIPE, PIPE), 2, "keyboard|input"),
    ],
    ids=str,
)
@pytest.mark.parametrize("alone", [False, slow(True)], ids=["forked", "alone"])
def test_a_stream_that_is_closed_or_full_is_one_line_or_none(
    words, streams, code, said, alone, server, folder, unchanged
):
    if alone:
        ended = run_process(words, folder, streams=streams)
    else:
        ended = server.start(words, folder, streams=streams).ended()
    assert ended.code == code
    assert "Traceback" not in ended.err
    assert "Exception" not in ended.err
    assert ended.err.count("\n") == bool(said)
    assert re.search(said, ended.err)


@pytest.mark.parametrize(
    ("words", "streams", "code", "said"),
    [
        (["frobnicate"], (CLOSED, CLOSED, CLOSED), 2, ""),
        (["templates"], (os.devnull, CLOSED, PIPE), 2, "cannot write the output: it is closed"),
        (["--help"], (os.devnull, FULL, PIPE), 2, "No space left"),
    ],
    ids=str,
)
def test_a_process_whose_streams_are_closed_or_full_does_the_same(
    words, streams, code, said, folder
):
    ended = run_process(words, folder, streams=streams)
    assert (ended.code, ended.err.count("\n")) == (code, bool(said))
    assert said in ended.err


@pytest.mark.parametrize(
    "words", [["templates"], slow(["--help"]), slow(["cache", "info"])], ids=str
)
def test_a_reader_that_has_gone_away_is_no_mistake(words, folder):
    ours, theirs = os.pipe()
    os.close(ours)
    ended = run_process(words, folder, streams=(os.devnull, f"/dev/fd/{theirs}", PIPE))
    os.close(theirs)
    assert (ended.code, ended.err) == (0, "")


def test_a_configuration_that_a_rule_rejects_is_named_with_the_rule_and_a_way_out(
    tmp_path, capsys
):
    (tmp_path / "rule.py").write_text(
        TEMPLATES + "\n@template('rule')\ndef rule(cfg, n: int):\n"
        "    k = cfg.define_knob('k', [1, 2, 4])\n"
        "    cfg.add_constraint(k < 4, 'k is small')\n"
        "    return add_one(n)\n"
    )
    assert main(["show", f"{tmp_path}/rule.py:rule", "--set", "n=4", "--config", "2"]) == 2
    said = capsys.readouterr().err
    assert re.search("configuration 2: 'k is small'.*nearest one allowed is 1", said)


def test_an_error_of_our_own_that_is_no_usage_error_is_one_line_too(monkeypatch, capsys):
    def fail(*_: object) -> None:
        raise ScheduleError("split: no such axis")

    monkeypatch.setattr("autotune.cli.commands.templates.list_templates", fail)
    assert main(["templates"]) == 2
    assert capsys.readouterr().err == "autotune: split: no such axis\n"


def test_a_bug_is_not_dressed_up_as_a_mistake(monkeypatch):
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("autotune.cli.commands.templates.list_templates", fail)
    with pytest.raises(ZeroDivisionError):
        main(["templates"])


def test_interrupting_a_command_is_exit_code_130(monkeypatch, capsys):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("autotune.cli.commands.templates.list_templates", stop)
    assert main(["templates"]) == 130
    assert capsys.readouterr().err == "autotune: interrupted\n"
