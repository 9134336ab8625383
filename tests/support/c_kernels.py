"""A template of a kernel in C, and functions that build and run one."""

from __future__ import annotations

from typing import Any

import numpy as np

import autotune
from autotune import te
from autotune.builder import BuiltFunction
from autotune.target import Target
from autotune.template import Knobs, template

SCALE = """
void scale(const float *x, float *y) {
  for (int i = 0; i < N; ++i) y[i] = FACTOR * x[i] + BLOCK;
}
"""

FIRST = "void f(float *x, float *y) { y[0] = VALUE; }\n"


def arrays(n: int) -> dict[str, Any]:
    return {"inputs": [te.placeholder((n,), name="X")], "outputs": [te.placeholder((n,), name="Y")]}


def computed(n: int) -> te.Tensor:
    x = te.placeholder((n,), name="X")
    return te.compute((n,), lambda i: x[i] * 2, name="Z")


@template("scale", reference=lambda x: 2 * x)
def scale(cfg: Knobs, n: int, text: str = SCALE) -> autotune.CKernel:
    block = cfg.define_knob("block", [1, 2, 4])
    level = cfg.define_knob("level", ["-O0", "-O2"])
    kind = cfg.define_knob("kind", [False, True])
    cfg.add_constraint(block <= n, "no more than there is")
    defines = {"N": n, "BLOCK": block, "FACTOR": "2.0f", "KIND": kind, "HALF": 0.5}
    return autotune.CKernel("scale", text, **arrays(n), defines=defines, flags=[level])


def built(kernel: autotune.CKernel, target: str = "llvm") -> BuiltFunction:
    return BuiltFunction(kernel.lowered("kernel"), Target.of(target))


def run(kernel: autotune.CKernel, x: Any) -> Any:
    y = np.zeros(x.shape, np.float32)
    built(kernel)(x, y)
    return y


X = np.arange(10, dtype=np.float32)
