"""Files that are not what a command expects of them, for the table of mistakes."""

from __future__ import annotations

import os
from pathlib import Path

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
