"""The final comparison on several devices: each holds rounds of its own."""

import json
from dataclasses import replace

import pytest
from support.simulated_rounds import FASTER, Simulated, failing, logged_finals, run


class OnDevices(Simulated):
    """Devices of a fleet that differ: each round is held on all of them at the same time.

    slowness: of each device. lost: devices that have no result in a round.
    """

    def __init__(self, slowness, lost=lambda number: (), **more):
        super().__init__(**more)
        self.slowness, self.lost = slowness, lost

    def compare(self, configs, seconds, seed, fresh, check):
        (costs,) = super().compare(configs, seconds, seed, fresh, check)
        return [
            {
                index: result
                if result.error is not None
                else replace(
                    result,
                    costs_s=tuple(times * cost for cost in result.costs_s),
                    device={"kind": "cpu", "name": "CPU", "node": node},
                )
                for index, result in costs.items()
            }
            for node, times in self.slowness.items()
            if node not in self.lost(len(self.rounds))
        ]


def test_each_device_adds_rounds_and_no_ratio_is_of_two_devices(task, store):
    measurer = OnDevices({"a": 1.0, "b": 3.0, "c": 0.5})
    run(task, store, measurer)
    finals = logged_finals(store)
    chosen, default = finals[0], next(r for r in finals if r.index == 0)
    assert chosen.index == FASTER
    assert chosen.final["range"] == pytest.approx([1.25, 1.25])
    assert len(default.costs_s) == len({*default.final["rounds"]}) == len(default.final["nodes"])
    assert default.final["nodes"][:3] == ["a", "b", "c"]
    assert set(default.costs_s) == {1e-3, 3e-3, 0.5e-3}
    assert "node" not in default.device
    assert type(default).from_json(json.loads(default.to_json_line())) == default


def test_rounds_of_devices_that_are_lost_are_missing_and_the_others_count(task, store):
    measurer = OnDevices({"a": 1.0, "b": 3.0}, lost=lambda number: "b" if number > 2 else "")
    found = run(task, store, measurer)
    assert found.best.index == FASTER
    nodes = found.best.final["nodes"]
    assert 0 < nodes.count("b") < nodes.count("a")


def test_records_of_rounds_on_one_device_name_it_once(task, store):
    run(task, store, OnDevices({"a": 1.0}))
    for record in logged_finals(store):
        assert "nodes" not in record.final
        assert record.device["node"] == "a"


def test_who_fails_on_one_of_several_devices_is_out(task, store):
    found = run(task, store, OnDevices({"a": 1.0, "b": 1.0}, spoil=failing(FASTER)))
    assert found.best.index != FASTER
