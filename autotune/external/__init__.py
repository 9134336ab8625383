"""Kernels written elsewhere that a template may return: in C or C++, or any Python callable.

In: a source or a function, its arrays, and its knobs as macros, options or keywords. Out: a
function of the IR whose body is a `Raw` statement. Read `external_kernel.py` first, then
`c_kernel.py`.
"""
