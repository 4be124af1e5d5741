"""Libraries in C and Rust, led to the simulated computer by their tables of imports.

`extensions.py` and `hooks.c` treat all of them alike: clocks, sleeps and randomness are answered,
ways out of the world are told. `build.py` compiles. `openssl.py` and `uuid_utils.py` are for
libraries that keep a generator for the life of the process.

libpq is on the simulated network: `images.py` finds where it keeps the addresses of the functions
that it imports, `calls.py` has those that stand in for libc's, `libpq.py` says which libraries are
treated so.
"""
