"""Why one tape gave two runs: the known causes, and how the last of them look.

Set order, addresses and state are told apart by experiments (`check.py`). What remains came from
outside of the run, and the contents that differ may show from where.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from foretold.kernel import real
from foretold.search.checking.observe import Observation


@dataclass(frozen=True, slots=True)
class Cause:
    """Why two runs of one tape differ, as far as can be told."""

    name: str
    why: str
    remedy: str


SET_ORDER = Cause(
    "set order",
    "the difference vanishes when both processes have the same hash seed. The order of a set of "
    "strings, bytes or enum members (or the hash() of one) decides something",
    "sort where the order matters: for name in sorted(names). If the set is a library's: searches "
    "and replays have hash seed 0, so they repeat all the same",
)
ADDRESSES = Cause(
    "object addresses",
    "the difference comes and goes with where objects lie in memory. id(), the default hash() or "
    "repr() of an object, or the order of a set of plain objects decides something",
    "give the objects a number or a name, and sort by that",
)
MODULE_STATE = Cause(
    "state kept between runs",
    "fresh processes agree, but in each of them the third run differs from the second. Something "
    "at module level (a counter, a list, a pool) remembers the runs before",
    'reset it at the beginning of the test; or start each run in a fork, isolation="fork"; or give '
    'a host a copy of the module, world.host("api", isolate=["module"])',
)
ESCAPE = Cause(
    "an escape",
    "the program reached for the real world, and foretold stopped it there",
    "the message of EscapedWorld says what to write instead",
)
REAL_TIME = Cause(
    "real time",
    "what differs looks like a time or a duration. A clock that foretold does not replace is read: "
    "inside a C extension, or as the date of a file",
    "use time.time(), time.monotonic() or datetime.now(), or pass the time in",
)
REAL_RANDOMNESS = Cause(
    "real randomness",
    "what differs looks like a random value. A library has a generator of its own, seeded before "
    "the run or by the machine",
    "seed it at the beginning of the run, for instance from random.getrandbits(64)",
)
OUTSIDE = Cause(
    "something outside of the run",
    "the difference stays with the same hash seed and the same addresses. A file, the environment, "
    "a clock or a generator that foretold does not replace decides something",
    "look at what the step before the difference reads",
)

_DATE = re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d")
_HEX = re.compile(r"\b[0-9a-f]{16,}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|<\d+ bytes ")
_NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])")
_DAY_S = 86_400


def by_look(
    seen: Iterable[Observation], left: str, right: str, otherwise: Cause = OUTSIDE
) -> Cause:
    """The likely cause of a difference that no experiment explains, from the two events."""
    if any(each.kind.endswith("EscapedWorld") for each in seen):
        return ESCAPE
    if _DATE.search(left) and _DATE.search(right):
        return REAL_TIME
    if _HEX.search(left) and _HEX.search(right):
        return REAL_RANDOMNESS
    for here, there in zip(_NUMBER.findall(left), _NUMBER.findall(right), strict=False):
        if here != there:
            return _by_numbers(float(here), float(there)) or otherwise
    return otherwise


def _by_numbers(here: float, there: float) -> Cause | None:
    now = real.time()
    for unit in (1, 1e3, 1e6, 1e9):
        if abs(here / unit - now) < _DAY_S and abs(there / unit - now) < _DAY_S:
            return REAL_TIME
    if here == int(here) and there == int(there):
        return None
    # Two measurements of one thing are of one size; two random numbers rarely are that close.
    close = here > 0 < there and abs(here - there) < 0.3 * max(here, there)
    return REAL_TIME if close else REAL_RANDOMNESS
