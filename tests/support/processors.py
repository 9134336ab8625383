"""What the processor of this machine can run."""

from __future__ import annotations

import pytest

from autotune.errors import TargetError
from autotune.runtime.cpu.llvm_compiler import check_target
from autotune.target import Target

AVX2 = "x86-64-v3"
"""Processors with AVX2, fused multiply-adds and conversions of halves."""


def _runs(mcpu: str) -> bool:
    try:
        check_target(Target.parse(f"llvm -mcpu={mcpu}"))
    except TargetError:
        return False
    return True


HAS_AVX2 = _runs(AVX2)

needs_avx2 = pytest.mark.skipif(not HAS_AVX2, reason="the processor lacks AVX2")
