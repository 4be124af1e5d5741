"""A filter that does not give up after three tries, as Hypothesis' own does.

Models refuse what their validators don't like, and a pattern may fit a length only now and then. A
draw that gives up costs a whole step; twenty tries cost microseconds. A third file that touches
private API of Hypothesis: what a strategy is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

TRIES = 20
_LABEL = 0x6F7264  # spans have numbers; any will do that nobody else uses


class Persistent(st.SearchStrategy[Any]):
    """Values of `inner` that fit."""

    def __init__(self, inner: st.SearchStrategy[Any], fits: Callable[[Any], bool]) -> None:
        super().__init__()
        self.inner = inner
        self.fits = fits

    def __repr__(self) -> str:
        return f"{self.inner!r}.filter({getattr(self.fits, '__name__', self.fits)})"

    def do_validate(self) -> None:
        """Hypothesis asks for it when the strategy is first used."""
        self.inner.validate()

    def do_draw(self, data: Any) -> Any:
        """Draw until a value fits. Tries that don't are marked, so that they are left out later."""
        for _ in range(TRIES):
            data.start_span(_LABEL)
            value = data.draw(self.inner)
            fits = self.fits(value)
            data.stop_span(discard=not fits)
            if fits:
                return value
        data.mark_invalid(f"{TRIES} values in a row did not fit")
        return None
