"""Mutants: bugs that are declared, to see whether the tests would find them.

    def withdraw(self, amount):
        if foretold.mutant("no check of the balance") or amount <= self.balance:
            ...

`mutant` is False, in production as in every run, unless `foretold explore TARGET --plant` has
switched that one on: one at a time, and each must be caught. A mutant that survives is a bug that
nobody would notice. Which one is on stands on the tape, as the setting `mutant`.
"""

from __future__ import annotations

from foretold.arguments import plain
from foretold.errors import UsageError
from foretold.world.current import world_or_none


def mutant(name: str) -> bool:
    """Whether the bug called `name` is switched on. False, except in a search with mutants."""
    world = world_or_none()
    if world is None or world.sealed:
        return False
    if not name or not isinstance(name, str):
        raise UsageError(
            f"mutant needs a name, such as mutant('no check of the balance'); got {name!r}"
        )
    passed = world.tally.mutants
    if name not in passed:
        passed[plain(name)] = 1
    return name == world.settings.mutant
