"""A template whose knob `fault` chooses what goes wrong, in the template or in its kernel.

Faults of the template itself happen in worker processes only: the tuning process traces it too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import stat
import struct
import sys
import time
from typing import Any

import numpy as np

from autotune import te
from autotune.template import Knobs, template

MEGABYTES = 3 * "many words on many lines\n" * 50_000


def in_worker() -> bool:
    return os.path.basename(sys.argv[0]) == "fork_server.py"


def misbehave(fault: str) -> None:
    match fault:
        case "abort":
            os.abort()
        case "segfault":
            ctypes.string_at(0)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "leave":
            os._exit(0)
        case "exit":
            sys.exit(0)
        case "raise":
            raise ValueError("no such schedule\nand more")
        case "loop":
            while True:
                pass
        case "sleep":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(3600)
        case "print":
            print(MEGABYTES)
            os.write(1, MEGABYTES.encode())
            os.write(2, MEGABYTES.encode())
            sys.stdin.read()
        case "fork":
            if os.fork() == 0:
                return  # the child goes on as if it were the worker
            time.sleep(0.2)
        case "flee":
            flee()
        case "close":
            os.closerange(0, 4096)
        case "answer":
            answer_instead()
        case "kill_parent":
            os.kill(os.getppid(), signal.SIGKILL)
        case "grow":
            kept = []
            while True:
                kept.append(np.empty(1 << 27, dtype=np.uint8))


def answer_instead() -> None:
    """Write a message that is well-formed, but no answer, wherever somebody may read it."""
    text = b'{"done":true}'
    for fd in range(3, 64):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.write(fd, struct.pack("<II", len(text), 0) + text)


def flee() -> None:
    """Leave a process of another session and parent, which is deaf to what it may be deaf to."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(3600)
        os._exit(0)
    os.wait()


@template("faulty", target="llvm", reference=lambda a: a + np.float32(1))
def faulty(cfg: Knobs, n: int = 64, faults: str = "none") -> tuple[Any, list[Any]]:
    """B = A + 1, or not."""
    fault = cfg.define_knob("fault", faults.split(","))
    step = cfg.define_knob("step", [4, 8])
    A = te.placeholder((n,), "float32", name="A")
    if in_worker():
        misbehave(fault)
    if fault == "wrong":
        B = te.compute((n,), lambda i: A[i] + 2, name="B")
    elif fault == "wrong_once":
        B = te.compute((n,), lambda i: A[i] + te.select(i == 37, 2.0, 1.0), name="B")
    elif fault == "endless":
        j, k = te.reduce_axis((0, 2**30), name="j"), te.reduce_axis((0, 2**30), name="k")
        B = te.compute((n,), lambda i: te.sum(A[i], axis=(j, k)), name="B")
    elif fault == "far":
        # Only the data say that this is outside, so nothing can refuse it beforehand.
        B = te.compute((n,), lambda i: A[te.cast("int32", A[i] * 0.0 + 2.0**30)] + 1, name="B")
    else:
        B = te.compute((n,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=step)
    return s, [A, B]


@template("unchecked", target="llvm")
def unchecked(cfg: Knobs, n: int = 64, fault: str = "none") -> tuple[Any, list[Any]]:
    """B = A + 1 without a reference; with a fault, its schedule computes only a part."""
    step = cfg.define_knob("step", [4, 8])
    A = te.placeholder((n, n), "float32", name="A")
    k = te.reduce_axis((0, n), name="k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=step)
    return s, [A, B]


@template("bad_reference", target="llvm", reference=lambda a: a[:-1])
def bad_reference(cfg: Knobs, n: int = 64) -> tuple[Any, list[Any]]:
    """B = A + 1, but the reference returns another shape."""
    return faulty(cfg, n)


@template("plain", target="llvm", reference=lambda a: a + np.float32(1))
def plain(cfg: Knobs, n: int = 64) -> tuple[Any, list[Any]]:
    """B = A + 1: nothing goes wrong, in none of 30 configurations."""
    step = cfg.define_knob("step", list(range(2, 32)))
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=step)
    return s, [A, B]


def suicide(a: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def meddle(a: Any) -> Any:
    a += np.float32(1)
    return a


@template("killed_reference", target="llvm", reference=suicide)
def killed_reference(cfg: Knobs, n: int = 64) -> tuple[Any, list[Any]]:
    """B = A + 1, but the reference is killed, as if it had exhausted the memory."""
    return faulty(cfg, n)


def unending(a: Any) -> Any:
    time.sleep(3600)


@template("unending_reference", target="llvm", reference=unending)
def unending_reference(cfg: Knobs, n: int = 64) -> tuple[Any, list[Any]]:
    """B = A + 1, but the reference never returns."""
    return faulty(cfg, n)


@template("meddling_reference", target="llvm", reference=meddle)
def meddling_reference(cfg: Knobs, n: int = 64) -> tuple[Any, list[Any]]:
    """B = A + 1, but the reference writes into A."""
    return faulty(cfg, n)


@template("copying", target="llvm", reference=lambda a: a)
def copying(cfg: Knobs, n: int = 64) -> tuple[Any, list[Any]]:
    """B = A; the reference returns its input itself."""
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i], name="B")
    return te.create_schedule(B.op), [A, B]


@template("napping", target="llvm", reference=lambda a: a + np.float32(1))
def napping(cfg: Knobs, n: int = 64, naps: str = "0") -> tuple[Any, list[Any]]:
    """B = A + 1, in code of its own for each nap, whose seconds building takes at least."""
    nap = cfg.define_knob("nap", naps.split(","))
    number = naps.split(",").index(nap)
    A = te.placeholder((n,), "float32", name="A")
    if in_worker():
        time.sleep(float(nap))
    B = te.compute((n,), lambda i: te.max(A[i] + 1, -1e30 - number * 1e28), name="B")
    return te.create_schedule(B.op), [A, B]
