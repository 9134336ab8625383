"""A CUDA kernel as text whose knobs are macros: vector width, threads, items of each thread.

``python examples/raw_kernel.py [N [ARCH]]`` compiles a few configurations, for which no GPU is
needed, and shows what they take of one; where there is a GPU, it runs the default one there.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from autotune import rtc, te
from autotune.builder import build_task
from autotune.errors import TargetError
from autotune.ir import dtypes
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.gpu_source import raw_source
from autotune.task import Task
from autotune.template import Knobs, template

TEXT = """
extern "C" __global__ void __launch_bounds__(THREADS)
elementwise(const TYPE* __restrict__ from, TYPE* __restrict__ to) {
  constexpr bool aligned = N % LANES == 0, whole = N % (LANES * THREADS * ITEMS) == 0;
  vector::VectorizedLoader<TYPE, LANES, aligned> loader(from, N);
  vector::VectorizedStorer<TYPE, LANES, aligned> storer(to, N);
  const int first = blockIdx.x * THREADS * ITEMS + threadIdx.x;
  TYPE items[ITEMS][LANES];
  // All loads are under way before the first value is used.
#pragma unroll
  for (int item = 0; item < ITEMS; ++item) {
    const int id = first + item * THREADS;
    if (!whole && id * LANES >= N) break;
    loader.load(id, N);
#pragma unroll
    for (int lane = 0; lane < LANES; ++lane) items[item][lane] = loader.separate()[lane];
  }
#pragma unroll
  for (int item = 0; item < ITEMS; ++item) {
    const int id = first + item * THREADS;
    if (!whole && id * LANES >= N) break;
#pragma unroll
    for (int lane = 0; lane < LANES; ++lane) {
      storer.separate()[lane] = AccType<TYPE>::to(OP(items[item][lane]));
    }
    storer.store(id, N);
  }
}
"""


def by_numpy(x: np.ndarray, *, op: str) -> np.ndarray:
    """Return what the kernel computes."""
    return rtc.UNARY[op](x).astype(x.dtype)


@template("elementwise", target="cuda", reference=by_numpy)
def elementwise(cfg: Knobs, n: int, op: str = "sigmoid", dtype: str = "float16") -> rtc.RawKernel:
    """y[n] = op(x[n]).

    Knobs
    -----
    lanes
        Elements that one instruction loads and one stores.
    threads
        Threads of a block.
    items
        Vectors that each thread takes.
    """
    lanes = cfg.define_knob("lanes", [8, 1, 2, 4, 16])
    threads = cfg.define_knob("threads", [256, 64, 128, 512, 1024])
    items = cfg.define_knob("items", [2, 1, 4, 8])
    cfg.add_constraint(
        lanes * dtypes.itemsize(dtype) <= rtc.VECTOR_BYTES, "a vector has at most 16 bytes"
    )
    cfg.add_constraint(lanes * threads * items <= max(n, 64), "a block has no more than there is")
    return rtc.RawKernel(
        "elementwise",
        TEXT,
        inputs=[te.placeholder((n,), dtype, name="X")],
        outputs=[te.placeholder((n,), dtype, name="Y")],
        grid=te.ceildiv(n, lanes * threads * items),
        block=threads,
        defines={"N": n, "TYPE": dtype, "OP": f"op::{op}", "LANES": lanes, "THREADS": threads,
                 "ITEMS": items},
    )  # fmt: skip


def main(n: int = 1 << 24, arch: str = "sm_90") -> None:
    """Compile some configurations; run the default one where there is a GPU."""
    task = Task(elementwise, {"n": n}, f"cuda -arch={arch}")
    legal = task.tally().feasible
    print(f"{task.workload}: {legal} of {len(task.space)} configurations are legal")
    for index in sorted({task.default_index, *task.space.sample(4, np.random.default_rng(0))}):
        source = raw_source(task.final(int(index)))
        usage = source.compiled(arch).cubin.usage("elementwise")
        print(
            f"{task.space.config(int(index)).values}: {usage.registers} registers, "
            f"{usage.spill_store_bytes} bytes spilled, {source.launches[0].grid[0]} blocks"
        )
    try:
        cupy_driver.device_count()
    except TargetError as error:
        print(f"not run: {error}")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the default configuration, which is meant
        function = build_task(Task(elementwise, {"n": n}, f"cuda -arch={cupy_driver.arch_of(0)}"))
    cupy = cupy_driver.cupy()
    x = cupy.random.standard_normal(n, dtype="float32").astype("float16")
    y = cupy.empty_like(x)
    function(x, y)
    error = np.abs(y.get().astype("f8") - by_numpy(x.get(), op="sigmoid").astype("f8")).max()
    print(f"run: largest error {error:.2g}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:3])
