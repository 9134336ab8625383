"""Where the command begins: from here on Ctrl-C ends it in one line, also while it is imported.

Nothing else is imported before that is so.
"""

from __future__ import annotations

import os
from typing import NoReturn

INTERRUPTED = 130


def entry() -> NoReturn:
    """Run the process's command line and leave."""
    try:
        from autotune.cli.terminal.signals import lose_no_interrupt

        lose_no_interrupt()
        from autotune.cli.main import entry as run

        run()
    except KeyboardInterrupt:  # outside of what `main` looks after
        try:
            os.write(2, b"autotune: interrupted\n")
        finally:
            os._exit(INTERRUPTED)
