"""Child processes: one way to start, ask, limit and end them, for every part that needs one.

A child is `python -m module`, started by `start` and seen through `child.Child`. It calls
`serve.serve`, which answers requests until its standard input ends. Both sides speak `frames`.

The standard library has no part for this. `multiprocessing` and `concurrent.futures` import the
caller's `__main__` in the child, unpickle what it sends, and let one crash break a whole pool.
`multiprocessing.connection` waits without limit for the rest of a message. `asyncio` needs a loop
in the caller's thread.
"""
