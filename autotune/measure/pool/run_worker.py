"""What a runner does: it checks the answers of candidates and times them."""

from __future__ import annotations

import pickle
from typing import Any

from autotune.measure.candidate import WorkloadDescription
from autotune.measure.pool.build_worker import requested_task
from autotune.measure.pool.messages import Message
from autotune.measure.run_bench import RunBench
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime.backends import backend_of
from autotune.system.processes import refuse_forks
from autotune.target import Target


class Runner:
    """Answers "open", "run", "enter", "round", "ceiling" and "baseline"."""

    def __init__(self) -> None:
        self.operations = {
            "open": self._open,
            "run": self._run,
            "enter": self._enter,
            "round": self._round,
            "ceiling": self._ceiling,
            "baseline": self._baseline,
        }
        self._bench: RunBench | None = None
        self._target = Target("llvm")
        self._entered: dict[int, Any] = {}

    def _open(self, request: dict[str, Any], payload: bytes) -> Message:
        subject = WorkloadDescription.from_json(request["subject"])
        self._target = Target.of(subject.target)
        unscheduled = None
        if request["check"] and request["binary"] is not None:
            host = backend_of(self._target.host)
            unscheduled = host.take_device(self._target.host).load(pickle.loads(payload))
        task = requested_task(request)
        device = backend_of(self._target).take_device(self._target)
        self._bench = RunBench(
            device,
            subject,
            task.reference if request["check"] else None,
            unscheduled,
            TimingPolicy.from_json(request["policy"]),
            request["seed"],
            task.inputs,
        )
        if device.is_host:
            refuse_forks()  # from now on there are only kernels to run
        bench = self._bench
        told = {"reference": bench.reference, "notes": bench.notes, "checks": bench.checks}
        return Message(told)

    def _run(self, request: dict[str, Any], payload: bytes) -> Message:
        assert self._bench is not None
        return Message(vars(self._bench.run(self._loaded(payload), request["incumbent_s"])))

    def _enter(self, request: dict[str, Any], payload: bytes) -> Message:
        assert self._bench is not None
        loaded = self._loaded(payload)
        max_error = self._bench.enter(loaded)
        self._entered[request["number"]] = loaded
        return Message({"max_error": max_error})

    def _round(self, request: dict[str, Any], _: bytes) -> Message:
        assert self._bench is not None
        kernels = [self._entered[number] for number in request["numbers"]]
        done = self._bench.round(kernels, request["seconds"], request["seed"])
        return Message({"costs_s": done.costs_s, "noise": done.noise, "clocks": done.clocks})

    def _ceiling(self, _request: dict[str, Any], _: bytes) -> Message:
        assert self._bench is not None
        known = len(self._bench.notes)
        ceiling = self._bench.ceiling().to_json()
        return Message({"ceiling": ceiling, "notes": self._bench.notes[known:]})

    def _baseline(self, _request: dict[str, Any], _: bytes) -> Message:
        assert self._bench is not None
        return Message({"baseline": self._bench.baseline()})

    def _loaded(self, payload: bytes) -> Any:
        """Load a candidate."""
        assert self._bench is not None
        return self._bench.load(pickle.loads(payload))
