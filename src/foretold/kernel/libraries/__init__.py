"""What foretold knows about the inside of libraries, one file for each.

Whoever reads that a library has changed finds here what depends on it.
"""
