"""Runs of the command line: what is printed, logged, resumed, refused."""

import json
import os
import re

import numpy as np
from support.command_line import PIPE, QUICK, SMALL
from support.odd_templates import LOUD, WRONG

import autotune
from records import RecordStore


def test_a_run_logs_its_trials_beside_it_and_ends_in_one_summary_line(tuned):
    log, done = tuned
    lines = done.out.splitlines()
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
    trials = [line for line in lines[:table] if re.match(r"\d/4 ", line)]
    assert trials[-1].startswith("4/4  best ")
    assert lines[table + 1].startswith("best  ")
    assert done.err == ""
    assert "\x1b" not in done.out
    assert max(map(len, lines[: table + 2])) <= 80  # what follows are remarks
    records = [r for r in RecordStore(log).load() if r.is_trial]
    assert [r.ok for r in records] == [True] * 4
    assert {r.seed for r in records} == {1}
    assert len({r.index for r in records}) == 4


def test_a_second_run_measures_nothing_twice_and_a_larger_one_continues(call, tuned, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_bytes(tuned[0].read_bytes())
    before = log.read_bytes()
    again = call("run", "matmul", *SMALL, "--trials", 4, "--log", log)
    assert again.code == 0
    assert log.read_bytes() == before
    assert re.search(r"seed \d+ \(chosen now\)", again.out)
    more = call("run", "matmul", *SMALL, "--trials", 6, "--log", log, "--tuner", "random", *QUICK)
    assert more.code == 0
    assert log.read_bytes().startswith(before)
    indices = [r.index for r in RecordStore(log).load() if r.is_trial]
    assert len(indices) == len(set(indices)) == 6


def test_a_run_learns_from_the_log_of_another_size(call, tuned, tmp_path):
    records = [r.to_json() for r in RecordStore(tuned[0]).load() if r.is_trial]
    for record in records:
        record["workload"]["args"]["m"] = 32
    absurd = [{**record, "costs_s": [1e-12]} for record in 5 * records]
    log = tmp_path / "other.jsonl"
    log.write_text("".join(json.dumps(record) + "\n" for record in [*absurd, *records * 4]))
    words = ["--trials", 2, "--seed", 1, "--transfer", log, "--patience", 0.01, *QUICK]
    done = call("run", "matmul", *SMALL, *words)
    assert done.code == 0, done.err
    assert "learned from 16 measurements of 1 workload" in done.out
    assert done.err == (
        "autotune: warning: 20 measurements to learn from do not count: the time is less than any "
        "such device needs\n"
    )


def test_an_edited_template_is_measured_anew_and_one_line_says_so(call, tmp_path):
    source = tmp_path / "adding.py"
    source.write_text(WRONG.replace("lambda a: a)", "lambda a: a + 1)"))
    words = (f"{source}:wrong", "--set", "n=64", "--trials", 2, "--log", "log.jsonl", *QUICK)
    assert call("run", *words).code == 0
    edited = source.read_text().replace("s[B].split(", "outer, _ = s[B].split(")
    source.write_text(edited.replace("    return s", "    s[B].parallel(outer)\n    return s"))
    done = call("run", *words)
    assert done.code == 0, done.err
    assert re.fullmatch(  # two trials, and two of their comparison if there was time for it
        r"autotune: warning: [24] records of wrong\(n=64\) do not count: measured with an earlier "
        r"version of this template\n",
        done.err,
    )
    assert len([r for r in RecordStore(tmp_path / "log.jsonl").load() if r.is_trial]) == 4


def test_a_reference_that_is_killed_leaves_an_empty_log_and_one_line(call, tmp_path):
    source = tmp_path / "killed.py"
    source.write_text(WRONG.replace("lambda a: a)", "lambda a: os.kill(os.getpid(), 9))", 1))
    source.write_text("import os\n" + source.read_text())
    done = call("run", f"{source}:wrong", "--set", "n=64", "--log", "log.jsonl")
    assert done.code == 2
    assert re.search(r"autotune: template .* cannot be measured: .* twice\n$", done.err)
    assert not (tmp_path / "log.jsonl").exists()


def test_a_verbose_run_logs_what_it_does_on_the_standard_error_with_times(call):
    done = call("run", "matmul", *SMALL, "--trials", 1, "-v", *QUICK)
    assert done.code == 0
    clock = r"\d\d:\d\d:\d\d\.\d{3}"
    lines = done.err.splitlines()
    assert all(re.match(rf"{clock} (debug|info) autotune\.", line) for line in lines)
    for said in (
        r"info autotune\.task\.task: matmul\(.*\) traced in [\d.]+ s: \d+ configurations, "
        r"\d+ ways",
        r"debug autotune\.measure\.pool\.worker_pool: worker 1 starts, to build",
        r"debug autotune\.tuner\.run\.session: matmul\(.*\): candidate \d+: \S+ s",
    ):
        assert re.search(f"{clock} {said}", done.err)


def test_a_run_in_which_nothing_is_right_is_exit_code_3_and_leaves_failed_records(call, tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)
    done = call("run", "wrong.py:wrong", "--set", "n=8", *QUICK)
    assert done.code == 3
    records = RecordStore(tmp_path / "wrong.jsonl").load()
    assert done.err == (
        "autotune: nothing valid was found in 3 trials: 3 failed (3 wrong answer), "
        f"the first one in wrong.jsonl: {records[0].error['message']}\n"
    )
    assert "elements of B are wrong" in done.err
    assert "the space holds no more" in done.out.splitlines()[-1]
    errors = [r.error["code"] for r in records]
    assert errors == ["WRONG_ANSWER"] * 3


def test_a_space_without_an_allowed_configuration_is_exit_code_3_and_explains_itself(
    call, tmp_path
):
    (tmp_path / "wrong.py").write_text(WRONG)
    done = call("run", "wrong.py:nothing_allowed", "--set", "n=8")
    assert done.code == 3
    assert re.fullmatch(r"autotune: .*none of 3 .*k is large rejects 3.*\n", done.err)
    shown = call("show", "wrong.py:nothing_allowed", "--set", "n=8")
    assert (shown.code, shown.err) == (0, "")
    assert "3 configurations, 0 allowed" in shown.out
    assert "k is large rejects 3" in shown.out.splitlines()[-2]
    said = " ".join(shown.out.split())
    assert "nearest is k=4, stopped by k is large (4 <= 4)" in said


def test_a_run_says_what_is_refused_and_nothing_that_the_template_writes(call, tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    done = call("run", "loud.py:loud", "--set", "n=8", "--trials", 2, *QUICK)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[2] == "space 3, 2 legal"
    assert re.fullmatch(r"1 of 3 refused: ValueError: k is two \(.*loud\.py:\d+\)", lines[3])
    assert "loud count" not in done.out
    assert "loud template" not in done.out
    words = ["best", "loud.py:loud", "--set", "n=8", "--log", "loud.jsonl", "--json"]
    found = json.loads(call(*words).out)
    assert found["workload"]["template"] == "loud"


def test_the_time_limit_holds_for_tracing_too(call, tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    words = ["-v", "run", "loud.py:loud", "--set", "n=9", "--trials", 1, "--timeout", 2, *QUICK]
    done = call(*words)
    assert done.code == 0, done.err
    traced_s = re.search(r" traced in ([\d.]+) s", done.err)
    assert traced_s is not None
    assert 2.0 <= float(traced_s[1]) < 10.0  # as long as it would get by default
    assert not re.search(r"; 0 s$", done.out)  # tracing waited for two seconds, which count


def test_a_log_that_is_also_the_output_is_refused(call, tmp_path):
    out = tmp_path / "out"
    out.touch()
    done = call("run", "matmul", *SMALL, "--log", out, streams=(os.devnull, str(out), PIPE))
    assert done.code == 2
    assert "is where the output goes" in done.err
    assert out.read_text() == ""


def test_without_stated_operations_speeds_are_of_bytes_and_bench_counts_them(call):
    words = ["broadcast_add", "--set", "n=16", "--log", "log.jsonl"]
    done = call("run", *words, "--trials", 1, *QUICK)
    assert re.search(r"^best .*, [\d.]+ GB/s", done.out, re.MULTILINE), done.err
    assert json.loads(call("best", *words, "--json").out)["gflops"] is None
    compared = json.loads(call("bench", *words, *QUICK, "--json").out)
    assert (compared["unit"], compared["sizes"][0]["flops"]) == ("GFLOPS", 16 * 16)


def test_a_quiet_run_prints_its_last_line(call):
    done = call("run", "matmul", *SMALL, "--trials", 2, *QUICK, "--quiet")
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(r"best .*; 2 trials; .*\n", done.out)


def test_constants_are_tuned_found_and_saved(call, tmp_path):
    log, weights = tmp_path / "log.jsonl", tmp_path / "b.npy"
    words = ("run", "matmul", *SMALL, "--trials", 2, "--log", log, "--seed", 1, *QUICK)
    done = call(*words, "--constant", 1)
    assert done.code == 0, done.err
    assert done.out.split("\n")[0].endswith(", constant=[1]) on llvm")
    assert {r.constant for r in RecordStore(log).load()} == {(1,)}
    assert "constant=[1]" in call("best", "matmul", *SMALL, "--constant", 1, "--log", log).out
    other = call("best", "matmul", *SMALL, "--log", log)
    assert (other.code, other.out) == (3, "")
    assert "the same workload with another set of constant inputs: [1]" in other.err
    refused = call(*words, "--constant", 2)
    assert refused.code == 2
    assert refused.err == (
        "autotune: constant = [2]: template 'matmul' has no input 2; the positions of its inputs "
        "are 0 (A), 1 (B)\n"
    )
    np.save(weights, np.eye(16, dtype="f4"))
    library = tmp_path / "m.so"
    build = ("build", "matmul", *SMALL, "--log", log, "-o", library, "--constant")
    done = call(*build, f"B={weights}")
    assert done.code == 0, done.err
    assert "constant=[1]" in done.out
    a = np.arange(256, dtype="f4").reshape(16, 16)
    out = np.zeros_like(a)
    autotune.load(library)(a, out)
    assert (out == a).all()
    missing = call(*build, "B=none.npy")
    assert missing.code == 2
    assert missing.err.startswith("autotune: cannot read --constant none.npy: No such file")
    text = call(*build, f"0={log}")
    assert text.code == 2
    assert "it is not an array as .npy: " in text.err


def test_arrays_without_elements_are_tuned_without_a_ceiling(call, tmp_path):
    path = tmp_path / "doubled.py"
    path.write_text(
        "from autotune import te\n"
        "def doubled(n: int):\n"
        "    A = te.placeholder((n,), name='A')\n"
        "    return te.compute((n,), lambda i: A[i] * 2.0, name='B')\n"
    )
    done = call("run", f"{path}:doubled", "--set", "n=0", "--trials", 1, *QUICK)
    assert (done.code, done.err) == (0, "")
    assert "ceiling" not in done.out
    missing = call("run", f"{path}:doubles", "--set", "n=0")
    assert missing.code == 2
    assert missing.err.endswith("'doubles' does not exist; did you mean 'doubled'?\n")
