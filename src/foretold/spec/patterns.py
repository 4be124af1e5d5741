"""Texts that match a pattern.

Patterns of JSON Schema are JavaScript's, those of Pydantic are Rust's. Nearly all mean the same in
Python; what is written otherwise is translated: `\\p{L}`, `(?<name>…)`, `\\z`, `\\u{e4}`.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from foretold.spec.hypothesis_filters import Persistent
from foretold.spec.limits import Impossible

Strategy = st.SearchStrategy[Any]

TEXT = st.characters(codec="utf-8", exclude_characters="\0")
LETTERS = range(1, 0x600)
"""Of a class such as `\\p{L}` those up to Hebrew are taken: enough to see what others do."""


def matching(pattern: str, low: int = 0, high: int | None = None) -> Strategy:
    """Texts that match a pattern somewhere, as JSON Schema and Pydantic mean it. Raises
    `Impossible`."""
    pattern = in_python(pattern)
    repeated = _REPEATED.fullmatch(pattern)
    if repeated is not None:
        return _repeating(*repeated.groups(), low=low, high=high)
    whole = pattern.startswith("^") and pattern.endswith("$") and not pattern.endswith(r"\$")
    found = st.from_regex(pattern, fullmatch=whole, alphabet=TEXT)
    if not low and high is None:
        return found
    return Persistent(found, lambda text: low <= len(text) and (high is None or len(text) <= high))


_REPEATED = re.compile(r"\^(\[(?:\\.|[^\]\\])+\]|\\[wds]|\.)(?:([*+])|\{(\d+),(\d*)\})\$")
"""One kind of character, so many times: by far the most patterns that come with a length."""
_ALL_BUT = re.compile(r"\[\^((?:\\x00|\\0|\\n|\\r|\\t|[^\\\]-])+)\]")


def _repeating(
    one: str, sign: str | None, least: str | None, most: str | None, *, low: int, high: int | None
) -> Strategy:
    low = max(low, int(least or 0), 1 if sign == "+" else 0)
    bounds = [bound for bound in (high, int(most) if most else None) if bound is not None]
    letters = _ALL_BUT.fullmatch(one)
    if letters is not None:
        without = re.sub(r"\\x00|\\0", "\0", letters[1]).encode().decode("unicode_escape")
        alphabet: Strategy = st.characters(codec="utf-8", exclude_characters=f"\0{without}")
    else:
        alphabet = st.from_regex(one, fullmatch=True, alphabet=TEXT)
    return st.text(alphabet, min_size=low, max_size=min(bounds, default=None))


# ---------------------------------------------------------------- as others write them


@lru_cache(maxsize=512)
def in_python(pattern: str) -> str:
    """The pattern, as Python reads it. Raises `Impossible`."""
    try:
        re.compile(pattern)
    except re.error as error:
        first = error
    else:
        return pattern
    found = _translated(pattern)
    try:
        re.compile(found)
    except re.error:
        raise Impossible(f"Python cannot read the pattern {pattern!r}: {first}") from None
    return found


_FOREIGN = re.compile(
    r"(?P<sign>\\[pP])(?:\{\^?(?P<long>[\w=]+)\}|(?P<short>[A-Z]))"
    r"|\\[ux]\{(?P<code>[0-9a-fA-F]{1,6})\}|(?P<end>\\z)|(?P<group>\(\?<(?=[A-Za-z_]))"
    r"|\\.|\[\^?\]?|\]|.",
    re.DOTALL,
)
_LONG = {"letter": "L", "alphabetic": "L", "lowercase_letter": "Ll", "lowercase": "Ll",
         "uppercase_letter": "Lu", "uppercase": "Lu", "titlecase_letter": "Lt", "mark": "M",
         "number": "N", "decimal_number": "Nd", "punctuation": "P", "symbol": "S",
         "separator": "Z", "space_separator": "Zs", "other": "C", "control": "Cc"}  # fmt: skip


def _translated(pattern: str) -> str:
    made: list[str] = []
    inside = False  # of brackets
    for found in _FOREIGN.finditer(pattern):
        text = found[0]
        if found["sign"]:
            text = _class_of(found["long"] or found["short"], found["sign"], text)
            text = text if inside else f"[{text}]"
        elif found["code"]:
            text = re.escape(chr(min(int(found["code"], 16), 0x10FFFF)))
        elif found["end"]:
            text = r"\Z"
        elif found["group"]:
            text = "(?P<"
        elif text.startswith("[") and not inside:
            inside = True
        elif text == "]":
            inside = False
        made.append(text)
    return "".join(made)


@lru_cache(maxsize=64)
def _class_of(name: str, sign: str, otherwise: str) -> str:
    """The letters of a general category as they stand in brackets; what is none is left as it is,
    so that Python says what is wrong with it."""
    plain = name.rpartition("=")[2]
    category = _LONG.get(plain.lower(), plain)
    wanted = (sign == r"\p") is not ("^" in otherwise)
    known = [chr(n) for n in LETTERS if unicodedata.category(chr(n)).startswith(category)]
    others = sorted(set(map(chr, LETTERS)) - set(known))
    return "".join(map(re.escape, known if wanted else others)) if known else otherwise
