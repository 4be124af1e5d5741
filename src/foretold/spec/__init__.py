"""L3: what must hold, and what a workload chooses."""
