"""Silence: nothing that foreign code prints gets out, and what is printed around it does."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from autotune.trace.silence import contained, silenced


def test_what_python_c_and_children_print_goes_nowhere(capfd):
    print("before", end=" ")
    with silenced():
        print("python")
        print("python", file=sys.stderr)
        os.write(1, b"descriptor")
        os.write(2, b"descriptor")
        ctypes.CDLL(None).puts(b"buffered by C")
        subprocess.run(["echo", "child"], check=True)
    print("after")
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr() == ("before after\n", "")


def test_there_is_nothing_to_read_and_nobody_waits_for_it(monkeypatch):
    ours, theirs = os.pipe()
    kept = os.dup(0)
    os.dup2(ours, 0)  # a terminal at which nobody types
    try:
        stdin = sys.stdin
        with silenced():
            assert sys.stdin.readline() == ""
            assert os.read(0, 1) == b""
            with pytest.raises(EOFError):
                input("never seen")
        assert sys.stdin is stdin
        os.write(theirs, b"x")
        assert os.read(0, 1) == b"x"
    finally:
        os.dup2(kept, 0)
        for fd in (kept, ours, theirs):
            os.close(fd)


def test_streams_are_back_after_an_exception_and_a_nested_silence(capfd):
    def loud():
        with silenced():
            with silenced():
                os.write(1, b"inner")
            os.write(1, b"outer")
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        loud()
    os.write(1, b"heard")
    assert capfd.readouterr().out == "heard"


def test_no_descriptor_is_left_open():
    before = len(os.listdir("/dev/fd"))
    with silenced():
        pass
    assert len(os.listdir("/dev/fd")) == before


def test_closed_streams_stay_closed():
    code = (
        "import os\nfrom autotune.trace.silence import silenced\n"
        "os.close(1)\n"
        "with silenced(): print('x')\n"
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
    mask = os.umask(0o027)
    try:
        with contained():
            os.chdir("/")
            os.umask(0o777)
            os.environ["AUTOTUNE_TEST_KEPT"] = "changed"
            os.environ["AUTOTUNE_TEST_ADDED"] = "new"
            del os.environ["AUTOTUNE_TEST_REMOVED"]
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.setitimer(signal.ITIMER_PROF, 60.0, 60.0)
            resource.setrlimit(resource.RLIMIT_NOFILE, (files[0] - 1, files[1]))
            sys.setrecursionlimit(recursion + 1)
    finally:
        assert os.umask(mask) == 0o027
    assert os.getcwd() == str(tmp_path)
    assert dict(os.environ) == before
    assert signal.getsignal(signal.SIGTERM) is handler
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == files
    assert sys.getrecursionlimit() == recursion


def test_code_in_another_thread_is_contained_but_for_signals(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def work():
        with contained():
            os.chdir("/")

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()
    assert os.getcwd() == str(tmp_path)
