"""Ctrl-C says where the program was.

By the time `KeyboardInterrupt` has left a run, its threads are ended and its tasks are gone. So
during a session we handle the signal first: we note where every thread and task stands, and then
the handler that was there before does what it does. What was noted is added to the exception, where
Python, pytest and the command show it.

The runner's alarm (pytest-timeout, a `signal.alarm` from before the run) is no failure of the
program either: what its handler raises ends run and search as Ctrl-C does, and is raised behind
them.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C half of signal has no stub
import contextlib
import signal
from _thread import get_ident
from collections.abc import Callable, Iterator
from typing import Any, Final

from foretold.kernel import real
from foretold.kernel.computer import computer_of
from foretold.kernel.swap import Swap

_HEARD: Final = (signal.SIGINT, signal.SIGALRM)


class _Alarm(KeyboardInterrupt):
    """An alarm of the runner, on its way through a run."""


class Interrupts:
    def __init__(self) -> None:
        self.standing: Callable[[], str] | None = None
        """Says where the run in progress stands; None between runs."""
        self.where = ""
        """Where the program was at the last Ctrl-C; empty if there was none, or no run."""
        self._former: dict[int, Any] = {}
        self._alarms: list[BaseException] = []
        """What the handler of an alarm has raised."""

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Inside, Ctrl-C is noted, if Python handles it, and here."""
        self.where = ""
        self._alarms.clear()
        self._former = {number: real.getsignal(number) for number in _HEARD}
        heard = [number for number in _HEARD if callable(self._former[number])]
        try:
            for number in heard:
                real.signal(number, self._on_signal)
        except ValueError:  # not in the main thread, which alone gets the signal
            heard.clear()
        try:
            yield
        except KeyboardInterrupt as stopped:
            if not self._alarms:
                raise
            alarm = self._alarms.pop()
            # A search that was stopped says what it has found until then.
            words = [str(stopped), *getattr(stopped, "__notes__", ())]
            for note in dict.fromkeys(filter(None, words)):
                alarm.add_note(note)
            raise alarm from None
        finally:
            for number in heard:
                real.signal(number, self._former[number])

    def seen(self, number: int, handler: Any) -> Any:
        """What a program may know of this handler."""
        return self._former.get(number) if handler == self._on_signal else handler

    def _on_signal(self, number: int, frame: Any) -> None:
        if self.standing is not None:
            with contextlib.suppress(Exception):  # the run goes on meanwhile, in another thread
                self.where = self.standing()
        try:
            self._former[number](number, frame)
        except BaseException as raised:
            stopped = raised if isinstance(raised, KeyboardInterrupt) else _Alarm()
            if stopped is not raised:
                self._alarms.append(raised)
            if self.where:
                stopped.add_note(self.where)
            if stopped is raised:
                raise
            raise stopped from None


interrupts: Final = Interrupts()


def _getsignal(number: Any, /) -> Any:
    """`signal.getsignal`: in a run, the host's; else programs see the handler before ours."""
    computer = computer_of(get_ident())
    answer = None if computer is None else computer.calls["signal.getsignal"]
    return interrupts.seen(number, real.getsignal(number)) if answer is None else answer(number)


CHANGES: Final = (Swap(_signal.getsignal, _getsignal),)
