"""C libraries that open sockets by themselves, led to the simulated computer.

`images.py` finds where a loaded library keeps the addresses of the functions it imports, and puts
others there; `calls.py` has the C functions that stand in for libc's; `libpq.py` says which
libraries are treated so.
"""
