"""The story of a failure as an object: its text, and the facts that the text is made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

from foretold.tape import Hold
from foretold.trace import Place


class Side(NamedTuple):
    """One of the two that decide a failure: a step of a task, or a statement of a transaction."""

    who: str
    """The task, the thread, the client or the session, as the story calls it."""
    did: str
    """What it did: `read account`, `goes on`."""
    place: str
    """`app/routers.py:44`; empty if that is not known."""


class Delay(NamedTuple):
    """An actor was held before a step, at a line, until something else had happened."""

    actor: str
    step: int
    location: Place | None
    until: str
    hold: Hold


class Story(str):
    """What a person reads about a failing run. It is a text, so it can be printed, searched and
    compared; `calls`, `pair` and `faults` are the facts, for programs."""

    __slots__ = ("calls", "faults", "is_program", "pair")

    calls: tuple[str, ...]
    """The calls of rules in the program that a machine has made, in their order; of other tests the
    requests that their clients have sent."""
    is_program: bool
    """A machine has made the calls."""
    pair: tuple[Side, Side] | None
    """The two that decide it, as far as that was found out. In a database: who read, and who
    changed what the other had read. Of two steps: the one that came first, and the other."""
    faults: tuple[str, ...]
    """What struck up to the failure, in order."""

    def __new__(
        cls,
        text: str = "",
        *,
        calls: Iterable[str] = (),
        is_program: bool = False,
        pair: tuple[Side, Side] | None = None,
        faults: Iterable[str] = (),
    ) -> Self:
        story = super().__new__(cls, text)
        story.calls, story.is_program = tuple(calls), is_program
        story.pair, story.faults = pair, tuple(faults)
        return story

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (self.text,), self._facts()

    def _facts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in Story.__slots__}

    @property
    def text(self) -> str:
        """The whole of it, as plain text."""
        return str(self)

    def with_text(self, text: str) -> Story:
        """The same facts, told in another text."""
        return Story(text, **self._facts())

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        pair = None if self.pair is None else [side._asdict() for side in self.pair]
        told = {"text": self.text, "calls": list(self.calls), "faults": list(self.faults)}
        return {**told, "pair": pair}
