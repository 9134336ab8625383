"""What a terminal shows while a run goes on, as an emulator of one has it on its screen."""

import fcntl
import io
import os
import pty
import select
import struct
import sys
import termios
import threading
import time
from contextlib import contextmanager, suppress

import pyte
import pytest
from support.report_events import followed, job, machine, run_events, summary

from autotune.report.display.live_region import LiveRegion
from autotune.report.display.panel import ASCII, UNICODE, StyledText, glyphs_for, panel
from autotune.report.display.run_display import BETWEEN_S, LiveDisplay
from autotune.report.progress import RunProgress
from autotune.tuner.run.events import Finished, Noisy, Started

OUTCOMES = [1.0, "RUN_TIMEOUT", 0.5, 0.8, "WRONG_ANSWER", 0.4, 2.0, "WRONG_ANSWER"]


def texts(progress, width=80, height=24, glyphs=UNICODE):
    return ["".join(p.text for p in line) for line in panel(progress, width, height, glyphs)]


def going(trials=16):
    """A run half way, with a default, a ceiling, failures, noise, and some gain expected."""
    events = [machine(0.25), *run_events(OUTCOMES, trials=trials, gain=0.012, left_s=9.0)]
    return followed([*events, Noisy(0.35)], jobs=[job(default_index=1)])


# -- the panel -------------------------------------------------------------------------------


def test_the_panel_says_how_far_how_good_and_how_much_better_it_could_get():
    assert texts(going()) == [
        "  trials   ━━━━━━━━━━━━━━━━────────────────  8/16, 9 s left",
        "  speed    ━━━━━━━━╋━━━━━━━━━━━────────────  62 % of peak",
        "  best     400 ms, 2.50 GFLOPS, 2.50x the default, config 6, trial 6",
        "  to gain  1.2 % expected of going on",
        "  recent   ▄x▇▅x█▂x",
        "  failed   3: 2 wrong answer, 1 run timeout",
        "  noise    35 % slower at times, something else runs here",
    ]


def test_a_narrow_panel_says_the_same_in_fewer_words():
    assert texts(going(), width=40) == [
        "trials  ━━━━━━──────  8/16, 9 s left",
        "speed   ━━━╋━━━━────  62 % of peak",
        "best    400 ms, 2.50 GFLOPS",
        "to gain 1.2 % expected of going on",
        "recent  ▄x▇▅x█▂x",
        "failed  3: 2 wrong answer, 1 run timeout",
        "noise   35 % slower at times",
    ]


def test_an_encoding_without_bars_gets_letters_and_signs():
    assert glyphs_for("ascii") is glyphs_for("latin-1") is glyphs_for(None) is ASCII
    assert glyphs_for("utf-8") is UNICODE
    lines = texts(going(), glyphs=ASCII)
    assert all(line.isascii() for line in lines)
    assert lines[1] == "  speed    ========|===========------------  62 % of peak"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
@pytest.mark.parametrize("height", [2, 5, 24])
def test_the_panel_fits_every_terminal(width, height):
    for progress in (going(), several(3), several(30)):
        lines = texts(progress, width, height)
        assert max(map(len, lines)) <= width
        assert len(lines) < height


def test_what_is_not_known_yet_is_left_out():
    assert texts(followed([Started(8, 0, None)])) == [
        "  trials   ────────────────────────────────  0/8, after 0 s"
    ]
    (_, speed, *_) = texts(followed(run_events([0.5], trials=8)))
    assert speed == "  speed    2.00 GFLOPS"


def test_a_speed_above_the_ceiling_fills_the_bar_and_is_told():
    line = texts(followed([machine(0.5), *run_events([0.4], trials=8)]))[1]
    assert line == f"  speed    {'━' * 32}  125 % of peak"


@pytest.mark.parametrize(
    ("default_s", "bar"),
    [(0.41, "━" * 19 + "╋" + "─" * 12), (8.0, "━╋" + "━" * 18 + "─" * 12)],
)
def test_the_mark_of_a_slower_default_stands_on_the_full_part_of_the_bar(default_s, bar):
    events = [machine(0.25), *run_events([default_s, 0.4], trials=8)]
    progress = followed(events, jobs=[job(default_index=1)])
    assert texts(progress)[1] == f"  speed    {bar}  62 % of peak"


def several(number):
    jobs = [job(f"job{n}") for n in range(number)]
    events = [Started(8, 0, None, one.label) for one in jobs]
    events += [machine(0.25, "job1"), *run_events(OUTCOMES, label="job0", trials=8)]
    events += run_events([0.5], label="job1", trials=8, gain=0.3, left_s=60.0)
    return followed(events, jobs=jobs)


def test_several_workloads_have_a_row_each_and_the_one_at_work_is_marked():
    assert texts(several(3)) == [
        "  trials   ━━━━━━━━━━━━────────────────────  9/24, 1:00 min left",
        "",
        "        trials    best   throughput    reached  to gain",
        "  job0     8/8  400 ms  2.50 GFLOPS                done",
        "▸ job1     1/8  500 ms  2.00 GFLOPS  50 % peak     30 %",
        "  job2     0/8",
        "  failed   3: 2 wrong answer, 1 run timeout",
    ]


@pytest.mark.parametrize("width", [40, 80])
def test_long_names_that_begin_alike_are_told_apart(width):
    jobs = [job(f"conv2d_nchw n=1 c=512 h=28 w=28 kh={k}") for k in (1, 3)]
    lines = texts(followed([Started(8, 0, None, one.label) for one in jobs], jobs=jobs), width)
    rows = [line for line in lines if "…" in line]
    assert [row.split()[-2].rpartition("kh")[2] for row in rows] == ["=1", "=3"]
    assert all(row[2:].startswith("conv2d") for row in rows)


def test_of_many_workloads_the_one_at_work_is_always_shown():
    lines = texts(several(30), height=10)
    assert len(lines) == 9
    assert any(line.startswith("▸ job1 ") for line in lines)
    assert not any("job0" in line for line in lines)  # it is done
    assert "  and 26 more" in lines


# -- on a screen -----------------------------------------------------------------------------


class Terminal:
    """A pseudo-terminal whose screen an emulator keeps."""

    def __init__(self, columns, rows):
        self.master, slave = pty.openpty()
        self.stream = os.fdopen(slave, "w", encoding="utf-8")
        self.screen = pyte.HistoryScreen(columns, rows)
        self.parser = pyte.ByteStream(self.screen)
        self.resize(columns, rows)

    def resize(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def shown(self):
        """Lines on the screen, those above the first empty end."""
        self.parser.feed(self.written())
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip().split("\n")

    def written(self):
        """Bytes that were written since, which may arrive in several parts."""
        self.stream.flush()
        parts = []
        while select.select([self.master], [], [], 0.05)[0]:
            parts.append(os.read(self.master, 65536))
        return b"".join(parts)

    def close(self):
        self.stream.close()
        os.close(self.master)


@contextmanager
def terminal(columns=80, rows=24):
    opened = Terminal(columns, rows)
    try:
        yield opened
    finally:
        opened.close()


def live(screen, clock=None, colour=True):
    """A display on a terminal, each event a second after the last, of a run of 75 seconds."""
    ticks = iter(range(10**6))
    return LiveDisplay(
        RunProgress(lambda: 75.0, begin=0.0),
        lambda line: print(line, file=screen.stream),
        LiveRegion(screen.stream, colour),
        UNICODE,
        clock or (lambda: next(ticks)),
    )


@pytest.mark.parametrize("rows", [24, 7])
def test_the_panel_renews_itself_in_place_below_what_was_said(rows):
    with terminal(rows=rows) as screen, live(screen) as display:
        display.open_job(job())
        for event in run_events(OUTCOMES, trials=16, left_s=9.0):
            display.on_event(event)
        lines = screen.shown()
        assert sum("trials" in line for line in lines) == 1
        assert sum("failed" in line for line in lines) == 1
        assert "8/16, 9 s left" in "".join(lines)
        labels = [line.split()[0] for line in lines if line]
        assert labels[-5:] == ["trials", "speed", "best", "recent", "failed"]
        assert screen.screen.cursor.x == 0
        assert not screen.screen.cursor.hidden


def test_the_table_takes_the_place_of_the_panel():
    with terminal() as screen, live(screen) as display:
        display.open_job(job())
        for event in [machine(0.25), *run_events([0.5]), Finished(summary())]:
            display.on_event(event)
        display.conclude()
        lines = screen.shown()
        assert [line.split()[0] if line else "" for line in lines[:8]] == [
            "t(n=4)", "log", "", "time", "default", "best", "ceiling", ""
        ]  # fmt: skip
        assert lines[8:] == [
            "best 500 ms, 2.00 GFLOPS, 50 % of peak, 2.00x the default (1.73 to 2.45);",
            "  config 7; 64 trials; 1:15 min",
        ]


def test_an_interrupted_run_leaves_no_panel():
    with terminal() as screen:
        with suppress(KeyboardInterrupt), live(screen) as display:
            display.open_job(job())
            for event in run_events([0.5]):
                display.on_event(event)
            raise KeyboardInterrupt
        assert screen.shown() == ["t(n=4) on llvm", "log t.jsonl, seed 7"]


def test_what_is_complained_of_stands_above_the_panel(monkeypatch):
    with terminal() as screen:
        monkeypatch.setattr("sys.stderr", screen.stream)
        with live(screen) as display:
            display.open_job(job())
            first, *rest = run_events([0.5, 0.4, 0.3], trials=8)
            for event in (first, rest[0]):
                display.on_event(event)
            print("warning", file=sys.stderr)
            for event in rest[1:]:
                display.on_event(event)
            lines = screen.shown()
        assert sys.stderr is screen.stream
    assert lines[:3] == ["t(n=4) on llvm", "log t.jsonl, seed 7", "warning"]
    assert lines[3] == ""
    assert lines[4].startswith("  trials   ")
    assert sum("trials" in line for line in lines) == 1


@pytest.mark.parametrize(("before", "after"), [(40, 80), (80, 200), (200, 80)])
def test_a_terminal_that_changes_its_width_is_filled_anew(before, after):
    with terminal(before) as screen, live(screen) as display:
        display.open_job(job())
        events = [machine(0.25), *run_events(OUTCOMES, trials=16)]
        for event in events[:-1]:
            display.on_event(event)
        screen.shown()
        screen.resize(after, 24)
        display.on_event(events[-1])
        lines = screen.shown()
        assert lines[:2] == ["t(n=4) on llvm", "log t.jsonl, seed 7"]
        assert lines[2:] == ["", *texts(display._progress, after)]


def test_lines_that_a_narrower_terminal_has_broken_are_taken_away_too():
    with terminal(80) as screen:
        block = LiveRegion(screen.stream, colour=False)
        block.draw([(StyledText("x" * 60),), (StyledText("y" * 10),)])
        screen.shown()
        screen.resize(40, 24)
        block.draw([(StyledText("z"),)])
        assert screen.written() == b"\r\x1b[3A\x1b[Jz\x1b[K\r\n\x1b[J"
        block.draw([(StyledText("z"),)])
        assert screen.written() == b"\r\x1b[1Az\x1b[K\r\n\x1b[J"


def test_events_in_quick_succession_are_drawn_once_but_improvements_at_once():
    now = [0.0]
    with terminal() as screen, live(screen, clock=lambda: now[0]) as display:
        display.open_job(job())
        for event in run_events([0.5, 0.6, 0.7], trials=8):
            display.on_event(event)
        assert "1/8" in screen.shown()[3]
        now[0] += 1.1 * BETWEEN_S
        for event in run_events([0.8, 0.4], recorded=3, trials=8)[1:]:
            display.on_event(event)
        assert "5/8" in screen.shown()[3]


@pytest.mark.parametrize("colour", [True, False])
def test_colours_are_used_only_if_they_are_wanted(colour):
    stream = io.StringIO()
    LiveRegion(stream, colour).draw(panel(going(), 80, 24))
    assert ("\x1b[32m" in stream.getvalue()) == colour
    assert ("\x1b[0m" in stream.getvalue()) == colour


def test_a_terminal_that_is_gone_ends_no_run():
    class Gone(io.StringIO):
        written = 0

        def write(self, text):
            self.written += 1
            raise OSError(5, "Input/output error")

    stream = Gone()
    block = LiveRegion(stream, colour=False)
    for _ in range(3):
        block.draw([(StyledText("text"),)])
    block.clear()
    assert stream.written == 1


def test_nothing_is_written_between_events():
    stream = io.StringIO()
    threads = set(threading.enumerate())
    with LiveDisplay(
        RunProgress(), [].append, LiveRegion(stream, colour=False), UNICODE
    ) as display:
        display.open_job(job())
        for event in run_events([0.5], trials=8):
            display.on_event(event)
        written = stream.getvalue()
        assert "1/8" in written
        assert set(threading.enumerate()) <= threads
        time.sleep(3 * BETWEEN_S)
        assert stream.getvalue() == written
