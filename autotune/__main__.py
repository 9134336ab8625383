"""Lets `python -m autotune` stand for the command `autotune`."""

from __future__ import annotations

from autotune.cli.entry import entry

if __name__ == "__main__":
    entry()
