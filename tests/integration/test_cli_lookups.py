"""Commands that look up and show: best, records, templates, show; and builds from a log."""

import json
import re

import numpy as np
import pytest
from support.command_line import SMALL
from support.odd_templates import WRONG

import autotune
from records import RecordStore


def chosen(log):
    """What a final comparison chose, if there was time for one; else the fastest trial."""
    records = RecordStore(log).load()
    winners = [r for r in records if not r.is_trial and r.final["rank"] == 0]
    return winners[-1] if winners else min(records, key=lambda r: r.cost_s)


def test_best_has_the_keys_that_scripts_rely_on(call, tuned):
    log, _ = tuned
    done = call("best", "matmul", *SMALL, "--log", log, "--json")
    assert done.code == 0
    found = json.loads(done.out)
    assert set(found) == {"workload", "target", "config", "cost_s", "gflops", "grade", "record"}
    fastest = chosen(log)
    assert found["record"] == fastest.to_json()
    assert found["config"] == fastest.config
    assert found["cost_s"] == fastest.cost_s
    assert found["gflops"] == pytest.approx(2e-9 * 16**3 / fastest.cost_s)
    text = call("best", "matmul", *SMALL, "--log", log).out
    assert f"config {fastest.index}" in text
    assert max(map(len, text.splitlines())) <= 80


def test_best_without_a_matching_record_is_exit_code_3(call, tuned):
    done = call("best", "matmul", *SMALL[:4], "--set", "k=17", "--log", tuned[0])
    assert (done.code, done.out) == (3, "")
    assert re.fullmatch(r"autotune: .* holds no valid record of matmul\(.*k=17.*\n", done.err)


def test_a_build_uses_what_the_command_logged(tuned):
    f = autotune.build("matmul", {"m": 16, "n": 16, "k": 16}, records=tuned[0])
    assert f.record == chosen(tuned[0])
    a, b = np.random.default_rng(0).random((2, 16, 16), dtype=np.float32)
    c = np.empty((16, 16), np.float32)
    f(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_records_summary_prints_a_moment_that_no_calendar_reaches(call, tuned, tmp_path):
    line, *_ = tuned[0].read_text().splitlines()
    log = tmp_path / "far.jsonl"
    log.write_text(re.sub(r'"timestamp":[^,}]*', '"timestamp":1e30', line) + "\n")
    done = call("records", "summary", log)
    assert (done.code, done.out.splitlines()[-1]) == (0, "  1e+30 s to 1e+30 s")


def test_templates_lists_names_and_arguments(call):
    rows = json.loads(call("templates", "--json").out)
    by_name = {row["name"]: row for row in rows}
    assert {"broadcast_add", "conv2d_nchw", "matmul", "softmax"} <= set(by_name)
    parameters = by_name["matmul"]["parameters"]
    names = ["m", "n", "k", "transpose_a", "transpose_b", "dtype", "out_dtype"]
    assert [p["name"] for p in parameters] == names
    assert parameters[5] == {"name": "dtype", "type": "str", "default": "float32"}
    text = call("templates").out
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"^matmul +any +m, n, k, transpose_a=False, ", text, re.MULTILINE)
    assert re.search(r"^cumsum +any +m, n, axis=0, dtype=float32$", text, re.MULTILINE)


def test_show_space_counts_what_rules_reject_and_names_the_default(call):
    text = call("show", "matmul", *SMALL, "--space").out
    total, allowed = map(int, re.search(r"(\d+) configurations, (\d+) allowed", text).groups())
    table = text.split("rejects")[1]
    rejected = [int(n) for n in re.findall(r"^ *(\d+) +\d+  \w+ ", table, re.M)]
    assert total - sum(rejected) == allowed
    assert re.search(r"default config \d+: vector=", text)
    assert max(map(len, text.splitlines())) <= 80


def test_show_steps_lists_the_schedule_of_a_configuration(call):
    lines = call("show", "matmul", *SMALL, "--steps").out.splitlines()
    assert any(".vectorize(" in line for line in lines)
    assert [line.split(".")[0] for line in lines] == [str(n + 1) for n in range(len(lines))]
    assert not any(".tile(" in line for line in lines)


def test_show_source_has_what_prepares_constants_before_what_is_called(call):
    done = call("show", "matmul", *SMALL, "--constant", 1, "--source")
    assert done.code == 0, done.err
    entries = re.findall(r"^define i32 @(\w+)\(", done.out, re.MULTILINE)
    assert entries == ["kernel_matmul_prepare", "kernel_matmul"]


def test_show_ir_and_source_show_the_configuration_that_is_asked_for(call, tuned):
    one, other = [r.index for r in RecordStore(tuned[0]).load() if r.is_trial][:2]
    for view, part in (("--ir", "produce C {"), ("--source", "define")):
        texts = [call("show", "matmul", *SMALL, view, "--config", i).out for i in (one, other)]
        assert all(part in text for text in texts)
        assert texts[0] != texts[1]
    assert call("show", "matmul", *SMALL, "--config", one).out == (
        call("show", "matmul", *SMALL, "--ir", "--config", one).out
    )


def test_what_a_template_prints_stays_out_of_what_was_asked_for(call, tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)
    done = call("show", "wrong.py:wrong", "--set", "n=8", "--ir")
    assert done.out.startswith("produce B")
    assert "a template may print" not in done.out


def test_several_constants_may_follow_one_option(call, tmp_path):
    a, b = np.ones((4, 6), "float32"), np.ones((6, 5), "float32")
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    given = ["--constant", f"A={tmp_path}/a.npy", f"B={tmp_path}/b.npy"]
    library = tmp_path / "product.so"
    done = call("build", "matmul", "--set", "m=4", "n=5", "k=6", *given, "-o", library)
    assert done.code == 0
    out = np.empty((4, 5), "float32")
    autotune.load(library)(out)
    np.testing.assert_array_equal(out, a @ b)
