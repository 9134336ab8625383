"""Texts of files with templates that do odd things, which command lines are given."""

WRONG = """
from autotune import te
from autotune.template import template

@template("wrong", reference=lambda a: a)
def wrong(cfg, n: int):
    print("a template may print")
    k = cfg.define_knob("k", [1, 2, 4])
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(s[B].op.axis[0], factor=k)
    return s, [A, B]

@template("nothing_allowed", reference=lambda a: a + 1)
def nothing_allowed(cfg, n: int):
    k = cfg.define_knob("k", [1, 2, 4])
    cfg.add_constraint(k > 4, "k is large")
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(s[B].op.axis[0], factor=k)
    return s, [A, B]
"""

LOUD = """
import os
import time
from autotune import te
from autotune.template import template

os.write(1, b"loud import")

def count(n):
    os.write(1, b"loud count")
    return float(n)

@template("loud", reference=lambda a: a + 1, flops=count)
def loud(cfg, n: int):
    os.write(1, b"loud template")
    k = cfg.define_knob("k", [1, 2, 4])
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    if k == 2:
        raise ValueError("k is two")
    if k == 4 and n == 9:
        time.sleep(60)
    s[B].split(s[B].op.axis[0], factor=k)
    return s, [A, B]
"""

LINGERING = """
import atexit
import threading
import time
from autotune import te
from autotune.template import template

class Mute(Exception):
    def __str__(self):
        raise ValueError("nothing to say")

@template("lingering", reference=lambda a: a + 1)
def lingering(cfg, n: int):
    atexit.register(time.sleep, 3600)
    threading.Thread(target=time.sleep, args=(3600,)).start()
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    if cfg.define_knob("k", [1, 2]) == 2:
        raise Mute
    return te.create_schedule(B.op), [A, B]
"""
