"""What several files of tests need; imported as `from support.NAME import ...`."""
