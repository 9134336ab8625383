"""Interrupts at each moment of some code: whenever Python looks whether a signal has come."""

from __future__ import annotations

import _thread
import contextlib
import dis
import functools
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from types import CodeType, FrameType, ModuleType
from typing import Any

from autotune.system.interrupts import raise_interrupt, raise_kept

_CALLS = ("CALL", "CALL_FUNCTION_EX", "CALL_KW")


class _Arrival:
    """Lets a signal, given as a key, have come: that is no call, so Python does not look yet."""

    __getitem__ = _thread.interrupt_main


_arrival = _Arrival()


def _interrupt() -> None:
    if signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
        signal.raise_signal(signal.SIGINT)  # it comes when it may
    else:
        _arrival[signal.SIGINT]


@functools.cache
def moments(code: CodeType) -> frozenset[int]:
    """Return where Python looks for signals: as code begins, after calls, and at jumps back."""
    return frozenset(
        step.offset
        for step in dis.get_instructions(code)
        if step.opname in ("RESUME", *_CALLS) or "JUMP_BACKWARD" in step.opname
    )


def interrupted_at_each_moment(
    action: Callable[[], object], modules: Collection[ModuleType]
) -> Iterator[KeyboardInterrupt]:
    """Do something again and again, and interrupt it a moment later each time, until it is done.

    The moments are those of the code of some modules. Each interrupt is handed out as who catches
    it has it, with all the frames that it has left.
    """
    files = {str(module.__file__) for module in modules}
    before = signal.signal(signal.SIGINT, lambda *_: raise_interrupt(KeyboardInterrupt()))
    try:
        _interrupted(action, files, sys.maxsize)  # from then on Python traces instructions, surely
        number = 0
        while (interrupt := _interrupted(action, files, number)) is not None:
            yield interrupt
            number += 1
    finally:
        signal.signal(signal.SIGINT, before)
        with contextlib.suppress(KeyboardInterrupt):  # none is left to what comes next
            raise_kept()
    assert number > 0


def _interrupted(
    action: Callable[[], object], files: Collection[str], moment: int
) -> KeyboardInterrupt | None:
    """Return the interrupt that was raised; None if the action has no moment of this number."""
    left = moment

    def look(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and frame.f_lasti in moments(frame.f_code):
            left -= 1
            if left == -1:
                sys.settrace(None)
                _interrupt()
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        action()
    except KeyboardInterrupt as interrupt:
        return interrupt
    finally:
        sys.settrace(before)
    assert left >= 0, f"the interrupt at moment {moment} was lost"
    return None
