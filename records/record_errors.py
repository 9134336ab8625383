"""Errors of records and logs as one-line exceptions, and a warning."""


class RecordError(ValueError):
    """An invalid record or log; the message says where and why."""


class NewerSchemaError(RecordError):
    """A record written by a later version, in a schema this one cannot read."""


class RecordWarning(UserWarning):
    """Part of a log could not be read, or is not used; the message says why."""


class TableError(RecordError):
    """A data set that cannot be written or read as asked."""
