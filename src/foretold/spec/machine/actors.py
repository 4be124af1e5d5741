"""Actors: who applies the rules."""

from __future__ import annotations

import contextvars
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from foretold.arguments import check_whole
from foretold.errors import UsageError

ACTORS_MAX = 1_000


class Actor:
    """One who acts. It has a name, a role and a number, and may be given anything else: what
    is set on it (`actor.web = …` or `actor["web"] = …`) stays there for the run."""

    def __init__(self, name: str, role: str, index: int) -> None:
        self.name = name
        self.role = role
        self.index = index
        self._context = contextvars.copy_context()
        """All that an actor does takes place in one context, as in one task."""

    def __repr__(self) -> str:
        return f"<actor {self.name}>"

    def __getattr__(self, name: str) -> Any:
        """Only for what is missing. Typed, since anything may have been set."""
        raise AttributeError(
            f"the actor {self.name} has no {name!r}: set it first, in setup for instance "
            f"(for actor in self.cast: actor.{name} = …)"
        )

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None: ...

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __contains__(self, name: object) -> bool:
        return name in vars(self)

    def belongings(self) -> list[tuple[str, Any]]:
        """What the program has set on it, by name."""
        own = ("name", "role", "index")
        return [(k, v) for k, v in vars(self).items() if k not in own and not k.startswith("_")]

    def get(self, name: str, default: Any = None) -> Any:
        return vars(self).get(name, default)


def check_actors(actors: object, where: str) -> None:
    """A number, or the roles one by one."""
    if isinstance(actors, str) or not isinstance(actors, int | Sequence):
        raise UsageError(
            f'{where}: actors is a number, such as 4, or a list of roles, such as ["buyer", '
            f'"admin"]; got {actors!r}'
        )
    if isinstance(actors, int):
        check_whole("actors", actors, at_least=1, example=4)
        if actors > ACTORS_MAX:
            raise UsageError(f"{where}: actors={actors} is more than {ACTORS_MAX:,}")
        return
    wrong = [role for role in actors if not isinstance(role, str) or not role.isidentifier()]
    if wrong or not 0 < len(actors) <= ACTORS_MAX:
        raise UsageError(
            f"{where}: actors lists roles, each a plain word, one for each actor, such as "
            f'["buyer", "buyer", "admin"]; got {actors!r}'
        )


def make_actors(actors: int | Sequence[str]) -> list[Actor]:
    """The actors of a run: `actor1`, `actor2`; or `buyer1`, `buyer2`, `admin`."""
    roles = ["actor"] * actors if isinstance(actors, int) else list(actors)
    several = Counter(roles)
    seen: Counter[str] = Counter()
    made = []
    for index, role in enumerate(roles):
        seen[role] += 1
        alone = several[role] == 1 and not isinstance(actors, int)
        made.append(Actor(role if alone else f"{role}{seen[role]}", role, index))
    return made
