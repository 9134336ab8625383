"""The built-in templates, and how a template is found by name or by file.

In: the name of a template, or a file. Out: a `Template`. Read `template_lookup.py` first; every
other file holds a computation with its schedule and its reference in NumPy.
"""
