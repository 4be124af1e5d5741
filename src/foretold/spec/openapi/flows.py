"""Which of the ids that are known is taken for a request.

An id belongs to whoever got it. Who takes which is a matter of a run's *manner*:

    own       six of eight are one's own, one is anybody's, one is made up
    anybody's most are anybody's: for APIs in which one acts on what others have made
    few       most are those of what was changed last, and of the two things before, whoever's they
              are. An order is paid, then packed, then sent: by chance alone few get that far
    any way   in a storm each of these in turn, and nothing is made up: most calls shall succeed

`/likes/{target_type}/{target_id}`: which kind of id is meant is said by the word next to it.

Other fields have rules that no schema tells: a year has to be one in which the world exists. What
an answer has told under the same name is likely to be right, so in a storm one of two is that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from foretold.spec.machine.bundles import PICKS, SHELVES, Kept, Shelves, ranked
from foretold.spec.openapi.resources import ANYTHING, HARVEST_MAX, Key, singular, words

HOWS = 8
OWN, ANYBODYS, FEW = "own", "anybody's", "few"
MANNERS = (OWN, FEW, ANYBODYS, FEW)
"""The first is the calm one; few things give races and long lives, so that comes twice."""
_BELOW = {OWN: (6, 6, 6), ANYBODYS: (1, 1, 1), FEW: (1, 4, 6)}
"""Of eight: so many are one's own, up to so many the last thing's, one of the last few things'."""
_BELOW_IN_STORM = (2, 3, 4)
MADE_UP_FROM = 7
LAST_FEW = 3
DEPTH_MAX = 6
TOLD_MAX = 8
"""So many values of a field are remembered."""


class Owned:
    """An id that the API gave out: to whom, and an object of its own, so that it can be told from
    an equal number that means something else."""

    owner: int = -1


class OwnedText(str, Owned):
    """A text that is an id."""


class OwnedNumber(int, Owned):
    """A number that is an id."""


def owned(value: str | int, owner: int) -> str | int:
    """The value, as an id of somebody's."""
    made: Any = OwnedText(value) if isinstance(value, str) else OwnedNumber(value)
    made.owner = owner
    found: str | int = made
    return found


class Flow(st.SearchStrategy[Any]):
    """Ids of one kind: one's own, those of a few things, anybody's, or made up (`otherwise`)."""

    def __init__(
        self, key: Key, otherwise: st.SearchStrategy[Any], *, presumed: bool = False
    ) -> None:
        super().__init__()
        self.key = key
        self.otherwise = otherwise
        self.presumed = presumed
        """If none of them is known, others may be of this kind."""

    def __repr__(self) -> str:
        return f"ids of {self.key.name}"

    def do_draw(self, data: Any) -> Any:
        """Always the same two choices, whatever there is, so that a tape means the same."""
        source, machine = data.provider.drawer.source, data.hypothesis_runner
        how = source.choose(HOWS, f"whose {self.key.name}")
        number = source.choose(PICKS, self.key.name)
        shelves: Shelves = machine.world.shared[SHELVES]
        values: list[Kept] = shelves.values(self._key_now(machine).name)
        if not values and self.presumed:
            values = shelves.values(ANYTHING.name)
        if not values or (how >= MADE_UP_FROM and not machine.is_in_storm):
            return data.draw(self.otherwise)
        kept = ranked(_pool(values, how, machine), number)[0]
        shelves.drawn.append(kept)
        return kept.value

    def _key_now(self, machine: Any) -> Key:
        return self.key


def _pool(values: list[Kept], how: int, machine: Any) -> list[Kept]:
    below = _BELOW_IN_STORM if machine.is_in_storm else _BELOW[machine.manner]
    own_below, last_below, few_below = below
    if how < own_below:
        own = [kept for kept in values if kept.value.owner == machine.acting]
        return own or values
    if how < few_below:
        things = {str(kept.value): kept for kept in values}
        order = sorted(things, key=lambda name: machine.changed.get(name, 0))
        return [things[name] for name in order[-1 if how < last_below else -LAST_FEW :]]
    return values


class Echo(st.SearchStrategy[Any]):
    """Values of a field; in a storm also those that answers have had under its name."""

    def __init__(
        self, name: str, otherwise: st.SearchStrategy[Any], fits: Callable[[Any], bool]
    ) -> None:
        super().__init__()
        self.name = name
        self.otherwise = otherwise
        self.fits = fits

    def __repr__(self) -> str:
        return repr(self.otherwise)

    def do_draw(self, data: Any) -> Any:
        """Outside of storms nothing more is drawn."""
        machine = data.hypothesis_runner
        values = [v for v in machine.told(self.name) if self.fits(v)] if machine.is_in_storm else []
        source = data.provider.drawer.source
        if values and source.choose(2, f"a {self.name} that was told"):
            return values[source.choose(len(values), self.name)]
        return data.draw(self.otherwise)


def told_in(answer: Any, found: dict[str, list[Any]], depth: int = 0) -> None:
    """The plain values in an answer, by the names of their fields."""
    if isinstance(answer, list) and depth < DEPTH_MAX:
        for each in answer[:HARVEST_MAX]:
            told_in(each, found, depth + 1)
    elif isinstance(answer, Mapping) and depth < DEPTH_MAX:
        for name, each in answer.items():
            if isinstance(each, list | Mapping):
                told_in(each, found, depth + 1)
            elif isinstance(each, str | int | float) and not isinstance(each, bool):
                values = found.setdefault(words(name), [])
                if each not in values and len(values) < TOLD_MAX:
                    values.append(each)


class Sort(st.SearchStrategy[Any]):
    """A word that says which kind of thing the id next to it is of: `target_type`. If nothing of
    that kind is known, it is the next word of which something is."""

    def __init__(self, about: str, words: Sequence[Any], kinds: Mapping[str, Key]) -> None:
        super().__init__()
        self.about = about
        self.words = words
        self.kinds = kinds

    def __repr__(self) -> str:
        return f"sampled_from({self.words!r})"

    def do_draw(self, data: Any) -> Any:
        """One choice."""
        source, machine = data.provider.drawer.source, data.hypothesis_runner
        first = source.choose(len(self.words), f"which {self.about}")
        order = [*self.words[first:], *self.words[:first]]
        shelves: Shelves = machine.world.shared[SHELVES]
        known = (w for w in order if (key := _kind(self.kinds, w)) and shelves.values(key.name))
        word = machine.sorts[self.about] = next(known, order[0])
        return word


def _kind(kinds: Mapping[str, Key], word: Any) -> Key | None:
    return kinds.get(singular(str(word)))


class SortedFlow(Flow):
    """Ids of the kind that the word next to them says; of whatever, if it says nothing."""

    def __init__(
        self, about: str, kinds: Mapping[str, Key], otherwise: st.SearchStrategy[Any]
    ) -> None:
        super().__init__(ANYTHING, otherwise)
        self.about = about
        self.kinds = kinds

    def _key_now(self, machine: Any) -> Key:
        return _kind(self.kinds, machine.sorts.get(self.about)) or self.key
