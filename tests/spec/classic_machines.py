"""Three machines that everybody knows from Hypothesis' documentation, in words of our own.

They are written for Hypothesis and know nothing of foretold.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

SMALL_LITRES, LARGE_LITRES = 3, 5


class Jugs(RuleBasedStateMachine):
    """Two jugs and a fountain: claims that nobody ever measures four litres. It takes six moves."""

    def __init__(self) -> None:
        super().__init__()
        self.small = self.large = 0

    @rule()
    def fill_small(self) -> None:
        self.small = SMALL_LITRES

    @rule()
    def fill_large(self) -> None:
        self.large = LARGE_LITRES

    @rule()
    def empty_small(self) -> None:
        self.small = 0

    @rule()
    def empty_large(self) -> None:
        self.large = 0

    @rule()
    def small_into_large(self) -> None:
        poured = min(self.small, LARGE_LITRES - self.large)
        self.small, self.large = self.small - poured, self.large + poured

    @rule()
    def large_into_small(self) -> None:
        poured = min(self.large, SMALL_LITRES - self.small)
        self.small, self.large = self.small + poured, self.large - poured

    @invariant()
    def jugs_do_not_overflow(self) -> None:
        assert 0 <= self.small <= SMALL_LITRES
        assert 0 <= self.large <= LARGE_LITRES

    @invariant()
    def nobody_has_four_litres(self) -> None:
        assert self.large != 4


class Shelf:
    """A key-value store. Its mistake: an empty value that is deleted takes all others with it."""

    correct = False

    def __init__(self) -> None:
        self._kept: dict[bytes, set[bytes]] = {}

    def save(self, key: bytes, value: bytes) -> None:
        self._kept.setdefault(key, set()).add(value)

    def delete(self, key: bytes, value: bytes) -> None:
        self._kept.get(key, set()).discard(value)
        if not value and not self.correct:
            self._kept.pop(key, None)

    def fetch(self, key: bytes) -> set[bytes]:
        return set(self._kept.get(key, ()))


class CorrectShelf(Shelf):
    correct = True


class Comparison(RuleBasedStateMachine):
    """A store beside a model of it, with keys and values that are used again and again."""

    keys, values = Bundle[bytes]("keys"), Bundle[bytes]("values")
    store = Shelf

    def __init__(self) -> None:
        super().__init__()
        self.shelf = self.store()
        self.model: defaultdict[bytes, set[bytes]] = defaultdict(set)

    @rule(target=keys, key=st.binary())
    def another_key(self, key: bytes) -> bytes:
        return key

    @rule(target=values, value=st.binary())
    def another_value(self, value: bytes) -> bytes:
        return value

    @rule(key=keys, value=values)
    def save(self, key: bytes, value: bytes) -> None:
        self.model[key].add(value)
        self.shelf.save(key, value)

    @rule(key=keys, value=values)
    def delete(self, key: bytes, value: bytes) -> None:
        self.model[key].discard(value)
        self.shelf.delete(key, value)

    @rule(key=keys)
    def both_agree(self, key: bytes) -> None:
        assert self.shelf.fetch(key) == self.model[key]


class CorrectComparison(Comparison):
    store = CorrectShelf


class Trees(RuleBasedStateMachine):
    """Builds trees from trees, and claims that all of them are balanced."""

    trees = Bundle[Any]("trees")

    @rule(target=trees, colour=st.booleans())
    def leaf(self, colour: bool) -> Any:
        return colour

    @rule(target=trees, left=trees, right=trees)
    def branch(self, left: Any, right: Any) -> Any:
        return (left, right)

    @rule(tree=trees)
    def is_balanced(self, tree: Any) -> None:
        assert 2 ** (_depth(tree) - 1) <= _leaves(tree)


def _depth(tree: Any) -> int:
    return 1 + max(map(_depth, tree)) if isinstance(tree, tuple) else 0


def _leaves(tree: Any) -> int:
    return sum(map(_leaves, tree)) if isinstance(tree, tuple) else 1
