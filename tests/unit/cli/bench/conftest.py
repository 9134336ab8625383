"""The command `autotune bench` with a measurer whose times are a formula."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.formula_times import Call, FormulaMeasurer, Result

from autotune.cli.bench import bench_measurements
from autotune.cli.main import main
from autotune.operators.template_lookup import BUILTIN


@pytest.fixture
def bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Return a function that runs the command where times are a formula."""
    FormulaMeasurer.asked, FormulaMeasurer.baseline_s = [], (2e-6, 1e-6, 3e-6)
    FormulaMeasurer.fails = lambda config: False
    FormulaMeasurer.scatter, FormulaMeasurer.noise = lambda config: 0.0, None
    monkeypatch.setattr(bench_measurements, "LocalMeasurer", FormulaMeasurer)
    for name in ("add", "copy"):
        monkeypatch.setitem(BUILTIN, (name, "cuda"), f"support.bench_templates:{name}")
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Result:
        code = main(["bench", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
