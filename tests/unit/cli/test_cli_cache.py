"""`autotune cache`: what it counts, what it deletes and what it leaves, also beside other runs."""

import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from autotune.cli.main import main
from autotune.report.units import age_text, size_text
from autotune.runtime.object_cache import ObjectCache, cache_key
from autotune.system.environment_variables import cache_folder, config_folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path))
    return tmp_path / "objects"


def filled(folder: Path, count: int = 3) -> list[str]:
    keys = [cache_key(str(i)) for i in range(count)]
    for key in keys:
        ObjectCache(folder).put(key, bytes(68))  # and a digest of 32
    return keys


def test_info_counts_entries_bytes_and_their_age(folder, capsys):
    keys = filled(folder)
    os.utime(folder / keys[0], (time.time() - 7300,) * 2)
    assert main(["cache", "info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(folder)
    assert lines[1] == "  3 compiled objects, 300 B of 512 MiB"
    assert lines[2].startswith("  written 2 hours to ")
    assert main(["cache", "info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["folder"] == str(folder)
    assert (found["entries"], found["bytes"], found["limit_bytes"]) == (3, 300, 512 * 2**20)
    assert found["newest_s"] - found["oldest_s"] > 7000


def test_info_of_a_cache_that_was_never_used(folder, capsys):
    assert main(["cache", "info"]) == 0
    assert capsys.readouterr().out == f"{folder}\n  0 compiled objects, 0 B of 512 MiB\n"
    assert not folder.exists()


def test_clear_deletes_objects_and_what_killed_processes_left_and_nothing_else(folder, capsys):
    filled(folder)
    for name, age_s in ((".object-old", 7200.0), (".object-new", 0.0), ("notes.txt", 7200.0)):
        (folder / name).write_bytes(bytes(10))
        os.utime(folder / name, (time.time() - age_s,) * 2)
    assert main(["cache", "clear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "folder": str(folder), "entries": 3, "bytes": 310,
    }  # fmt: skip
    assert {path.name for path in folder.iterdir()} == {".object-new", "notes.txt"}
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"deleted 0 compiled objects, 0 B, from {folder}\n"


def _use(folder: Path, stop: "multiprocessing.synchronize.Event", failures: list[str]) -> None:
    keys = [cache_key(str(i)) for i in range(20)]
    while not stop.is_set():
        cache = ObjectCache(folder)
        for key in keys:
            cache.put(key, key.encode())
        if cache.folder is None:
            failures.append("gave the folder up")
        found = {ObjectCache(folder).get(key) for key in keys} - {None, *map(str.encode, keys)}
        if found:
            failures.append("read something else")


def test_clearing_does_not_disturb_those_who_use_the_cache(folder):
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        stop, failures = context.Event(), manager.list()
        others = [context.Process(target=_use, args=(folder, stop, failures)) for _ in range(2)]
        for other in others:
            other.start()
        end = time.monotonic() + 120.0
        cleared = 0
        while cleared < 10 and time.monotonic() < end:
            if folder.exists() and any(folder.iterdir()):
                assert main(["cache", "clear"]) == 0
                cleared += 1
        stop.set()
        for other in others:
            other.join()
        assert cleared == 10
        assert list(failures) == []
        assert [other.exitcode for other in others] == [0, 0]


def test_the_folders_are_the_systems_unless_others_are_named(monkeypatch):
    for name in ("AUTOTUNE_CACHE_DIR", "AUTOTUNE_CONFIG_DIR"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/cache")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/somewhere/config")
    assert cache_folder() == Path("/somewhere/cache/autotune")
    assert config_folder() == Path("/somewhere/config/autotune")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", "~/c")
    monkeypatch.setenv("AUTOTUNE_CONFIG_DIR", "relative")
    assert cache_folder() == Path("/home/me/c")
    assert config_folder() == Path("relative")


def test_sizes_and_ages_are_told_in_a_unit_that_fits():
    sizes = (0, 1023, 1024, 17408, 1023 * 1024, 512 * 2**20, 3 * 2**40)
    assert [size_text(size) for size in sizes] == [
        "0 B", "1023 B", "1.00 KiB", "17.0 KiB", "0.999 MiB", "512 MiB", "3.00 TiB",
    ]  # fmt: skip
    ages = (0.9, 59, 60, 7199, 7200, 86400, 1e6)
    assert [age_text(age) for age in ages] == [
        "0 s", "59 s", "1 minute", "1 hour", "2 hours", "1 day", "11 days",
    ]  # fmt: skip
