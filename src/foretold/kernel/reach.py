"""What a run reached, told from its trace: so that a search can see whether it finds anything new.

The trace has it all already: who took which step, what went over a connection or to a disk, which
fault struck, which states the program named. It is looked through when it is flushed anyway, so a
step pays about a tenth of a microsecond, and nothing if nobody asks.

A run reaches

- *hand-overs*: after its nth step, `a` was followed by `b`. Many steps count by their order of
  magnitude; of many tasks alike, each counts as one of its kind.
- *hand-overs at a resource*: `b` touched a connection or a disk after `a` had.
- *faults in a phase*: what struck while the program was in which state, or after whose step.
- *states* that the program named, and pairs of them.
- *points*: what `sometimes` and `reachable` saw.
- *branches* in the user's code, if that is asked for; they are not in the trace (`branches.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from foretold.tape.schedule import kind_of

Feature = tuple[str, ...]

EXACT_STEPS = 12
"""The first steps of a task count one by one, further ones by their order of magnitude."""
ACTORS_MAX = 12
"""Where more take part than that, tasks of one kind are not told apart."""
FEATURES_MAX = 20_000
"""So many of one run are kept; a run that reaches more is new in every respect."""

_RESOURCE = re.compile(r"(net|disk) (\S+)(?: \d+)? (\w+)")
_DIGITS = re.compile(r"\d[\d.,]*%?")


class Reach:
    """Collects what one run reaches; give `note` to a trace."""

    def __init__(self, names: Callable[[], Collection[str]]) -> None:
        self.features: set[Feature] = set()
        self._names = names
        """All who take part so far; asked once for each part of the trace."""
        self._last = ""
        self._steps: dict[str, int] = {}
        self._touched: dict[str, str] = {}
        self._phase = ""

    def note(self, entries: Iterable[str]) -> None:
        """Look through a part of the trace."""
        if len(self.features) > FEATURES_MAX:
            return
        names = self._names()
        told_apart = len(names) <= ACTORS_MAX
        last, steps, features = self._last, self._steps, self.features
        for entry in entries:
            if entry in names:
                who = entry if told_apart else kind_of(entry)
                steps[who] = steps.get(who, 0) + 1
                if who != last:
                    number = steps.get(last, 0)
                    if number > EXACT_STEPS:
                        number = 1 << number.bit_length()
                    features.add(("then", last, str(number), who))
                    last = who
            elif " " in entry:
                self._note_event(entry, last)
        self._last = last

    def _note_event(self, entry: str, actor: str) -> None:
        word, _, rest = entry.partition(" ")
        if word in ("net", "disk"):
            self._note_touch(entry, actor)
        elif word == "fault":
            self.features.add(("fault", _DIGITS.sub("#", rest), self._phase or actor))
        elif word == "state":
            self.features.add(("state", rest))
            if self._phase:
                self.features.add(("states", self._phase, rest))
            self._phase = rest
        elif word == "reached":
            self.features.add(("point", rest))

    def _note_touch(self, entry: str, actor: str) -> None:
        found = _RESOURCE.match(entry)
        if found is None:
            return
        resource = f"{found[1]} {found[2]}"
        former = self._touched.get(resource, "")
        self.features.add((resource, found[3], former, actor))
        self._touched[resource] = actor
