"""What Linux says about the pages of this process: some are opened to write into libraries."""

from __future__ import annotations

from pathlib import Path


def rights_at(address: int) -> str:
    """What the process may do with a page, as Linux says."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        where, rights, *_ = line.split()
        start, end = (int(part, 16) for part in where.split("-"))
        if start <= address < end:
            return rights
    return ""
