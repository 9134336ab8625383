"""What a notebook shows of a run: one block that is renewed, and a table at the end."""

from __future__ import annotations

from support.report_events import finished, job, run_events, summary

from autotune.report.display.notebook import BETWEEN_S, NotebookDisplay, in_notebook, table_html
from autotune.report.progress import RunProgress
from autotune.tuner.run.events import Finished


class _Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def shown_by(step_s: float) -> list[str]:
    """What is displayed of a run whose events come so many seconds apart."""
    shown: list[str] = []
    clock = _Clock()
    display = NotebookDisplay(RunProgress(clock), shown.append, clock)
    with display:
        display.open_job(job("a<b"))
        for event in run_events([0.5, 0.4, "RUN_TIMEOUT"], label="a<b"):
            display.on_event(event)
            clock.now_s += step_s
        display.on_event(Finished(summary(), "a<b"))
        display.conclude()
    return shown


def test_the_block_is_renewed_at_each_event_that_comes_late_enough() -> None:
    shown = shown_by(BETWEEN_S)
    assert len(shown) == 6
    assert all(page.startswith("<pre>") for page in shown[:-1])
    assert "400 ms" in shown[2]


def test_quick_events_renew_nothing_but_the_end() -> None:
    shown = shown_by(BETWEEN_S / 100)
    assert len(shown) == 2
    assert shown[-1].startswith("<table>")
    assert "<div>best 500 ms" in shown[-1]


def test_a_table_has_what_a_terminal_has_and_nothing_is_taken_for_html() -> None:
    page = table_html([finished(label="a<b"), finished(label="c")])
    assert page.count("<tr>") == 3
    assert "a&lt;b" in page
    assert "a<b" not in page
    assert table_html([finished(best=None, default_costs_s=None)]) == ""


def test_a_program_is_no_notebook() -> None:
    assert not in_notebook()
