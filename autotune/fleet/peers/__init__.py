"""Checks that a device measures like its peers, before it measures anything else.

In: times of the reference kernels and of the default on each device. Out: the devices that are set
aside, and why. Read `outliers.py` first.
"""
