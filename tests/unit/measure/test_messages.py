"""Messages between the tuning process and a worker, and what comes of a request."""

import math
import os
import select
import signal
import struct
import threading
import time

import pytest

from autotune.measure.candidate import CandidateError
from autotune.measure.pool.messages import (
    Channel,
    ChannelClosedError,
    GarbledMessageError,
    Message,
    channels,
)
from autotune.measure.pool.worker import answer
from autotune.measure.pool.worker_pool import (
    Worker,
    WorkerDiedError,
    WorkerPool,
    WorkerTimeoutError,
)
from autotune.measure.result import MeasureErrorNo


@pytest.fixture
def ends():
    here, end = channels()
    there = Channel(end)
    yield here, there
    here.close()
    there.close()


def test_messages_larger_than_a_buffer_arrive_whole_and_in_order(ends):
    here, there = ends
    message = Message({"text": "x" * 1_000_000}, os.urandom(3_000_000))

    def talk():
        here.send(*message)
        here.send({"n": 1})

    thread = threading.Thread(target=talk)
    thread.start()
    assert there.receive() == message
    assert there.receive() == Message({"n": 1})
    thread.join()


def test_half_a_message_is_none_yet(ends):
    here, there = ends
    os.write(there.fileno(), struct.pack("<II", 2, 3) + b"{}")
    assert here.poll() is None
    os.write(there.fileno(), b"abc")
    assert here.poll() == Message({}, b"abc")


def test_what_came_before_the_other_end_closed_is_still_read(ends):
    here, there = ends
    there.send({"n": 1})
    there.close()
    assert here.poll() == Message({"n": 1})
    with pytest.raises(ChannelClosedError):
        here.poll()
    with pytest.raises(ChannelClosedError):
        here.send({})


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 8,
        struct.pack("<II", 2, 0) + b"[]",
        struct.pack("<II", 3, 0) + b"{x}",
    ],
)
def test_what_is_no_message_is_refused(ends, data):
    here, there = ends
    os.write(there.fileno(), data)
    with pytest.raises(GarbledMessageError):
        here.poll()


# -- outcomes -----------------------------------------------------------------------------


@pytest.fixture
def asked(ends):
    """A worker that was asked something, and its end of the channel."""
    worker = Worker(ends[0])
    worker.ask({"op": "build"}, timeout_s=60.0)
    return worker, ends[1]


def test_a_request_has_no_outcome_before_there_is_an_answer(asked):
    worker, end = asked
    assert end.receive() == Message({"op": "build"})
    assert worker.outcome() is None
    end.send({"n": 1})
    assert worker.outcome() == Message({"n": 1})


def test_half_an_answer_that_nobody_ends_is_a_time_out(asked):
    worker, end = asked
    os.write(end.fileno(), struct.pack("<II", 100, 0) + b"{")
    worker.deadline = time.monotonic()
    assert worker.outcome() is None
    worker.deadline = time.monotonic()
    outcome = worker.outcome()
    assert isinstance(outcome, WorkerTimeoutError)
    assert str(outcome) == "no answer within 60 s"


def test_who_looks_late_was_perhaps_stopped_with_the_worker_and_gives_it_its_time_once_more(asked):
    worker, _ = asked
    worker.deadline = time.monotonic() - 100.0
    assert worker.outcome() is None
    assert 50.0 < worker.deadline - time.monotonic() <= 60.0
    worker.deadline -= 100.0
    assert isinstance(worker.outcome(), WorkerTimeoutError)


def test_a_long_answer_that_is_read_late_is_no_time_out(asked):
    worker, end = asked
    message = Message({}, bytes(1 << 24))
    sender = threading.Thread(target=end.send, args=message)
    sender.start()
    while not select.select([worker.channel], [], [], 1.0)[0]:
        pass
    worker.deadline = 0.0  # it was over before anybody looked
    while (outcome := worker.outcome()) is None:
        select.select([worker.channel], [], [], 1.0)
    sender.join()
    assert outcome == message


def test_an_end_held_open_by_a_stranger_does_not_hide_that_the_process_died(asked):
    worker, _ = asked
    worker.status = signal.SIGSEGV
    outcome = worker.outcome()
    assert isinstance(outcome, WorkerDiedError)
    assert (str(outcome), outcome.signal) == ("was killed by SIGSEGV", signal.SIGSEGV)


def test_the_last_answer_of_a_process_that_died_counts(asked):
    worker, end = asked
    end.send({"n": 1})
    end.close()
    worker.status = signal.SIGKILL
    assert worker.outcome() == Message({"n": 1})


def test_how_a_process_ended_is_waited_for_a_moment_once_it_is_silent(asked):
    worker, end = asked
    end.close()
    assert worker.outcome() is None
    assert worker.channel_closed
    worker.status = 3 << 8
    assert str(worker.outcome()) == "exited with code 3"


@pytest.mark.parametrize("status", [None, os.EX_IOERR << 8])
def test_a_process_that_lives_on_without_its_channel_has_closed_it(asked, status):
    worker, end = asked
    end.close()
    assert worker.outcome() is None
    worker.status, worker.deadline = status, 0.0
    assert str(worker.outcome()) == "closed its pipes"


def test_an_answer_that_is_none_is_a_death(asked):
    worker, end = asked
    os.write(end.fileno(), b"many words on many lines")
    outcome = worker.outcome()
    assert isinstance(outcome, WorkerDiedError)
    assert "instead of an answer" in str(outcome)


def test_asking_a_worker_that_is_gone_is_no_error_before_it_is_waited_for(ends):
    here, there = ends
    there.close()
    worker = Worker(here)
    worker.ask({"op": "build"}, timeout_s=60.0)
    worker.status = signal.SIGKILL
    assert str(worker.outcome()) == "was killed by SIGKILL"


def test_an_interrupt_that_comes_just_before_the_waiting_is_not_waited_with_for_long(
    asked, monkeypatch
):
    class Forks:
        deadline = math.inf

        def fileno(self):
            return asked[1].fileno()

        def reports(self):
            return []

    class Poller:
        def register(self, *_):
            pass

        def poll(self, milliseconds):
            waits.append(milliseconds)
            if milliseconds:
                raise KeyboardInterrupt  # it had come before

    waits = []
    monkeypatch.setattr(select, "poll", Poller)
    with pytest.raises(KeyboardInterrupt):
        WorkerPool(Forks()).next_outcome([asked[0]])  # whose answer has 60 s
    assert waits == [0, 5000]


def test_a_process_that_does_not_read_is_not_waited_for_longer_than_for_its_answer(ends):
    worker = Worker(ends[0])
    worker.ask({"op": "run"}, timeout_s=0.05, payload=bytes(1 << 24))
    assert isinstance(worker.outcome(), WorkerTimeoutError)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            CandidateError(MeasureErrorNo.COMPILE_HOST, "compile", "no such symbol"),
            {"code": "COMPILE_HOST", "stage": "compile", "message": "no such symbol"},
        ),
        (
            OSError("no room"),
            {"code": "UNKNOWN", "stage": "run", "message": "OSError: no room"},
        ),
    ],
)
def test_an_error_is_an_answer_that_says_where_it_happened(error, told):
    def fail(*_):
        raise error

    body, payload = answer(fail, Message({"op": "run"}))
    assert body["error"] == told
    assert body["max_error"] is None
    assert payload == b""
