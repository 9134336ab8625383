"""The one exception of this package: a mistake in a space or in a request to it, in one line."""


class SpaceError(ValueError):
    """A knob, constraint, index or value that makes no sense; the message says what to do."""
