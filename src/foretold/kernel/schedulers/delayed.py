"""What would have been, had one step come later: a search asks that about a failing run.

No run of a user is made like this. A hold ends before time jumps (`by_key.py`), so with holds alone
no step can come after the end of another task's sleep. Here the task takes so much longer, as with
one more await that takes its time; all others go on.
"""

from __future__ import annotations

from foretold.kernel.actors import Register, Stepper
from foretold.kernel.handles import AnyHandle
from foretold.kernel.schedulers.by_key import KeyedScheduler
from foretold.tape.schedule import Key


class DelayedScheduler(KeyedScheduler):
    """First come first served, but for one step."""

    def __init__(self, key: Key, delay_ns: int, register: Register, callbacks: Stepper) -> None:
        super().__init__({}, register, callbacks)
        self._key: tuple[str, int] | None = key[1:]
        self._delay_ns = delay_ns

    def add(self, handle: AnyHandle) -> None:
        if (handle.actor.name, handle.actor.steps + 1) == self._key and self._delay_ns:
            self._key = None
            handle._loop.call_later(self._delay_ns / 1e9, super().add, handle)
        else:
            super().add(handle)
