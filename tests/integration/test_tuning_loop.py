"""The tuning loop: what it records, resumes from, and makes of other runs on the same log."""

from pathlib import Path

from support.fake_measurer import FakeMeasurer, run

import autotune
from autotune import te
from autotune.measure.timing_policy import TimingPolicy
from autotune.reuse import choose
from autotune.task.task import Task, code_hash
from autotune.tuner.base import Observation
from autotune.tuner.run.events import End, Finished, Measured, Started
from autotune.tuner.run.trials import Trials
from autotune.tuner.search.baselines import GridTuner
from records import Record, RecordStore

PLAIN = f"{Path(__file__).parent / 'faulty_templates' / 'faulty.py'}:plain"


def test_every_measurement_is_a_record_with_all_that_it_depends_on(task, store):
    run(task, store, 3, FakeMeasurer(failing=[1]))
    first, failed, _ = store.load()
    assert first.workload == task.workload.to_json()
    assert (first.target, first.seed) == ("llvm", 0)
    assert first.config == task.space.config(0).to_json()
    assert first.policy == TimingPolicy().to_json()
    assert first.device["kind"] == "cpu"
    assert first.versions["numpy"]
    assert first.fingerprints == {**task.fingerprints, "code": "0"}
    assert (first.costs_s, first.build_s) == ((1.0,), 0.5)
    assert failed.error == {"code": "RUN_TIMEOUT", "stage": "run", "message": "slow"}
    assert failed.costs_s is None


def test_a_record_rebuilds_its_schedule_without_the_template(task, store):
    run(task, store, 3)
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] + 1, name="B")
    for record in store.load():
        s = te.create_schedule(B.op, steps=record.steps)
        loops = autotune.lower(s, [A, B], name="plain")
        assert code_hash(loops) == code_hash(task.final(record.index))


def test_a_finished_run_measures_nothing_again_and_a_larger_number_continues(task, store):
    _, first = run(task, store, 5, FakeMeasurer(failing=[1, 2]))
    again, second = run(task, store, 5)
    more, third = run(task, store, 8)
    assert second.asked == []
    assert (again.trials, again.measured, again.failures) == (5, 0, {"RUN_TIMEOUT": 2})
    assert (more.trials, more.measured) == (8, 3)
    indices = [record.index for record in store.load()]
    assert len(indices) == len(set(indices)) == 8
    assert not set(first.asked) & set(third.asked)


def test_records_of_other_workloads_and_targets_do_not_count(task, store):
    run(task, store, 2)
    for other in (
        Task.from_reference(PLAIN, {"n": 128}),
        Task.from_reference(PLAIN, {"n": 64}, "llvm -threads=1"),
    ):
        _, measurer = run(other, store, 2)
        assert len(measurer.asked) >= 2
    assert len(store.load()) == 6


def test_the_tuner_is_told_what_the_log_knows(task, store):
    run(task, store, 3, FakeMeasurer(failing=[1]))
    tuner = GridTuner(task.space, 0)
    run(task, store, 3, tuner=tuner)
    assert tuner.observations == [
        Observation(0, 1.0),
        Observation(1, None, "RUN_TIMEOUT"),
        Observation(2, 3.0),
    ]


def changed(record, **fields):
    return Record.from_json(record.to_json() | fields)


def test_records_of_an_earlier_version_of_the_template_are_neither_trials_nor_told(
    task, store, caplog
):
    run(task, store, 2)
    first, second = store.load()
    store.path.unlink()
    gone = {"index": 0, "values": {"former_knob": 1}}
    edited = {**first.fingerprints, "template": "0123"}
    store.append([changed(first, fingerprints=edited), changed(first, config=gone), second])
    tuner = GridTuner(task.space, 0)
    summary, measurer = run(task, store, 2, tuner=tuner)
    assert (summary.trials, summary.measured) == (2, 1)
    assert measurer.asked[0] == 0  # measured again, beside the old record
    assert [o.index for o in tuner.observations] == [0, 1]
    assert [r.index for r in store.load()] == [0, 0, 1, 0]
    assert caplog.messages == [
        "1 record of plain(n=64) does not count: measured with an earlier version of this template",
        "1 record of plain(n=64) does not count: the configuration is not in today's space",
    ]


def test_records_that_are_not_believed_are_counted_and_measured_again(task, store, caplog):
    run(task, store, 2)
    first, second = store.load()
    store.path.unlink()
    absurd = [changed(first, costs_s=[k * 1e-12], timestamp=float(k)) for k in range(1, 5)]
    store.append([*absurd, second])
    tuner = GridTuner(task.space, 0)
    summary, measurer = run(task, store, 2, tuner=tuner)
    assert (summary.trials, summary.measured) == (2, 1)
    assert measurer.asked[0] == 0
    assert {o.index: o.cost_s for o in tuner.observations} == {0: 1.0, 1: 2.0}
    assert summary.best.cost_s == 1.0
    assert caplog.messages == [
        "4 records of plain(n=64) do not count: the time is less than any such device needs"
    ]
    again, measurer = run(task, store, 2)
    assert (again.measured, measurer.asked) == (0, [])


def test_a_build_does_not_use_records_of_an_earlier_version(task, store, caplog):
    run(task, store, 2)
    fast, slow = store.load()
    old = changed(fast, fingerprints={**fast.fingerprints, "template": "0123"})
    assert choose(task, [old, slow]).record == slow
    assert "1 record of plain(n=64) is measured with an earlier version" in caplog.text
    unmarked = changed(old, fingerprints={})
    assert choose(task, [unmarked, slow]).record == slow
    assert "1 record of plain(n=64) is without the version of its template" in caplog.text


class Meanwhile(FakeMeasurer):
    """Does something while candidate 1 is measured."""

    def __init__(self, do):
        super().__init__()
        self.do = do

    def run(self, candidate):
        result = super().run(candidate)
        if self.asked == [0, 1]:
            self.do()
        return result


def test_what_another_run_logs_counts_and_what_it_measures_is_left_to_it(task, store):
    others = FakeMeasurer()
    tuner = GridTuner(task.space, 0)
    events = []
    summary, measurer = run(
        task,
        store,
        5,
        Meanwhile(lambda: run(task, store, 3, others)),
        tuner,
        batch=1,
        on_event=events.append,
    )
    assert measurer.asked == [0, 1, 4]
    assert others.asked[:2] == [2, 3]  # 0 is there, and 1 is being measured
    assert [record.index for record in store.load()] == [0, 2, 3, 1, 4]
    assert [o.index for o in tuner.observations] == [0, 1, 2, 3, 4]
    assert (summary.trials, summary.measured) == (5, 3)
    assert [event.trial for event in events if isinstance(event, Measured)] == [1, 4, 5]


def test_of_two_records_of_one_configuration_the_first_counts(task, store, tmp_path):
    elsewhere = RecordStore(tmp_path / "elsewhere.jsonl")
    run(task, elsewhere, 2, FakeMeasurer(failing=[1]))
    failed = elsewhere.load()[1]
    tuner = GridTuner(task.space, 0)
    summary, _ = run(task, store, 3, Meanwhile(lambda: store.append([failed])), tuner)
    assert [(r.index, r.ok) for r in store.load()] == [(0, True), (1, False), (2, True)]
    assert (summary.trials, summary.measured) == (3, 2)
    assert [o.ok for o in tuner.observations] == [True, False, True]


def test_what_another_run_gave_up_is_measured_when_nothing_else_is_left(task, store):
    feasible = len(task.space.feasible_indices())
    other = Trials(task, store, TimingPolicy(), 0)
    assert other.claim(1)
    assert other.claim(2)
    summary, measurer = run(task, store, feasible, Later(task, other))
    assert measurer.asked.index(1) == feasible - 2
    assert 2 not in measurer.asked
    assert summary.ended is End.EXHAUSTED
    assert summary.trials == feasible - 1


class Later(FakeMeasurer):
    """Another run gives up candidate 1 while this one measures the last of the others."""

    def __init__(self, task, other):
        super().__init__()
        self.last = task.space.feasible_indices()[-1]
        self.other = other

    def run(self, candidate):
        if candidate.config.index == self.last:
            self.other.close()
            assert self.other.claim(2)
        return super().run(candidate)


def test_a_record_is_found_by_its_values_even_if_its_index_has_moved(task, store):
    run(task, store, 1)
    (record,) = store.load()
    moved = record.to_json() | {"config": {"index": 7, "values": record.config["values"]}}
    store.path.unlink()
    store.append([Record.from_json(moved)])
    tuner = GridTuner(task.space, 0)
    run(task, store, 1, tuner=tuner)
    assert [o.index for o in tuner.observations] == [0]


def test_the_measurer_remembers_comparable_successes_of_the_log_only(task, store):
    run(task, store, 3, FakeMeasurer(failing=[1]))
    records = store.load()
    store.append([Record.from_json(records[0].to_json() | {"versions": {"python": "2.7"}})])
    _, measurer = run(task, store, 4)
    assert [r.code_hash for r in measurer.remembered] == ["0", "2"]
    assert measurer.remembered[0].costs_s == (1.0,)


def test_events_tell_the_beginning_each_trial_and_the_end(task, store):
    run(task, store, 2)
    events = []
    summary, _ = run(task, store, 4, on_event=events.append)
    started, *measured, finished = events
    assert isinstance(started, Started)
    assert (started.trials, started.recorded, started.best.index) == (4, 2, 0)
    assert all(isinstance(event, Measured) for event in measured)
    assert [(event.trial, event.trials, event.best.index) for event in measured] == [
        (3, 4, 0),
        (4, 4, 0),
    ]
    assert isinstance(finished, Finished)
    assert finished.summary == summary


def test_an_event_of_a_trial_comes_after_its_record_is_on_disk(task, store):
    on_disk = []
    run(task, store, 3, on_event=lambda event: on_disk.append(len(store.load())))
    assert on_disk == [0, 1, 2, 3, 3]
