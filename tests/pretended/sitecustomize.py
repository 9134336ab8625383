"""Python loads this first where this folder is on its path: the process sees another machine."""

import os

from machines import VARIABLE, pretend

if VARIABLE in os.environ:
    pretend(os.environ[VARIABLE])
