"""Where seeds come from.

One number stands for a whole pytest run: it is in the header, and pins the run when given again.
Each test gets a seed of its own from it, by the test's id. So a test sees the same runs whether it
runs alone or with others, in whatever order, in whichever worker; and no two see the same.
"""

from __future__ import annotations

import hashlib
import os

from foretold.errors import UsageError
from foretold.kernel import real

VARIABLE = "FORETOLD_SEED"
_BYTES = 4  # short enough to be typed


def fresh_seed() -> int:
    """A number that nobody knew before."""
    return int.from_bytes(real.urandom(_BYTES), "big")


def seed_for(seed: int, test: str) -> int:
    """The seed of one test: BLAKE2b of `SEED:TEST`, 4 bytes, as a big-endian number.

    Part of the interface: a seed from a log must give the same runs in years to come.
    """
    data = f"{seed}:{test}".encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(data, digest_size=_BYTES).digest(), "big")


def seed_of_environment() -> int | None:
    """What `FORETOLD_SEED` says, if it says something."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    try:
        return int(text) if text.isdecimal() else int(text, 0)
    except ValueError:
        raise UsageError(
            f"{VARIABLE}={text}: a seed is a whole number, such as {VARIABLE}=12345 or 0x3039"
        ) from None
