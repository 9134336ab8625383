"""Forks command lines of autotune off a process that has imported everything: 10 ms, not 400.

``python command_server.py FD``, a socket. A request is JSON with descriptors beside it. What is
forked goes on as the command itself does, or as the fork server of a measurer in a test.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import socket
import sys
import termios
from collections.abc import Iterator
from typing import Any, NoReturn, TextIO

PACKAGES = ("autotune", "features", "records", "search_spaces")
LIBRARIES = ("optuna", "matplotlib.figure")
# They need a library that need not be installed.
OPTIONAL = {"autotune.fleet.ray_cluster"}


def serve(connection: socket.socket) -> dict[str, Any]:
    """Fork a process per request, and return the request in each of them."""
    connection.sendall(b"ready")
    started: dict[int, tuple[int, int]] = {}
    while True:
        ready, _, _ = select.select([connection, *started], [], [])
        for ended in started.keys() & set(ready):
            pid, reply = started.pop(ended)
            os.write(reply, str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
            os.close(reply)
            os.close(ended)
        if connection not in ready:
            continue
        message, fds, _, _ = socket.recv_fds(connection, 1 << 20, 4)
        if not message:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            connection.detach()
            request = json.loads(message)
            if "fork server" in request:
                serve_forks(request, fds[1:])
            return _become(request, fds[1:])
        os.write(fds[0], f"{pid} ".encode())
        started[os.pidfd_open(pid)] = (pid, fds[0])
        for fd in fds[1:]:
            os.close(fd)


def serve_forks(request: dict[str, Any], ends: list[int]) -> NoReturn:
    """Be the fork server of a measurer, in its folder and environment."""
    from quick_runs import serve_as_fork_server

    os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    serve_as_fork_server((ends[0], ends[1]), ends[2])


def _become(request: dict[str, Any], streams: list[int]) -> dict[str, Any]:
    """Turn this process into one that was started for the request."""
    os.setsid()
    given = dict(zip(request["streams"], streams, strict=True))
    for number in (0, 1, 2):
        if number in given:
            os.dup2(given[number], number)
        else:
            os.close(number)
    os.closerange(3, 256)
    if request["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.stdin, sys.stdout, sys.stderr = _text(0, "r"), _text(1, "w"), _text(2, "w")
    if request["unprivileged"] and os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    return request


def _text(number: int, mode: str) -> TextIO | None:
    """Open a standard stream as the interpreter does."""
    try:
        os.fstat(number)
    except OSError:
        return None
    errors = "backslashreplace" if number == 2 else "strict"
    buffering = 1 if mode == "w" and (number == 2 or os.isatty(number)) else -1
    return open(number, mode, buffering, "utf-8", errors, closefd=False)


def _modules() -> Iterator[str]:
    """Name every module of the project: an unprivileged command can import none of its own."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__") and module.name not in OPTIONAL:
                yield module.name


def _prepare() -> None:
    """Import what commands import, also what the first mistake does."""
    for module in (*LIBRARIES, *_modules()):
        importlib.import_module(module)
    from quick_runs import make_runs_quick

    from autotune.cli.main import main
    from autotune.cost_model.xgboost_model import load_alone

    load_alone()
    make_runs_quick()
    with contextlib.redirect_stderr(io.StringIO()):
        main(["run", "no_such_template"])
    gc.freeze()


if __name__ == "__main__":
    _prepare()
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        asked = serve(channel)
    from autotune.cli.entry import entry

    if asked["setup"]:
        exec(asked["setup"])
    sys.argv[1:] = [os.fsdecode(word.encode("latin-1")) for word in asked["words"]]
    entry()
