"""NumPy as the tuning process loads it: its BLAS has one thread, and nobody else's has."""

import os
import subprocess
import sys

from autotune.system.available_cpus import available_cpus

LOADED = """
import os
from autotune.system.environment_variables import load_numpy_for_one_thread
load_numpy_for_one_thread()
import numpy
a = numpy.ones((600, 600))
a @ a
print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))
"""


def test_a_product_starts_no_threads_unless_they_were_asked_for():
    asked = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}

    def told(**more):
        done = subprocess.run(
            [sys.executable, "-c", LOADED], env={**asked, **more}, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        return done.stdout.split()

    assert told() == ["1", "None"]
    most = str(min(2, available_cpus()))
    assert told(OPENBLAS_NUM_THREADS="2") == [most, "2"]
