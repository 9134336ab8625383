"""Measures how fast features of candidates are evaluated and whole spaces ranked, on two cores.

    python benchmarks/features.py [--json [FILE]] [--save]

The measurements are in candidates.py. This file has the name of a package, and makes sure that
scripts in this folder import the package `features`.
"""

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    from candidates import main

    main()
elif __name__ == "features":
    here = Path(__file__).parent
    others = [entry for entry in sys.path if Path(entry).resolve() != here]
    del sys.modules[__name__]
    before, sys.path = sys.path, others
    sys.modules[__name__] = importlib.import_module(__name__)
    sys.path = before
