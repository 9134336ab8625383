"""No wrong kernel is recorded as valid, whatever the operator, the type and the mistake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support import checked_workloads as w
from support import wrong_layers as wrong
from support.benches import Fake, answers_bench
from support.wrong_kernels import Workload, cases, workloads
from support.wrong_ways import Kernel

from autotune.ir import dtypes
from autotune.measure.candidate import CandidateError
from autotune.measure.result import MeasureErrorNo
from autotune.measure.run_bench import RunBench

EVERY = "nothing zeros stale one off-by-one tail-zero middle-unwritten swapped negated"
FINE = ("tanh", "1e-", "12 bits", "epsilon", "themselves")
"""Mistakes that half floats do not tell from rounding."""


def told(dtype: str, *kernels: dict[str, Kernel]) -> dict[str, Kernel]:
    """Return the wrong kernels that a type tells from right ones."""
    found = {name: kernel for own in kernels for name, kernel in own.items()}
    if not dtypes.is_half(dtype):
        return found
    return {name: own for name, own in found.items() if not any(word in name for word in FINE)}


def layers() -> Iterator[Workload]:
    """Yield workloads of layers with their wrong kernels."""
    for dtype in ("float32", "float64", "float16", "bfloat16"):
        yield from _of_type(dtype)
        yield from _attention(dtype)
    for dtype in ("float16", "bfloat16"):
        yield Workload(
            f"product {dtype} in blocks",
            lambda d=dtype: w.of_template("matmul", m=8, n=8, k=64, dtype=d), "one",
            {"sums of eight in its type": wrong.by(lambda a, b, d=dtype: wrong.in_blocks(a, b, d))},
        )
    t = w.of_template
    yield Workload("transposed operands",
                   lambda: t("matmul", m=24, n=24, k=24, transpose_a=True, transpose_b=True),
                   EVERY, wrong.TRANSPOSED)
    yield Workload(
        "grouped convolution",
        lambda: t("conv2d_nhwc", n=2, c=8, h=9, w=9, o=6, kh=3, kw=3, **wrong.GROUPED),
        EVERY, wrong.CONV_NHWC)
    yield Workload("one of 2000 terms", lambda: t("matmul", m=4, n=4, k=2000), "one",
                   {f"without {p}": wrong.one_missing(*p)
                    for p in ((0, 0, 0), (3, 1999, 3), (1, 777, 2), (2, 1024, 0), (3, 63, 1))})
    yield Workload("sums so far", lambda: t("cumsum", m=40, n=12), EVERY, wrong.SCAN)
    yield Workload("recurrence", lambda: t("linear_recurrence", m=40, n=12), EVERY,
                   wrong.RECURRENCE)
    for dtype in ("float32", "float64"):
        yield Workload(f"cell {dtype}",
                       lambda d=dtype: t("rnn_cell", steps=12, batch=3, units=16, dtype=d),
                       "zeros one", wrong.RNN)
        yield Workload(f"long memory {dtype}",
                       lambda d=dtype: t("lstm_cell", steps=12, batch=3, units=16, dtype=d),
                       "zeros one", wrong.LSTM)


def _of_type(dtype: str) -> Iterator[Workload]:
    """Yield products, activations, norms, pools and reductions of a type."""
    single = dtype == "float32"
    product = {"m": 20, "n": 18, "k": 33}

    def t(name: str, **args: Any) -> Any:
        return lambda: w.of_template(name, dtype=dtype, **args)

    exact = wrong.SINGLE if single else {}
    yield Workload(f"odd product {dtype}", t("matmul", **product), EVERY,
                   told(dtype, wrong.PRODUCTS, exact))
    yield Workload(f"batches {dtype}", t("batch_matmul", b=3, **product), EVERY,
                   told(dtype, wrong.PRODUCTS, wrong.BATCHES, exact))
    for activation, kernels in (("relu", wrong.DENSE), ("gelu", wrong.DENSE_GELU)):
        yield Workload(f"dense {activation} {dtype}",
                       t("dense", m=16, n=16, k=24, activation=activation),
                       f"{EVERY} in-clamped-4 in-positive", told(dtype, kernels))
    yield Workload(f"bias gelu {dtype}", t("bias_gelu", m=12, n=40), EVERY,
                   told(dtype, wrong.BIAS_GELU))
    yield Workload(f"norm of squares {dtype}", t("rms_norm", m=8, n=48), EVERY,
                   told(dtype, wrong.RMS, wrong.RMS_SINGLE if single else {}))
    yield Workload(f"softmax of blocks {dtype}", t("softmax", m=6, n=70), "nothing zeros",
                   told(dtype, wrong.SOFTMAX, wrong.SOFTMAX_SINGLE))
    for how, kernels in (("max", wrong.MAX_POOL), ("mean", wrong.MEAN_POOL)):
        yield Workload(f"pool {how} {dtype}",
                       t("pool2d", n=2, c=4, h=9, w=9, how=how, **wrong.WINDOW),
                       EVERY.replace("tail-zero", ""), kernels)
    for how, kernels in (("max", wrong.MOST), ("mean", wrong.MEANS)):
        yield Workload(f"{how} of columns {dtype}", t("reduce", m=64, n=20, how=how, axis=0),
                       "nothing zeros one", kernels)


def _attention(dtype: str) -> Iterator[Workload]:
    """Yield attention of all keys, and of earlier ones."""
    for causal in (False, True):
        fine = wrong.ATTENTION_SINGLE if dtype == "float32" and not causal else {}
        yield Workload(
            f"attention {dtype} {'causal' if causal else 'of all keys'}",
            lambda c=causal: w.of_template(
                "attention", b=2, heads=3, s=24, d=9, causal=c, dtype=dtype),
            "nothing zeros stale one negated" if causal else EVERY,
            told(dtype, wrong.attentions(causal), fine),
        )


WORKLOADS = [*workloads(), *layers()]


pytestmark = pytest.mark.usefixtures("own_cache")


def verdict(bench: RunBench, kernel: Fake) -> MeasureErrorNo | None:
    """Return why a kernel is refused, None if it is taken for right."""
    try:
        bench.run(kernel)
    except CandidateError as error:
        return error.code
    return None


def passing(workload: Workload, seed: int) -> list[str]:
    """Return the kernels of a workload that do not fail, or fail by anything but their answers."""
    task = workload.task()
    bench = answers_bench(task, seed)
    wrong = MeasureErrorNo.WRONG_ANSWER
    return [
        name for name, kernel in cases(workload, task) if verdict(bench, Fake(kernel)) is not wrong
    ]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_no_wrong_kernel_is_taken_for_right(workload: Workload) -> None:
    assert passing(workload, 0) == []


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_no_wrong_kernel_is_taken_for_right_by_other_inputs(workload: Workload) -> None:
    assert [(seed, *passing(workload, seed)) for seed in (1, 2, 3)] == [(1,), (2,), (3,)]
