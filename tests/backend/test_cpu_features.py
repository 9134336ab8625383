"""Features of processors: what the table says is what LLVM makes use of."""

from __future__ import annotations

import re
import subprocess
import sys

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite.binding.targets import FeatureMap

from autotune import build, te
from autotune.errors import TargetError
from autotune.runtime.cpu import processor_features
from autotune.runtime.cpu.llvm_compiler import check_target, cpu_and_features
from autotune.runtime.cpu.named_processors import features_of
from autotune.system.host import architecture
from autotune.target import _VECTOR_BYTES_BY_MCPU, Target

pytestmark = pytest.mark.skipif(architecture() != "x86_64", reason="a table for x86-64")


def binary(operation: str, kind: str) -> str:
    body = f"%v = {operation} {kind} %a, %b ret {kind} %v"
    return f"define {kind} @f({kind} %a, {kind} %b) #0 {{ {body} }}"


def call(intrinsic: str, kind: str, flag: str = "", more: int = 0) -> str:
    others = f", {kind}" * more
    return (
        f"declare {kind} @llvm.{intrinsic}({kind}{others}{', i1' if flag else ''})\n"
        f"define {kind} @f({kind} %a) #0 {{ %v = call {kind} @llvm.{intrinsic}({kind} %a"
        f"{f', {kind} %a' * more}{flag}) ret {kind} %v }}"
    )


#: By feature: a function, and the instruction that LLVM chooses for it where the feature is there.
PROBES = {
    "popcnt": (call("ctpop.i64", "i64"), "popcnt"),
    "lzcnt": (call("ctlz.i64", "i64", ", i1 0"), "lzcnt"),
    "movbe": (
        "declare i64 @llvm.bswap.i64(i64)\ndefine void @f(ptr %p, i64 %a) "
        "{ %v = call i64 @llvm.bswap.i64(i64 %a) store i64 %v, ptr %p ret void }",
        "movbe",
    ),
    "bmi": (
        "define i64 @f(i64 %a, i64 %b) { %n = xor i64 %a, -1 %v = and i64 %n, %b ret i64 %v }",
        "andn",
    ),
    "bmi2": (binary("shl", "i64"), "shlx"),
    "sse3": (
        "define <2 x double> @f(<2 x double> %a) { %v = shufflevector <2 x double> %a, "
        "<2 x double> %a, <2 x i32> zeroinitializer ret <2 x double> %v }",
        "movddup",
    ),
    "ssse3": (call("abs.v16i8", "<16 x i8>", ", i1 0"), "pabsb"),
    "sse4.1": (call("floor.f64", "double"), "roundsd"),
    "sse4.2": (
        "define <2 x i64> @f(<2 x i64> %a, <2 x i64> %b) { %c = icmp sgt <2 x i64> %a, %b "
        "%v = sext <2 x i1> %c to <2 x i64> ret <2 x i64> %v }",
        "pcmpgtq",
    ),
    "sse4a": (
        "define void @f(float %a, ptr %p) { store float %a, ptr %p, !nontemporal !0 ret void }",
        "movntss",
    ),
    "avx": (binary("fadd", "<8 x float>"), "%ymm"),
    "avx2": (binary("mul", "<8 x i32>"), r"vpmulld\s+%ymm"),
    "fma": (call("fma.f64", "double", more=2), "vfmadd"),
    "f16c": (
        "define <8 x float> @f(<8 x half> %a) "
        "{ %v = fpext <8 x half> %a to <8 x float> ret <8 x float> %v }",
        "cvtph2ps",
    ),
    "gfni": (call("bitreverse.v16i8", "<16 x i8>"), "gf2p8affineqb"),
    "avx512f": (binary("fadd", "<16 x float>"), "%zmm"),
    "avx512bw": (binary("add", "<64 x i8>"), r"vpaddb\s+%zmm"),
    "avx512dq": (binary("mul", "<8 x i64>"), "vpmullq"),
    "avx512vl": (binary("mul", "<4 x i64>"), r"vpmullq\s+%ymm"),
    "avx512cd": (call("ctlz.v8i64", "<8 x i64>", ", i1 0"), "vplzcntq"),
    "avx512vpopcntdq": (call("ctpop.v8i64", "<8 x i64>"), "vpopcntq"),
    "avx512bitalg": (call("ctpop.v64i8", "<64 x i8>"), "vpopcntb"),
    "avx512vbmi": (
        "define <64 x i8> @f(<64 x i8> %a, <64 x i8> %b) #0 { %v = shufflevector <64 x i8> %a, "
        f"<64 x i8> %b, <64 x i32> <{', '.join(f'i32 {(i * 37 + 11) % 128}' for i in range(64))}> "
        "ret <64 x i8> %v }",
        "vperm[ti]2b",
    ),
    "avx512vbmi2": (call("fshl.v32i16", "<32 x i16>", more=2), "vpshldvw"),
    "avx512bf16": (
        "define <16 x bfloat> @f(<16 x float> %a) #0 "
        "{ %v = fptrunc <16 x float> %a to <16 x bfloat> ret <16 x bfloat> %v }",
        "vcvtneps2bf16",
    ),
    "avx512fp16": (binary("fadd", "<32 x half>"), "vaddph"),
}
WIDE = 'attributes #0 = { "min-legal-vector-width"="512" "prefer-vector-width"="512" }'


@pytest.fixture(scope="module")
def modules() -> dict[str, llvm.ModuleRef]:
    cpu_and_features("native")  # LLVM is ready
    check_target(Target("llvm", {"mcpu": "x86-64"}))
    return {
        name: llvm.parse_assembly(f"{text}\n{WIDE}\n!0 = !{{i32 1}}\n")
        for name, (text, _) in PROBES.items()
    }


@pytest.mark.parametrize("name", processor_features.known_cpus())
def test_a_named_processor_has_the_features_of_the_table(
    name: str, modules: dict[str, llvm.ModuleRef]
) -> None:
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=name)
    used = {
        feature
        for feature, (_, instruction) in PROBES.items()
        if re.search(instruction, machine.emit_assembly(modules[feature]))
    }
    needed = processor_features.needed_features(name, "")
    assert needed is not None
    assert used == set(needed) & PROBES.keys()


def test_processors_of_known_width_have_known_features() -> None:
    assert processor_features.known_cpus() == sorted(_VECTOR_BYTES_BY_MCPU)


def test_features_of_this_machine_are_found_here() -> None:
    name, features = cpu_and_features("native")
    needed = processor_features.needed_features(name, features)
    assert needed
    assert processor_features.missing_features(needed) == []


def test_no_code_depends_on_features_of_this_machine_that_linux_does_not_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = FeatureMap({"avx2": True, "avx10.1": True, "clzero": True, "sse4a": False})
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: FeatureMap(found))
    monkeypatch.setattr(processor_features, "cpu_flags", lambda: frozenset({"avx2"}))
    assert cpu_and_features.__wrapped__("native")[1] == "-avx10.1,+avx2,+clzero,-sse4a"
    monkeypatch.setattr(
        processor_features, "cpu_flags", lambda: frozenset()
    )  # nothing is known of any
    assert cpu_and_features.__wrapped__("native")[1] == "+avx10.1,+avx2,+clzero,-sse4a"


def test_features_that_code_cannot_depend_on_are_not_asked_for() -> None:
    assert processor_features.needed_features("any", "+avx2,-sse4a,+clzero,+sse3") == [
        "avx2",
        "sse3",
    ]


def test_a_machine_that_lists_no_features_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor_features, "cpu_flags", lambda: frozenset())
    assert processor_features.missing_features(["avx2", "sse3"]) == ["avx2", "sse3"]


def test_code_that_this_machine_lacks_features_for_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags = frozenset({"pni", "ssse3", "sse4_1", "sse4_2", "popcnt"})
    monkeypatch.setattr(processor_features, "cpu_flags", lambda: flags)
    cpu_and_features.cache_clear()
    check_target(Target.parse("llvm -mcpu=x86-64-v2"))
    with pytest.raises(TargetError, match=r"code for -mcpu=haswell: it lacks avx, avx2, .*native"):
        check_target(Target.parse("llvm -mcpu=haswell"))
    cpu_and_features.cache_clear()


def test_what_llvm_says_of_processors_is_what_the_table_says() -> None:
    for name in ("x86-64-v2", "haswell", "znver4", "sapphirerapids"):
        assert features_of(name) == processor_features.needed_features(name, "")


@pytest.mark.parametrize("name", ["i486", "pentium4", "yonah", "lakemont"])
def test_a_32_bit_processor_is_refused_in_one_line(name: str) -> None:
    message = f"no code for -mcpu={name} on x86_64: that processor has no 64-bit instructions; use"
    with pytest.raises(TargetError, match=message) as error:
        check_target(Target(f"llvm -mcpu={name}"))
    assert "\n" not in str(error.value)


def test_features_of_a_processor_outside_the_table_are_held_against_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags = frozenset({"pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "avx"})
    monkeypatch.setattr(processor_features, "cpu_flags", lambda: flags)
    cpu_and_features.cache_clear()
    for name in ("nehalem", "sandybridge"):
        check_target(Target(f"llvm -mcpu={name}"))
    with pytest.raises(TargetError, match=r"it lacks avx10\.1, avx10\.2, avx2"):
        check_target(Target("llvm -mcpu=diamondrapids"))
    cpu_and_features.cache_clear()


@pytest.mark.parametrize("name", ["help", "i487", "-", "x" * 64])
def test_names_that_llvm_does_not_know_are_refused_in_one_line(name: str) -> None:
    with pytest.raises(TargetError, match=f"LLVM knows no CPU '{name}'"):
        check_target(Target("llvm", {"mcpu": name}))


_ALL_NAMES = """
import llvmlite.binding as llvm
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
llvm.Target.from_default_triple().create_target_machine(cpu="help")
"""


@pytest.mark.slow
def test_no_processor_that_llvm_lists_ends_the_process() -> None:
    said = subprocess.run([sys.executable, "-c", _ALL_NAMES], capture_output=True, text=True)
    names = re.findall(r"^ +(\S+) +- Select the \1 processor", said.stderr, re.MULTILINE)
    assert {"i486", "x86-64", "znver3"} <= set(names)
    n = te.var("n")
    A = te.placeholder((n,), "float16", name="A")
    B = te.compute((n,), lambda i: te.exp(A[i]), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], factor=16)[1])
    a, refused = np.ones(100, "float16"), []
    for name in names:
        try:
            made = build(s, [A, B], f"llvm -mcpu={name}")
        except TargetError as error:
            refused.append(str(error))
            continue
        b = np.zeros_like(a)
        made(a, b)
        np.testing.assert_allclose(b, np.exp(a), rtol=1e-2)
    assert 30 <= len(refused) < len(names)
    assert not any("\n" in line for line in refused)
