"""Memory access: where buffers are, how they are aligned, what is loaded and stored.

In: buffers and indices. Out: loads, stores and allocations as text. Read `addresses.py` first, then
`loads_stores.py`.
"""
