"""Helpers of several test files; imported as `from support.NAME import ...`."""
