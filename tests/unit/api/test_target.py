from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.installed import install

from autotune.errors import TargetError
from autotune.runtime.backends import backend_of
from autotune.system import host
from autotune.target import Target, device_of_user, installed_devices


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("llvm", "llvm"),
        ("llvm -mcpu=native", "llvm -mcpu=native"),
        ("  llvm   -threads=02 -mcpu=x86-64-v3 ", "llvm -mcpu=x86-64-v3 -threads=2"),
        ("llvm -threads=2 -fast-math", "llvm -fast-math -threads=2"),
        ("cuda -arch=sm_90", "cuda -arch=sm_90"),
        ("cuda -on=cpu -arch=sm_90a", "cuda -arch=sm_90a -on=cpu"),
    ],
)
def test_the_text_of_a_target_is_canonical(text: str, canonical: str) -> None:
    target = Target.parse(text)
    assert str(target) == canonical
    assert Target.parse(canonical) == Target(text) == Target.of(text) == target
    assert hash(Target.parse(canonical)) == hash(target)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unknown target kind ''"),
        ("metal", "unknown target kind 'metal': expected one of llvm, cuda"),
        ("llvm -arch=sm_90", "has no option -arch: expected one of -mcpu=, -threads="),
        ("llvm -arch=sm_90", "-threads=, -fast-math"),
        ("llvm -fast-math=yes", "-fast-math is 'yes': expected no value"),
        ("llvm -fast-math -fast-math", "twice"),
        ("llvm -fast-math=", "cannot read '-fast-math='"),
        ("cuda -fast-math", "cannot read '-fast-math'"),
        ("llvm -threads=0", "-threads is '0': expected a whole number from 1 to 1024"),
        ("llvm -threads=1025", "-threads is '1025': expected a whole number from 1 to 1024"),
        (f"llvm -threads={'9' * 5000}", "expected a whole number from 1 to 1024"),
        ("llvm -threads=two", "expected a whole number"),
        ("llvm -mcpu", "cannot read '-mcpu'"),
        ("llvm -mcpu=", "cannot read '-mcpu='"),
        ("llvm mcpu=native", "cannot read 'mcpu=native'"),
        ("llvm -threads=1 -threads=2", "twice"),
        ("cuda -arch=90", "expected a name such as sm_90"),
        ("cuda -on=gpu", "expected cpu"),
        ("llvm -mcpu=haswell,+avx", "-mcpu is 'haswell,+avx': expected native, or a name such as"),
        ("llvm -mcpu=\0", "expected native, or a name such as znver3"),
        (f"llvm -mcpu={'x' * 65}", "expected native, or a name such as znver3"),
        ("llvm -mattr=-sse2", "has no option -mattr"),
    ],
)
def test_mistakes_are_one_clear_line(text: str, message: str) -> None:
    for read in (Target.parse, Target, Target.of):
        with pytest.raises(TargetError) as error:
            read(text)
        assert message in str(error.value)
        assert "\n" not in str(error.value)


def test_options_may_stand_in_the_text_and_beside_it() -> None:
    target = Target("cuda -on=cpu", {"arch": "sm_90"})
    assert target == Target.parse("cuda -on=cpu -arch=sm_90")
    assert target.kind == "cuda"
    assert target.on_cpu
    with pytest.raises(TargetError, match="gives the option -on twice"):
        Target("cuda -on=cpu", {"on": "cpu"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None,), "target must be a text such as 'llvm', or a Target, got None"),
        ((["llvm"],), "target must be a text such as 'llvm', or a Target, got \\['llvm'\\]"),
        (("llvm", {"threads": 4}), "target option -threads is 4: expected a text"),
    ],
)
def test_what_is_no_text_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        Target(*arguments)


def test_of_takes_a_target_or_its_text() -> None:
    target = Target.parse("cuda")
    assert Target.of(target) is target
    assert Target.of("cuda") == target


def test_attributes_say_what_the_options_mean() -> None:
    assert Target.parse("llvm -threads=3").threads == 3
    assert Target.parse("llvm").threads is None
    assert Target.parse("llvm").mcpu == "native"
    assert Target.parse("llvm -fast-math").fast_math
    assert not Target.parse("llvm -mcpu=native").fast_math
    assert Target("llvm", {"fast-math": ""}) == Target.parse("llvm -fast-math")
    assert Target.parse("cuda").max_num_threads == 1024


@pytest.mark.parametrize(
    ("mcpu", "width"), [("x86-64", 16), ("x86-64-v3", 32), ("znver4", 64), ("unheard-of", 16)]
)
def test_vector_width_of_a_named_cpu(mcpu: str, width: int) -> None:
    assert Target("llvm", {"mcpu": mcpu}).vector_bytes == width


@pytest.mark.parametrize(
    ("flags", "width"), [("fpu sse2", 16), ("sse2 avx avx2", 32), ("avx2 avx512f", 64)]
)
def test_vector_width_of_this_machine_follows_its_flags(
    flags: str, width: int, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(host, "cpu_flags", lambda: frozenset(flags.split()))
    assert host.vector_bytes.__wrapped__() == width
    monkeypatch.setattr(host.platform, "machine", lambda: "aarch64")
    assert host.vector_bytes.__wrapped__() == 16


def test_targets_load_no_compiler() -> None:
    code = (
        "import sys; from autotune.target import Target; Target.parse('llvm').vector_bytes; "
        "sys.exit('llvmlite' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


DEVICES = """
def function(*args):
    pass

class Board:
    options = {"clock": ("[0-9]+", "a number of MHz"), "eco": ("", "no value")}
    vector_bytes = 32
    preload = facts = compile_binary = build_function = function
    empty = contiguous = take_device = function

board = Board()

class Half:
    preload = facts = function

half = Half()
"""


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kinds of devices of an installed package, of which two are faulty."""
    points = {"board": "boards:board", "half": "boards:half", "broken": "nowhere:broken"}
    install(tmp_path, monkeypatch, {"autotune.devices": points}, {"boards": DEVICES})
    for cached in (installed_devices, device_of_user):
        cached.cache_clear()
    yield
    for cached in (installed_devices, device_of_user):
        cached.cache_clear()


@pytest.mark.usefixtures("devices")
def test_a_kind_of_device_of_a_user_says_what_options_it_has() -> None:
    target = Target("board  -eco -clock=300")
    assert str(target) == "board -clock=300 -eco"
    assert (target.on_cpu, target.gpu, target.vector_bytes) == (False, None, 32)
    assert target.host == Target("llvm")
    assert backend_of(target) is device_of_user("board")


@pytest.mark.usefixtures("devices")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("board -clock=fast", "-clock is 'fast': expected a number of MHz"),
        ("board -arch=x", "target 'board' has no option -arch: expected one of -clock=, -eco"),
        ("half", "device 'half' has no function 'compile_binary'"),
        ("broken", "device 'broken': nowhere:broken cannot be loaded: ModuleNotFoundError"),
        ("bord", "unknown target kind 'bord': did you mean 'board'?"),
        ("boards:board", "unknown target kind 'boards:board': expected one of llvm"),
    ],
)
def test_a_faulty_device_of_a_user_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(TargetError) as error:
        Target(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert Target("llvm").on_cpu
