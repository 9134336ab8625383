"""Silence: nothing that foreign code prints gets out, and what is printed around it does."""

import contextlib
import ctypes
import os
import platform
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.interrupts import interrupted_at_each_moment

from autotune.system import interrupts
from autotune.trace import isolate_user_code
from autotune.trace.isolate_user_code import run_isolated, run_silenced


def test_what_python_c_and_children_print_goes_nowhere(capfd):
    def speak():
        print("python")
        print("python", file=sys.stderr)
        print("python", file=sys.__stdout__)
        os.write(1, b"descriptor")
        os.write(2, b"descriptor")
        ctypes.CDLL(None).puts(b"buffered by C")
        subprocess.run(["echo", "child"], check=True)
        return "done"

    print("before", end=" ")
    assert run_silenced(speak) == "done"
    print("after")
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr() == ("before after\n", "")


def test_there_is_nothing_to_read_and_nobody_waits_for_it():
    def read():
        assert sys.stdin.readline() == ""
        assert os.read(0, 1) == b""
        with pytest.raises(EOFError):
            input("never seen")

    ours, theirs = os.pipe()
    kept = os.dup(0)
    os.dup2(ours, 0)  # a terminal at which nobody types
    try:
        stdin = sys.stdin
        run_silenced(read)
        assert sys.stdin is stdin
        os.write(theirs, b"x")
        assert os.read(0, 1) == b"x"
    finally:
        os.dup2(kept, 0)
        for fd in (kept, ours, theirs):
            os.close(fd)


def test_streams_are_back_after_an_exception_and_a_nested_silence(capfd):
    def loud():
        run_silenced(lambda: os.write(1, b"inner"))
        os.write(1, b"outer")
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        run_silenced(loud)
    os.write(1, b"heard")
    assert capfd.readouterr().out == "heard"


def test_no_descriptor_is_left_open():
    before = len(os.listdir("/dev/fd"))
    run_silenced(lambda: None)
    run_isolated(lambda: None)
    assert len(os.listdir("/dev/fd")) == before


def test_closed_streams_stay_closed():
    code = (
        "import os\nfrom autotune.trace.isolate_user_code import run_silenced\n"
        "os.close(1)\n"
        "run_silenced(lambda: print('x'))\n"
        "try: os.fstat(1)\nexcept OSError: os._exit(7)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (7, b"")


def test_what_is_changed_of_the_process_is_as_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOTUNE_TEST_KEPT", "before")
    monkeypatch.setenv("AUTOTUNE_TEST_REMOVED", "before")
    before = dict(os.environ)
    handler = signal.getsignal(signal.SIGTERM)
    files, recursion = resource.getrlimit(resource.RLIMIT_NOFILE), sys.getrecursionlimit()
    processors = os.sched_getaffinity(0)
    hooks = [sys.excepthook, sys.unraisablehook, sys.displayhook, sys.breakpointhook]
    mask = os.umask(0o027)

    def change():
        os.chdir("/")
        os.umask(0o777)
        os.environ["AUTOTUNE_TEST_KEPT"] = "changed"
        os.environ["AUTOTUNE_TEST_ADDED"] = "new"
        del os.environ["AUTOTUNE_TEST_REMOVED"]
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        signal.setitimer(signal.ITIMER_PROF, 60.0, 60.0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files[0] - 1, files[1]))
        sys.setrecursionlimit(recursion + 1)
        os.sched_setaffinity(0, {min(processors)})
        sys.excepthook = sys.unraisablehook = sys.displayhook = sys.breakpointhook = print

    try:
        run_isolated(change)
    finally:
        assert os.umask(mask) == 0o027
    assert os.getcwd() == str(tmp_path)
    assert dict(os.environ) == before
    assert signal.getsignal(signal.SIGTERM) is handler
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == files
    assert sys.getrecursionlimit() == recursion
    assert os.sched_getaffinity(0) == processors
    assert hooks == [sys.excepthook, sys.unraisablehook, sys.displayhook, sys.breakpointhook]


def test_code_in_another_thread_is_contained_but_for_signals(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run_isolated, lambda: os.chdir("/")).result()
    assert os.getcwd() == str(tmp_path)


def state():
    """What of this process an interrupt might leave changed."""
    streams = [getattr(sys, name) for name in ("stdin", "stdout", "stderr")]
    files = [os.fstat(number)[1:3] for number in range(3)]
    signals = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)]
    mask = os.umask(0o022)
    os.umask(mask)
    return streams, files, signals, mask, os.getcwd(), "AUTOTUNE_TEST_ADDED" in os.environ


def change():
    os.chdir("/")
    os.umask(0o777)
    os.environ["AUTOTUNE_TEST_ADDED"] = "new"
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdout = None


def test_an_interrupt_at_any_moment_leaves_all_as_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # A few will do.
    monkeypatch.setattr(isolate_user_code, "_LIMITS", isolate_user_code._LIMITS[:1])
    monkeypatch.setattr(isolate_user_code, "_handled", lambda: (signal.SIGTERM, signal.SIGALRM))
    before = state()
    modules = [isolate_user_code, interrupts, contextlib, sys.modules[__name__]]
    for _ in interrupted_at_each_moment(lambda: run_isolated(change), modules):
        assert state() == before


def test_an_interrupt_that_code_kept_out_comes_at_its_end():
    def deaf():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        signal.raise_signal(signal.SIGINT)
        ended.append(True)

    ended = []
    with pytest.raises(KeyboardInterrupt):
        run_isolated(deaf)
    assert ended == [True]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the number of a rounding mode")
def test_numbers_are_rounded_as_before():
    upward, libc = 0x800, ctypes.CDLL(None)
    before = libc.fegetround()
    assert run_isolated(lambda: (libc.fesetround(upward), libc.fegetround()))[1] == upward
    assert libc.fegetround() == before
