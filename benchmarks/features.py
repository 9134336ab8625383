"""How fast features of candidates are evaluated and whole spaces ranked, on two cores.

    python benchmarks/features.py [--json [FILE]] [--save]

What is measured, and how, is in candidates.py. This file only bears the name, which is that of a
package too: a script in this folder that imports `features` is given the package.
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
