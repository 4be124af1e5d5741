"""Sets of fault kinds: what `faults=` takes, and how that is written on a tape."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from foretold.arguments import known_words, nearest
from foretold.errors import UsageError
from foretold.world.faults.aim import AT, Aim, Aimed, aim_at, aim_of
from foretold.world.faults.kind import Kind

_KNOWN: dict[str, Kind] = {}
"""All kinds there are, by name; in the order in which they were made known."""


_SETS: dict[str, FaultSet] = {}
"""Sets that a text may name instead of all of their kinds."""


class FaultSet:
    """Some kinds of faults, in a fixed order. Which of them a run has is drawn from its tape."""

    def __init__(self, kinds: tuple[str, ...]) -> None:
        order = list(_KNOWN)
        self.kinds = tuple(sorted(dict.fromkeys(kinds), key=lambda name: order.index(_plain(name))))

    @classmethod
    def of(cls, *kinds: Kind) -> FaultSet:
        """A set of new kinds, which are made known by their names."""
        for kind in kinds:
            _KNOWN.setdefault(kind.name, kind)
        return cls(tuple(kind.name for kind in kinds))

    def __add__(self, other: FaultSet) -> FaultSet:
        if not isinstance(other, FaultSet):
            return NotImplemented
        return FaultSet(self.kinds + other.kinds)

    def only(self, *names: str) -> FaultSet:
        """These kinds alone."""
        self._check(names, "only")
        return FaultSet(tuple(name for name in self.kinds if _is_named(name, names)))

    def without(self, *names: str) -> FaultSet:
        """All kinds but these."""
        self._check(names, "without")
        return FaultSet(tuple(name for name in self.kinds if not _is_named(name, names)))

    def on(self, *names: str) -> FaultSet:
        """The same kinds, on these hosts alone: names, or patterns such as `"worker*"`. Kinds
        between hosts strike ways with one of them at an end; kinds of no host are left out."""
        return self._aimed("on", Aim(aim_at("on", *names)))

    def between(self, one: str, other: str) -> FaultSet:
        """The kinds that strike ways between two hosts, or between hosts of two patterns."""
        aim = Aim(aim_at("between", one), aim_at("between", other))
        return self._aimed("between", aim, lambda kind: kind.strikes == "network")

    def _aimed(self, verb: str, aim: Aim, fits: Callable[[Kind], bool] = bool) -> FaultSet:
        kinds = [name for name in self.kinds if AT not in name and _KNOWN[name].aims]
        aimed = tuple(f"{name}{AT}{aim}" for name in kinds if fits(_KNOWN[name]))
        if not aimed:
            raise UsageError(
                f"{verb}(…): none of {', '.join(self.kinds) or 'these faults'} can be aimed at "
                "hosts.\n"
                '  right: foretold.faults.hosts.on("worker*"), '
                'foretold.faults.network.between("api", "db")'
            )
        return FaultSet(aimed)

    def _check(self, names: tuple[str, ...], verb: str) -> None:
        for name in names:
            if not any(_is_named(kind, (name,)) for kind in self.kinds):
                known = known_words(name, self.kinds)
                raise UsageError(f"{verb}({name!r}): this set has no such kind; it has {known}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.kinds)

    def __len__(self) -> int:
        return len(self.kinds)

    def __contains__(self, name: object) -> bool:
        return name in self.kinds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FaultSet) and self.kinds == other.kinds

    def __hash__(self) -> int:
        return hash(self.kinds)

    def __str__(self) -> str:
        """As a tape keeps it: the names themselves, so that a set may grow without changing an old
        tape."""
        return " ".join(self.kinds)

    def __repr__(self) -> str:
        return f"<faults {', '.join(self.kinds) or 'none'}>"


def name_sets(**sets: FaultSet) -> None:
    """Give sets their names: `faults="network kill"`."""
    _SETS.update(sets)


def faults_text(faults: Any) -> str:
    """What `faults=` was given, as a tape keeps it."""
    if faults is None:
        return ""
    if isinstance(faults, str):
        names = [_kinds_named(name) for name in faults.split()]
        kinds = fault_kinds(" ".join(itertools.chain.from_iterable(names)))
        return str(FaultSet(tuple(kind.name for kind in kinds)))
    if isinstance(faults, FaultSet):
        return str(faults)
    raise UsageError(
        f"faults is a set of faults, such as faults=foretold.faults.network, or their names in one "
        f"text, such as 'partition reset' or 'network'; got {faults!r}"
    )


def sets_within(text: str) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """How a tape's setting may have been asked for: the sets that are in it as a whole, the largest
    ones, and the kinds that are in none of them."""
    left = dict.fromkeys(text.split())
    found = {}
    aims = dict.fromkeys("".join(name.partition(AT)[1:]) for name in left)
    for name, kinds in sorted(_SETS.items(), key=lambda each: -len(each[1])):
        for aim in aims:
            aimed = [f"{kind}{aim}" for kind in kinds if not aim or _KNOWN[kind].aims]
            if aimed and all(kind in left for kind in aimed):
                found[f"{name}{aim}"] = tuple(aimed)
                left = {kind: None for kind in left if kind not in aimed}
    return found, list(left)


def _plain(name: str) -> str:
    """The kind, without its aim."""
    return name.partition(AT)[0]


def _is_named(kind: str, names: tuple[str, ...]) -> bool:
    return kind in names or _plain(kind) in names


def _kinds_named(name: str) -> tuple[str, ...]:
    """A kind, or the kinds of a set: `hosts`, `hosts@worker*`."""
    word, _, aim = name.partition(AT)
    if word not in _SETS:
        return (name,)
    found = _SETS[word]
    return tuple(found._aimed(name, aim_of(aim)) if aim else found)


def fault_kinds(text: str) -> list[Kind]:
    """The kinds behind a tape's setting."""
    for name in map(_plain, text.split()):
        if name not in _KNOWN:
            known = ", ".join(_KNOWN)
            meant = nearest(name, [*_KNOWN, *_SETS])
            sets = ", ".join(_SETS)
            raise UsageError(
                f"there is no fault {name!r}; there are {known}, and the sets {sets}.{meant}"
            )
    return [_kind(name) for name in text.split()]


def _kind(name: str) -> Kind:
    word, _, aim = name.partition(AT)
    kind = _KNOWN[word]
    if not aim:
        return kind
    if not kind.aims:
        raise UsageError(f"{name!r}: {word} strikes no host, so it cannot be aimed. Write {word!r}")
    return Aimed(kind, aim_of(aim))
