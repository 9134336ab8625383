"""Whether a device measures like its peers, which is found out before it measures anything else.

In: times of the reference kernels and of the default on each device. Out: the devices that are set
aside, and why. Read `like_peers.py` first.
"""
