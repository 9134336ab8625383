"""Measurements in the formats of other tools: AutoTVM, MetaSchedule, Kernel Tuner, T4.

In: a file of one of these tools, or records. Out: records, or such a file. Read `detect.py` first,
then `write.py`; each format has a module. Reading executes nothing.
"""

from records.formats.detect import FORMATS as FORMATS
from records.formats.detect import FileFormat as FileFormat
from records.formats.detect import foreign_format as foreign_format
from records.formats.detect import load_own as load_own
from records.formats.detect import parse_any as parse_any
from records.formats.detect import read_any as read_any
from records.formats.detect import refuse_newer as refuse_newer
from records.formats.detect import stream_any as stream_any
from records.formats.write import EXPORT_FORMATS as EXPORT_FORMATS
from records.formats.write import Written as Written
from records.formats.write import write_records as write_records
