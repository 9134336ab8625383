"""Work in a thread beside other things: when it is waited for, and what it raises."""

import contextlib
import threading

import pytest
from support.footprint import wait_for
from support.interrupts import interrupted_at_each_moment

from autotune.system import interrupts
from autotune.tuner.run import learner
from autotune.tuner.run.learner import BackgroundTask


@pytest.mark.parametrize(("error", "waits"), [(ValueError, True), (KeyboardInterrupt, False)])
def test_it_is_waited_for_after_an_error_but_not_after_an_interrupt(error, waits):
    goes_on, done = threading.Event(), threading.Event()

    def work(_):
        goes_on.wait(10)
        done.set()

    def fail():
        with BackgroundTask(work) as thinking:
            thinking.start()
            if waits:
                threading.Timer(0.05, goes_on.set).start()
            raise error

    with pytest.raises(error):
        fail()
    assert done.is_set() == waits
    goes_on.set()
    assert done.wait(10)


def test_what_it_raises_comes_out_at_the_end_and_it_does_not_begin_once_waited_for():
    def work(_):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"), BackgroundTask(work) as thinking:
        thinking.start()
    with BackgroundTask(work) as thinking:
        thinking.wait()
        thinking.start()
        assert not thinking.is_running


def test_without_a_thread_it_is_done_at_once_with_a_piece_of_what_can_wait():
    begun, pieces = [], []

    def work(waited_for):
        begun.append(threading.get_ident())
        while not waited_for():
            pieces.append(len(pieces))

    with BackgroundTask(work, in_thread=False) as thinking:
        assert begun == []
        thinking.start()
        assert (begun, pieces) == ([threading.get_ident()], [0])
        assert not thinking.is_running
    with BackgroundTask(work, in_thread=False) as thinking:
        thinking.wait()
        thinking.start()
    assert len(begun) == 1


def test_no_interrupt_of_who_waits_keeps_it_from_its_end():
    begun, ended = [], []

    def work(waited_for):
        begun.append(1)
        while not waited_for():
            pass
        ended.append(1)

    def wait():
        with BackgroundTask(work) as thinking:
            thinking.start()
            thinking.wait()

    modules = [learner, interrupts, contextlib, threading]
    count = sum(1 for _ in interrupted_at_each_moment(wait, modules))
    assert count > 10
    wait_for(lambda: len(ended) == len(begun), 10.0)
