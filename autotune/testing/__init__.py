"""Conformance suites: tests of the interface of tuners, measurers, cost models and extractors.

In: a subclass with a method that makes the object under test. Out: tests for pytest, which must be
installed. Read `tuner_suite.py` first; docs/extend.md has examples.
"""
