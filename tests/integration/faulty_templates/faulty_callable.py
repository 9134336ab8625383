"""Python callables and kernels in C whose knob `fault` chooses what goes wrong in a call.

Nothing goes wrong while a template is traced.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import numpy as np

import autotune
from autotune import te
from autotune.template import Knobs, template

calls = 0


def doubled(x: np.ndarray, y: np.ndarray, fault: str) -> Any:
    """y = 2 x, and something else."""
    global calls
    calls += 1
    np.multiply(x, 2, out=y)
    match fault:
        case "raise":
            raise ValueError("no\nsuch plan")
        case "exit":
            sys.exit(0)
        case "leave":
            os._exit(0)
        case "hang":
            time.sleep(1000)
        case "hang later" if calls > 8:
            time.sleep(1000)
        case "segfault":
            ctypes.string_at(8)
        case "abort":
            os.abort()
        case "wrong":
            y[3] += 1
        case "input":
            x[5] = 7
        case "beyond":
            address = y.ctypes.data + y.nbytes
            ctypes.memset(address, 1, 8)
        case "print":
            print("many words" * 1000)
            os.write(1, b"many words" * 1000)
        case "fork":
            if os.fork() == 0:
                os._exit(0)
        case "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
            raise ValueError("no more files")
        case "write":
            with tempfile.TemporaryFile() as file:
                file.write(b"words")
        case "second" if calls == 1:
            raise ValueError("the process is new")
        case "spawn":
            subprocess.run(["true"], check=True)
        case "threads":
            thread = threading.Thread(target=np.multiply, args=(x, 2), kwargs={"out": y})
            thread.start()
            thread.join()
        case "return":
            return x * 2
        case "return output":
            return y
    return None


def returned(x: np.ndarray, fault: str) -> Any:
    """Return 2 x, or something else."""
    match fault:
        case "shape":
            return x[:-1] * 2
        case "several":
            return x, x
        case "nothing":
            return None
        case "scalar":
            return 2.0
    return x * 2


def arrays(n: int) -> dict[str, Any]:
    return {"inputs": [te.placeholder((n,), name="X")], "outputs": [te.placeholder((n,), name="Y")]}


@template("doubled_in_place", reference=lambda x: x * 2)
def in_place(cfg: Knobs, faults: str, n: int = 64) -> autotune.CallableKernel:
    """Call `doubled`."""
    fault = cfg.define_knob("fault", faults.split(","))
    cfg.define_knob("again", [0, 1])
    return autotune.CallableKernel(doubled, **arrays(n), keywords={"fault": fault})


@template("doubled_and_returned", reference=lambda x: x * 2)
def by_return(cfg: Knobs, faults: str, n: int = 64) -> autotune.CallableKernel:
    """Call `returned`."""
    fault = cfg.define_knob("fault", faults.split(","))
    cfg.define_knob("again", [0, 1])
    return autotune.CallableKernel(returned, **arrays(n), keywords={"fault": fault}, returns=True)


TEXT = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void doubled(float *x, float *y) {
  for (int i = 0; i < N; ++i) y[i] = 2 * x[i];
  FAULT;
}
"""

IN_C = {
    "none": "",
    "syntax": "this is no C",
    "missing": "no_such_function()",
    "segfault": "*(volatile int *)8 = 1",
    "abort": "abort()",
    "leave": "_exit(0)",
    "hang": "for (;;) sleep(1)",
    "wrong": "y[3] += 1",
    "input": "x[5] = 7",
    "beyond": "y[N] = 1",
    "print": 'puts("many words")',
    "fork": "if (fork() == 0) _exit(0)",
}


@template("doubled_in_c", reference=lambda x: x * 2)
def in_c(cfg: Knobs, faults: str, n: int = 64) -> autotune.CKernel:
    """Compile `TEXT`."""
    fault = cfg.define_knob("fault", faults.split(","))
    again = cfg.define_knob("again", [0, 1])
    return autotune.CKernel(
        "doubled",
        TEXT,
        **arrays(n),
        defines={"N": n, "FAULT": IN_C[fault], "AGAIN": again},
        flags=["-O0", "-Wl,-z,defs"],
    )


@template("compiled_by", reference=lambda x: x * 2)
def compiled_by(cfg: Knobs, faults: str, n: int = 64) -> autotune.CKernel:
    """Compile `TEXT` with some compilers."""
    compiler = cfg.define_knob("fault", ["cc", *faults.split(",")[1:]])
    again = cfg.define_knob("again", [0, 1])
    defines = {"N": n, "FAULT": "", "AGAIN": again}
    return autotune.CKernel("doubled", TEXT, **arrays(n), defines=defines, compiler=compiler)
