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
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_RECORD: pytest.StashKey[dict[str, Any]] = pytest.StashKey()
_DECLARED_EARLY: pytest.StashKey[frozenset[str]] = pytest.StashKey()
_FRESH_SEED_BYTES = 4  # short enough to be typed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options. They stay text here and are checked later, for a better message."""
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


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Remember which options are known before any conftest.py adds its own."""
    early_config.stash[_DECLARED_EARLY] = frozenset(vars(early_config.known_args_namespace))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Read the options and begin a session."""
    # A process that replays for another one gets the values of options from conftest.py files.
    vars(config.option).update(json.loads(os.environ.get("FORETOLD_OPTIONS", "{}")))
    config.pluginmanager.register(Session(config, _read_options(config)), "foretold_session")


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
    return Options(
        pinned,
        pinned_by,
        getattr(config, "workerinput", {}).get("foretold_seed", _fresh_seed()),
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


def _fresh_seed() -> int:
    return int.from_bytes(os.urandom(_FRESH_SEED_BYTES), "big")


def _readable_tape(path: Path) -> Path:
    from foretold.errors import TapeError
    from foretold.tape.file import load

    try:
        load(path)
    except TapeError as error:
        raise pytest.UsageError(f"--foretold-replay: {error}") from None
    return path


@pytest.fixture
def foretold_postgres_schema() -> Any:
    """The schema of `foretold_postgres`: override this fixture in your conftest.py."""
    return None


@pytest.fixture
def foretold_postgres(foretold_postgres_schema: Any) -> Any:
    """The PostgreSQL server of the run, in simulated tests: begun when it is first used there."""
    from foretold.services.postgres.fixture import PostgresOfTheRun

    return PostgresOfTheRun(foretold_postgres_schema)


class Session:
    """One run of pytest."""

    def __init__(self, config: pytest.Config, options: Options) -> None:
        self.config = config
        self.options = options
        self.records: list[dict[str, Any]] = []

    def pytest_report_header(self) -> str:
        seed, by = self.options.seed, self.options.pinned_by
        how = f"from {by}" if by else f"pin it with --foretold-seed={seed}"
        return f"foretold: seed {seed} ({how})"

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

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Tell a simulated test which item it is."""
        if not hasattr(getattr(item, "obj", None), "foretold_simulation"):
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
                # The short summary is for the user's assertion; the story has been told above it.
                crash.message = crash.message.replace(f"\n{note}", "")
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

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        never: dict[str, str] = {}
        if self.records and self._judges() and session.exitstatus == pytest.ExitCode.OK:
            from foretold.pytest_support.summary import never_reached
            from foretold.search.vacuity import RUNS_MIN

            never = never_reached(self.records, RUNS_MIN)
            if never:  # the summary says which
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        path = os.environ.get("FORETOLD_RECORD")
        if path and not hasattr(self.config, "workerinput"):
            data = {"seed": self.options.seed, "tests": self.records, "failed_for": list(never)}
            Path(path).write_text(json.dumps(data), "utf-8")
