"""Functions that run at the same time: one goes on until it waits, and all wait at once."""

import _thread
import threading

import pytest

from autotune.system.cooperative_threads import CooperativeThreads


class Machine:
    """A clock on which time passes while all wait, and tickets that are ready at some time."""

    def __init__(self, ready_at=()):
        self.now = 0.0
        self.ready_at = dict(ready_at)
        self.threads = CooperativeThreads(self.wait_any, lambda: self.now)
        self.waits = 0

    def wait_any(self, tickets, seconds):
        self.waits += 1
        end = self.now + seconds
        first = min((self.ready_at[ticket] for ticket in tickets), default=end)
        self.now = max(self.now, min(first, end))
        return [ticket for ticket in tickets if self.ready_at[ticket] <= self.now]

    def sleep(self, seconds):
        self.threads.wait((), seconds)


def test_functions_wait_at_the_same_time_and_go_on_in_the_order_of_their_ends():
    machine, seen = Machine(), []

    def sleeper(name, seconds):
        def run():
            for _ in range(3):
                machine.sleep(seconds)
                seen.append((name, machine.now))

        return run

    machine.threads.run([sleeper("slow", 3.0), sleeper("fast", 1.0)])
    assert machine.now == 9.0
    assert [each for each in seen if each[0] == "fast"] == [("fast", t) for t in (1.0, 2.0, 3.0)]
    assert [each for each in seen if each[0] == "slow"] == [("slow", t) for t in (3.0, 6.0, 9.0)]


def test_a_function_gets_those_of_its_own_tickets_that_are_ready():
    machine, got = Machine({"a": 1.0, "b": 2.0, "c": 2.0}), {}

    def waiter(name, *tickets):
        return lambda: got.update({name: (machine.threads.wait(tickets, 9.0), machine.now)})

    machine.threads.run([waiter("x", "a"), waiter("y", "b", "c")])
    assert got == {"x": (["a"], 1.0), "y": (["b", "c"], 2.0)}


def test_a_wait_ends_when_its_time_is_over():
    machine, got = Machine({"never": 100.0}), []
    machine.threads.run([lambda: got.append(machine.threads.wait(["never"], 5.0))])
    assert (got, machine.now) == ([[]], 5.0)


def test_only_one_function_runs_at_a_time():
    machine, running, most = Machine(), [], 0

    def run():
        nonlocal most
        for _ in range(20):
            running.append(threading.get_ident())
            most = max(most, len(running))
            sum(range(2000))  # long enough to be interrupted, if another could run
            running.pop()
            machine.sleep(1.0)

    machine.threads.run([run] * 4)
    assert (most, machine.now) == (1, 20.0)


def test_an_exception_ends_the_others_where_they_wait():
    machine, ended = Machine(), []

    def fails():
        machine.sleep(2.0)
        raise ValueError("broken")

    def waits():
        try:
            machine.sleep(100.0)
            ended.append("not reached")
        finally:
            ended.append(machine.now)

    with pytest.raises(ValueError, match="broken"):
        machine.threads.run([waits, fails])
    assert ended == [2.0]


def test_an_interrupt_while_all_wait_ends_them_in_order():
    machine, ended = Machine(), []

    def waits():
        try:
            machine.sleep(1.0)
            machine.sleep(1.0)
        finally:
            ended.append(machine.now)

    def interrupted(tickets, seconds):
        if machine.now:
            raise KeyboardInterrupt
        return machine.wait_any(tickets, seconds + 1.0)

    machine.threads = CooperativeThreads(interrupted, lambda: machine.now)
    with pytest.raises(KeyboardInterrupt):
        machine.threads.run([waits, waits])
    assert ended == [1.0, 1.0]


def test_an_interrupt_while_one_runs_lets_it_go_on_to_its_next_wait():
    machine, ended = Machine(), []
    go_on = threading.Event()

    def works():
        _thread.interrupt_main()
        go_on.wait(0.2)  # the main thread gets the interrupt meanwhile
        ended.append("worked")
        try:
            machine.sleep(1.0)
        finally:
            ended.append("ended")

    def waits():
        try:
            machine.sleep(5.0)
        finally:
            ended.append("others, too")

    with pytest.raises(KeyboardInterrupt):
        machine.threads.run([waits, works])
    assert sorted(ended) == ["ended", "others, too", "worked"]
    assert ended.index("worked") < ended.index("ended")


def test_what_can_no_longer_be_waited_for_is_told_to_all():
    told = []

    def gone(tickets, seconds):
        raise OSError("the cluster is gone")

    threads = CooperativeThreads(lambda *_: (), lambda: 0.0)

    def waits():
        threads._wait_any = gone  # it was there when the functions began
        try:
            threads.wait(["a"], 1.0)
        except OSError as error:
            told.append(str(error))

    threads.run([waits, waits])
    assert told == ["the cluster is gone"] * 2
