"""Measurements that other tools recorded, read as records: AutoTVM, T4, Kernel Tuner.

In: a file of one of these tools. Out: records. Read `detect.py` first. Reading executes nothing.
"""

from records.formats.detect import (
    FORMATS,
    foreign_format,
    load_own,
    parse_any,
    read_any,
    stream_any,
)
