"""Aimed faults: kinds that strike some hosts only, or the way between some of them.

    foretold.faults.hosts.on("bubble*")             kill@bubble* pause@bubble* …
    foretold.faults.network.between("api", "db")    partition@api~db …

A tape keeps the names as they are written here on the right. An aimed kind draws from streams of
its own; kinds without an aim draw what they always drew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from foretold.errors import UsageError
from foretold.tape import Stream
from foretold.world.faults.kind import Kind

if TYPE_CHECKING:
    from foretold.world.faults.nemesis import Ground

AT, OR, TO = "@", "+", "~"
_PATTERN = re.compile(r"[\w.*?!\[\]-]+")


class Aim(NamedTuple):
    """Which hosts: one of the patterns; or, with a second list, ways from one to the other."""

    one: tuple[str, ...]
    other: tuple[str, ...] = ()

    def hits(self, host: str) -> bool:
        """Whether a host is meant, or may be one end of a way that is meant."""
        return _matches(host, self.one) or _matches(host, self.other)

    def hits_pair(self, a: str, b: str) -> bool:
        """Whether the way between two hosts is meant."""
        if not self.other:
            return self.hits(a) or self.hits(b)
        return (_matches(a, self.one) and _matches(b, self.other)) or (
            _matches(b, self.one) and _matches(a, self.other)
        )

    def __str__(self) -> str:
        return TO.join(OR.join(each) for each in (self.one, self.other) if each)


def _matches(host: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(host.lower(), pattern.lower()) for pattern in patterns)


def aim_at(verb: str, *patterns: object) -> tuple[str, ...]:
    """Patterns of host names, such as `"worker*"`."""
    for each in patterns:
        if not isinstance(each, str) or not _PATTERN.fullmatch(each):
            raise UsageError(
                f"{verb}({each!r}): a host's name, or a pattern of names such as 'worker*', is "
                'wanted.\n  right: foretold.faults.hosts.on("worker*")'
            )
    if not patterns:
        raise UsageError(f'{verb}() names no host.\n  right: foretold.faults.hosts.on("worker*")')
    return tuple(map(str, patterns))


def aim_of(text: str) -> Aim:
    """An aim as a tape keeps it."""
    one, _, other = text.partition(TO)
    first = aim_at("faults", *one.split(OR))
    return Aim(first, aim_at("faults", *other.split(OR)) if other else ())


class Aimed(Kind):
    def __init__(self, kind: Kind, aim: Aim) -> None:
        self.kind, self.aim = kind, aim
        self.name = f"{kind.name}{AT}{aim}"
        self.strikes = kind.strikes
        # Those who feel a fault tell of it by the name of the kind, not by ours.
        self.effect = "unknown" if kind.effect == "told" else kind.effect

    def strike(self, ground: Ground, choices: Stream) -> Iterator[float]:
        return self.kind.strike(ground.aimed(self.aim), choices)
