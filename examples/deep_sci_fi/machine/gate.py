"""Does the machine reach the whole platform? A check before each commit:

    foretold covers examples.deep_sci_fi.machine.gate:Gate --runs 8

Exit code 4 if an operation has no rule, a rule never succeeds, a page is never read, or a strategy
and a model of the platform have drifted apart. `DeepSciFi` itself reaches everything as well, but
needs a hundred runs: most of them are about one area, and faults get in the way.
"""

from typing import Any, ClassVar

from examples.deep_sci_fi.machine import DeepSciFi
from examples.deep_sci_fi.machine.bounds import Bounds
from examples.deep_sci_fi.machine.game import Game
from examples.deep_sci_fi.machine.history import History
from examples.deep_sci_fi.machine.platform import EVERYTHING
from examples.deep_sci_fi.machine.told import MIRRORS
from examples.deep_sci_fi.machine.tries import Repeating


class Gate(DeepSciFi):
    """The same rules on a calm day: no faults, all areas in each run, many calls. What must hold in
    the database is judged by `DeepSciFi`, and not once more here: that takes most of the time."""

    faults = None
    steps = 500
    weights: ClassVar = {"browse": 20, "answer_review": 4, "wait": 0.2}

    async def setup(self) -> None:
        await super().setup()
        self.focus = EVERYTHING

    def watch(self) -> None:
        """No history is kept."""

    async def send(
        self, actor: Any, method: str, path: str, body: Any = None, **headers: str
    ) -> Any:
        """Without the mirrors."""
        return await Repeating.send(self, actor, method, path, body, **headers)


def leave_out(machine: Any, *names: str) -> None:
    """The machine has no rule, invariant or mirror of these names any more."""
    for name in names:
        setattr(machine, name, None)


def _stated(*parts: type) -> list[str]:
    return [name for part in parts for name, each in vars(part).items() if _is_invariant(each)]


def _is_invariant(each: Any) -> bool:
    return hasattr(each, "foretold_invariant")


leave_out(Gate, *MIRRORS, *_stated(Game, Bounds, History))
