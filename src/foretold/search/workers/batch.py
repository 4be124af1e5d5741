"""What a worker does: it makes the runs it is told to, and says briefly what came of each.

The same code serves a search in one process, the forked workers of a campaign and those of a
cluster. An errand is small (numbers and words), and so is the answer: verdict, digest, what was
reached. A failing tape is named by its lineage, from which anybody can make it again.
"""

from __future__ import annotations

import contextlib
import secrets
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foretold.errors import LimitExceeded
from foretold.kernel import real
from foretold.kernel.session import session
from foretold.search.planning.corpus import Lineage, changed
from foretold.search.planning.feedback import Feedback, Sieve, branches_for
from foretold.search.workers.brief import Brief
from foretold.search.workers.isolation import runner_for
from foretold.search.workers.portable import portable
from foretold.search.workers.targets import find_function
from foretold.search.workers.warming import Warmth
from foretold.tape import Tape
from foretold.world.run import bind_main
from foretold.world.settings import Settings

TAPES_KEPT = 64


@dataclass(frozen=True, slots=True)
class Errand:
    """One run to be made: which of the search, counted from 1, and on which tape."""

    number: int
    lineage: Lineage
    learning: bool = False
    """Whether the search wants to know how long the run was, who did how much, and its path."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How the runs of a search are made, here and in every worker: plain data."""

    settings: Settings
    isolation: str | None = None
    feedback: Feedback = True
    keeps_going: bool = False
    """The search goes on after a failure, and wants to know the configuration of all runs."""
    stored: Mapping[str, Tape] = field(default_factory=dict)
    """Tapes that an earlier search has kept."""


class Maker:
    def __init__(
        self, main: Callable[[Any], Any], manner: Manner, *, warmth: Warmth | None = None
    ) -> None:
        feedback = manner.feedback
        self._branches = branches_for(feedback)
        self._run_tape = runner_for(
            main, manner.isolation, feedback=bool(feedback), branches=self._branches, warmth=warmth
        )
        self.manner = manner
        self._changed: dict[Any, tuple[Settings, dict[str, Any]]] = {}
        self._recorded: OrderedDict[Lineage, Tape] = OrderedDict()
        self._sieve = Sieve()
        self.at_work: tuple[int, Tape] | None = None
        """The number and the tape of the run in progress."""

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Around many runs: what watches them is put in place once."""
        with contextlib.nullcontext() if self._branches is None else self._branches.installed():
            yield

    def run(self, errand: Errand) -> Brief:
        """Make one run."""
        tape = self.tape_of(errand.lineage)
        settings = self._settings_of(errand.lineage)[0]
        self.at_work = errand.number, tape
        brief = self._run_tape(tape, settings, learning=errand.learning)
        if errand.lineage.changes and brief.signature is not None:
            _forgive_starvation(brief)
        brief.features = self._sieve(brief.features)
        if brief.signature is None and not self.manner.keeps_going:
            brief.configuration = {}
        else:
            plan = {k: v for k, v in errand.lineage.settings if k in ("order", "strategy")}
            brief.configuration = {**plan, **brief.configuration}
        return brief

    def tape_of(self, lineage: Lineage) -> Tape:
        """The tape of a lineage, made again from its seed if it is not known here."""
        if lineage.changes:
            return changed(self.recording_of(lineage.parent), lineage.changes[-1])
        if lineage.stored:
            return self.manner.stored[lineage.stored]
        return Tape.seeded(lineage.seed, self._settings_of(lineage)[1])

    def recording_of(self, lineage: Lineage) -> Tape:
        found = self._recorded.get(lineage)
        if found is None:
            settings = self._settings_of(lineage)[0]
            found = self._run_tape(self.tape_of(lineage), settings, recording=True).recorded
            assert found is not None, "asked for"
            self._recorded[lineage] = found
            if len(self._recorded) > TAPES_KEPT:
                self._recorded.popitem(last=False)
        self._recorded.move_to_end(lineage)
        return found

    def _settings_of(self, lineage: Lineage) -> tuple[Settings, dict[str, Any]]:
        key = lineage.stored or lineage.settings
        found = self._changed.get(key)
        if found is None:
            if lineage.stored:
                settings = Settings.from_tape(self.manner.stored[lineage.stored].settings)
                settings = settings.with_changes(wall_s_max=self.manner.settings.wall_s_max)
            else:
                settings = self.manner.settings.with_changes(**dict(lineage.settings))
            found = self._changed[key] = (settings, settings.on_tape())
        return found


def _forgive_starvation(brief: Brief) -> None:
    """No scheduler sees to it that a changed tape is fair: that it took for ever proves nothing."""
    assert brief.signature is not None
    if brief.signature.kind == f"{LimitExceeded.__module__}.{LimitExceeded.__qualname__}":
        brief.signature = brief.error = None


# In other processes


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a worker comes to its maker: plain data."""

    key: str
    """Of a maker that it inherited when it was forked, or of one that it made before."""
    target: str
    """`module:function`, for a worker that inherited nothing."""
    path: tuple[str, ...]
    manner: Manner


_makers: dict[str, Maker] = {}
_one_at_a_time = threading.Lock()
"""A worker of a cluster may have several threads; a process has one world at a time."""


@contextlib.contextmanager
def recipe_for(maker: Maker, target: str) -> Iterator[Recipe]:
    """How workers come to this maker, until the campaign is over."""
    recipe = Recipe(secrets.token_hex(8), target, tuple(sys.path), maker.manner)
    _makers[recipe.key] = maker
    try:
        yield recipe
    finally:
        del _makers[recipe.key]


def work(recipe: Recipe, errands: Sequence[Errand]) -> tuple[float, list[Brief]] | BaseException:
    """In a worker: make these runs. Also says how many seconds that took.

    An exception is returned: what a future raises may also be the end of a worker, whatever its
    executor calls that.
    """
    try:
        return _work(recipe, errands)
    except Exception as error:
        return portable(error)


def _work(recipe: Recipe, errands: Sequence[Errand]) -> tuple[float, list[Brief]]:
    began_s = real.monotonic()
    maker = _makers.get(recipe.key)
    if maker is None:
        for entry in recipe.path:
            if entry not in sys.path:
                sys.path.append(entry)
        maker = _makers[recipe.key] = Maker(bind_main(find_function(recipe.target)), recipe.manner)
    with _one_at_a_time, session(), maker.ready():
        answers = [maker.run(errand).ready_to_send() for errand in errands]
    return real.monotonic() - began_s, answers
