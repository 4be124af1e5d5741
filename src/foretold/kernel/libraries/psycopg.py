"""psycopg: the names of its pools."""

from __future__ import annotations

from typing import Final

COUNTERS: Final = (("psycopg_pool.base", "BasePool", "_num_pool", lambda: 0),)
"""psycopg_pool names its pools and their threads by that."""
