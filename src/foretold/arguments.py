"""What the public calls accept: the checks that they share, and the sentence for what does not fit.

Each says what was given, what is wanted, and the line to write instead; a misspelt word gets the
nearest one that exists.
"""

from __future__ import annotations

import difflib
import inspect
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

from foretold.errors import UsageError

SEED_BITS_MAX = 128
METHODS = ("GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS")
"""Of HTTP, as routes and operations name them."""


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """`inspect.signature`. Since Python 3.14 that evaluates annotations, so that a name which is
    imported for type checkers alone raises a NameError. Here such a name is left as it is."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def is_factory(given: Any) -> bool:
    """Whether this can make an application, for each run a new one: a function that needs no
    arguments."""
    if not inspect.isfunction(given) or inspect.iscoroutinefunction(given):
        return False
    parameters = signature_of(given).parameters.values()
    return all(p.default is not p.empty for p in parameters)


def nearest(word: object, known: Iterable[str]) -> str:
    """` Did you mean 'random'?`, or nothing if no word is near."""
    close = difflib.get_close_matches(word, list(known), 1) if isinstance(word, str) else []
    return f" Did you mean {close[0]!r}?" if close else ""


def known_words(word: object, known: Iterable[str]) -> str:
    """`a, random. Did you mean 'random'?`: all words that there are, and the one that is near."""
    words = list(known)
    return f"{', '.join(words)}.{nearest(word, words)}"


def check_word(name: str, value: object, known: Iterable[str], *, none: str = "") -> None:
    """One of a few words; or None, if that means something, which `none` says."""
    words = list(known)
    if value is None and none:
        return
    if not isinstance(value, str) or value not in words:
        *others, last = [*map(repr, words), *([f"None {none}"] if none else [])]
        wanted = f"{', '.join(others)} or {last}" if others else last
        raise UsageError(f"{name} is {wanted}, got {value!r}.{nearest(value, words)}")


def check_whole(name: str, value: object, *, at_least: int, example: int) -> None:
    """A whole number: `runs=3`, not "3", 3.0 or True."""
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise UsageError(
            f"{name} is a whole number, {at_least} or more, such as {name}={example}; got {value!r}"
        )


def check_number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    finite: bool = True,
) -> None:
    """A number, whole or not, inside of its bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise UsageError(f"{name} is a number, such as 1 or 0.5; got {value!r}")
    bounds = {
        "finite": not finite or not math.isinf(value),
        f"above {above}": above is None or value > above,
        f"at least {at_least}": at_least is None or value >= at_least,
        f"below {below}": below is None or value < below,
        f"at most {at_most}": at_most is None or value <= at_most,
    }
    wrong = [bound for bound, holds in bounds.items() if not holds]
    if wrong:
        raise UsageError(f"{name} must be {wrong[0]}, got {value!r}")


def check_seed(seed: object) -> None:
    """Any whole number that a person may write down."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise UsageError(f"a seed is a whole number, such as seed=7; got {seed!r}")
    if seed.bit_length() > SEED_BITS_MAX:
        raise UsageError(
            f"a seed has at most {SEED_BITS_MAX} bits, this one has {seed.bit_length():,}. "
            f"To make one of more: seed = number % 2**{SEED_BITS_MAX}"
        )


def printable(name: str) -> str:
    """A name on one line: what a terminal would not show is written as `\\n`, `\\x1b`."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def plain(text: str) -> str:
    """The text alone. A member of an enumeration is a text too, but need not be known in the
    process that gets it."""
    return text if type(text) is str else str.__str__(text)
