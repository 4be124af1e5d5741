"""L1: the simulated computer. Loop, clock, entropy, the fence, and the schedulers.

Nothing in here knows of tests, properties or searches.
"""
