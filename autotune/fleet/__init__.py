"""Many devices measure for one search: a Ray cluster runs our runners, and this package the queue.

In: the candidates of a search. Out: their results, in any order, each with its node and device.
Read `fleet_scheduler.py` first, which `fleet_measurer.py` completes. `builds` builds candidates,
`peers` tells which devices measure alike. `cluster.py` says what is needed of a cluster, and
`ray_cluster.py`, the only module that imports Ray, does it. `fleet_runner.py` is what measures on
the nodes.
"""
