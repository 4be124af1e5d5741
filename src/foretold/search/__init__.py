"""L4: how tapes are found, shrunk, confirmed and kept."""
