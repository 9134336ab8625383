"""Functions for NVIDIA GPUs: NVRTC compiles them, CuPy loads and launches them.

In: CUDA C++. Out: machine code as bytes, and functions called with arrays on a device. Read
`gpu_function.py` first; only `cupy_driver.py` needs a driver.
"""
