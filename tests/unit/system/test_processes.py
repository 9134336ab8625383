"""Supervisors, their ends and limits: what processes that run untrusted code have in common."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from autotune.system import processes

FLEEING = """
import os, signal, sys, time
from functools import partial
from autotune.system.processes import supervise, set_name

def flee(lifeline):
    os.close(lifeline)
    reader, writer = os.pipe()
    for _ in range(2):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                    signal.signal(number, signal.SIG_IGN)
                os.write(writer, b".")
                time.sleep(300)
            os._exit(0)
        os.wait()
        os.read(reader, 1)
        print("fled", flush=True)
    end = sys.argv[1]
    if end == "exit":
        os._exit(7)
    elif end == "crash":
        os.abort()
    time.sleep(300)

lifeline, _kept = os.pipe()
seconds = 3.0 if sys.argv[1] == "time" else None
pid = os.fork()
if pid == 0:
    os.close(_kept)
    supervise(partial(flee, lifeline), lifeline, seconds)
_, status = os.waitpid(pid, 0)
print("supervisor", os.waitstatus_to_exitcode(status), flush=True)
"""


def keeping(end):
    """Start a process with a supervisor whose child leaves two deaf processes; they are there."""
    words = [sys.executable, "-c", FLEEING, end]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["fled\n"] * 2
    return process


@pytest.mark.parametrize(
    ("end", "code"), [("exit", 7), ("crash", -signal.SIGABRT), ("time", -signal.SIGKILL)]
)
def test_a_supervisor_ends_as_its_child_once_nothing_is_left_of_it(end, code):
    with keeping(end) as process:
        assert process.stdout is not None
        # The pipe ends, too: nobody holds it open any more.
        assert process.stdout.read() == f"supervisor {code}\n"


@pytest.mark.parametrize("whom", ["tuner", "supervisor", "child"])
def test_nothing_is_left_whoever_is_killed(whom):
    with keeping("stay") as process:
        (supervisor,) = psutil.Process(process.pid).children()
        fled = supervisor.children()
        (child,) = (one for one in fled if os.getsid(one.pid) == one.pid)
        if whom == "supervisor":
            supervisor.terminate()  # when it is killed, those above see to it
        else:
            {"tuner": process, "child": child}[whom].kill()
        assert process.stdout is not None
        process.stdout.read()
        _, alive = psutil.wait_procs([supervisor, *fled], timeout=60)
        assert alive == []


def test_children_that_are_spared_live_on():
    doomed, spared = (subprocess.Popen(["sleep", "300"]) for _ in range(2))
    others = set(processes.children()) - {doomed.pid}
    try:
        ended = processes.kill_children(spared=others)
        assert os.waitstatus_to_exitcode(ended[doomed.pid]) == -signal.SIGKILL
        assert spared.poll() is None
    finally:
        spared.kill()
        spared.wait()
        doomed.returncode = -signal.SIGKILL  # it was waited for behind its back


def run_forked(main):
    child = processes.fork_child(main)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def test_a_process_takes_no_more_memory_than_it_may():
    def main():
        processes.limit_memory(1 << 28)
        kept = bytearray(1 << 27)
        try:
            kept += bytearray(1 << 28)
        except MemoryError:
            os._exit(3)

    assert run_forked(main) == 3


def test_a_process_that_refuses_forks_still_runs_commands():
    def main():
        processes.refuse_forks()
        child = os.fork()
        if child == 0:
            os._exit(77)
        _, status = os.waitpid(child, 0)
        done = subprocess.run(["true"], check=False).returncode
        os._exit(3 if os.WEXITSTATUS(status) != 77 and done == 0 else 4)

    assert run_forked(main) == 3


def test_an_error_in_a_child_is_an_exit_code():
    def main():
        sys.excepthook = lambda *_: None
        raise ValueError

    assert run_forked(main) == 1
    assert run_forked(lambda: None) == 0


def test_signals_are_read_off_a_pipe():
    def main():
        pipe = processes.signal_pipe(signal.SIGUSR2)
        assert processes.signals_of(pipe) == b""
        os.kill(os.getpid(), signal.SIGUSR2)
        assert processes.signals_of(pipe) == bytes([signal.SIGUSR2])
        os._exit(3)

    assert run_forked(main) == 3
