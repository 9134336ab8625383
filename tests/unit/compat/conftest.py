"""Machines without a GPU, and with one that keeps arrays."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.fake_gpu import cupy as fake_cupy

from autotune.compat import devices
from autotune.errors import TargetError
from autotune.runtime.cuda import cupy_driver


@pytest.fixture(autouse=True)
def warned_of_nothing() -> Iterator[None]:
    """Let no test know that another one was warned."""
    devices._warn_once.cache_clear()
    yield
    devices._warn_once.cache_clear()


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise TargetError("no GPU is here")

    monkeypatch.setattr(cupy_driver, "device_count", refuse)


@pytest.fixture
def one_gpu(pretend_cupy: Callable[[Any], None]) -> Any:
    """Arrays of `gpu(0)` are those of a stand-in for CuPy."""
    pretend_cupy(fake_cupy)
    return fake_cupy
