"""Conformance suites: what every tuner, measurer or cost model promises, as tests to inherit.

In: a class that says how one is made. Out: tests of pytest, which has to be installed. Read
`tuner_suite.py` first; docs/extend.md has examples.
"""
