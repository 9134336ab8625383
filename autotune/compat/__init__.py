"""Names of other projects for what autotune has, so that programs written for them run here.

In: calls by the names of TVM, of d2l-tvm, and of MXNet as a baseline. Out: what `te`, `build` and
`lower` of autotune return, in objects with these names. Read `tvm/__init__.py` first. `import
autotune` loads none of it; docs/compat.md has a table of the names.
"""
