"""The command line at work, as processes: runs, resumes, looks up, shows, is interrupted."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import psutil
import pyte
import pytest

import autotune
from records import RecordStore

SIZE = ["--set", "m=16", "--set", "n=16", "--set", "k=16"]
COMMAND = [sys.executable, "-m", "autotune"]
ROOT = Path(__file__).parents[2]


def environment(**more):
    """Environment of a process that finds this source tree from any folder."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}


WRONG = """
from autotune import te
from autotune.template import template

@template("wrong", reference=lambda a: a)
def wrong(cfg, n: int):
    print("a template may print")
    k = cfg.define_knob("k", [1, 2, 4])
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(s[B].op.axis[0], factor=k)
    return s, [A, B]

@template("nothing_allowed", reference=lambda a: a + 1)
def nothing_allowed(cfg, n: int):
    k = cfg.define_knob("k", [1, 2, 4])
    cfg.add_constraint(k > 4, "k is large")
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(s[B].op.axis[0], factor=k)
    return s, [A, B]
"""


def call(*words, cwd=None):
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=environment(),
    )


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A log of four trials, and what the run that made it printed."""
    folder = tmp_path_factory.mktemp("tuned")
    done = call("run", "matmul", *SIZE, "--trials", 4, "--seed", 1, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "matmul.jsonl", done


def test_a_run_learns_from_the_log_of_another_size(tuned, tmp_path):
    records = [r.to_json() for r in RecordStore(tuned[0]).load()]
    for record in records:
        record["workload"]["args"]["m"] = 32
    log = tmp_path / "other.jsonl"
    log.write_text("".join(json.dumps(record) + "\n" for record in 4 * records))
    words = ["--trials", 2, "--seed", 1, "--transfer", log, "--patience", 0.01]
    done = call("run", "matmul", *SIZE, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "learned from 16 measurements of 1 workload" in done.stdout


def test_a_run_logs_its_trials_beside_it_and_ends_in_one_summary_line(tuned):
    log, done = tuned
    lines = done.stdout.splitlines()
    assert lines[0] == "matmul(m=16, n=16, k=16, dtype=float32) on llvm"
    assert lines[1] == "log matmul.jsonl, seed 1"
    compared = r"(level with |[\d.]+x )the default \([\d.]+ to [\d.]+\)"
    compared += r"|too noisy for a ratio|which is the default"
    assert re.fullmatch(
        rf"best [\d.]+ [mun]?s, [\d.]+ GFLOPS, (.* of \w+, )?({compared}); "
        r"config \d+; 4 trials; (.*; )?\d+ s",
        lines[-1],
    )
    table = next(n for n, line in enumerate(lines) if line.startswith("default  "))
    assert lines[table - 2].startswith("4/4  best ")
    assert lines[table + 1].startswith("best  ")
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert max(map(len, lines[:-1])) <= 80
    records = RecordStore(log).load()
    assert [r.ok for r in records] == [True] * 4
    assert {r.seed for r in records} == {1}
    assert len({r.index for r in records}) == 4


def test_a_second_run_measures_nothing_twice_and_a_larger_one_continues(tuned, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_bytes(tuned[0].read_bytes())
    before = log.read_bytes()
    again = call("run", "matmul", *SIZE, "--trials", 4, "--log", log)
    assert again.returncode == 0
    assert log.read_bytes() == before
    assert re.search(r"seed \d+ \(chosen now\)", again.stdout)
    more = call("run", "matmul", *SIZE, "--trials", 6, "--log", log, "--tuner", "random")
    assert more.returncode == 0
    assert log.read_bytes().startswith(before)
    indices = [r.index for r in RecordStore(log).load()]
    assert len(indices) == len(set(indices)) == 6


def test_an_edited_template_is_measured_anew_and_one_line_says_so(tmp_path):
    source = tmp_path / "adding.py"
    source.write_text(WRONG.replace("lambda a: a)", "lambda a: a + 1)"))
    words = (f"{source}:wrong", "--set", "n=64", "--trials", 2, "--log", tmp_path / "log.jsonl")
    assert call("run", *words).returncode == 0
    source.write_text(source.read_text().replace("s[B].split(", "s[B].parallel(B.op.axis[0]) #"))
    done = call("run", *words)
    assert done.returncode == 0, done.stderr
    assert done.stderr == (
        "autotune: warning: 2 records of wrong(n=64) were measured with an earlier version of this "
        "template and are not used\n"
    )
    assert len(RecordStore(tmp_path / "log.jsonl").load()) == 4


def test_a_reference_that_is_killed_leaves_an_empty_log_and_one_line(tmp_path):
    source = tmp_path / "killed.py"
    source.write_text(WRONG.replace("lambda a: a)", "lambda a: os.kill(os.getpid(), 9))", 1))
    source.write_text("import os\n" + source.read_text())
    done = call("run", f"{source}:wrong", "--set", "n=64", "--log", tmp_path / "log.jsonl")
    assert done.returncode == 2
    assert re.search(r"autotune: template .* cannot be measured: .* twice\n$", done.stderr)
    assert not (tmp_path / "log.jsonl").exists()


def test_a_verbose_run_logs_what_it_does_on_the_standard_error_with_times(tmp_path):
    done = call("run", "matmul", *SIZE, "--trials", 1, "-v", cwd=tmp_path)
    assert done.returncode == 0
    clock = r"\d\d:\d\d:\d\d\.\d{3}"
    lines = done.stderr.splitlines()
    assert all(re.match(rf"{clock} (debug|info) autotune\.", line) for line in lines)
    for said in (
        r"info autotune\.task: matmul\(.*\) traced in [\d.]+ s: 23040 configurations, \d+ ways",
        r"debug autotune\.measure\.crew: worker 1 starts, to build",
        r"debug autotune\.tuner\.session: matmul\(.*\): candidate \d+: \S+ s",
    ):
        assert re.search(f"{clock} {said}", done.stderr)


def test_best_has_the_keys_that_scripts_rely_on(tuned):
    log, _ = tuned
    done = call("best", "matmul", *SIZE, "--log", log, "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert set(found) == {"workload", "target", "config", "cost_s", "gflops", "record"}
    fastest = min(RecordStore(log).load(), key=lambda r: r.cost_s)
    assert found["record"] == fastest.to_json()
    assert found["config"] == fastest.config
    assert found["cost_s"] == fastest.cost_s
    assert found["gflops"] == pytest.approx(2e-9 * 16**3 / fastest.cost_s)
    text = call("best", "matmul", *SIZE, "--log", log).stdout
    assert f"config {fastest.index}" in text
    assert max(map(len, text.splitlines())) <= 80


def test_best_without_a_matching_record_is_exit_code_3(tuned):
    done = call("best", "matmul", *SIZE[:4], "--set", "k=17", "--log", tuned[0])
    assert (done.returncode, done.stdout) == (3, "")
    assert re.fullmatch(r"autotune: .* holds no valid record of matmul\(.*k=17.*\n", done.stderr)


def test_a_build_uses_what_the_command_logged(tuned):
    f = autotune.build("matmul", {"m": 16, "n": 16, "k": 16}, records=tuned[0])
    assert f.record == min(RecordStore(tuned[0]).load(), key=lambda r: r.cost_s)
    a, b = np.random.default_rng(0).random((2, 16, 16), dtype=np.float32)
    c = np.empty((16, 16), np.float32)
    f(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_records_summary_counts_by_workload(tuned):
    log, _ = tuned
    (row,) = json.loads(call("records", "summary", log, "--json").stdout)
    assert (row["template"], row["target"], row["trials"], row["ok"]) == ("matmul", "llvm", 4, 4)
    text = call("records", "summary", log).stdout
    assert "  4 trials, 4 ok\n" in text


def test_templates_lists_names_and_arguments():
    rows = json.loads(call("templates", "--json").stdout)
    by_name = {row["name"]: row for row in rows}
    assert {"broadcast_add", "conv2d_nchw", "matmul", "softmax"} <= set(by_name)
    parameters = by_name["matmul"]["parameters"]
    assert [p["name"] for p in parameters] == ["m", "n", "k", "dtype"]
    assert parameters[3] == {"name": "dtype", "type": "str", "default": "float32"}
    text = call("templates").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"^matmul +llvm +m, n, k, dtype=float32$", text, re.MULTILINE)


def test_show_space_counts_what_rules_reject_and_names_the_default():
    text = call("show", "matmul", *SIZE, "--space").stdout
    total, allowed = map(int, re.search(r"(\d+) configurations, (\d+) allowed", text).groups())
    table = text.split("rejects")[1]
    rejected = [int(n) for n in re.findall(r"^ *(\d+) +\d+  \w+ ", table, re.M)]
    assert total - sum(rejected) == allowed
    assert re.search(r"default config \d+: tile_m=", text)
    assert max(map(len, text.splitlines())) <= 80


def test_show_steps_lists_the_schedule_of_a_configuration():
    lines = call("show", "matmul", *SIZE, "--steps").stdout.splitlines()
    assert lines[0] == "1. T.local.cache_write(T, local)"
    assert [line.split(".")[0] for line in lines] == [str(n + 1) for n in range(len(lines))]
    assert not any("tile" in line for line in lines)


def test_show_ir_and_source_show_the_configuration_that_is_asked_for(tuned):
    one, other = (r.index for r in RecordStore(tuned[0]).load()[:2])
    for view, part in (("--ir", "produce C {"), ("--source", "define")):
        texts = [call("show", "matmul", *SIZE, view, "--config", i).stdout for i in (one, other)]
        assert all(part in text for text in texts)
        assert texts[0] != texts[1]
    assert call("show", "matmul", *SIZE, "--config", one).stdout == (
        call("show", "matmul", *SIZE, "--ir", "--config", one).stdout
    )


def test_a_run_in_which_nothing_is_right_is_exit_code_3_and_leaves_failed_records(tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)
    done = call("run", "wrong.py:wrong", "--set", "n=8", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr == (
        "autotune: nothing valid was found in 3 trials: 3 failed (3 wrong answer); "
        "wrong.jsonl says why\n"
    )
    assert "the space holds no more" in done.stdout.splitlines()[-1]
    errors = [r.error["code"] for r in RecordStore(tmp_path / "wrong.jsonl").load()]
    assert errors == ["WRONG_ANSWER"] * 3


def test_a_space_without_an_allowed_configuration_is_exit_code_3_and_explains_itself(tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)
    done = call("run", "wrong.py:nothing_allowed", "--set", "n=8", cwd=tmp_path)
    assert done.returncode == 3
    assert re.fullmatch(r"autotune: .*none of 3 .*k is large rejects 3.*\n", done.stderr)
    shown = call("show", "wrong.py:nothing_allowed", "--set", "n=8", cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "3 configurations, 0 allowed" in shown.stdout
    assert "k is large rejects 3" in shown.stdout.splitlines()[-2]
    assert re.search("nearest is k=1,? stopped by k is large", shown.stdout.replace("\n ", ""))


def test_what_a_template_prints_stays_out_of_what_was_asked_for(tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)
    done = call("show", "wrong.py:wrong", "--set", "n=8", "--ir", cwd=tmp_path)
    assert done.stdout.startswith("produce B")
    assert "a template may print" not in done.stdout


LOUD = """
import os
import time
from autotune import te
from autotune.template import template

os.write(1, b"loud import")

def count(n):
    os.write(1, b"loud count")
    return float(n)

@template("loud", reference=lambda a: a + 1, flops=count)
def loud(cfg, n: int):
    os.write(1, b"loud template")
    k = cfg.define_knob("k", [1, 2, 4])
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    if k == 2:
        raise ValueError("k is two")
    if k == 4 and n == 9:
        time.sleep(60)
    s[B].split(s[B].op.axis[0], factor=k)
    return s, [A, B]
"""


def test_a_run_says_what_is_refused_and_nothing_that_the_template_writes(tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    done = call("run", "loud.py:loud", "--set", "n=8", "--trials", 2, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[2] == "space 3, 2 legal"
    assert re.fullmatch(r"1 of 3 refused: ValueError: k is two \(.*loud\.py:\d+\)", lines[3])
    assert "loud count" not in done.stdout
    assert "loud template" not in done.stdout
    words = ["best", "loud.py:loud", "--set", "n=8", "--log", "loud.jsonl", "--json"]
    found = json.loads(call(*words, cwd=tmp_path).stdout)
    assert found["workload"]["template"] == "loud"


LINGERING = """
import atexit
import threading
import time
from autotune import te
from autotune.template import template

class Mute(Exception):
    def __str__(self):
        raise ValueError("nothing to say")

@template("lingering", reference=lambda a: a + 1)
def lingering(cfg, n: int):
    atexit.register(time.sleep, 60)
    threading.Thread(target=time.sleep, args=(60,)).start()
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    if cfg.define_knob("k", [1, 2]) == 2:
        raise Mute
    return te.create_schedule(B.op), [A, B]
"""


def test_what_a_template_leaves_running_does_not_hold_up_or_end_a_command(tmp_path):
    (tmp_path / "lingering.py").write_text(LINGERING)
    begin = time.monotonic()
    words = ["show", "lingering.py:lingering", "--set", "n=8", "--space"]
    done = call(*words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 configurations, 1 allowed" in done.stdout
    assert "Mute: (it cannot be printed: ValueError)" in done.stdout
    assert time.monotonic() - begin < 30.0


def test_the_time_limit_holds_for_tracing_too(tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    words = ["-v", "run", "loud.py:loud", "--set", "n=9", "--trials", 1, "--timeout", 1]
    done = call(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    traced_s = re.search(r" traced in ([\d.]+) s", done.stderr)
    assert traced_s is not None
    assert 1.0 <= float(traced_s[1]) < 10.0  # as long as it would get by default
    assert not re.search(r"; 0 s$", done.stdout)  # tracing waited for a second, and counts


def test_a_log_that_is_also_the_output_is_refused(tmp_path):
    with open(tmp_path / "out", "w") as out:
        done = subprocess.run(
            [*COMMAND, "run", "matmul", *SIZE, "--log", str(tmp_path / "out")],
            stdout=out, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert "is where the output goes" in done.stderr
    assert (tmp_path / "out").read_text() == ""


def test_a_run_that_is_ended_before_anything_was_measured_claims_nothing(tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    words = [*COMMAND, "run", "loud.py:loud", "--set", "n=9", "--timeout", "30"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env=environment(),
    ) as process:  # fmt: skip
        wait_for(lambda: len(psutil.Process(process.pid).children()) >= 2)  # it traces
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (143, "autotune: interrupted\n")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupting_a_run_keeps_what_was_measured(tmp_path, how):
    log = tmp_path / "log.jsonl"
    words = ["run", "matmul", *SIZE, "--trials", "5000", "--log", str(log), "--tuner", "random"]
    with subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        # One more than is asked for below: an interrupt takes a line back that is being synced.
        wait_for(lambda: log.exists() and log.read_bytes().count(b"\n") >= 4)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(how)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + how
    assert re.fullmatch(r"autotune: interrupted after \d+ of 5000 trials, best .*\n", err)
    records = RecordStore(log).load()
    measured = int(re.search(r"after (\d+)", err).group(1))
    assert len(records) == len({r.index for r in records}) == measured >= 3
    wait_for(lambda: not any(alive(child) for child in children))


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    pipe = f"{sys.executable} -m autotune show matmul {' '.join(SIZE)} --source | head -n 1"
    done = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


def test_a_run_whose_reader_goes_away_is_finished(tmp_path):
    log = tmp_path / "log.jsonl"
    reader, writer = os.pipe()
    words = ["run", "matmul", *SIZE, "--trials", "3", "--log", str(log)]
    with subprocess.Popen([*COMMAND, *words], stdout=writer, stderr=subprocess.PIPE) as process:
        os.close(writer)
        os.close(reader)
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, b"")
    assert len(RecordStore(log).load()) == 3


def on_terminal(words, columns, env=None):
    """Run a command in a pseudo-terminal; return its exit code and all it wrote there."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    outside = environment(**{"TERM": "xterm", **(env or {})})
    outside.pop("COLUMNS", None)
    with subprocess.Popen(
        [*COMMAND, *map(str, words)], stdin=slave, stdout=slave, stderr=slave, env=outside
    ) as process:
        os.close(slave)
        written = b""
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:  # Linux says so at the end
                break
            if not data:
                break
            written += data
    os.close(master)
    return process.returncode, written.decode()


COLOUR = re.compile(r"\x1b\[[\d;]*m")
STEERING = re.compile(r"\x1b\[\??[\d;]*[A-Za-z]")


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("colour", [True, False])
def test_a_terminal_sees_a_panel_that_renews_itself_and_fits(tmp_path, columns, colour):
    words = ["run", "matmul", *SIZE, "--trials", 3, "--seed", 0, "--log", tmp_path / "l.jsonl"]
    env = {} if colour else {"NO_COLOR": "1"}
    code, written = on_terminal(words, columns, env)
    assert code == 0
    assert bool(COLOUR.search(written)) == colour
    drawn = re.split(r"[\r\n]+", STEERING.sub("", written))
    assert all(len(line) <= columns for line in drawn)
    for label, what in (("trials", r"━+  3/3"), ("best", r"[\d.]+ [mun]?s, [\d.]+ GFLOPS")):
        assert any(re.search(rf"^ *{label} +{what}", line) for line in drawn), label
    screen = pyte.Screen(columns, 24)
    pyte.Stream(screen).feed(written)
    lines = "\n".join(line.rstrip() for line in screen.display).rstrip().split("\n")
    assert lines[0].startswith("matmul(m=16, n=16")
    assert not any("trials  " in line for line in lines)  # the panel is gone
    last = max(n for n, line in enumerate(lines) if line.startswith("best "))
    said = " ".join(" ".join(lines[last:]).split())
    assert re.search(r"; config \d+; 3 trials; (.*; )?\d+ s$", said)
    assert not screen.cursor.hidden


def test_a_quiet_run_prints_its_last_line_and_only_one_view_can_be_asked_for(tmp_path):
    words = ["run", "matmul", *SIZE, "--trials", 2, "--log", tmp_path / "log.jsonl", "--quiet"]
    done = call(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"best .*; 2 trials; .*\n", done.stdout)
    both = call(*words, "--json-lines")
    assert (both.returncode, both.stdout) == (2, "")
    assert both.stderr.startswith("autotune: --quiet and --json-lines exclude one another")


def test_a_dumb_terminal_gets_plain_lines(tmp_path):
    words = ["run", "matmul", *SIZE, "--trials", 2, "--log", tmp_path / "l.jsonl"]
    code, written = on_terminal(words, 80, {"TERM": "dumb"})
    assert code == 0
    assert "\x1b" not in written
    assert "2/2  best" in written


def test_a_mistake_on_a_terminal_is_one_plain_line():
    code, written = on_terminal(["run", "matmul", "--trails", "3"], 80)
    assert code == 2
    assert "\x1b" not in written
    assert written.count("\n") == 1
    assert written.startswith("autotune: No such option: --trails")


def test_the_help_is_plain_text():
    assert "\\" not in call("--help").stdout


def test_speed_in_bytes_is_null_in_gflops(tmp_path):
    words = ["broadcast_add", "--set", "n=16", "--log", tmp_path / "log.jsonl"]
    done = call("run", *words, "--trials", 1)
    assert re.search(r"^best .*, [\d.]+ GB/s", done.stdout, re.MULTILINE), done.stderr
    assert json.loads(call("best", *words, "--json").stdout)["gflops"] is None


def test_the_module_and_the_version():
    done = call("--version")
    assert (done.returncode, done.stdout) == (0, f"autotune {autotune.__version__}\n")
    assert call("run", "--help").returncode == 0
