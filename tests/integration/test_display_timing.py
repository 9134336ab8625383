"""A run is drawn between timings of kernels, and never during one."""

import io
import time

from support.fake_measurer import tune

from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.timing_policy import TimingPolicy
from autotune.report.display.live_region import LiveRegion
from autotune.report.display.panel import UNICODE
from autotune.report.display.run_display import LiveDisplay
from autotune.report.progress import RunProgress, WorkloadInfo
from autotune.report.units import Work
from autotune.task.task import Task
from autotune.tuner.run.events import Measured
from autotune.tuner.search.baselines import RandomTuner
from records import RecordStore


class Clocked(io.StringIO):
    """Remembers when it was written to, in Unix seconds."""

    def __init__(self):
        super().__init__()
        self.times = []

    def write(self, text):
        self.times.append(time.time())
        return super().write(text)


def test_nothing_is_drawn_while_a_kernel_is_built_or_timed(tmp_path):
    task = Task.from_reference("matmul", {"m": 32, "n": 32, "k": 32})
    stream, spans = Clocked(), []
    display = LiveDisplay(RunProgress(), [].append, LiveRegion(stream, colour=False), UNICODE)

    def watch(event):
        if isinstance(event, Measured):
            spans.extend(filter(None, (event.result.build_span, event.result.run_span)))
        display.on_event(event)

    quick = TimingPolicy(repeats=2, min_repeat_ms=1)
    with LocalMeasurer(task.template_ref, task.args, task.target, quick) as measurer, display:
        display.open_job(
            WorkloadInfo(task.workload, "llvm", "log.jsonl", 0, Work(task.flops, task.bytes))
        )
        store = RecordStore(tmp_path / "log.jsonl")
        tune(task, measurer, RandomTuner(task.space, 0), store, 10, seed=0, on_event=watch)
    assert len(spans) >= 10
    assert len(stream.times) >= 3
    for begin, end in spans:
        assert not [at for at in stream.times if begin < at < end]
    assert "10/10" in stream.getvalue()
