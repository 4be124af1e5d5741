"""L2: what surrounds the program: the world of one run and the hosts in it."""
