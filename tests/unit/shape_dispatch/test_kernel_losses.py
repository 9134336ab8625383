"""What shapes lose by kernels that may crash: a kernel is left out, the others are timed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.errors import UsageError
from autotune.shape_dispatch import kernel_losses
from autotune.shape_dispatch.candidates import Candidate, TunedShape
from autotune.shape_dispatch.comparison import ProcessEndedError, ShapeTimes
from autotune.shape_dispatch.kernel_losses import KernelLosses

SHAPES = [TunedShape({"n": n}, {"slow": 1.0}) for n in (8, 64)]


class FakeBench:
    """Kernels take as long as their configuration says; some end the process."""

    def __init__(self):
        self.ends = 0

    def call(self, method, *args):
        return getattr(self, method)(*args)

    def code(self, kernel):
        return repr(kernel)

    def compiles(self, kernel):
        return True

    def fitted(self, kernel):
        return kernel if kernel.config else DEFAULT

    def compare(self, shape, config, kernels, _seconds, _seed):
        ran = [*(kernel.config for kernel in kernels), *([config] if config else [])]
        if any(shape["n"] in made.get("ends", ()) for made in ran):
            self.ends += 1
            raise ProcessEndedError("it ended")
        costs = tuple(k.config["slow_at"].get(shape["n"], k.config["slow"]) for k in kernels)
        best_s = config["slow"] if config else min(costs, default=np.inf)
        return ShapeTimes(best_s, costs, {})


def kernel(slow, ends=(), slow_at=None, serial=False):
    config = {"slow": slow, "ends": ends, "slow_at": slow_at or {}, "serial": serial}
    return Candidate({"n": 8}, ("n",), config)


DEFAULT = kernel(1.2)


@pytest.fixture
def said():
    return []


@pytest.fixture
def times(said):
    return KernelLosses(FakeBench(), ["n"], said.append)


def test_a_kernel_that_ends_the_process_is_left_out_with_one_line(times, said):
    kernels = [kernel(1.2), kernel(1.0, ends=(64,)), kernel(1.5)]
    losses, best = times.measure(SHAPES, kernels, 0.1)
    np.testing.assert_allclose(losses, [[0.2, np.inf, 0.5], [0.2, np.inf, 0.5]])
    assert best == [1.0, 1.0]
    assert said == ["n=64: a kernel is left out: it ended"]
    assert [times.works(each) for each in kernels] == [True, False, True]


def test_a_kernel_that_has_ended_the_process_is_not_run_again(times):
    kernels = [kernel(1.2), kernel(1.0, ends=(8, 64))]
    times.measure(SHAPES, kernels, 0.1)
    ends = times._bench.ends
    times.measure(SHAPES, kernels, 0.1)
    assert times._bench.ends == ends == 2  # beside others, and alone


def test_the_best_kernel_of_a_shape_may_end_the_process(times, said):
    shapes = [SHAPES[0], TunedShape({"n": 64}, {"slow": 0.5, "ends": (64,)})]
    losses, best = times.measure(shapes, [kernel(1.2), kernel(1.5)], 0.1)
    np.testing.assert_allclose(losses, [[0.2, 0.5], [0.0, 0.25]])
    assert best == [1.0, 1.2]
    assert said == ["the best kernel of n=64 is left out: it ended"]


def test_if_no_kernel_is_left_that_is_said(times):
    with pytest.raises(UsageError, match="no kernel works everywhere; the warnings above"):
        times.keep(SHAPES, [], [kernel(1.2, ends=(8,))], 0.1, None)


def test_the_kernels_that_are_kept_come_with_what_shapes_lose_at_least(times):
    kernels = [kernel(1.3), kernel(1.05), kernel(1.2)]
    kept = times.keep(SHAPES, [], kernels, 0.1, None)
    assert kept.kernels == [kernels[1]]
    np.testing.assert_allclose(kept.losses, [[0.05], [0.05]])
    np.testing.assert_allclose(kept.least, [0.05, 0.05])
    assert kept.best_s == [1.0, 1.0]


def test_of_kernels_that_suit_all_shapes_the_one_is_kept_that_suits_those_between(times):
    kernels = [kernel(1.0, slow_at={32: 2.0}), kernel(1.05), kernel(1.04, slow_at={32: 3.0})]
    between = [TunedShape({"n": 32}, None)]
    kept = times.keep(SHAPES, between, kernels, 0.1, None)
    assert kept.kernels == [kernels[1]]
    np.testing.assert_allclose(kept.losses, [[0.05], [0.05], [0.0]])


def test_what_a_shape_between_loses_is_by_the_fastest_kernel_there(times):
    kernels = [kernel(1.0, slow_at={8: 9.0, 32: 1.0}), kernel(1.05, slow_at={32: 1.5})]
    between = [TunedShape({"n": 32}, None)]
    kept = times.keep(SHAPES, between, kernels, 0.1, 1)
    assert kept.kernels == [kernels[1]]
    np.testing.assert_allclose(kept.losses, [[0.05], [0.05], [0.5]])


class DisturbedBench(FakeBench):
    """For a while, nothing but kernels that say so takes twice as long."""

    def __init__(self, disturbed):
        super().__init__()
        self.calls, self.disturbed = 0, disturbed

    def compare(self, shape, config, kernels, *others):
        found = super().compare(shape, config, kernels, *others)
        self.calls += 1
        if self.calls - 1 not in self.disturbed:
            return found
        serial = [kernel.config["serial"] for kernel in kernels]
        slow = [cost * (1 if own else 2) for cost, own in zip(found.costs_s, serial, strict=True)]
        return ShapeTimes(2 * found.best_s, tuple(slow), found.problems)


def test_a_neighbour_that_takes_a_core_for_a_pass_makes_no_serial_kernel_look_good(said):
    kernels = [kernel(1.05), kernel(2.0, serial=True)]
    bench = DisturbedBench(disturbed=range(len(SHAPES)))  # the first pass over all shapes
    times = KernelLosses(bench, ["n"], said.append)
    losses, best = times.measure_well(SHAPES, kernels, 0.1)
    np.testing.assert_allclose(losses, [[0.05, 1.0], [0.05, 1.0]])
    assert best == [1.0, 1.0]


def test_a_kernel_that_fails_in_one_pass_has_failed(said):
    kernels = [kernel(1.2), kernel(1.0, ends=(64,))]
    times = KernelLosses(FakeBench(), ["n"], said.append)
    losses, _ = times.measure_well(SHAPES, kernels, 0.1)
    np.testing.assert_allclose(losses, [[0.2, np.inf], [0.2, np.inf]])


class LaterBench(FakeBench):
    """What kernels take is another thing, or they end the process, from some call on."""

    def __init__(self, calls):
        super().__init__()
        self.left = calls

    def compare(self, shape, config, kernels, *others):
        self.left -= 1
        if self.left < 0:
            kernels = [replace(k, config={**k.config, **k.config["later"]}) for k in kernels]
        return super().compare(shape, config, kernels, *others)


def later(first, **then):
    made = kernel(first)
    return replace(made, config={**made.config, "later": then})


def test_a_kernel_that_the_survey_took_for_good_is_not_kept(said):
    kernels = [later(1.0, slow=1.4), later(1.05), later(1.08)]
    times = KernelLosses(LaterBench(calls=len(SHAPES)), ["n"], said.append)
    assert times.keep(SHAPES, [], kernels, 0.1, 1).kernels == [kernels[1]]


def test_kernels_that_fail_one_after_another_hide_none_that_works(said, monkeypatch):
    monkeypatch.setattr("autotune.shape_dispatch.kernel_losses.PROMISING", 1)
    kernels = [later(1.0, ends=(8,)), later(1.05, ends=(64,)), later(1.3), later(1.2, ends=(8,))]
    times = KernelLosses(LaterBench(calls=len(SHAPES)), ["n"], said.append)
    kept = times.keep(SHAPES, [], kernels, 0.1, None)
    assert kept.kernels == [kernels[2]]
    assert [times.works(each) for each in kernels] == [False, False, True, False]


def test_variants_of_a_shape_that_are_about_as_fast_may_suit_others_better(times):
    configs = [kernel(slow).config for slow in (1.0, 1.08, 1.3)]
    shapes = [TunedShape({"n": 8}, configs[0], (configs[1], configs[2]))]
    found = times.distinct_kernels(shapes)
    assert [kernel.config["slow"] for kernel in found] == [1.0, 1.08]


def test_of_each_choice_of_open_sizes_a_shape_has_its_fast_variants(times, monkeypatch):
    slow, fast = kernel(1.5), replace(kernel(1.0), open_sizes=())
    monkeypatch.setattr(kernel_losses, "candidates_of", lambda *_: [[slow, fast, DEFAULT]])
    found = times.distinct_kernels(SHAPES[:1])
    assert found == [fast, DEFAULT]


def test_a_shape_that_no_kernel_can_be_used_for_has_no_loss(times):
    failing = kernel(np.inf)
    losses, best = times.measure([TunedShape({"n": 8}, None)], [failing], 0.1)
    assert np.isinf(losses).all()
    assert np.isinf(best).all()
