"""A round that is lost: the warning says why, in words."""

import pytest

from autotune.measure.comparison_rounds import Rounds
from autotune.measure.pool.messages import Message
from autotune.measure.pool.worker_pool import WorkerDiedError, WorkerTimeoutError
from autotune.measure.pool.worker_slot import Response

BUILT = Response("build", Message({"code_hash": "aa", "binary": None, "kernels": None}), (0.0, 1.0))
ENTERED = Response("enter", Message({"max_error": 0.0}), (1.0, 2.0))
ERROR = {"code": "UNKNOWN", "stage": "round", "message": "no memory is left"}


class Config:
    index = 3


class FakeScheduler:
    """Builds and enters whatever it is given; a round ends as the test says."""

    runner = object()

    def __init__(self, outcome):
        self.outcome = outcome

    def build(self, jobs):
        for job in jobs:
            job.response = BUILT

    def load_for_round(self, job):
        return ENTERED

    def time_round(self, request, timeout_s):
        return Response("round", self.outcome, (2.0, 3.0))


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
