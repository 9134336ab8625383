"""Rounds of the final comparison: what is built for them, and why one is lost, in words."""

import pytest

from autotune.measure.comparison_rounds import KEPT, Rounds
from autotune.measure.pool.messages import Message
from autotune.measure.pool.worker_pool import WorkerDiedError, WorkerTimeoutError
from autotune.measure.pool.worker_slot import Response
from autotune.measure.result import MeasureInput
from autotune.measure.scheduler import BuildJob

BUILT = Response("build", Message({"code_hash": "aa", "kernels": None}), (0.0, 1.0))
ENTERED = Response("enter", Message({"max_error": 0.0}), (1.0, 2.0))
ERROR = {"code": "UNKNOWN", "stage": "round", "message": "no memory is left"}


class Config:
    def __init__(self, index=3):
        self.index = index


class FakeScheduler:
    """Builds and enters whatever it is given; a round ends as the test says."""

    runner = object()

    def __init__(self, outcome):
        self.outcome = outcome
        self.built = []

    def build(self, jobs):
        self.built += [job.candidate.config.index for job in jobs]
        for job in jobs:
            job.response = BUILT

    def load_for_round(self, job):
        return ENTERED

    def ask_alone(self, op, timeout_s, request):
        return Response(op, self.outcome, (2.0, 3.0))


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (Message({"error": ERROR, "max_error": None, "fatal": False}), "no memory is left"),
        (WorkerDiedError("was killed by SIGSEGV"), "the process was killed by SIGSEGV while runn"),
        (WorkerTimeoutError("no answer within 12 s"), "running took longer than 12 s"),
    ],
)
def test_a_round_that_is_lost_says_why(outcome, why, caplog):
    rounds = Rounds(FakeScheduler(outcome), 10.0)
    found = rounds.compare([Config()], 0.5, 0, fresh=False, check=True)
    assert found == {}
    assert f"a round of the final comparison is lost: {why}" in caplog.text


def test_only_what_was_no_trial_of_this_run_is_built_again():
    scheduler = FakeScheduler(WorkerDiedError("was killed"))
    rounds = Rounds(scheduler, 10.0)
    rounds.keep(BuildJob(MeasureInput(Config(5)), response=BUILT), 1e-3)
    rounds.compare([Config(5), Config(7)], 0.5, 0, fresh=False, check=True)
    assert scheduler.built == [7]


def test_the_machine_code_of_the_fastest_trials_is_kept():
    rounds = Rounds(FakeScheduler(None), 10.0)
    for index in range(KEPT + 3):
        rounds.keep(BuildJob(MeasureInput(Config(index)), response=BUILT), 1.0 / (1 + index % 50))
    assert len(rounds.built) == KEPT
    assert {*range(KEPT + 3)} - {*rounds.built} == {0, 1, 50}
