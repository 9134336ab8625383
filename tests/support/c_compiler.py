"""Which tests need a compiler for C, and which one for C++."""

import shutil

import pytest

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler for C (cc)")
needs_cxx = pytest.mark.skipif(
    shutil.which("c++") is None, reason="there is no compiler for C++ (c++)"
)
