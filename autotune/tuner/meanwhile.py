"""Something to do in a thread while this one waits for others, up to a moment of its choice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor


@contextlib.contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[Callable[[], object]]:
    """Do some work in a thread; yield what waits until it is done, and raises what it raised.

    It is waited for at the end in any case.
    """
    with ThreadPoolExecutor(1, "meanwhile") as pool:
        done = pool.submit(work)
        yield done.result
        done.result()
