"""Measures how fast logs of up to 10^6 records are appended to, loaded, looked up and summed up.

    python benchmarks/records.py [--largest 100000] [--json [FILE]] [--save]

The measurements are in logs.py. This file has the name of a package, and makes sure that scripts in
this folder import the package `records`.
"""

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    from logs import main

    main()
elif __name__ == "records":
    here = Path(__file__).parent
    others = [entry for entry in sys.path if Path(entry).resolve() != here]
    del sys.modules[__name__]
    before, sys.path = sys.path, others
    sys.modules[__name__] = importlib.import_module(__name__)
    sys.path = before
