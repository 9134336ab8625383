"""Worker processes: started, asked, answered, replaced when they die.

In: requests of the scheduler. Out: responses, or how a worker died. Read `worker_pool.py` first;
`worker.py` is what runs in a worker, `fork_server.py` what forks it.
"""
