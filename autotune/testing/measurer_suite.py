"""Tests that every measurer must pass, wherever it measures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from autotune.measure.custom_measurer import CustomMeasurer, MeasurerChoice
from autotune.measure.measurer import Measurer, SupportsParallelRuns
from autotune.measure.result import MeasureInput
from autotune.measure.timing_policy import TimingPolicy
from autotune.task.task import Task


class MeasurerSuite:
    """What every measurer promises: a subclass says which one, as ``measurer``.

    It takes what `autotune.tune` takes as a measurer.
    """

    measurer: MeasurerChoice
    #: What is measured, most of whose configurations have to work.
    template = "matmul"
    args: Mapping[str, Any] = {"m": 16, "n": 16, "k": 16}
    target = "llvm"

    @cached_property
    def task(self) -> Task:
        """The task whose candidates are measured."""
        return Task.from_reference(self.template, self.args, self.target)

    def make(self) -> Measurer:
        """Return a new measurer of the task."""
        return CustomMeasurer.of(self.measurer, self.task, TimingPolicy(repeats=2), 10.0, seed=0)

    @cached_property
    def candidates(self) -> list[MeasureInput]:
        """The default configuration and a few of its neighbours."""
        space = self.task.space
        near = space.by_distance(self.task.default_index, 3)
        legal = (i for i in near if not self.task.refusal(i))
        return [MeasureInput(space.config(i)) for i, _ in zip(legal, range(4), strict=False)]

    def test_the_default_configuration_is_timed(self) -> None:
        with self.make() as measurer:
            ((candidate, result),) = measurer.measure(self.candidates[:1])
        assert candidate is self.candidates[0]
        assert result.error is None
        assert result.costs_s is not None
        assert all(cost > 0.0 for cost in result.costs_s)

    def test_each_candidate_comes_once_and_in_order(self) -> None:
        with self.make() as measurer:
            found = [candidate for candidate, _ in measurer.measure(self.candidates)]
        assert found == self.candidates

    def test_a_candidate_may_be_measured_again_and_without_having_been_built_ahead(self) -> None:
        first = self.candidates[0]
        with self.make() as measurer:
            assert measurer.run(first).ok
            assert measurer.run(first).ok

    def test_it_can_be_used_after_it_was_closed(self) -> None:
        measurer = self.make()
        try:
            measurer.close()
            assert measurer.run(self.candidates[0]).ok
        finally:
            measurer.close()
            measurer.close()

    def test_submitted_candidates_have_one_result_each_if_it_has_several_devices(self) -> None:
        with self.make() as measurer:
            if not isinstance(measurer, SupportsParallelRuns):
                return
            assert measurer.width >= 1
            for candidate in self.candidates:
                measurer.submit(candidate)
            back = measurer.withdraw()
            ended = [measurer.next_result() for _ in range(len(self.candidates) - len(back))]
        found = [candidate.config.index for candidate, _ in ended]
        wanted = [candidate.config.index for candidate in self.candidates]
        assert sorted([*found, *(each.config.index for each in back)]) == sorted(wanted)
        assert all(result.ok for candidate, result in ended if candidate is self.candidates[0])

    def test_its_device_is_plain_data_with_a_kind_and_a_name(self) -> None:
        with self.make() as measurer:
            device = measurer.device
        if device is not None:
            assert json.loads(json.dumps(device)) == device
            assert {"kind", "name"} <= set(device)
