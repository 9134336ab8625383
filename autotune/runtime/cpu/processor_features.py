"""Which features of a processor compiled code may need, and whether this machine has them.

Names are LLVM's; Linux lists some under others.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune.system.host import cpu_flags

#: Features that change which instructions LLVM chooses, and what Linux calls them.
_LINUX_NAMES = {
    "sse3": "pni", "ssse3": "ssse3", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "sse4a": "sse4a",
    "popcnt": "popcnt", "avx": "avx", "avx2": "avx2", "fma": "fma", "fma4": "fma4", "xop": "xop",
    "tbm": "tbm", "f16c": "f16c", "bmi": "bmi1", "bmi2": "bmi2", "lzcnt": "abm", "movbe": "movbe",
    "gfni": "gfni", "avxvnni": "avx_vnni", "avxifma": "avx_ifma",
    "avxneconvert": "avx_ne_convert", "avxvnniint8": "avx_vnni_int8",
    "avxvnniint16": "avx_vnni_int16", "avx512f": "avx512f", "avx512bw": "avx512bw",
    "avx512cd": "avx512cd", "avx512dq": "avx512dq", "avx512vl": "avx512vl",
    "avx512ifma": "avx512ifma", "avx512vbmi": "avx512vbmi", "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni", "avx512bitalg": "avx512_bitalg", "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16", "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512vp2intersect": "avx512_vp2intersect", "avx10.1": "avx10_1", "avx10.2": "avx10_2",
    "egpr": "apx", "ndd": "apx",
}  # fmt: skip

#: Those features, by LLVM's names.
LLVM_NAMES = frozenset(_LINUX_NAMES)

_V2 = ("popcnt", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_ICELAKE = (
    *_V4, "avx512bitalg", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vnni",
    "avx512vpopcntdq", "gfni",
)  # fmt: skip
_SAPPHIRE_RAPIDS = (*_ICELAKE, "avx512bf16", "avx512fp16", "avxvnni")
_ZEN4 = (*_ICELAKE, "avx512bf16", "sse4a")

#: What code for a named processor may use: the levels of the x86-64 ABI, then LLVM's own lists.
_OF_CPU = {
    "x86-64": (), "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4,
    "haswell": _V3, "broadwell": _V3, "skylake": _V3, "alderlake": (*_V3, "avxvnni", "gfni"),
    "skylake-avx512": _V4, "cascadelake": (*_V4, "avx512vnni"),
    "icelake-client": _ICELAKE, "icelake-server": _ICELAKE,
    "sapphirerapids": _SAPPHIRE_RAPIDS, "graniterapids": _SAPPHIRE_RAPIDS,
    "znver1": (*_V3, "sse4a"), "znver2": (*_V3, "sse4a"), "znver3": (*_V3, "sse4a"),
    "znver4": _ZEN4, "znver5": (*_ZEN4, "avx512vp2intersect", "avxvnni"),
}  # fmt: skip


def needed_features(cpu: str, features: str) -> list[str] | None:
    """Return the features that code compiled for a processor may use, sorted.

    None if it is not known what the name stands for.

    cpu: LLVM's name of the processor.
    features: LLVM's list of features such as ``"+avx2,-sse4a"``; empty for those that the name
        stands for.
    """
    if features:
        has = {word[1:] for word in features.split(",") if word.startswith("+")}
        return sorted(has & _LINUX_NAMES.keys())
    return sorted(_OF_CPU[cpu]) if cpu in _OF_CPU else None


def known_cpus() -> list[str]:
    """Names of processors whose features are known."""
    return sorted(_OF_CPU)


def missing_features(needed: list[str]) -> list[str]:
    """Return the features of `needed` that this machine lacks; all of them if that is not known."""
    flags = cpu_flags()
    return [name for name in needed if _LINUX_NAMES.get(name, name) not in flags]


def unlisted_features(features: Mapping[str, bool]) -> list[str]:
    """Return the features that LLVM finds on this machine but Linux does not list, such as AVX10.

    It could not be checked later whether code that needs one runs here. Empty if Linux lists no
    features at all.
    """
    there = [name for name, has in features.items() if has and name in _LINUX_NAMES]
    return missing_features(there) if cpu_flags() else []
