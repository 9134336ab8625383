"""The one exception of this package: a mistake in a space or in a request to it, in one line."""


class SpaceError(ValueError):
    """An invalid knob, constraint, index or value; the message says what to do."""
