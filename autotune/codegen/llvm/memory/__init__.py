"""Memory access: addresses and alignment of buffers, loads and stores.

In: buffers and indices. Out: loads, stores and allocations as text. Read `addresses.py` first, then
`loads_stores.py`.
"""
