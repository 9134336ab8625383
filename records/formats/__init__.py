"""Measurements that other tools recorded, read as records: AutoTVM, T4, Kernel Tuner.

In: a file of one of these tools. Out: records. Read `detect.py` first. Reading executes nothing.
"""

from records.formats.detect import FORMATS as FORMATS
from records.formats.detect import foreign_format as foreign_format
from records.formats.detect import load_own as load_own
from records.formats.detect import parse_any as parse_any
from records.formats.detect import read_any as read_any
from records.formats.detect import stream_any as stream_any
