"""Records: measurements in an append-only log of JSON lines, and queries.

In: a file, and records to append. Out: records, and the best, the rank or a summary of them. Read
`record.py` first, then `append_only_log.py`; a tuning run uses `journal.py`. A leaf package: it
knows nothing of templates, spaces or devices.
"""

import logging

from records.append_only_log import RecordStore
from records.journal import Entry, Journal
from records.query import SummaryRow, best, finals, ranked, select, summary
from records.record import (
    SCHEMA,
    Record,
    config_key,
    make_workload_key,
    relative_spread,
    workload_key,
)
from records.record_errors import NewerSchemaError, RecordError, RecordWarning

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent unless the program asks
