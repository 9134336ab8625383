"""Tests that compile CUDA need NVRTC, which comes with the extra `test`; no GPU."""

import pytest

from autotune.errors import TargetError
from autotune.runtime.cuda.cuda_toolkit import load_toolkit


def _missing() -> str:
    try:
        load_toolkit()
    except TargetError as error:
        return str(error)
    return ""


needs_nvrtc = pytest.mark.skipif(bool(_missing()), reason=_missing() or "NVRTC is there")
