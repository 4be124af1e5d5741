"""SQLite inside a run: its own C code, unmodified, on the simulated disk, clock and randomness.

abi.py      the few structures and numbers of SQLite's C interface that are needed
library.py  which copies of SQLite this process has, and where their file layer is
vfs.py      the file layer while we are installed: C calls to the methods of the computer's disk
adopt.py    when a copy is changed, and what begins anew with each run
turns.py    the methods of `sqlite3.Connection`: one thread at a time, each call a point
"""
