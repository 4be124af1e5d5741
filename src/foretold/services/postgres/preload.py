"""The library that is loaded into the server, built of preload.c.

Without a compiler the server still works: its clock is then the real one. Whoever needs the virtual
clock is told why it is missing.
"""

from __future__ import annotations

from importlib import resources

from foretold.kernel.native import build
from foretold.kernel.native.build import Missing

__all__ = ["Missing", "library"]


def library() -> bytes:
    """The shared library, ready to be written where the server can read it."""
    source = resources.files(__package__).joinpath("preload.c").read_bytes()
    return build.library("preload", source)
