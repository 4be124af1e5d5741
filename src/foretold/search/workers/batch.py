"""What a worker does: it makes the runs it is told to, and says briefly what came of each.

The same code serves a search in one process, the forked workers of a campaign and those of a
cluster. An errand is small (numbers and words), and so is the answer: verdict, digest, what was
reached. A failing tape is named by its lineage, from which anybody can make it again.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from foretold.tape import Tape, loads
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


class Maker:
    """Makes runs of one program."""

    def __init__(
        self,
        main: Callable[[Any], Any],
        settings: Settings,
        isolation: str | None = None,
        *,
        feedback: Feedback = True,
        swarm: bool = False,
        stored: Mapping[str, Tape] | None = None,
        warmth: Warmth | None = None,
    ) -> None:
        self._branches = branches_for(feedback)
        self._run_tape = runner_for(
            main, isolation, feedback=bool(feedback), branches=self._branches, warmth=warmth
        )
        self._swarm = swarm
        """Whether anybody wants to know the configuration of runs that hold."""
        self._settings = settings
        self._changed: dict[Any, tuple[Settings, dict[str, Any]]] = {}
        self._recorded: OrderedDict[Lineage, Tape] = OrderedDict()
        self._sieve = Sieve()
        self.stored: Mapping[str, Tape] = stored or {}
        """Tapes that an earlier search has kept."""
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
        if brief.signature is None and not self._swarm:
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
            return self.stored[lineage.stored]
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
                settings = Settings.from_tape(self.stored[lineage.stored].settings)
                settings = settings.with_changes(wall_s_max=self._settings.wall_s_max)
            else:
                settings = self._settings.with_changes(**dict(lineage.settings))
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
    settings: tuple[tuple[str, Any], ...]
    isolation: str | None
    feedback: Feedback
    swarm: bool
    stored: tuple[tuple[str, str], ...] = ()
    """Tapes of an earlier search, as text."""


_makers: dict[str, Maker] = {}
_one_at_a_time = threading.Lock()
"""A worker of a cluster may have several threads; a process has one world at a time."""


def keep_maker(key: str, maker: Maker) -> None:
    """Forked workers will find it under this key."""
    _makers[key] = maker


def forget_maker(key: str) -> None:
    """The campaign is over."""
    _makers.pop(key, None)


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
        maker = _makers[recipe.key] = _make_maker(recipe)
    with _one_at_a_time, session(), maker.ready():
        answers = [maker.run(errand).ready_to_send() for errand in errands]
    return real.monotonic() - began_s, answers


def _make_maker(recipe: Recipe) -> Maker:
    for entry in recipe.path:
        if entry not in sys.path:
            sys.path.append(entry)
    main = bind_main(find_function(recipe.target))
    settings = Settings(**dict(recipe.settings))
    stored = {name: loads(text).tape for name, text in recipe.stored}
    return Maker(
        main,
        settings,
        recipe.isolation,
        feedback=recipe.feedback,
        swarm=recipe.swarm,
        stored=stored,
    )
