"""Was a generator given its seed by the program, or by the machine? Its state tells.

`random.Random(seed)` cuts the seed into words of 32 bits, one or a few, and stirs them into the 624
words of the state by going round and round; `random.Random()` stirs in 624 words of `os.urandom`,
one each. Both steps can be undone: from the state follow the words that were stirred in, and a seed
of few words shows by their repetition. What was drawn since can be undone as well, 624 words at a
time.

The answer "by the program" is certain; after very many draws, or for a seed of more than a thousand
bytes, it is missed. That is the harmless side: such a generator is seeded by the tape.
"""

from __future__ import annotations

import functools
import struct
from typing import Final

WORDS: Final = 624
_SHIFT = 397
_UPPER, _LOWER, _ALL = 0x8000_0000, 0x7FFF_FFFF, 0xFFFF_FFFF
_MATRIX = 0x9908_B0DF
_PERIOD_MAX = WORDS // 2 - 1
_TWISTS_MAX = 16
"""So many times 624 words may have been drawn since; each costs half a millisecond to undo."""

_LAYOUT: Final = struct.Struct(f"=i{WORDS}I")


def is_given_seed(raw: bytes) -> bool:
    """Whether this state (`_random.Random` in C: an index and 624 words) grew from a short seed."""
    words = list(_LAYOUT.unpack_from(raw)[1:])
    if words[0] == _UPPER:  # so leaves it the seeding, and nothing else
        return _repeats(_stirred_in(words))
    for _ in range(_TWISTS_MAX):
        words = _untwisted(words)
        if words[0] & _UPPER and _repeats(_stirred_in(words)):
            return True
    return False


def _repeats(words: list[int]) -> bool:
    return any(words[n:] == words[:-n] for n in range(1, _PERIOD_MAX + 1) if words[0] == words[n])


@functools.cache
def _before_stirring() -> list[int]:
    """The constant state that a seed is stirred into (`init_genrand(19650218)`)."""
    words = [19650218]
    for i in range(1, WORDS):
        words.append((1812433253 * (words[-1] ^ words[-1] >> 30) + i) & _ALL)
    return words


def _stirred_in(words: list[int]) -> list[int]:
    """What `init_by_array` added in its first round, but for the first two, which are lost."""
    now = [words[-1], *words[1:]]
    for i in (1, *range(WORDS - 1, 1, -1)):  # its second round, backwards
        now[i] = (now[i] + i ^ (now[i - 1] ^ now[i - 1] >> 30) * 1566083941) & _ALL
    first = _before_stirring()
    return [
        now[i] - (first[i] ^ (now[i - 1] ^ now[i - 1] >> 30) * 1664525) & _ALL
        for i in range(3, WORDS)
    ]


def _mixed(left: int, right: int) -> int:
    """From the two words that a twist combined: the bits that it mixed into them."""
    bits = left ^ right
    odd = bits >> 31  # the matrix alone has that bit
    return (bits ^ _MATRIX if odd else bits) << 1 & _ALL | odd


def _untwisted(words: list[int]) -> list[int]:
    """The state before the last twist. The lower bits of its first word are lost, and not needed:
    the next step back finds them in the last word."""
    now = list(words)
    above = _mixed(now[-1], now[_SHIFT - 1])
    now[0] = now[0] & _UPPER | above & _LOWER
    for i in range(WORDS - 1, 0, -1):
        below = _mixed(now[i - 1], now[(i - 1 + _SHIFT) % WORDS])
        now[i] = above & _UPPER | below & _LOWER
        above = below
    now[0] = above & _UPPER
    return now
