"""Threads under the tape: real threads of the operating system, of which one runs at a time.

baton.py    who runs: one thread hands over to the other, and only then goes to sleep
strand.py   one thread of the simulated program
crew.py     the threads of one host: which of them goes on, who waits for what
pool.py     which scheduler decides among them, and how its choices are written down
newborn.py  new threads may wait until all are started
preempt.py  switches between the lines of a module
locks.py    lock methods, conditions and queues while threads are there
alone.py    locks of a run that has no threads
buffers.py  files that two threads use at once
start.py    how threads begin and end
stacks.py   where threads stand, for deadlocks and stories
ending.py   what becomes of threads when the run is over, or their host is
"""
