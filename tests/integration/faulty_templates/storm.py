"""Templates whose knobs choose what goes wrong: in the template, in its kernel, in its reference.

The template itself misbehaves in processes of the measurer only; the tuning process traces it too.
Faults of the running kernel that no schedule can make are written into its LLVM assembly.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import hashlib
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from autotune import te
from autotune.runtime.cpu import llvm_compiler
from autotune.system import host
from autotune.template import Knobs, template

SIZE = 256
MEGABYTES = 3 * b"many words on many lines\n" * 50_000
TERABYTE = 1 << 40


def in_worker() -> bool:
    """Whether this is a process of the measurer."""
    return any(word.startswith("autotune.measure") for word in sys.orig_argv)


# -- faults of Python code ---------------------------------------------------------------------


def loop() -> NoReturn:
    while True:
        pass


def sleep() -> None:
    """Sleep, deaf to every signal that can be ignored."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1000)


def grow() -> None:
    """Allocate until it is refused."""
    kept = []
    while True:
        kept.append(np.zeros(1 << 27, dtype=np.uint8))


def fill() -> None:
    """Fill the memory until it is refused."""
    kept = []
    while True:
        kept.append(np.ones(1 << 27, dtype=np.uint8))


def talk() -> None:
    print(MEGABYTES.decode())
    for stream in (1, 2):
        os.write(stream, MEGABYTES)
    sys.stdin.read()


def close_streams() -> None:
    sys.stdin.close()
    for stream in (0, 1, 2):
        with contextlib.suppress(OSError):
            os.close(stream)


def fork() -> None:
    """Fork a child that goes on as if it were the worker."""
    if os.fork():
        time.sleep(0.2)


def daemonise() -> None:
    """Leave a process behind that belongs to no session, group or parent of the worker's."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with contextlib.suppress(BaseException):
                sleep()
        os._exit(0)
    os.wait()


def spawn() -> None:
    subprocess.Popen(["sleep", "1000"], start_new_session=True)


def start_threads() -> None:
    """Leave threads behind: one that ends by sys.exit and one that does not end."""
    threading.Thread(target=sys.exit).start()
    threading.Thread(target=lambda: time.sleep(1000), daemon=True).start()


def wander() -> None:
    """Change what belongs to the whole process and may well be changed."""
    os.chdir("/")
    os.umask(0o777)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CPU, (3600, 3600))
    os.environ.clear()


PYTHON_FAULTS: dict[str, Callable[[], object]] = {
    "segfault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "loop": loop,
    "sleep": sleep,
    "exit": lambda: sys.exit(0),
    "leave": lambda: os._exit(0),
    "terabyte": lambda: bytearray(TERABYTE),
    "grow": grow,
    "fill": fill,
    "talk": talk,
    "close_streams": close_streams,
    "close_all": lambda: os.closerange(0, 4096),
    "fork": fork,
    "daemonise": daemonise,
    "spawn": spawn,
    "threads": start_threads,
    "wander": wander,
    "kill_group": lambda: os.kill(0, signal.SIGKILL),
    "terminate_group": lambda: os.kill(0, signal.SIGTERM),
    "kill_parent": lambda: os.kill(os.getppid(), signal.SIGKILL),
}

# -- faults of the running kernel --------------------------------------------------------------

#: Declarations, and instructions at the kernel's beginning; {out} is its output.
_CALLS = {
    "kernel_abort": ("declare void @abort()", "call void @abort()"),
    "kernel_leave": ("declare void @_exit(i32)", "call void @_exit(i32 0)"),
    "kernel_exit": ("declare void @exit(i32)", "call void @exit(i32 0)"),
    "kernel_fork": ("declare i32 @fork()", "call i32 @fork()"),
    "kernel_close": (
        "declare void @closefrom(i32)",
        "call void @closefrom(i32 0)",
    ),
    "kernel_beyond": (
        "",
        f"%beyond = getelementptr float, ptr {{out}}, i64 {SIZE}\n"
        "  store float 7.0, ptr %beyond",
    ),
    "kernel_before": (
        "",
        "%before = getelementptr float, ptr {out}, i64 -1\n  store float 7.0, ptr %before",
    ),
    "kernel_far_write": (
        "",
        f"%far = getelementptr float, ptr {{out}}, i64 {1 << 40}\n  store float 7.0, ptr %far",
    ),
}  # fmt: skip

_emit = llvm_compiler.emit
NOTES = os.environ.get("AUTOTUNE_TEST_NOTES")


def _note(text: str) -> None:
    """Note in a file, if there is one to note it in, which run compiles what."""
    if NOTES is not None:
        run = os.environ["AUTOTUNE_TEST_TOKEN"]
        with open(NOTES, "a") as notes:
            notes.write(f"{run} {hashlib.sha256(text.encode()).hexdigest()}\n")


def _hostile_emit(function: Any, *options: Any, **more: Any) -> llvm_compiler.LLVMSource:
    """Emit LLVM assembly; the output's name says which fault to add."""
    source = _emit(function, *options, **more)
    if function.name == "storm":  # not a kernel that the machine is judged by
        _note(source.text)
    (fault,) = (output.name for output in function.outputs)
    if fault not in _CALLS:
        return source
    declaration, lines = _CALLS[fault]
    found = re.search(rf"^define i32 @{source.entry}\(.*\n", source.text, re.MULTILINE)
    assert found is not None
    (out,) = re.findall(r"ptr noalias (%[\w.\"]+)", found[0])
    text = source.text.replace("\nentry:\n", f"\nentry:\n  {lines.format(out=out)}\n")
    return dataclasses.replace(source, text=f"{declaration}\n{text}")


def _patch() -> None:
    if in_worker():
        llvm_compiler.emit = _hostile_emit


_patch()


def computed(fault: str, A: Any, variant: int) -> Any:
    """Return B = A + 1 as the fault has it; variants are equal in value, not in code."""
    n = A.shape[0]
    name = fault if fault in _CALLS else "B"

    def right(i: Any) -> Any:
        return te.max(A[i] + 1, -1e30 - variant * 1e28)

    if fault == "wrong":
        return te.compute((n,), lambda i: right(i) + 1, name=name)
    if fault == "wrong_once":
        return te.compute((n,), lambda i: right(i) + te.select(i == 37, 1.0, 0.0), name=name)
    if fault == "nan":
        return te.compute((n,), lambda i: right(i) + te.log(A[i] * 0.0 - 1.0), name=name)
    if fault == "endless":
        j, k = te.reduce_axis((0, 2**30), name="j"), te.reduce_axis((0, 2**30), name="k")
        return te.compute((n,), lambda i: te.sum(right(i), axis=(j, k)), name=name)
    if fault == "huge":
        elements = host.memory_bytes() // 4  # more would be refused beforehand
        k = te.reduce_axis((0, elements), name="k")
        T = te.compute((elements,), lambda x: A[0] + te.cast("float32", x), name="T")
        return te.compute((n,), lambda i: te.sum(T[k] + right(i), axis=k), name=name)
    if fault == "far_read":
        # Only the data say that this is outside, so nothing can refuse it beforehand.
        return te.compute((n,), lambda i: A[te.cast("int32", A[i] * 0.0 + 2.0**30)] + 1, name=name)
    return te.compute((n,), right, name=name)


@template("storm", target="llvm", reference=lambda a: a + np.float32(1))
def storm(
    cfg: Knobs, faults: str = "", good: int = 0, steps: int = 2, pause_s: float = 0.0
) -> tuple[Any, list[Any]]:
    """B = A + 1 by `good` schedules that are right, and by one for each fault; times `steps`.

    Tracing it in the tuning process pauses each time.
    """
    names = [*(f"good{i}" for i in range(good)), *filter(None, faults.split(","))]
    fault = cfg.define_knob("fault", names)
    step = cfg.define_knob("step", list(range(2, 2 + steps)))
    A = te.placeholder((SIZE,), "float32", name="A")
    if not in_worker():
        time.sleep(pause_s)
    elif fault in PYTHON_FAULTS:
        PYTHON_FAULTS[fault]()
    B = computed(fault, A, names.index(fault))
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=step)
    return s, [A, B]


@template("tracing", target="llvm", reference=lambda a: a + np.float32(1))
def tracing(cfg: Knobs, faults: str, good: int = 1) -> tuple[Any, list[Any]]:
    """B = A + 1, with a fault wherever the template runs: the tuning process meets it first."""
    names = [*(f"good{i}" for i in range(good)), *faults.split(",")]
    fault = cfg.define_knob("fault", names)
    if fault in PYTHON_FAULTS:
        PYTHON_FAULTS[fault]()
    A = te.placeholder((SIZE,), "float32", name="A")
    B = computed(fault, A, names.index(fault))
    return te.create_schedule(B.op), [A, B]


# -- faults of the reference -------------------------------------------------------------------


def reference(a: Any, *, fault: str) -> Any:
    if fault in PYTHON_FAULTS:
        PYTHON_FAULTS[fault]()
    if fault == "nan":
        return a * np.float32("nan")
    return a + np.float32(1)


@template("misled", target="llvm", reference=reference)
def misled(cfg: Knobs, fault: str) -> tuple[Any, list[Any]]:
    """B = A + 1, but computing the right answer goes wrong."""
    step = cfg.define_knob("step", [2, 3])
    A = te.placeholder((SIZE,), "float32", name="A")
    B = te.compute((SIZE,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=step)
    return s, [A, B]
