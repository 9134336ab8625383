"""Silence: nothing that foreign code prints gets out, and what is printed around it does."""

import ctypes
import os
import subprocess
import sys

import pytest

from autotune.trace.silence import silenced


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
