"""Templates that crash, hang or leave are tried out in a child and do no harm here."""

from __future__ import annotations

import os
import signal
import time

import pytest

from autotune import te
from autotune.errors import InstantiationError
from autotune.target import Target
from autotune.trace import probe as probing
from autotune.trace.explore import explore
from autotune.trace.probe import Fault, probe
from autotune.trace.structures import Structures


def test_a_run_that_returns_or_raises_is_no_fault():
    assert probe(lambda tell: tell()) is None
    assert probe(lambda tell: 1 / 0) is None
    assert probe(lambda tell: exit(3)) is None


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (os.abort, "killed by SIGABRT"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "killed by SIGSEGV"),
        (lambda: os._exit(7), "left with exit code 7"),
        (lambda: time.sleep(60), "did not return within 0.5 s"),
    ],
)
def test_how_a_run_ends_its_process_is_told_with_the_decisions_before(end, message):
    def run(tell):
        tell()
        tell()
        end()

    assert probe(run, timeout_s=0.5) == Fault(2, message)


def template(end):
    def run(cfg):
        A = te.placeholder((64,), name="A")
        B = te.compute((64,), lambda i: A[i] + 1.0, name="B")
        s = te.create_schedule(B.op)
        factor = cfg.define_knob("factor", [2, 4, 8])
        fast = cfg.define_knob("fast", [False, True])
        if factor == 8 and fast:
            end()
        s[B].split(s[B].op.axis[0], factor=factor)
        return s, [A, B]

    return run


@pytest.mark.parametrize("end", [os.abort, lambda: os._exit(0), lambda: time.sleep(60)])
def test_only_the_configurations_that_crash_are_faulty_and_they_stay_legal(end, monkeypatch):
    monkeypatch.setattr(probing.probe, "__defaults__", (0.5,))
    structures = Structures("t", template(end), Target.of("llvm"), __file__, guarded=True)
    space = explore(structures)
    assert space.feasible(range(6)).all()
    configs = [space.config(i).values for i in range(6)]
    faulty = [values for values in configs if structures.of(values).fault]
    assert [dict(values) for values in faulty] == [{"factor": 8, "fast": True}]
    with pytest.raises(InstantiationError, match="while it was traced"):
        structures.instantiate(faulty[0])


def test_a_guarded_template_prints_nothing(capfd):
    structures = Structures(
        "t", template(lambda: print("x" * 10_000)), Target.of("llvm"), __file__, guarded=True
    )
    explore(structures)
    assert capfd.readouterr().out == ""
