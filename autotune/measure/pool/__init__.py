"""Worker processes: started, asked, answered, replaced when they die.

In: requests of the scheduler. Out: responses, or how a worker died. Read `worker_pool.py` first;
`worker.py` is what runs in a worker, a `Builder` or a `Runner`; `fork_server.py` forks it.
"""
