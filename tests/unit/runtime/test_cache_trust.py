"""Compiled code is executed: it is taken from nobody else's folder or file, and is what it says."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import struct
from pathlib import Path

import numpy as np
import pytest

import autotune
from autotune.codegen.elf.object_reader import defines
from autotune.runtime import object_cache as cache_module
from autotune.runtime.cpu import llvm_compiler as runtime
from autotune.runtime.object_cache import ObjectCache, cache_key

KEY = cache_key("a kernel")
DATA = b"machine code"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "objects"
    ObjectCache(folder).put(KEY, DATA)
    assert ObjectCache(folder).get(KEY) == DATA
    return folder


def refused(caplog: pytest.LogCaptureFixture) -> str:
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "\n" not in record.getMessage()
    return record.getMessage()


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702, 0o1777])
def test_a_folder_that_others_may_write_is_not_used_and_that_is_one_line(folder, caplog, mode):
    folder.chmod(mode)
    cache = ObjectCache(folder)
    assert cache.get(KEY) is None
    said = refused(caplog)
    assert f"may be written by other users (mode {mode:o}); `chmod go-w {folder}`" in said
    assert "AUTOTUNE_CACHE_DIR" in said
    cache.put(KEY, b"compiled anew")
    assert cache.get(KEY) == b"compiled anew"
    assert list(folder.iterdir()) == [folder / KEY]
    assert len(caplog.records) == 1
    folder.chmod(0o700)
    assert ObjectCache(folder).get(KEY) == DATA


@pytest.mark.parametrize("use", [lambda cache: cache.put("b" * 64, b""), ObjectCache.check_folder])
def test_a_folder_that_others_may_write_is_not_written_either(folder, caplog, use):
    folder.chmod(0o777)
    use(ObjectCache(folder))
    assert "may be written by other users" in refused(caplog)
    assert list(folder.iterdir()) == [folder / KEY]


def test_a_file_that_others_may_write_is_compiled_anew(folder, caplog):
    (folder / KEY).chmod(0o666)
    cache = ObjectCache(folder)
    assert cache.get(KEY) is None
    said = refused(caplog)
    assert f"{KEY} may be written by other users (mode 666): it is compiled anew" in said
    cache.put(KEY, DATA)
    assert ObjectCache(folder).get(KEY) == DATA


def test_a_folder_and_a_file_of_another_user_are_not_used(folder, caplog, monkeypatch):
    owner, asked = folder.stat().st_uid, os.geteuid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    for own in (0, owner):  # what the system owns is trusted
        caplog.clear()
        monkeypatch.setattr(cache_module.os, "fstat", as_owned_by(own or 4711))
        assert ObjectCache(folder).get(KEY) is None
        assert "belongs to another user" in refused(caplog)
    caplog.clear()
    monkeypatch.setattr(os, "geteuid", asked)
    monkeypatch.setattr(cache_module.os, "fstat", as_owned_by(0))
    assert ObjectCache(folder).get(KEY) == DATA
    assert not caplog.records


def as_owned_by(user: int):
    real = os.fstat

    def state(fd):
        values = list(real(fd))
        values[4] = user
        return os.stat_result(values)

    return state


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))
    path.with_name("elsewhere").write_bytes(hashlib.sha256(KEY.encode() + DATA).digest() + DATA)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("put", [pipe, link, Path.mkdir])
def test_an_object_that_is_replaced_by_something_else_is_compiled_anew(folder, put):
    (folder / KEY).unlink()
    put(folder / KEY)
    cache = ObjectCache(folder)
    assert cache.get(KEY) is None
    cache.put(KEY, b"compiled anew")
    assert cache.get(KEY) == b"compiled anew"


def test_an_object_under_the_key_of_another_is_none(folder):
    other = cache_key("another kernel")
    (folder / other).write_bytes((folder / KEY).read_bytes())
    (folder / other).chmod(0o600)
    assert ObjectCache(folder).get(other) is None


# -- a valid digest over junk ------------------------------------------------------------------


def doubled(cache_folder: Path, monkeypatch) -> np.ndarray:
    """Build and run a kernel by a process's cache in a folder."""
    monkeypatch.setattr(runtime, "default_cache", lambda: ObjectCache(cache_folder))
    from autotune import te

    a = te.placeholder((64,), "float32", name="A")
    b = te.compute((64,), lambda i: a[i] * 2.0, name="B")
    out = np.zeros(64, "float32")
    autotune.build(te.create_schedule(b.op), [a, b])(np.ones(64, "float32"), out)
    return out


def valid(key: str, data: bytes) -> bytes:
    return hashlib.sha256(key.encode() + data).digest() + data


JUNK = {
    "nothing": lambda code: b"",
    "a word": lambda code: b"junk",
    "zeros": lambda code: bytes(len(code)),
    "a part": lambda code: code[: len(code) // 2],
    "a header": lambda code: code[:64],
    "a header and ones": lambda code: code[:64] + b"\xff" * (len(code) - 64),
    "another kernel": lambda code: code.replace(b"main", b"mane"),
}


@pytest.mark.parametrize("name", JUNK)
def test_a_valid_digest_over_junk_is_compiled_anew(tmp_path, monkeypatch, name):
    assert (doubled(tmp_path, monkeypatch) == 2.0).all()
    (path,) = (path for path in tmp_path.iterdir() if re.fullmatch("[0-9a-f]{64}", path.name))
    whole = path.read_bytes()
    junk = JUNK[name](whole[32:])
    assert junk != whole[32:]
    path.write_bytes(valid(path.name, junk))
    assert (doubled(tmp_path, monkeypatch) == 2.0).all()
    assert path.read_bytes() == whole


def test_an_object_is_known_by_what_it_defines_and_by_being_whole(tmp_path, monkeypatch):
    doubled(tmp_path, monkeypatch)
    (path,) = tmp_path.iterdir()
    code = path.read_bytes()[32:]
    assert defines(code, "kernel_main")
    assert not defines(code, "main")
    rng = np.random.default_rng(0)
    for _ in range(2000):  # whatever is damaged: no error
        damaged = bytearray(code)
        for at in rng.integers(0, len(code), 4).tolist():
            damaged[at] = int(rng.integers(256))
        length = int(rng.integers(len(code)))
        assert defines(bytes(damaged[:length]), "kernel_main") in (False, True)
    start = struct.unpack_from("<Q", code, 40)[0]
    assert not defines(code[: start + 10], "kernel_main")
