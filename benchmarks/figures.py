"""How a figure is written down: ours, the other one, and whether the bar was met."""

from __future__ import annotations

from typing import Any


def row(ours: float, stock: float, bar: float | None) -> dict[str, Any]:
    """One line of the result."""
    ratio = ours / stock
    return {
        "ours": round(ours),
        "stock": round(stock),
        "ratio": round(ratio, 3),
        "bar": bar,
        "met": bar is None or ratio >= bar,
    }
