"""What a log holds, for tests of runs: if they end with a comparison depends on the machine."""

from records import Record, RecordStore


def trials_in(log) -> list[Record]:
    """Return the trials of a log, without the records of final comparisons."""
    return [record for record in RecordStore(log).load() if record.is_trial]
