"""Reordering: for a while some datagrams between two hosts take a detour, and others overtake them.

So it is when a route changes or a flow is spread over several links. Each of them still arrives.
"""

from __future__ import annotations

from foretold.world.faults.kind import SomeDatagrams


class Reordering(SomeDatagrams):
    name = "reordering"
    touches = "reordering"
    shares = (0.05, 0.2, 0.5)
