"""The trial of a pytest item: which seed, how many runs, where its failures are kept."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretold.errors import UsageError, Vacuous
from foretold.pytest_support.fixtures import check_fixtures, shared_by_runs
from foretold.pytest_support.fresh import Call, fixtures_of
from foretold.pytest_support.replayer import asked_to_observe, observe_for_parent, replayer_of
from foretold.pytest_support.seeds import seed_for
from foretold.pytest_support.simulation import RUNS_DEFAULT, Simulation
from foretold.pytest_support.trial import Trial, TrialSetup
from foretold.report.text import seed_arguments
from foretold.search.failures.failure import Failure
from foretold.search.failures.store import Store
from foretold.search.planning.learning import learned_before
from foretold.tape.file import load

if TYPE_CHECKING:
    from _foretold_pytest import Options


class ItemTrial:
    """What is needed to try the item that pytest is running."""

    def __init__(self, item: Any, options: Options, record: dict[str, Any]) -> None:
        self.item = item
        self.options = options
        self.record = record
        """Filled in for the shell to pass on, through other processes if need be."""

    def run(self, simulation: Simulation, call: Call, names: Mapping[str, Any]) -> Failure | None:
        """Try the item's function. What failed is returned, with its note in place."""
        check_fixtures(self.item, list(simulation.signature.parameters))
        whole = fixtures_of(self.item).staged(call, names, simulation.function.__name__)
        trial, tape = Trial(simulation, whole, self._errand(simulation)), self.options.replay
        trial.record.shared = shared_by_runs(self.item)
        if tape is None:
            try:
                found = trial.run()
            except Vacuous:
                self.record.update(asdict(trial.record))
                raise
        elif asked_to_observe():
            isolation = simulation.settings.get("isolation")
            observe_for_parent(trial.main, load(tape).tape, isolation)
            return None
        else:
            found = trial.replay(tape)
        self.record.update(asdict(trial.record))
        return found

    def _errand(self, simulation: Simulation) -> TrialSetup:
        options, item = self.options, self.item
        alone = options.run_seed is not None
        return TrialSetup(
            item.nodeid,
            self._seed(simulation),
            1 if alone else options.runs or simulation.runs or RUNS_DEFAULT,
            Store(item.config.rootpath),
            replayer_of(item, options.declared_early),
            _replay_command(item.nodeid),
            tries_saved=not alone,
            before_run=_before_run(item),
            vacuity=options.vacuity,
            settings={"profile": self._known()} if alone else {},
        )

    def _known(self) -> str:
        """What the search had learned that made the run in question."""
        seed = self.options.run_seed
        if self.options.run_profile or seed is None:
            return self.options.run_profile
        return learned_before(Store(self.item.config.rootpath), self.item.nodeid, seed)

    def _seed(self, simulation: Simulation) -> int:
        options = self.options
        if options.run_seed is not None:
            return options.run_seed
        if options.pinned_seed is None and simulation.seed is not None:
            return simulation.seed
        whole = options.fresh_seed if options.pinned_seed is None else options.pinned_seed
        return seed_for(whole, self.item.nodeid)


_current: ItemTrial | None = None


@contextmanager
def running(item: Any, options: Options, record: dict[str, Any]) -> Iterator[None]:
    """While pytest calls the item's function."""
    global _current
    former, _current = _current, ItemTrial(item, options, record)
    fixtures_of(item).take_set_up_from_unittest()
    try:
        yield
    finally:
        _current = former


def trial_of(simulation: Simulation) -> ItemTrial | None:
    """The trial of the item that is running, if it is this simulation's."""
    if _current is not None and _current.item.obj.foretold_simulation is simulation:
        return _current
    return None


def shown_path(path: Path) -> str:
    """A path as it is typed from here."""
    relative = os.path.relpath(path)
    return shlex.quote(str(path) if relative.startswith("..") else relative)


def _replay_command(test: str) -> Callable[[Failure], str]:
    def command(found: Failure) -> str:
        if found.saved_as is None:
            return f"foretold replay {shlex.quote(test)} {seed_arguments(found)}"
        return f"foretold replay {shown_path(found.saved_as)}"

    return command


def _before_run(item: Any) -> Callable[[], None]:
    drop, fixtures = _output_dropper(item.config), fixtures_of(item)

    def before() -> None:
        drop()
        fixtures.before_run()

    return before


def _output_dropper(config: Any) -> Callable[[], None]:
    """Forgets what was printed and logged so far, before each run.

    pytest shows the captured output of a test that failed. That of the failing run is wanted, which
    is the last one; not that of the hundreds before it.
    """
    capture = config.pluginmanager.getplugin("capturemanager")
    log = config.pluginmanager.getplugin("logging-plugin")
    read = getattr(capture, "read_global_capture", None)
    handlers = [getattr(log, name, None) for name in ("caplog_handler", "report_handler")]
    resets = [handler.reset for handler in handlers if handler is not None]

    def drop() -> None:
        if read is not None:
            read()
        for reset in resets:
            reset()

    return drop


def item_for_tape(items: list[Any], path: Path) -> Any:
    """Which of the collected items a tape is to be replayed on."""
    file = load(path)
    simulated = [
        item for item in items if hasattr(getattr(item, "obj", None), "foretold_simulation")
    ]
    named = [item for item in simulated if item.nodeid == file.target]
    if named:
        return named[0]
    if len(items) == 1 and simulated:
        return items[0]
    if any(item.nodeid == file.target for item in items):
        raise UsageError(f"{file.target} is not decorated with @foretold.simulate any more")
    raise UsageError(
        f"{path} was recorded for {file.target or 'an unnamed test'}, which is not among the "
        f"{len(simulated)} simulated tests collected here. Name the one to replay it on:\n"
        f"    pytest path/to/test_file.py::test_name --foretold-replay {path}"
    )
