"""The entry point of the command: Ctrl-C ends it with one line, also during imports.

The handler is installed before any other module is imported.
"""

from __future__ import annotations

import os
from typing import NoReturn

INTERRUPTED = 130


def entry() -> NoReturn:
    """Run the process's command line and leave."""
    try:
        from autotune.cli.terminal.signals import redeliver_interrupts

        redeliver_interrupts()
        from autotune.cli.main import entry as run

        run()
    except KeyboardInterrupt:  # outside of what `main` looks after
        try:
            os.write(2, b"autotune: interrupted\n")
        finally:
            os._exit(INTERRUPTED)
