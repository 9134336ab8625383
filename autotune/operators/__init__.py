"""The built-in templates, and how a template is found by name or by file.

In: the name of a template, or a file. Out: a `Template`. Read `template_lookup.py` and
`contractions/matmul.py` first. A folder for each family, a file for each operator: a computation
with its reference in NumPy. `autotune.rules` makes its schedule and knobs. What several operators
compute stands in `products.py` and `images.py`.
"""
