"""Functions for NVIDIA GPUs: NVRTC compiles them, CuPy loads and launches them.

In: CUDA C++. Out: machine code as bytes, and functions called with arrays on a device. A source
(`gpu_source.py`) is compiled to a program, which is plain data (`gpu_program.py`); loaded on a
device (`loaded_program.py`), it becomes a function of arrays (`gpu_function.py`). Read
`gpu_function.py` first; only `cupy_driver.py` needs a driver.
"""
