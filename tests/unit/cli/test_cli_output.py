"""What the command line writes: lines, tables, speeds, logs and spaces."""

import json
import logging
import re
import warnings

import pytest
from support.report_events import record

from autotune.cli.commands.show import show
from autotune.cli.options.shared_options import parse_settings
from autotune.cli.record_commands.records_summary import log_summary_text
from autotune.cli.terminal.output import Messages, print_error, width
from autotune.errors import UsageError
from autotune.report.space_text import legal_lines, space_text
from autotune.report.text_tables import TableColumn, cells_of, fitted, table, wrap, wrap_clauses
from autotune.report.units import Work, duration_text, percent_text, three_digits, time_text
from autotune.system.words import closest, one_line
from records import summary
from records.record_errors import RecordWarning
from search_spaces import ChoiceKnob, Constraint, Space, SplitKnob

# -- lines ---------------------------------------------------------------------------------


def test_a_line_has_no_breaks_and_no_characters_that_steer_a_terminal():
    assert one_line("a\n  b\tc\x1b[31md\x07") == r"a b c\x1b[31md\x07"


def test_complaints_name_the_program(capsys):
    print_error("two\nlines")
    assert capsys.readouterr().err == "autotune: two lines\n"


def test_width_is_80_where_there_is_no_terminal():
    assert width() == 80


def test_warnings_become_one_line_and_a_logged_one_is_said_once(capsys):
    before = list(logging.getLogger().handlers)
    with Messages():
        warnings.warn("something\nodd", UserWarning, stacklevel=1)
        warnings.warn("for developers", DeprecationWarning, stacklevel=1)
        warnings.warn("logged, too", RecordWarning, stacklevel=1)
        for _ in range(2):
            logging.getLogger("records.storage.append_only_log").warning("%s: skipped", "log")
        logging.getLogger("autotune.x").info("of no interest")
    assert capsys.readouterr().err.splitlines() == [
        "autotune: warning: something odd",
        "autotune: warning: log: skipped",
    ]
    assert logging.getLogger().handlers == before


def test_settings_are_read_in_order_and_may_hold_equals_signs():
    assert parse_settings(["b=1", " a = x=y "]) == {"b": "1", "a": "x=y"}


def test_the_closest_word_is_found_only_if_it_is_close():
    assert closest("dtpye", ["n", "dtype"]) == "dtype"
    assert closest("stride", ["n", "dtype"]) is None


# -- units -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.5, "2.50 s"),
        (0.0123, "12.3 ms"),
        (1e-3, "1.00 ms"),
        (4.567e-7, "457 ns"),
        (1.26e-11, "0.0126 ns"),
    ],
)
def test_times_have_three_digits_and_a_unit(seconds, text):
    assert time_text(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (0.00123, "0.00123"),
        (0.5, "0.500"),
        (9.994, "9.99"),
        (9.996, "10.0"),
        (99.94, "99.9"),
        (99.96, "100"),
        (12345.6, "12346"),
    ],
)
def test_three_digits_at_the_borders(value, text):
    assert three_digits(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.6, "1:00 min"), (125, "2:05 min"), (3661, "1:01:01 h")]
)
def test_durations_are_told_to_the_second(seconds, text):
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0.0 %"), (0.0004, "<0.1 %"), (0.0123, "1.2 %"), (0.0996, "10 %")]
)
def test_shares_are_percents_to_the_tenth_or_whole(share, text):
    assert percent_text(share) == text
    assert percent_text(1.034) == "103 %"


def test_speed_is_gflops_where_operations_are_known_whatever_the_size_and_gb_per_s_elsewhere():
    assert Work(2e9, 1e6).speed_text(0.5) == "4.00 GFLOPS"
    assert Work(1e6, 8e6).speed_text(1e-3) == "1.00 GFLOPS"
    assert Work(None, 8e6).speed_text(1e-3) == "8.00 GB/s"
    assert Work(None, 8e6).gflops(1.0) is None
    assert Work(2e9, 1e6).gflops(0.5) == 4.0


# -- tables ----------------------------------------------------------------------------------


def test_columns_are_aligned_and_numbers_stand_right():
    assert table(["name", "n#", "what"], [("a", "10", "x"), ("bcdef", "9", "y")], 80) == (
        "name    n  what\na      10  x\nbcdef   9  y"
    )


def test_the_last_column_wraps_within_the_width():
    text = table(["k", "values"], [("knob", ", ".join(map(str, range(40))))], 40)
    assert max(map(len, text.splitlines())) <= 40
    assert len(text.splitlines()) > 3
    assert all(line.startswith(" " * 6) for line in text.splitlines()[2:])


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (80, ["best 1 ms, 2.17x (2.10 to 2.25); 64 trials; 8 s"]),
        (36, ["best 1 ms, 2.17x (2.10 to 2.25);", "  64 trials; 8 s"]),
        (20, ["best 1 ms,", "  2.17x (2.10 to", "  2.25);", "  64 trials; 8 s"]),
    ],
)
def test_clauses_are_kept_whole_where_they_fit(width, lines):
    text = "best 1 ms, 2.17x (2.10 to 2.25); 64 trials; 8 s"
    assert wrap_clauses(text, width).split("\n") == lines


def columns(*ranks):
    return [TableColumn(f"c{rank}", ["x", "yy"], rank) for rank in ranks]


@pytest.mark.parametrize(
    ("width", "header"), [(14, "c0  c3  c1  c2"), (13, "c0  c1  c2"), (9, "c0  c1"), (5, "c0")]
)
def test_a_table_leaves_out_what_matters_least_where_there_is_no_room(width, header):
    assert fitted(columns(0, 3, 1, 2), width)[0] == header


def test_a_table_leaves_out_empty_columns_and_cuts_what_is_still_too_long():
    lines = fitted([TableColumn("", ["abcdef"], 0, right=False), TableColumn("none", [""], 1)], 4)
    assert lines == ["", "abcd"]


def test_a_wide_character_takes_two_columns():
    assert cells_of("a界e\u0301") == 4
    lines = fitted(
        [TableColumn("", ["界", "ab"], 0, right=False), TableColumn("n", ["1", "2"], 1)], 40
    )
    assert lines == ["    n", "界  1", "ab  2"]


def test_wrapped_text_keeps_every_word():
    text = "one two three four five six"
    assert wrap(text, 12, "  ").split() == text.split()
    assert wrap("", 10) == ""


# -- logs and spaces -------------------------------------------------------------------------


def test_a_log_is_summed_up_per_workload(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    import time

    time.tzset()
    (row,) = summary([record(3, 0.5, timestamp=60), record(4, timestamp=120)])
    assert log_summary_text(row, "", 80).splitlines() == [
        "t(n=4) on llvm",
        "  2 trials, 1 ok, 1 failed (1 run timeout)",
        "  best 500 ms, config 3, of trials: no final comparison",
        "  1970-01-01 00:01:00 to 1970-01-01 00:02:00",
    ]


def test_a_space_is_shown_with_sizes_rejections_and_a_configuration():
    space = Space(
        [ChoiceKnob("k", [1, 2, 4]), SplitKnob("tile", 8, 2)],
        [Constraint("k is small", lambda c: c["k"] < 4)],
    )
    text = space_text("t(n=4) on llvm", space, space.tally(), 0, "default config", 80)
    assert text.splitlines()[:5] == [
        "t(n=4) on llvm",
        "12 configurations, 8 allowed",
        "",
        "knob  values  which",
        "k          3  1, 2, 4",
    ]
    assert "rejects  in all  constraint\n      4       4  k is small" in text
    assert text.splitlines()[-1].startswith("default config 0: k=1, tile=(")


def test_what_a_template_refuses_is_told_with_its_reasons_commonest_first():
    def refuses(index):
        return lambda columns: columns["k"] != index

    rules = [Constraint(f"template: E: {i}", refuses(i)) for i in range(5)]
    rules.append(Constraint("template: F", lambda columns: columns["k"] < 8))
    rules.append(Constraint("own rule", refuses(7)))
    assert legal_lines(Space([ChoiceKnob("k", list(range(10)))], rules)) == [
        "space 10, 2 legal",
        "2 of 10 refused: F",
        "1 of 10 refused: E: 0",
        "1 of 10 refused: E: 1",
        "3 of 10 refused for 3 other reasons",
    ]
    huge = Space([ChoiceKnob(f"k{i}", list(range(100))) for i in range(5)])
    assert legal_lines(huge) == ["space 10000000000, 10000000000 legal"]


def test_a_run_does_not_count_large_spaces_before_it_begins():
    seen = []

    def counts(columns):
        seen.append(len(columns["a"]))
        return (columns["a"] + columns["b"]) % 2 == 0

    knobs = [ChoiceKnob(name, list(range(1000))) for name in "ab"]
    (line,) = legal_lines(Space(knobs, [Constraint("even", counts)]))
    assert line.startswith("space 1000000, 3")
    assert line.endswith(" of 65536 drawn legal")
    assert sum(seen) == 65536


def test_a_space_too_large_to_count_says_of_how_many_the_counts_are():
    knobs = [ChoiceKnob(f"k{i}", list(range(100))) for i in range(6)]
    space = Space(knobs, [Constraint("rule", lambda c: c["k0"] < 50)])
    text = space_text("t", space, space.tally(sample=1000), 0, "config", 60)
    allowed = int(re.search(r"allowed: (\d+) of 1000 drawn", text.replace("\n    ", " "))[1])
    assert "1000000000000 configurations, about " in text
    assert f" {1000 - allowed}     {1000 - allowed}  rule" in text
    assert max(map(len, text.splitlines())) <= 60


def test_loops_that_could_not_be_vectorized_are_comments_below_the_listing(tmp_path, capsys):
    file = tmp_path / "nested.py"
    file.write_text(
        "from autotune import te\nfrom autotune.template import template\n\n"
        "@template('nested')\ndef nested(cfg, n: int, inner: bool):\n"
        "    A = te.placeholder((n, n), name='A')\n"
        "    P = te.compute((n, n), lambda i, j: A[i, j] + 1, name='P')\n"
        "    B = te.compute((n, n), lambda i, j: P[i, j] * 2, name='B')\n"
        "    s = te.create_schedule(B.op)\n"
        "    s[P].compute_at(s[B], B.op.axis[0])\n"
        "    if inner:\n"
        "        s[P].vectorize(P.op.axis[1])\n"
        "    s[B].vectorize(B.op.axis[0])\n"
        "    return s, [A, B]\n"
    )
    refusal = "// i is not vectorized: a vector inside a vector"
    for inner, comments in (("true", [refusal]), ("false", [])):
        show(f"{file}:nested", ["n=8", f"inner={inner}"], config=0, ir=True)
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if line.startswith("// i ")] == comments
        assert lines[len(lines) - len(comments) - 1].strip() == "}"


def test_a_space_as_json_holds_what_each_rule_rejects_and_why_nothing_is_left(tmp_path, capsys):
    file = tmp_path / "limited.py"
    file.write_text(
        "from autotune import te\nfrom autotune.template import template\n\n"
        "@template('limited', target='cuda')\ndef limited(cfg, least: int = 1):\n"
        "    A = te.placeholder((4096,), name='A')\n"
        "    B = te.compute((4096,), lambda i: A[i] + 1, name='B')\n"
        "    s = te.create_schedule(B.op)\n"
        "    nt = cfg.define_knob('nt', [512, 1024, 2048])\n"
        "    cfg.add_constraint(nt >= least, 'large')\n"
        "    bx, tx = s[B].split(B.op.axis[0], factor=nt)\n"
        "    s[B].bind(bx, te.thread_axis('blockIdx.x'))\n"
        "    s[B].bind(tx, te.thread_axis('threadIdx.x'))\n"
        "    return s, [A, B]\n"
    )
    threads = {"rule": "a block has at most 1024 threads", "rejects": 1, "rejects_in_all": 1}
    show(f"{file}:limited", target="cuda -arch=sm_90", as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["configurations"], found["counted"], found["allowed"]) == (3, 3, 2)
    assert threads in found["rules"]
    assert found["config"] == {"index": 0, "values": {"nt": 512}}
    assert found["empty"] is None
    show(f"{file}:limited", ["least=1025"], target="cuda -arch=sm_90", as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["allowed"], found["config"]) == (0, None)
    assert "nearest is nt=1024, stopped by large (1024 < 1025)" in found["empty"]
    with pytest.raises(UsageError, match="--ir has no output as JSON"):
        show(f"{file}:limited", target="cuda", ir=True, as_json=True)
