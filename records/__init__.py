"""Records: measurements in an append-only log of JSON lines, and queries.

In: a file, and records to append. Out: records, and the best, the rank or a summary of them. Read
`record.py` first, then `storage/append_only_log.py`; a tuning run uses `storage/journal.py`. A leaf
package: it knows nothing of templates, spaces or devices.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from records.log_set import Paths as Paths
from records.query import best as best
from records.query import finals as finals
from records.query import ranked as ranked
from records.query import select as select
from records.record import SCHEMA as SCHEMA
from records.record import Record as Record
from records.record import config_key as config_key
from records.record import make_workload_key as make_workload_key
from records.record import relative_spread as relative_spread
from records.record import workload_key as workload_key
from records.record_errors import NewerSchemaError as NewerSchemaError
from records.record_errors import RecordError as RecordError
from records.record_errors import RecordWarning as RecordWarning
from records.storage.append_only_log import RecordStore as RecordStore
from records.storage.journal import Entry as Entry
from records.storage.journal import Journal as Journal
from records.summaries import SummaryRow as SummaryRow
from records.summaries import summary as summary

if TYPE_CHECKING:
    import pandas as pd


def to_frame(paths: Paths) -> pd.DataFrame:
    """Return the records of logs as a pandas frame, a row per record in the order of the logs.

    The columns are listed in docs/logs.md; records of failures and of final comparisons are rows,
    too. Lines of no record are passed over with a `RecordWarning`.

    Parameters
    ----------
    paths : path or iterable of paths
        Logs, compressed or not, folders of logs, files of other tools; "pretuned" for the records
        that ship.

    Raises
    ------
    RecordError
        If a log cannot be read.

    Examples
    --------
    >>> frame = records.to_frame("logs")
    >>> frame[frame["cost_s"].notna()].groupby(["template", "args"], observed=True)["cost_s"].min()
    """
    from records.tables.frame import frame_of  # slow import

    return frame_of(paths)


logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent unless the program asks
