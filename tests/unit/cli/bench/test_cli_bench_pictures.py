"""`autotune bench --plot`: pictures of lines and maps, and their mistakes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.formula_times import ADD, Call, FormulaMeasurer, text_of

from autotune.report import plots
from autotune.system import host


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (
            ["--sizes", "n=16,32"],
            ["alternate", "continuous", "NumPy", "GFLOPS", "data (MB)", "say nothing of a GPU"],
        ),
        (
            ["--set", "n=16", "--heatmap", "lanes,nt"],
            ["alternate", "lanes", "nt", "2048", "refused, or failed"],
        ),
    ],
    ids=["lines", "map"],
)
def test_pictures_name_what_they_show(bench: Call, words: list[str], texts: list[str]) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        code, out, _ = bench(*ADD, *words, "--plot", "p.svg")
    assert code == 0
    assert out.endswith("drawn into p.svg\n")
    drawn = text_of("p.svg")
    for text in texts:
        assert text in drawn


def test_the_name_of_the_processor_is_shown_as_it_is(
    bench: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = r"[bold]X[/bold] (R) Xeon[R] {cpu} %s $a_{$ <b>&amp; \1 'q', the first of 2 processors"
    monkeypatch.setattr(host, "cpuinfo", lambda: {"model name": name})
    words = [*ADD, "--sizes", "n=16"]
    _, out, _ = bench(*words)
    assert f"GPU threads as loops on {name}, " in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        assert bench(*words, "--plot", "p.svg")[0] == 0
    assert f"GPU threads as loops on {name}, " in text_of("p.svg")


def test_gaps_and_single_points_can_be_drawn(bench: Call) -> None:
    pytest.importorskip("matplotlib")
    FormulaMeasurer.fails = lambda config: config.values["nt"] != 64
    FormulaMeasurer.baseline_s = None
    assert bench(*ADD, "--set", "n=16", "--by", "nt", "--plot", "p.png")[0] == 0
    assert bench(*ADD, "--set", "n=16", "--heatmap", "lanes,nt", "--plot", "q.png")[0] == 0
    assert min(Path(name).stat().st_size for name in ("p.png", "q.png")) > 10_000


def test_a_picture_needs_the_extra_report(bench: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.backend_bases", None)
    _, _, err = bench(*ADD, "--plot", "p.png")
    assert err == "autotune: a picture needs Matplotlib: pip install 'kernel-autotune[report]'\n"


def test_a_picture_that_may_not_be_written_is_told_before_anything_runs(
    bench: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    access = os.access

    def elsewhere(path: Any, *how: Any, **more: Any) -> bool:
        return Path(path) != Path() and access(path, *how, **more)

    monkeypatch.setattr(plots.os, "access", elsewhere)  # the first plot asks for its cache, too
    code, _, err = bench(*ADD, "--plot", "p.png")
    assert code == 2
    assert err == "autotune: the picture p.png: it may not be written; choose another file\n"
