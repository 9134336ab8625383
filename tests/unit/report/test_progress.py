"""Where a run stands, by its events, and the plain lines and the last line that say so."""

from dataclasses import replace

import pytest
from support.report_events import followed, job, machine, record, run_events, summary

from autotune.report.display.base import Display
from autotune.report.display.run_display import LiveDisplay, PlainDisplay, View, make_display
from autotune.report.progress import RunProgress, failures_text
from autotune.report.units import Work
from autotune.tuner.run.events import Finished, Measured, Noisy, Started


def printed(events, jobs=None, display=PlainDisplay):
    """Lines that a display prints for a run, after its heading."""
    lines = []
    shown = display(RunProgress(lambda: 0.0), lines.append)
    with shown:
        for one in jobs or [job()]:
            shown.open_job(one)
        del lines[:]
        for event in events:
            shown.on_event(event)
        if isinstance(events[-1], Finished):
            shown.conclude()
    return lines


# -- numbers ---------------------------------------------------------------------------------


def test_a_standing_has_the_best_the_failures_by_kind_and_the_share_of_the_ceiling():
    events = [machine(0.1), *run_events(["RUN_TIMEOUT", 0.5, 0.25, 1.0], trials=10, gain=0.02)]
    progress = followed(events)
    (status,) = progress.standings.values()
    assert (status.count, status.best_s, status.best_trial) == ("4/10", 0.25, 3)
    assert status.failures == {"RUN_TIMEOUT": 1}
    assert status.recent == (None, 0.5, 0.25, 1.0)
    assert not status.improved
    assert status.share == 0.4
    assert status.parts() == [
        "best 250 ms, 4.00 GFLOPS, 40 % of peak", "2.0 % to gain", "1 failed (1 run timeout)",
    ]  # fmt: skip
    assert progress.done_share == 0.4


def test_the_ceiling_of_a_kernel_that_copies_is_called_so():
    (status,) = followed([machine(1e-3), *run_events([2e-3])]).standings.values()
    assert status.share_text == "50 % of copy"


def test_a_machine_without_a_ceiling_for_the_workload_leaves_the_share_out():
    (status,) = followed([machine(None), *run_events([0.5])]).standings.values()
    assert (status.share, status.share_text) == (None, "")


def test_the_default_is_known_from_the_log_or_once_it_is_measured():
    events = [Started(9, 3, record(1, 0.5), default_cost_s=2.0)]
    assert followed(events).standings[""].default_s == (2.0,)
    measured = followed(run_events([0.5, 3.0, 0.2]), jobs=[job(default_index=2)])
    assert measured.standings[""].default_s == (3.0,)


def test_a_run_without_a_number_of_trials_is_as_far_as_its_time():
    now = iter([0.0, 30.0])
    progress = RunProgress(lambda: next(now))
    progress.open(job())
    progress.take(Started(None, 0, None))
    progress.take(unlimited(0.5, left_s=90.0))
    assert progress.done_share == 0.25
    assert progress.standings[""].count == "1"


def unlimited(cost_s, left_s):
    """A measurement of a run that only its time ends."""
    (_, measured) = run_events([cost_s])
    return Measured(1, None, measured.record, measured.result, measured.best, left_s=left_s)


def test_a_log_that_holds_more_than_was_asked_for_is_done():
    jobs = [job("a"), job("b")]
    progress = followed([Started(2, 64, None, "a"), Started(8, 0, None, "b")], jobs=jobs)
    one, other = progress.standings.values()
    assert (one.count, one.over) == ("64/64", True)
    assert (other.count, other.over) == ("0/8", False)
    assert progress.done_share == 64 / 72


def test_noise_is_that_of_the_latest_record_and_the_worst_is_kept():
    started, *measured = run_events([1.0, 1.0, 1.0], trials=9)
    noises = [0.3, None, 0.05]
    progress = followed([started, Noisy(0.4)])
    heard = []
    for event, noise in zip(measured, noises, strict=True):
        progress.take(replace(event, record=replace(event.record, noise=noise)))
        heard.append(progress.noise)
    assert heard == [0.3, 0.3, None]
    assert progress.worst_noise == 0.4


def test_failures_are_told_commonest_first():
    assert failures_text({"UNKNOWN": 1, "WRONG_ANSWER": 3, "BUILD_TIMEOUT": 1}) == (
        "5 failed (3 wrong answer, 1 build timeout, 1 unknown)"
    )


# -- plain lines -----------------------------------------------------------------------------


def test_a_run_begins_with_its_workload_log_seed_and_space():
    lines = []
    PlainDisplay(RunProgress(), lines.append).open_job(
        job(seed_chosen=True, space=("space 3, 2 legal", "1 of 3 refused: why"))
    )
    assert lines == [
        "t(n=4) on llvm", "log t.jsonl, seed 7 (chosen now)", "space 3, 2 legal",
        "1 of 3 refused: why",
    ]  # fmt: skip


def test_a_workload_of_several_has_its_label_where_that_is_not_its_template():
    assert job("mine").heading == ["mine: t(n=4) on llvm", "  log t.jsonl, seed 7"]
    assert job("t").heading == ["t(n=4) on llvm", "  log t.jsonl, seed 7"]


def test_plain_lines_come_at_improvements_every_eighth_trial_and_at_the_end():
    lines = printed(run_events([1.0, 2.0, 0.5] + [3.0] * 16, left_s=7.0))
    assert [line.split("/")[0].strip() for line in lines] == ["1", "3", "8", "16", "19"]
    assert lines[0] == " 1/19  best 1.00 s, 1.00 GFLOPS  7 s left"
    assert "left" not in lines[-1]


def test_plain_lines_become_seldom_in_a_long_run():
    lines = printed(run_events([1.0] + [2.0] * 4095))
    assert len(lines) < 128
    assert [line.split("/")[0] for line in lines[-3:]] == ["3840", "3968", "4096"]


def test_plain_lines_of_a_resumed_run_begin_with_what_the_log_holds():
    lines = printed([Started(64, 20, record(3, 0.5))], [job(work=Work(None, 1e9))])
    assert lines == ["20/64  best 500 ms, 2.00 GB/s"]


def test_plain_lines_name_the_workload_where_there_are_several():
    jobs = [job("one"), job("two")]
    events = [machine(0.25, "two"), *run_events([0.5], label="two", trials=3), Noisy(0.5, "two")]
    assert printed(events, jobs) == [
        "two: ceiling 250 ms, 4.00 GFLOPS (peak)",
        "two  1/3  best 500 ms, 2.00 GFLOPS, 50 % of peak",
        "noise: 50 % slower at times, something else runs here",
    ]


def test_a_run_ends_with_its_table_and_its_last_line_and_a_quiet_one_with_the_line_alone():
    events = [machine(0.25), *run_events([0.5]), Finished(summary())]
    lines = printed(events)
    assert lines[-4].split() == ["default", "1.00", "s", "1.00", "GFLOPS", "25", "%"]
    assert lines[-2].split()[:3] == ["ceiling", "250", "ms"]
    assert lines[-1].startswith("best 500 ms, 2.00 GFLOPS, 50 % of peak, 2.00x the default (")
    assert printed(events, display=Display) == lines[-1:]


@pytest.mark.parametrize("term", ["", "dumb"])
def test_the_view_that_suits_the_output_is_chosen(monkeypatch, term):
    class Terminal:
        encoding = "utf-8"

        def isatty(self):
            return True

    def chosen():
        return type(make_display(View.PROGRESS, RunProgress(), print))

    assert chosen() is PlainDisplay  # the tests' output is caught
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert chosen() is LiveDisplay
    monkeypatch.setenv("TERM", term)
    assert chosen() is PlainDisplay
    assert type(make_display(View.QUIET, RunProgress(), print)) is Display
    monkeypatch.setattr("sys.stdout", None)
    assert chosen() is PlainDisplay
