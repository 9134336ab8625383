"""Templates that crash, hang or leave are tried out in a child and do no harm here."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from support.interrupts import interrupted_at_each_moment

from autotune import te
from autotune.errors import InstantiationError
from autotune.system.processes import readable
from autotune.target import Target
from autotune.trace import dry_run as probing
from autotune.trace.dry_run import Fault, probe
from autotune.trace.explore import explore
from autotune.trace.tracer import Structures


def test_a_run_that_returns_or_raises_is_no_fault():
    assert probe(lambda notify: notify()) is None
    assert probe(lambda notify: 1 / 0) is None
    assert probe(lambda notify: exit(3)) is None


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (os.abort, "killed by SIGABRT"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "killed by SIGSEGV"),
        (lambda: os._exit(7), "left with exit code 7"),
        (interrupt, "raised KeyboardInterrupt"),
    ],
)
def test_how_a_run_ends_its_process_is_told_with_the_decisions_before(end, message):
    assert probe(decide_twice_and(end), timeout_s=60.0) == Fault(2, message)


def test_a_run_that_does_not_return_is_told_with_the_decisions_before(monkeypatch):
    listen = probing._listen

    def once_decided(reader, deadline):
        assert readable(reader, 60.0)
        return listen(reader, time.monotonic() + 0.5)

    monkeypatch.setattr(probing, "_listen", once_decided)
    fault = probe(decide_twice_and(lambda: time.sleep(300)), timeout_s=60.0)
    assert fault == Fault(2, "did not return within 60 s")


def decide_twice_and(end):
    def run(notify):
        notify()
        notify()
        end()

    return run


def gone(pid, seconds=60.0):
    """Whether a process ends within some seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def wait_for_number(path):
    deadline = time.monotonic() + 60.0
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(path.read_text())


SPIN = """
import os, sys
from autotune.trace.dry_run import probe

def spin(tell):
    with open(sys.argv[1], "w") as file:
        print(os.getpid(), file=file)
    while True:
        pass

probe(spin, timeout_s=300.0)
"""


def test_a_run_ends_when_its_parent_is_killed(tmp_path):
    words = [sys.executable, "-c", SPIN, str(tmp_path / "pid")]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as parent:
        child = wait_for_number(tmp_path / "pid")
        parent.kill()
    assert gone(child)


def test_a_run_ends_in_time_even_if_its_parent_does_not_look(monkeypatch):
    def not_looking(reader, deadline):
        end = time.monotonic() + 60.0
        while readable(reader, end - time.monotonic()) and os.read(reader, 99):
            pass
        return b"", time.monotonic() >= end

    monkeypatch.setattr(probing, "_listen", not_looking)
    fault = probe(lambda notify: time.sleep(300), timeout_s=0.1)
    assert fault == Fault(0, "killed by SIGKILL")


def test_processes_that_a_run_started_end_with_it(tmp_path):
    def run(notify):
        with open(tmp_path / "pid", "w") as file:
            print(subprocess.Popen(["sleep", "300"]).pid, file=file)

    assert probe(run) is not None
    assert gone(wait_for_number(tmp_path / "pid"))


def test_a_process_forked_by_a_run_does_not_speak_in_its_place():
    def run(notify):
        if os.fork() == 0:
            with contextlib.suppress(OSError):
                notify()
            time.sleep(300)
        os._exit(7)

    assert probe(run, timeout_s=60.0) == Fault(0, "left with exit code 7")


def test_a_run_holds_no_file_of_its_parent():
    reader, writer = os.pipe()

    def run(notify):
        os.fstat(writer)
        os._exit(7)  # not reached: the file is closed

    try:
        assert probe(run) is None
    finally:
        os.close(reader)
        os.close(writer)


def test_pipes_of_large_number_can_be_waited_for():
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= 1100:
        pytest.skip("this process may not have so many files")
    reader, writer = os.pipe()
    high = fcntl.fcntl(reader, fcntl.F_DUPFD_CLOEXEC, 1100)
    try:
        assert not readable(high, 0.0)
        os.write(writer, b".")
        assert readable(high, 5.0)
    finally:
        for fd in (reader, writer, high):
            os.close(fd)


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


@pytest.mark.parametrize(
    ("end", "timeout_s"),
    [(os.abort, 60.0), (lambda: os._exit(0), 60.0), (lambda: time.sleep(300), 2.0)],
)
def test_only_the_configurations_that_crash_are_faulty_and_they_stay_legal(end, timeout_s):
    structures = Structures("t", template(end), Target.of("llvm"), __file__, True, timeout_s)
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


INTERRUPTED = """
import os, signal
from autotune.trace.dry_run import probe

def end(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGTERM, end)
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))
try:
    probe(lambda tell: None, timeout_s=60.0)
except KeyboardInterrupt:
    print("interrupted", signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""


def test_a_signal_that_comes_while_forking_is_not_lost():
    words = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("interrupted set()\n", "")


FLEEING = """
import subprocess, sys, time
from autotune.trace.dry_run import probe

FLEE = "sh -c 'echo $$; exec sleep 300' > \\"$0\\" & exit"

def flee(tell):
    # A process that Python forks here dies with its parent; one of a shell does not.
    subprocess.run(["sh", "-c", FLEE, sys.argv[1]], start_new_session=True, check=True)
    time.sleep(300)

probe(flee, timeout_s=300.0)
"""


@pytest.mark.parametrize("whom", ["parent", "run"])
def test_what_fled_from_its_session_and_parent_ends_when_others_are_killed(tmp_path, whom):
    words = [sys.executable, "-c", FLEEING, str(tmp_path / "pid")]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as parent:
        try:
            fled = wait_for_number(tmp_path / "pid")
        except AssertionError:
            parent.kill()
            raise
        supervisor = psutil.Process(parent.pid).children()[0]
        (run,) = supervisor.children()
        {"parent": parent, "run": run}[whom].send_signal(signal.SIGABRT)
        assert gone(fled)
        parent.wait(60)
    assert gone(run.pid)
    assert gone(supervisor.pid)


def test_a_run_that_leaves_processes_behind_is_at_fault():
    def spawn(notify):
        subprocess.Popen(["sleep", "300"], start_new_session=True)

    assert probe(spawn) == Fault(0, "left processes behind")
    assert probe(lambda notify: subprocess.run(["true"], check=True)) is None


def test_a_run_whose_fork_goes_on_in_its_place_is_at_fault():
    def fork(notify):
        notify()
        child = os.fork()
        if child:
            os.waitpid(child, 0)

    assert probe(fork) == Fault(1, "left processes behind")


def test_a_run_that_kills_its_parent_is_at_fault():
    def kill(notify):
        os.kill(os.getppid(), signal.SIGKILL)

    assert probe(kill, timeout_s=60.0) == Fault(0, "killed by SIGKILL")


def test_a_run_that_takes_all_memory_is_at_fault():
    def grow(notify):
        kept = []
        while True:
            kept.append(np.empty(1 << 27, dtype=np.uint8))

    assert probe(grow) == Fault(0, "ran out of memory")
    assert probe(lambda notify: bytearray(1 << 50)) == Fault(0, "ran out of memory")


def test_a_run_that_came_to_an_end_is_not_tried_again(monkeypatch):
    """Its supervisor may end it before it has ended by itself."""
    answers = [(b".!", False, -signal.SIGKILL), (b".&", False, -signal.SIGKILL)]
    monkeypatch.setattr(probing, "_tried", lambda *_: answers.pop(0))
    assert probe(lambda notify: None) is None
    assert probe(lambda notify: None) == Fault(1, "left processes behind")


def test_a_run_that_was_killed_from_outside_is_tried_again(tmp_path):
    def once(notify):
        if not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    assert probe(once) is None
    assert probe(lambda notify: os.kill(os.getpid(), signal.SIGKILL)) == Fault(
        0, "killed by SIGKILL"
    )


def test_an_interrupt_at_any_moment_leaves_no_signal_blocked_and_no_process():
    begin = psutil.Process().children()
    for _ in interrupted_at_each_moment(lambda: probe(lambda notify: notify()), [probing]):
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
        assert psutil.Process().children() == begin
