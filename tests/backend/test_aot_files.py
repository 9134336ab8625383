"""Files of saved functions: those that cannot be used are refused; others come and go."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest
from support.processors import needs_avx2
from support.saved_functions import doubles, scale

import autotune
from autotune.errors import LoadError, SaveError
from autotune.runtime import load_library, save_library
from autotune.system.host import architecture

pytestmark = pytest.mark.skipif(architecture() != "x86_64", reason="saving is for x86-64")


# -- files that cannot be used ---------------------------------------------------------------------


def refusal(path: Path) -> str:
    with pytest.raises(LoadError) as error:
        autotune.load(path)
    message = str(error.value)
    assert message.startswith(f"cannot load {path}: ")
    assert "\n" not in message
    return message


def test_a_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    scale().save(tmp_path / "f.so")
    data = (tmp_path / "f.so").read_bytes()
    cut = tmp_path / "cut.so"
    for size in [*range(0, 700, 5), *range(700, len(data), 311), len(data) - 1]:
        cut.write_bytes(data[:size])
        assert "cut off" in refusal(cut)


def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    scale().save(tmp_path / "f.so")
    data = (tmp_path / "f.so").read_bytes()
    changed = tmp_path / "changed.so"
    for at in [*range(0, 500, 5), *range(500, len(data), 311)]:
        changed.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        assert "cut off" in refusal(changed)


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF", os.urandom(5000)])
def test_foreign_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "foreign.so").write_bytes(content)
    message = refusal(tmp_path / "foreign.so")
    expected = "it is not a saved function, or was cut off; expected a file written by save()"
    assert expected in message


def test_a_library_of_the_system_is_refused() -> None:
    library = Path(np._core._multiarray_umath.__file__)
    assert "it is not a saved function" in refusal(library)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "missing.so").endswith(": No such file or directory")
    assert refusal(tmp_path).endswith(": it is not a file")
    assert refusal(Path("/dev/zero")).endswith(": it is not a file")
    assert refusal(tmp_path / "a\0b.so").endswith(": embedded null byte")
    with pytest.raises(LoadError, match="load: expected the path of a library, got 3"):
        autotune.load(3)  # type: ignore[arg-type]


@needs_avx2
def test_a_processor_without_the_features_is_told_before_any_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale("llvm -mcpu=x86-64-v3").save(tmp_path / "f.so")
    assert doubles(autotune.load(tmp_path / "f.so"))
    monkeypatch.setattr(
        "autotune.runtime.cpu.processor_features.cpu_flags", lambda: frozenset({"pni", "avx"})
    )
    assert refusal(tmp_path / "f.so").endswith(
        "it was built for -mcpu=x86-64-v3, and this processor lacks avx2, bmi, bmi2, f16c, fma, "
        "lzcnt, movbe, popcnt, sse4.1, sse4.2, ssse3; build it for an older one, such as target "
        "'llvm -mcpu=x86-64-v3'"
    )


def test_another_kind_of_machine_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scale().save(tmp_path / "f.so")
    monkeypatch.setattr(load_library, "architecture", lambda: "aarch64")
    assert refusal(tmp_path / "f.so").endswith("it is for x86_64, this machine is aarch64")


def test_a_later_format_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(save_library, "FORMAT", 2)
    monkeypatch.setattr(save_library, "__version__", "7.5.0")
    scale().save(tmp_path / "f.so")
    assert refusal(tmp_path / "f.so").endswith(
        "autotune 7.5.0 wrote it in format 2, this one reads up to 1; update autotune here"
    )


# -- files that come and go ------------------------------------------------------------------------


def test_a_file_that_replaces_another_is_loaded_anew(tmp_path: Path) -> None:
    path = tmp_path / "f.so"
    scale(factor=2.0).save(path)
    first = autotune.load(path)
    scale(factor=3.0).save(path)
    second = autotune.load(path)
    path.write_bytes(b"")
    assert doubles(first, 2.0)
    assert doubles(second, 3.0)


def test_a_loaded_function_is_unloaded_with_its_last_use(tmp_path: Path) -> None:
    scale().save(tmp_path / "f.so")

    def in_use() -> tuple[int, int]:
        gc.collect()
        maps = Path("/proc/self/maps").read_text()
        return maps.count("/memfd:autotune"), len(os.listdir("/proc/self/fd"))

    before = in_use()
    functions = [autotune.load(tmp_path / "f.so") for _ in range(3)]
    assert in_use() == (before[0] + 9, before[1])
    assert all(doubles(function) for function in functions)
    del functions
    assert in_use() == before


@pytest.mark.parametrize("name", ["f.h", "f.so"])
def test_saving_replaces_both_files_or_none(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale().save(tmp_path / "f.so")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert before.keys() == {"f.so", "f.h"}

    def full(file: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{file}")).suffix == Path(name).suffix:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SaveError, match=rf"cannot save .*{name}: No space left on device"):
        scale(factor=5.0, name="other").save(tmp_path / "f.so")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_saved_files_may_be_read_by_those_who_may_read_others(tmp_path: Path) -> None:
    scale().save(tmp_path / "f.so")
    (tmp_path / "other").touch()
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing/f.so", "make the folder .*missing first"),
        ("file/f.so", "make the folder .*file first"),
        (".", "it is a folder; name a file in it"),
        ("f.h", r"\.h is for the C header; name the library, such as .*f\.so"),
        (f"{'x' * 300}.so", "File name too long"),
        ("file", "something else has this name; delete it, or choose another"),
        ("own.so", r"something else has this name"),
        ("/dev/null", "something else has this name"),
    ],
)
def test_places_where_nothing_can_be_saved(path: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "own.h").write_text("int mine;")
    with pytest.raises(SaveError, match=f"cannot save .*: {message}") as error:
        scale().save(tmp_path / path)
    assert "\n" not in str(error.value)
    assert {entry.name for entry in tmp_path.iterdir()} == {"file", "own.h"}
    assert (tmp_path / "own.h").read_text() == "int mine;"


def test_code_for_a_processor_of_unknown_features_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(SaveError, match="-mcpu=nehalem: which features it needs is not known"):
        scale("llvm -mcpu=nehalem").save(tmp_path / "f.so")
