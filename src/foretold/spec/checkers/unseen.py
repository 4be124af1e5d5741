"""While a model makes a step, the world is out of its sight.

A model is a function of its state and of the arguments of a call: if it asked for the time, or drew
from the tape, it would move the run that it only watches, and its second try at a step would differ
from the first. So for the length of a step another computer stands in for the host, and complains.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from foretold.errors import ModelLooksAround
from foretold.kernel.computer import Computer, running
from foretold.kernel.entropy_patches import random_state
from foretold.world import current

if TYPE_CHECKING:
    from foretold.kernel.clock import VirtualClock

_ASKED: Final = {
    "wall_ns": "the time",
    "monotonic_ns": "the time",
    "cpu_ns": "the time",
    "sleep_ns": "time to pass (it sleeps)",
    "entropy": "randomness",
    "pid": "its process id",
    "node": "the address of the machine",
}


class _Blind:
    """The computer of a model: it answers nothing that differs from run to run."""

    is_blind = True

    def __init__(self, behind: Computer) -> None:
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        if name in _ASKED:
            raise complaint(_ASKED[name])
        return getattr(self._behind, name)


def complaint(what: str) -> ModelLooksAround:
    """What is said to a model that looks around."""
    return ModelLooksAround(
        f"the model asks for {what}. A model is a function of its state and of the arguments of "
        "the call: the same step must give the same result again.\n"
        "  right: let the rule draw the value, or take a prophecy, and give it to the model as an "
        "argument"
    )


@contextmanager
def unseen() -> Iterator[None]:
    """Within, a model that asks for the time, randomness or the world is refused. Outside of a run
    there is nobody who could refuse."""
    ident = get_ident()
    computer = running.get(ident)
    if computer is None or hasattr(type(computer), "is_blind"):
        yield
        return
    before, kernel = random_state(), getattr(computer, "kernel", None)
    # A host's event loop and `world.clock` read its clock without asking the computer.
    clock: VirtualClock | None = None if kernel is None else kernel.clock
    reads = clock.reads if clock is not None else 0
    running[ident] = cast("Computer", _Blind(computer))
    current.hide(complaint)
    try:
        yield
    finally:
        current.show()
        running[ident] = computer
    if random_state() != before:
        raise complaint("randomness (the module random)")
    if clock is not None and clock.reads != reads:
        raise complaint("the time (of the event loop or of a host)")
