"""Duplication: for a while some datagrams between two hosts arrive twice.

So do those that a switch floods or a sender's radio repeats. TCP drops the second, UDP does not.
"""

from __future__ import annotations

from foretold.world.faults.kind import SomeDatagrams


class Duplication(SomeDatagrams):
    name = "duplication"
    touches = "duplication"
    shares = (0.05, 0.2, 0.5, 1.0)
