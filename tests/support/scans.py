"""Scans that tests share: the three programs of the tutorial, retyped, and loops in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import autotune
from autotune import te
from autotune.builder import BuiltFunction


class ColumnSums:
    """Sums down the columns of X; sizes are numbers or `te.var`s."""

    def __init__(self, m: Any = None, n: Any = None, dtype: str = "float32") -> None:
        m = te.var("m") if m is None else m
        n = te.var("n") if n is None else n
        self.X = te.placeholder((m, n), dtype, name="X")
        self.state = te.placeholder((m, n), dtype, name="state")
        self.init = te.compute((1, n), lambda _, i: self.X[0, i], name="init")
        self.update = te.compute(
            (m, n), lambda t, i: self.state[t - 1, i] + self.X[t, i], name="update"
        )
        self.scan = te.scan(self.init, self.update, self.state, inputs=[self.X])
        self.s = te.create_schedule(self.scan.op)
        self.tensors = [self.X, self.scan]

    def bind(self, num_thread: int = 256) -> ColumnSums:
        """Give columns to threads, as the tutorial does."""
        block_x, thread_x = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
        for part in (self.init, self.update):
            xo, xi = self.s[part].split(part.op.axis[1], factor=num_thread)
            self.s[part].bind(xo, block_x)
            self.s[part].bind(xi, thread_x)
        return self

    def build(self, target: str) -> BuiltFunction:
        """Return the function of an array and its sums."""
        return autotune.build(self.s, self.tensors, target)


def assert_sums(built: BuiltFunction, x: Any) -> None:
    """Check that a function computes the sums along the first dimension of an array."""
    out = np.full_like(x, 77)
    built(x, out)
    np.testing.assert_array_equal(out, np.cumsum(x, axis=0, dtype=x.dtype))


class TwoStages:
    """A cell of two stages, the first computed inside the second."""

    def __init__(self) -> None:
        m, n = te.var("m"), te.var("n")
        self.X = te.placeholder((m, n), name="X")
        self.state = te.placeholder((m, n))
        self.init = te.compute((1, n), lambda _, i: self.X[0, i])
        self.s1 = te.compute((m, n), lambda t, i: self.state[t - 1, i] * 2, name="s1")
        self.s2 = te.compute((m, n), lambda t, i: self.s1[t, i] + self.X[t, i], name="s2")
        self.scan = te.scan(self.init, self.s2, self.state, inputs=[self.X])
        self.s = te.create_schedule(self.scan.op)
        self.xo, _ = self.s[self.s2].split(self.s2.op.axis[1], factor=32)
        self.s[self.s1].compute_at(self.s[self.s2], self.xo)
        self.tensors = [self.X, self.scan]

    @staticmethod
    def reference(x: Any) -> Any:
        """What it computes."""
        out = x.copy()
        for t in range(1, len(x)):
            out[t] = out[t - 1] * 2 + x[t]
        return out


class TwoStates:
    """Two states of different widths, one of which reads the other."""

    def __init__(self) -> None:
        m, n, l = te.var("m"), te.var("n"), te.var("l")  # noqa: E741
        X = te.placeholder((m, n), name="X")
        state1 = te.placeholder((m, n))
        state2 = te.placeholder((m, l))
        self.init1 = te.compute((1, n), lambda _, i: X[0, i])
        self.init2 = te.compute((1, l), lambda _, i: 0.0)
        self.update1 = te.compute((m, n), lambda t, i: state1[t - 1, i] + X[t, i])
        self.update2 = te.compute((m, l), lambda t, i: state2[t - 1, i] + state1[t - 1, 0])
        self.scans = te.scan(
            [self.init1, self.init2], [self.update1, self.update2], [state1, state2], inputs=[X]
        )
        self.s = te.create_schedule(self.scans[0].op)
        self.tensors = [X, *self.scans]

    @staticmethod
    def reference(x: Any, width: int) -> tuple[Any, Any]:
        """What it computes."""
        sums = np.cumsum(x, axis=0, dtype=x.dtype)
        other = np.zeros((len(x), width), x.dtype)
        for t in range(1, len(x)):
            other[t] = other[t - 1] + sums[t - 1, 0]
        return sums, other
