"""Configurations of single shapes become those of kernels for all sizes."""

import warnings

import pytest

from autotune.shape_dispatch.candidates import Candidate
from autotune.shape_dispatch.comparison import Bench

SIZES = {"m": 64, "n": 512, "k": 512}
ARGS = {**SIZES, "transpose_a": False, "transpose_b": False, "dtype": "float32", "out_dtype": ""}


@pytest.mark.parametrize("value", ["axis2", "no value of any space"])
def test_a_value_that_an_open_space_does_not_have_is_replaced_in_silence(value: str) -> None:
    bench = Bench("matmul", "llvm")
    given = Candidate(ARGS, tuple(SIZES), {"vector": value, "tile_rows": 4})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = bench.fitted(given).config
    assert config.get("vector") != value
    assert config["tile_rows"] == 4
