"""Options and fixtures of all tests; helpers are imported from `support`."""

from __future__ import annotations

import compileall
import functools
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Protocol

import pytest
from support.command_line import CommandServer, Ended

BEGUN: dict[str, str] = {}  # The environment in which the command server was started.
GOLDEN = Path(__file__).parent / "golden"
ROOT = GOLDEN.parents[1]
SOURCES = ("autotune", "features", "records", "search_spaces", "tests/support")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files instead of comparing"
    )


def pytest_collection_finish() -> None:
    """Look through none of what is there before the first test, whenever garbage is collected."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give whole files to the processes of `-n`: what tests of a file share is made once.

    The files keep their order, in which those that take longest are not the last.
    """
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the user's folder of compiled code nor what other tests compiled is used."""
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """A log that is not there yet."""
    from records import RecordStore

    return RecordStore(tmp_path / "log.jsonl")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that compares a text with a file in tests/golden, or writes the file."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} is missing: run pytest --update-golden and look at it"
        assert text == path.read_text()

    return compare


@pytest.fixture(scope="module")
def cupy() -> Any:
    """CuPy, on a machine with a GPU."""
    from autotune.runtime.cuda import cupy_driver

    cupy_driver.device_count()
    return cupy_driver.cupy()


@pytest.fixture
def pretend_cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], None]]:
    """Return a function that puts something in CuPy's place; no test knows another's GPUs."""
    from autotune.runtime.cuda import cupy_driver

    known = (cupy_driver.arch_of, cupy_driver.limits_of)

    def pretend(made: Any) -> None:
        monkeypatch.setattr(cupy_driver, "cupy", lambda: made)
        monkeypatch.setattr(cupy_driver, "driver_version", lambda: (12, 9))
        for cached in known:
            cached.cache_clear()

    yield pretend
    for cached in known:
        cached.cache_clear()


@pytest.fixture
def fake(pretend_cupy: Callable[[Any], None]) -> Any:
    """Let the runtime find two GPUs of sm_90 that take every launch and compute nothing."""
    from support.fake_cuda import FakeCuda

    made = FakeCuda()
    pretend_cupy(made)
    return made


@pytest.fixture(scope="session")
def server() -> Iterator[CommandServer]:
    """Start commands in milliseconds: they are forked off a process that has imported them."""
    BEGUN.update(os.environ)
    with CommandServer() as commands:
        yield commands


#: Variables that a fork server may find changed, since it reads them late.
READ_LATE = ("AUTOTUNE_CACHE_DIR", "PYTEST_CURRENT_TEST")


@pytest.fixture
def quick_fork_servers(server: CommandServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the fork servers of this process's measurers off the command server.

    Those are started as usual that another environment makes something else.
    """
    from autotune.measure.pool import fork_server_client

    start = fork_server_client._start_supervisor

    def start_quickly(ends: tuple[int, int], log: IO[bytes]) -> Any:
        changed = dict(os.environ.items() ^ BEGUN.items())
        forked = set(changed) <= {*READ_LATE}
        return (server.start_fork_server if forked else start)(ends, log)

    monkeypatch.setattr(fork_server_client, "_start_supervisor", start_quickly)


class Call(Protocol):
    """Runs a command line, by default in a folder of the test's own, and waits for its end."""

    def __call__(self, *words: object, cwd: Path | None = None, **how: Any) -> Ended: ...


@pytest.fixture
def call(server: CommandServer, tmp_path: Path) -> Call:
    def run(*words: object, cwd: Path | None = None, **how: Any) -> Ended:
        return server.start([str(word) for word in words], cwd or tmp_path, **how).ended()

    return run


def _keep_compiled_code(config: pytest.Config) -> None:
    """Let compiled code be kept where there is no home folder, as for a service of the system."""
    if not Path.home().is_dir() and "AUTOTUNE_CACHE_DIR" not in os.environ:
        folder = tempfile.mkdtemp(prefix="autotune-tests-")
        config.add_cleanup(functools.partial(shutil.rmtree, folder, ignore_errors=True))
        os.environ["AUTOTUNE_CACHE_DIR"] = folder


def _compile_sources(config: pytest.Config) -> None:
    """Compile our packages once: tests start hundreds of processes that import them.

    Where PYTHONDONTWRITEBYTECODE is set, each of them would compile them again, which takes longer
    than all else that it does to start.
    """
    if not hasattr(config, "workerinput"):  # processes of `-n` start after this
        for folder in SOURCES:
            compileall.compile_dir(ROOT / folder, quiet=2)


def pytest_configure(config: pytest.Config) -> None:
    """Take signals as usual, also where the tests are started in the background.

    A shell has its background jobs ignore some, and every process they start would too. Commands
    that are tested read no settings of whoever runs the tests, nor how wide their terminal is and
    whether they want colours; others may read what tests write.
    Random examples are the same in every run; AUTOTUNE_EXAMPLES=n, which some tests take as their
    number, makes them others each time, and lets tests take as long as that takes. Constants of
    the modules that are loaded are not among them, for which modules those are depends on the
    tests that the process ran before; nor does it count how long a busy machine takes to draw them.
    """
    _compile_sources(config)
    _keep_compiled_code(config)
    from hypothesis import HealthCheck, settings
    from hypothesis.internal.conjecture import providers

    providers.is_local_module_file = lambda path: False
    settings.register_profile(
        "the same",
        derandomize="AUTOTUNE_EXAMPLES" not in os.environ,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("the same")
    if "AUTOTUNE_EXAMPLES" in os.environ and config.option.timeout is None:
        config.option.timeout = 0
    os.environ["AUTOTUNE_CONFIG_DIR"] = "/there is no such folder"
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        os.environ.pop(name, None)
    os.umask(0o022)
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, usual)
