"""A real PostgreSQL server whose clock, timers, sleeps and randomness obey the world."""
