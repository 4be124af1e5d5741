"""The pytest plugin's shell: options, the seed in the header, figures at the end.

pytest loads this file wherever foretold is installed, so it imports nothing of foretold by itself.
Only when a simulated test is about to run does it call `foretold.pytest_support`.

    --foretold-runs N          how many runs each test gets; ini-file: foretold_runs
    --foretold-seed N          pins the seeds of all tests; also FORETOLD_SEED, foretold_seed
    --foretold-replay FILE     replays a tape on the test it was recorded for
    --foretold-run-seed N      makes the one run that a failure's note names by its seed
    --foretold-run-profile T   with it: what the search had learned by then, as in the note

For programs that start pytest, `foretold` itself among them: with FORETOLD_RECORD=FILE in the
environment, what there is to say about each simulated test is written to FILE as JSON.

A set of strings iterates in the order of their hashes, which Python draws anew for each process. So
that a seed repeats, pytest begins again with PYTHONHASHSEED=0 before it has done anything: see
`_pin_hashes`. Where that cannot be, the summary says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_RECORD: pytest.StashKey[dict[str, Any]] = pytest.StashKey()
_DECLARED_EARLY: pytest.StashKey[frozenset[str]] = pytest.StashKey()
_FRESH_SEED_BYTES = 4  # short enough to be typed
_REEXECUTED = "FORETOLD_REEXECUTED"
_HASH_SEED, _HASH_SEED_WAS = "PYTHONHASHSEED", "FORETOLD_HASHSEED_WAS"  # as in foretold.platforms
_PYTEST_ITSELF = ("_foretold_pytest", "_pytest", "pytest", "pluggy", "coverage", "__main__")
_STANDARD = ("importlib", "runpy")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options. They stay text here and are checked later, for a better message."""
    _pin_hashes()
    _keep_terminal()
    group = parser.getgroup("foretold", "deterministic simulation testing")
    group.addoption("--foretold-runs", metavar="N", help="runs of each simulated test")
    group.addoption(
        "--foretold-seed", metavar="N", help="pin the seeds of all simulated tests (default: fresh)"
    )
    group.addoption(
        "--foretold-replay", metavar="FILE", help="replay a tape on its test, and nothing else"
    )
    group.addoption(
        "--foretold-run-seed", metavar="N", help="make the one run with this seed, and nothing else"
    )
    group.addoption(
        "--foretold-run-profile", metavar="TEXT", help="with it: what the search had learned"
    )
    group.addoption(
        "--foretold-vacuity",
        metavar="HOW",
        help="a search that tests nothing: fail (default), warn or ignore",
    )
    parser.addini("foretold_vacuity", "a search that tests nothing: fail, warn or ignore")
    parser.addini("foretold_runs", "runs of each simulated test")
    parser.addini("foretold_seed", "pin the seeds of all simulated tests")


_terminal = -1
"""A copy of the descriptor of the error stream, as it was before pytest captured it."""


def _keep_terminal() -> None:
    """Called as the plugin is loaded. A pytest inside of pytest uses the copy of the outer one."""
    global _terminal
    if _terminal < 0:
        with contextlib.suppress(OSError):  # it is closed
            _terminal = os.dup(2)


def _lend_terminal() -> None:
    """If a run does not come back and the process is ended, nobody reads what pytest captured. So
    foretold's last words go past it. A test that runs no simulation has not imported foretold."""
    watching: Any = sys.modules.get("foretold.kernel.watchdog")
    if watching is not None and watching.watchdog.said_to == 2 and _terminal >= 0:
        watching.watchdog.said_to = _terminal


def _aging() -> Any:
    """What makes one session after the other cheaper, if there was one."""
    patching: Any = sys.modules.get("foretold.kernel.patches")
    return None if patching is None else patching.patches.aging


def _pin_hashes() -> None:
    """Execute this pytest once more, with PYTHONHASHSEED=0, if strings have other hashes here.

    Called as the plugin is loaded: nothing is captured, collected or printed yet. The process stays
    the same (its id, its standard streams, its folder). The mark names this process: the second
    execution finds it, takes it away for the sake of its children, and goes on whatever its hashes
    are. So there is never a third.
    """
    again = os.environ.pop(_REEXECUTED, "") == str(os.getpid())
    _restore_hash_seed()
    if again or not sys.flags.hash_randomization or not _may_begin_again():
        return
    changes = {**_hash_seed_pinned(), _REEXECUTED: str(os.getpid())}
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(OSError):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **changes})


def _hash_seed_pinned() -> dict[str, str]:
    """What is set for a process whose strings are to have the hashes of hash seed 0."""
    return {_HASH_SEED: "0", _HASH_SEED_WAS: os.environ.get(_HASH_SEED, "")}


def _restore_hash_seed() -> None:
    """Tests, and the processes that they start, see the variable as it was before anybody pinned it
    for this process."""
    was = os.environ.pop(_HASH_SEED_WAS, None)
    if was:
        os.environ[_HASH_SEED] = was
    elif was is not None:
        os.environ.pop(_HASH_SEED, None)


def _may_begin_again() -> bool:
    """Whether pytest is all that this process is about, and Python would heed the variable."""
    return (
        bool(sys.executable)
        and not sys.flags.ignore_environment
        and threading.active_count() == 1
        and _is_started_for_pytest()
        and not _is_debugged()
    )


def _is_started_for_pytest() -> bool:
    """By `pytest`, `python -m pytest`, `coverage run -m pytest`; not by a program that calls it.

    A test that calls pytest (pytester) is such a program: it is among the callers.
    """
    main = sys.modules.get("__main__")
    spec_name = getattr(getattr(main, "__spec__", None), "name", "")
    path = Path(getattr(main, "__file__", None) or "")
    by_name = path.stem in ("pytest", "py.test") or path.parts[-2:] == ("pytest", "__main__.py")
    if spec_name != "pytest.__main__" and not by_name:
        return False
    frame: Any = sys._getframe()
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in (*_PYTEST_ITSELF, *_STANDARD):
            return False
        frame = frame.f_back
    return True


def _is_debugged() -> bool:
    """A debugger would lose its process. Coverage traces as well, and begins again with it."""
    tracer = sys.gettrace()
    if tracer is not None and not type(tracer).__module__.startswith("coverage"):
        return True
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None:
        return True
    return "pydevd" in sys.modules or "debugpy" in sys.modules


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Remember which options are known before any conftest.py adds its own."""
    early_config.stash[_DECLARED_EARLY] = frozenset(vars(early_config.known_args_namespace))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Read the options and begin a session."""
    # A process that replays for another one gets the values of options from conftest.py files.
    vars(config.option).update(json.loads(os.environ.get("FORETOLD_OPTIONS", "{}")))
    config.pluginmanager.register(PytestRun(config, _read_options(config)), "foretold_session")


@dataclass
class Options:
    """What was asked for from outside of the tests."""

    pinned_seed: int | None
    pinned_by: str
    fresh_seed: int
    run_seed: int | None
    run_profile: str
    runs: int | None
    replay: Path | None
    vacuity: str
    declared_early: frozenset[str]

    @property
    def seed(self) -> int:
        return self.fresh_seed if self.pinned_seed is None else self.pinned_seed


def _read_options(config: pytest.Config) -> Options:
    pinned, pinned_by = _first_given(
        (config.getoption("foretold_seed"), "--foretold-seed"),
        (os.environ.get("FORETOLD_SEED"), "FORETOLD_SEED"),
        (config.getini("foretold_seed"), "foretold_seed"),
    )
    runs, runs_by = _first_given(
        (config.getoption("foretold_runs"), "--foretold-runs"),
        (config.getini("foretold_runs"), "foretold_runs"),
    )
    if runs is not None and runs < 1:
        raise pytest.UsageError(f"{runs_by}={runs}: a test needs 1 run at least")
    run_seed, _ = _first_given((config.getoption("foretold_run_seed"), "--foretold-run-seed"))
    tape = config.getoption("foretold_replay")
    fresh_seed = int.from_bytes(os.urandom(_FRESH_SEED_BYTES), "big")
    return Options(
        pinned,
        pinned_by,
        getattr(config, "workerinput", {}).get("foretold_seed", fresh_seed),
        run_seed,
        config.getoption("foretold_run_profile") or "",
        runs,
        None if tape is None else _readable_tape(config.invocation_params.dir / tape),
        _vacuity(config),
        config.stash.get(_DECLARED_EARLY, frozenset()),
    )


def _vacuity(config: pytest.Config) -> str:
    given = config.getoption("foretold_vacuity") or config.getini("foretold_vacuity") or "fail"
    if given not in ("fail", "warn", "ignore"):
        raise pytest.UsageError(f"foretold_vacuity={given}: it is fail, warn or ignore")
    return str(given)


def _first_given(*sources: tuple[Any, str]) -> tuple[int | None, str]:
    for value, source in sources:
        text = "" if value is None else str(value).strip()
        if text:
            return _whole_number(text, source), source
    return None, ""


def _whole_number(text: str, source: str) -> int:
    try:
        return int(text) if text.isdecimal() else int(text, 0)
    except ValueError:
        raise pytest.UsageError(
            f"{source}={text}: expected a whole number, such as {source}=12345 or 0x3039"
        ) from None


def _readable_tape(path: Path) -> Path:
    from foretold.errors import TapeError
    from foretold.tape.file import load

    try:
        load(path)
    except TapeError as error:
        raise pytest.UsageError(f"--foretold-replay: {error}") from None
    return path


_SCENARIOS = (".scenario.yaml", ".scenario.yml", ".scenario.toml", ".scenario.json")
"""As in foretold.scenario.source."""


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A scenario file is a test, or several: one for each of its wirings, loads and seeds."""
    if not file_path.name.endswith(_SCENARIOS):
        return None
    from foretold.pytest_support.scenarios import ScenarioFile

    found: pytest.Collector = ScenarioFile.from_parent(parent, path=file_path)
    return found


@pytest.fixture
def foretold_postgres_schema() -> Any:
    """The schema of `foretold_postgres`: override this fixture in your conftest.py."""
    return None


@pytest.fixture
def foretold_postgres(foretold_postgres_schema: Any) -> Any:
    """The PostgreSQL server of the run, in simulated tests: begun when it is first used there."""
    from foretold.services.postgres.fixture import PostgresOfTheRun

    return PostgresOfTheRun(foretold_postgres_schema)


_HASHES_BY_CHANCE = (
    "foretold: this process draws the hashes of strings by chance, so a seed may not repeat where "
    "a set of strings is iterated. Start it with PYTHONHASHSEED=0."
)


def _is_simulated(item: Any) -> bool:
    return hasattr(getattr(item, "obj", None), "foretold_simulation")


class PytestRun:
    def __init__(self, config: pytest.Config, options: Options) -> None:
        self.config = config
        self.options = options
        self.records: list[dict[str, Any]] = []

    def pytest_report_header(self) -> str:
        seed, by = self.options.seed, self.options.pinned_by
        how = f"from {by}" if by else f"pin it with --foretold-seed={seed}"
        return f"foretold: seed {seed} ({how})"

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self) -> None:
        """Workers of pytest-xdist begin with our hashes, and put the variable back by themselves.
        This process runs no test, and may start further workers at any time."""
        if not sys.flags.hash_randomization:
            os.environ.update(_hash_seed_pinned())

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """All workers of pytest-xdist go by one seed."""
        node.workerinput["foretold_seed"] = self.options.fresh_seed

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """With a tape to replay, only its test is left."""
        if self.options.replay is None or not items:
            return
        from foretold.errors import UsageError
        from foretold.pytest_support.item import item_for_tape

        try:
            chosen = item_for_tape(items, self.options.replay)
        except UsageError as error:
            raise pytest.UsageError(f"--foretold-replay: {error}") from None
        self.config.hook.pytest_deselected(items=[item for item in items if item is not chosen])
        items[:] = [chosen]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(
        self, fixturedef: Any, request: Any
    ) -> Generator[None, object, object]:
        """In a simulated test, function-scoped fixtures are left to each run.

        The outermost wrapper: plugins that run async fixtures on a loop of theirs see none.
        """
        if request.scope != "function" or not _is_simulated(request.node):
            return (yield)
        from foretold.pytest_support.fresh import fixtures_of

        with fixtures_of(request.node).being_set_up(fixturedef, request):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Tell a simulated test which item it is."""
        _lend_terminal()
        if (aging := _aging()) is not None:
            aging.watch()
        if hasattr(item, "foretold_begin"):  # a scenario
            item.foretold_begin(self.options, item.stash.setdefault(_RECORD, {}))
        if not _is_simulated(item):
            return (yield)
        from foretold.pytest_support.item import running

        __tracebackhide__ = True
        with running(item, self.options, item.stash.setdefault(_RECORD, {})):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach the record of a simulated test; reports also travel between xdist's processes."""
        report = yield
        record = item.stash.get(_RECORD, None)
        if call.when == "call" and record:
            note = record.pop("note", "")
            crash = getattr(report.longrepr, "reprcrash", None)
            if note and crash is not None:
                from foretold.report.terminal import harmless

                # The short summary is for the user's assertion; the story has been told above it.
                # On a CI machine pytest prints all its lines, with nothing in front of them.
                crash.message = harmless(crash.message.replace(f"\n{note}", ""))
            if hasattr(report, "wasxfail") and report.skipped:
                record["expected"] = crash.message.partition("\n")[0] if crash else "it failed"
            vars(report)["foretold"] = record
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        record = getattr(report, "foretold", None)
        if record is not None:
            self.records.append(record)

    def _judges(self) -> bool:
        """Whether points that no test has reached fail the whole: in a whole, that is."""
        options = self.options
        alone = options.replay is not None or options.run_seed is not None
        return options.vacuity == "fail" and not alone and not hasattr(self.config, "workerinput")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.records:
            return
        from foretold.pytest_support.summary import summary_lines

        verbosity = self.config.get_verbosity()
        for line, warns in summary_lines(self.records, self.options.seed, verbosity):
            terminalreporter.write_line(line, yellow=warns)
        if sys.flags.hash_randomization:
            terminalreporter.write_line(_HASHES_BY_CHANCE, yellow=True)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if (aging := _aging()) is not None:
            aging.end()
        never: dict[str, str] = {}
        if self.records and self._judges() and session.exitstatus == pytest.ExitCode.OK:
            from foretold.pytest_support.summary import never_reached
            from foretold.search.checking.vacuity import RUNS_MIN

            never = never_reached(self.records, RUNS_MIN)
            if never:  # the summary says which
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        path = os.environ.get("FORETOLD_RECORD")
        if path and not hasattr(self.config, "workerinput"):
            data = {"seed": self.options.seed, "tests": self.records, "failed_for": list(never)}
            Path(path).write_text(json.dumps(data), "utf-8")
