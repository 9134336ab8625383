"""What the command line writes: lines, tables, speeds, and the standing of a run."""

import logging
import os
import warnings
from dataclasses import replace

import pytest

from autotune.cli.messages import Messages
from autotune.cli.output import complain, one_line, say, width
from autotune.cli.show import show_command
from autotune.cli.tasks import closest, parse_settings
from autotune.measure.result import MeasureResult
from autotune.report.display import PlainDisplay
from autotune.report.progress import Progress, failures_text
from autotune.report.spaces import legal_lines, space_text
from autotune.report.summary import log_summary_text, summary_line
from autotune.report.tables import table, wrap
from autotune.report.units import Work, duration_text, three_digits, time_text
from autotune.tuner.events import End, Finished, Measured, Started, TuneSummary
from records import Record, summary
from records.errors import RecordWarning
from search_spaces import ChoiceKnob, Constraint, Space, SplitKnob


def record(index=0, cost_s=None, error="RUN_TIMEOUT", timestamp=0.0):
    outcome = {"costs_s": (cost_s,)}
    if cost_s is None:
        outcome = {"error": {"code": error, "stage": "run", "message": "m"}}
    return Record(
        workload={"template": "t", "args": {"n": 4}},
        target="llvm",
        config={"index": index, "values": {"k": index}},
        seed=0,
        timestamp=timestamp,
        **outcome,
    )


# -- lines ---------------------------------------------------------------------------------


def test_a_line_has_no_breaks_and_no_characters_that_steer_a_terminal():
    assert one_line("a\n  b\tc\x1b[31md\x07") == r"a b c\x1b[31md\x07"


def test_complaints_name_the_program(capsys):
    complain("two\nlines")
    assert capsys.readouterr().err == "autotune: two lines\n"


def test_width_is_80_where_there_is_no_terminal():
    assert width() == 80


def test_a_full_device_is_a_mistake_and_not_a_crash(monkeypatch):
    from autotune.errors import UsageError

    with open(os.open("/dev/full", os.O_WRONLY), "w") as full:
        monkeypatch.setattr("sys.stdout", full)
        with pytest.raises(UsageError, match="No space left"):
            say("text")
        say("what comes later vanishes")


def test_warnings_become_one_line_and_a_logged_one_is_said_once(capsys):
    before = list(logging.getLogger().handlers)
    with Messages():
        warnings.warn("something\nodd", UserWarning, stacklevel=1)
        warnings.warn("for developers", DeprecationWarning, stacklevel=1)
        warnings.warn("logged, too", RecordWarning, stacklevel=1)
        for _ in range(2):
            logging.getLogger("records.store").warning("%s: skipped", "log")
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


def test_wrapped_text_keeps_every_word():
    text = "one two three four five six"
    assert wrap(text, 12, "  ").split() == text.split()
    assert wrap("", 10) == ""


# -- a run -----------------------------------------------------------------------------------


def run_events(outcomes, recorded=0, trials=None):
    """Events of a run whose candidates took these seconds; None for a failure."""
    total = trials or recorded + len(outcomes)
    best = None
    events = [Started(total, recorded, None)]
    for number, cost_s in enumerate(outcomes, recorded + 1):
        new = record(number, cost_s)
        if cost_s is not None and (best is None or cost_s < best.cost_s):
            best = new
        events.append(Measured(number, total, new, MeasureResult(costs_s=(1.0,)), best))
    return events


def test_the_standing_counts_failures_by_kind_and_tells_the_time_left():
    now = iter(range(100))
    progress = Progress(Work(2e9, 1.0), clock=lambda: next(now))
    events = run_events([None, 0.5, 0.25, 1.0], trials=10)
    for event in events:
        standing = progress.take(event)
    assert (standing.trial, standing.trials, standing.best_s) == (4, 10, 0.25)
    assert standing.speed == "8.00 GFLOPS"
    assert standing.failures == {"RUN_TIMEOUT": 1}
    assert standing.left_s == 6.0  # one second each
    assert not standing.improved
    assert standing.parts() == ["best 250 ms, 8.00 GFLOPS", "6 s left", "1 failed (1 run timeout)"]


def test_plain_lines_come_at_improvements_every_eighth_trial_and_at_the_end():
    lines = []
    display = PlainDisplay(Progress(Work(None, 1.0), clock=lambda: 0.0), lines.append)
    with display as shown:
        for event in run_events([1.0, 2.0, 0.5] + [3.0] * 16):
            shown.on_event(event)
    assert [line.split("/")[0].strip() for line in lines] == ["1", "3", "8", "16", "19"]
    assert "left" not in lines[-1]


def test_plain_lines_of_a_resumed_run_begin_with_what_the_log_holds():
    lines = []
    display = PlainDisplay(Progress(Work(None, 1e9)), lines.append)
    display.on_event(Started(64, 20, record(3, 0.5)))
    assert lines == ["20/64  best 500 ms, 2.00 GB/s"]


def test_failures_are_told_commonest_first():
    assert failures_text({"UNKNOWN": 1, "WRONG_ANSWER": 3, "BUILD_TIMEOUT": 1}) == (
        "5 failed (3 wrong answer, 1 build timeout, 1 unknown)"
    )


def finished(**changes):
    values = {
        "trials": 64, "measured": 64, "failures": {}, "best": record(7, 0.5),
        "default_costs_s": (0.9, 1.0, 1.2), "ended": End.TRIALS, "elapsed_s": 75.0, **changes,
    }  # fmt: skip
    return Finished(TuneSummary(**values)).summary


def test_the_summary_compares_with_the_default_configuration():
    assert summary_line(finished(), Work(1e9, 1.0)) == (
        "best 500 ms, 2.00 GFLOPS, 2.00x the default; config 7; 64 trials; 1:15 min"
    )


def test_the_summary_compares_nothing_that_noise_hides():
    noisy = summary_line(finished(default_costs_s=(1.0, 1.0, 3.5)), Work(1e9, 1.0))
    assert noisy.startswith("best 500 ms, 2.00 GFLOPS, too noisy for a ratio;")
    best = replace(record(7, 0.5), costs_s=(0.1, 0.5, 0.5))
    assert "too noisy" in summary_line(finished(best=best), Work(1e9, 1.0))
    level = summary_line(finished(default_costs_s=(1.0, 1.0, 2.9)), Work(1e9, 1.0))
    assert "2.00x the default" in level


def test_the_summary_says_what_is_missing():
    line = summary_line(
        finished(
            best=None,
            default_costs_s=None,
            ended=End.EXHAUSTED,
            trials=1,
            failures={"WRONG_ANSWER": 1},
        ),
        Work(1e9, 1.0),
    )
    assert line == (
        "nothing valid was found; 1 trial; 1 failed (1 wrong answer); the space holds no more; "
        "1:15 min"
    )
    assert "default" not in summary_line(finished(default_costs_s=None), Work(1e9, 1.0))


# -- logs and spaces -------------------------------------------------------------------------


def test_a_log_is_summed_up_per_workload(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    import time

    time.tzset()
    (row,) = summary([record(3, 0.5, timestamp=60), record(4, timestamp=120)])
    assert log_summary_text(row, 80).splitlines() == [
        "t(n=4) on llvm",
        "  2 trials, 1 ok, 1 failed (1 run timeout)",
        "  best 500 ms, config 3",
        "  1970-01-01 00:01:00 to 1970-01-01 00:02:00",
    ]


def test_a_space_is_shown_with_sizes_rejections_and_a_configuration():
    space = Space(
        [ChoiceKnob("k", [1, 2, 4]), SplitKnob("tile", 8, 2)],
        [Constraint("k is small", lambda c: c["k"] < 4)],
    )
    text = space_text("t(n=4) on llvm", space, 0, "default config", 80)
    assert text.splitlines()[:5] == [
        "t(n=4) on llvm",
        "12 configurations, 8 allowed",
        "",
        "knob  values  which",
        "k          3  1, 2, 4",
    ]
    assert "rejects  constraint\n      4  k is small" in text
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
    assert legal_lines(huge) == ["space 10000000000, too large to count what is legal"]


def test_a_space_too_large_to_count_says_so_instead_of_counting():
    knobs = [ChoiceKnob(f"k{i}", list(range(100))) for i in range(6)]
    space = Space(knobs, [Constraint("rule", lambda c: c["k0"] < 50)])
    text = space_text("t", space, 0, "config", 60)
    assert "1000000000000 configurations\n" in text
    assert "?  rule" in text
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
        show_command(f"{file}:nested", ["n=8", f"inner={inner}"], "llvm", 0, ["ir"])
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if line.startswith("// i ")] == comments
        assert lines[len(lines) - len(comments) - 1].strip() == "}"
