"""Save a built function as a shared library, and call it in a process that has no compiler.

Run it with `python examples/deploy.py [SIZE]`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import autotune

DEPLOYED = """
import sys
import numpy as np
import autotune

softmax = autotune.load(sys.argv[1])
x = np.random.default_rng(0).standard_normal((int(sys.argv[2]), 1000), dtype=np.float32)
y = np.empty_like(x)
softmax(x, y)
expected = np.exp(x - x.max(axis=1, keepdims=True))
expected /= expected.sum(axis=1, keepdims=True)
np.testing.assert_allclose(y, expected, rtol=1e-5)
loaded = "llvmlite" in sys.modules
print(f"{softmax}: the answers agree, and LLVM is {'' if loaded else 'not '}loaded")
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Build, save, show the C header, and load elsewhere."""
    words = sys.argv[1:] if argv is None else list(argv)
    size = int(words[0]) if words else 64
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the default configuration will do here
        softmax = autotune.build("softmax", {"m": size, "n": 1000})
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "softmax.so"
        softmax.save(library)
        print(library.with_suffix(".h").read_text())
        command = [sys.executable, "-c", DEPLOYED, str(library), str(size)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
