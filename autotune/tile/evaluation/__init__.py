"""Evaluates bound Tile functions with NumPy: the reference for compiled ones.

In: a bound program and arrays. Out: its results. Read `reference_evaluator.py` first.
"""
