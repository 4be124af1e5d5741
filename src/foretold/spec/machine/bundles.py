"""Bundles: values that rules hand to later rules.

A bundle is a Hypothesis strategy, so it stands wherever one does: as an argument, in
`st.lists(orders)`, in `st.one_of(orders, st.none())`, before `.map`, `.filter` and `.flatmap`. The
object on the class is only a name; the values belong to the run.

Which value a choice means must not depend on how many others there are, or a call could not be left
out by the shrinker without turning all later references into others. 0 is the newest value. Any
other number is thrown together with the birthplace of each value, and the largest result wins
(rendezvous hashing): while that value is there, the number means it.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis.strategies import SearchStrategy

from foretold.errors import UsageError
from foretold.world.current import world_or_none

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    T = typing.TypeVar("T")  # Python 3.11 and 3.12 know no default

PICKS = 256
SHELVES = "foretold machine: bundles"
"""Where the values of a run lie in `world.shared`."""
PER_SLOT = 64
_MASK = 0xFFFF_FFFF


class Kept(NamedTuple):
    """A value in a bundle."""

    birthplace: int
    """Which slot made it, and which of the values made there it is."""
    name: str
    """In its bundle: `orders_1`."""
    value: Any
    alias: str = ""
    """Its name in another bundle, by which a program calls it."""

    @property
    def called(self) -> str:
        """As a program calls it."""
        return self.alias or self.name


class Bundle(SearchStrategy[T]):
    """Values of one kind, put there by rules (`target=`) and drawn as arguments by others.

    orders = foretold.Bundle("orders")
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        given: object = name
        if not isinstance(given, str) or not given.isidentifier():
            raise UsageError(
                f"the name of a bundle must be a valid variable name, such as "
                f'orders = foretold.Bundle("orders"); got {name!r}'
            )
        self.name = name

    def __repr__(self) -> str:
        return f"Bundle({self.name!r})"

    def do_draw(self, data: Any) -> T:
        kept = self._pick(data)
        value: T = kept.value
        return value

    def _pick(self, data: Any) -> Kept:
        shelves = shelves_of_run(self)
        values = shelves.values(self.name)
        if not values:
            data.mark_invalid(f"the bundle {self.name} is empty")
        drawer = data.provider.drawer
        number = drawer.source.choose(PICKS, drawer.label or self.name)
        # A filter that has refused some gets the next one.
        order = self._order(values, number, data)
        kept: Kept = order[sum(data._retries.values()) % len(order)]
        shelves.drawn.append(kept)
        return kept

    def _order(self, values: list[Kept], number: int, data: Any) -> list[Kept]:
        return ranked(values, number)

    def filter(self, condition: Callable[[T], Any]) -> SearchStrategy[Any]:
        """Those that fit."""
        return Sifted(self.name, condition)


class Sifted(Bundle[T]):
    """Those values of a bundle that fit. All are looked at, so a call is given up if none fits:
    Hypothesis would give up after three."""

    def __init__(self, name: str, fits: Callable[[T], Any]) -> None:
        super().__init__(name)
        self.fits = fits

    def __repr__(self) -> str:
        return f"Bundle({self.name!r}).filter({getattr(self.fits, '__name__', self.fits)})"

    def filter(self, condition: Callable[[T], Any]) -> SearchStrategy[Any]:
        """Values that fit both."""
        return Sifted(self.name, lambda value: self.fits(value) and condition(value))

    def _order(self, values: list[Kept], number: int, data: Any) -> list[Kept]:
        fitting = [kept for kept in ranked(values, number) if self.fits(kept.value)]
        if not fitting:
            data.mark_invalid(f"nothing in the bundle {self.name} fits")
        return fitting


class Consumer(Bundle[T]):
    """Draws from a bundle and takes the value out of it."""

    def filter(self, condition: Callable[[T], Any]) -> SearchStrategy[Any]:
        """As Hypothesis does it: what does not fit is put back."""
        return SearchStrategy.filter(self, condition)

    def __repr__(self) -> str:
        return f"consumes(Bundle({self.name!r}))"

    def do_draw(self, data: Any) -> T:
        kept = self._pick(data)
        shelves_of_run(self).take(self.name, kept)
        value: T = kept.value
        return value


def consumes(bundle: Bundle[T]) -> SearchStrategy[T]:
    """A value of the bundle, which is taken out of it: nobody else will get it."""
    if not isinstance(bundle, Bundle):
        raise UsageError(
            f"consumes takes a bundle, such as consumes(orders) after "
            f'orders = foretold.Bundle("orders"); got {bundle!r}'
        )
    return Consumer(bundle.name)


def ranked(values: list[Kept], number: int) -> list[Kept]:
    """The values in the order in which this number prefers them."""
    if not number or len(values) == 1:
        return values[::-1]
    return sorted(values, key=lambda kept: _mixed(kept.birthplace, number), reverse=True)


def _mixed(birthplace: int, number: int) -> int:
    mixed = (birthplace * 0x9E37_79B1 + number * 0x85EB_CA6B) & _MASK
    mixed = ((mixed ^ (mixed >> 15)) * 0xC2B2_AE35) & _MASK
    return mixed ^ (mixed >> 13)


class Shelves:
    """The values of one run, by bundle."""

    def __init__(self) -> None:
        self._values: dict[str, list[Kept]] = {}
        self._made: dict[str, int] = {}
        self.drawn: list[Kept] = []
        """What was drawn since somebody has looked."""
        self._taken: list[tuple[str, int, Kept]] = []
        self.near: Sequence[Kept] = []
        """Where a bundle has one of these values, no other one is drawn from it."""

    def values(self, bundle: str) -> list[Kept]:
        values = self._values.get(bundle, [])
        if not self.near:
            return values
        return [kept for kept in values if self._is_near(kept.value)] or values

    def _is_near(self, value: Any) -> bool:
        is_name = isinstance(value, str | int)  # other values need not be comparable
        return any(value is each.value or (is_name and value == each.value) for each in self.near)

    def has(self, bundle: str, wanted: Sequence[Any]) -> bool:
        """Whether one of these names is in a bundle."""
        return any(kept.value in wanted for kept in self._values.get(bundle, ()))

    def beside(self, references: Sequence[Kept]) -> list[Kept]:
        """Other values that the same slots have given to the same bundles."""
        return [
            kept
            for each in references
            for kept in self._values.get(each.name.rpartition("_")[0], [])
            if kept.birthplace // PER_SLOT == each.birthplace // PER_SLOT
            and kept.value != each.value
        ]

    def put(self, bundle: str, slot: int, number: int, value: Any, alias: str = "") -> Kept:
        """A slot gives its nth value to a bundle."""
        self._made[bundle] = made = self._made.get(bundle, 0) + 1
        kept = Kept(slot * PER_SLOT + number, f"{bundle}_{made}", value, alias)
        self._values.setdefault(bundle, []).append(kept)
        return kept

    def take(self, bundle: str, kept: Kept) -> None:
        values = self._values[bundle]
        # By identity: values need not be comparable.
        position = next(n for n, each in enumerate(values) if each is kept)
        self._taken.append((bundle, position, values.pop(position)))

    def copied(self) -> dict[str, list[Kept]]:
        """Which values there are now."""
        return {bundle: [*values] for bundle, values in self._values.items()}

    def put_back(self, values: dict[str, list[Kept]]) -> None:
        """There are these values again."""
        self._values, self._taken = values, []

    def begin(self) -> None:
        """The arguments of a call are about to be drawn."""
        self.drawn = []
        self._taken = []

    def undo(self) -> None:
        """There was no call in the end: what was taken goes back."""
        for bundle, position, kept in reversed(self._taken):
            self._values[bundle].insert(position, kept)
        self._taken = []


def shelves_of_run(bundle: Bundle[Any]) -> Shelves:
    """Where the values are, in the run of a machine."""
    world = world_or_none()
    found: Shelves | None = None if world is None else world.shared.get(SHELVES)
    if found is None:
        raise UsageError(
            f"{bundle!r} holds values that rules have made: it can be drawn from only in a run of "
            "a foretold.Machine. In a rule, name it as an argument:\n"
            "  @foretold.rule(order=orders)"
        )
    return found
