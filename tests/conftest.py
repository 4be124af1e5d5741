"""What each test costs, in CPU seconds: the suite has to stay short, on a busy machine as well.

Wall-clock seconds say more about the other programs on the machine than about a test. So the ten
tests that use the most CPU are listed at the end, with the child processes that they wait for.
With FORETOLD_TEST_COSTS=costs.json, the costs of all tests are written to that file: per test and
per source file, and the part of the children.
"""

from __future__ import annotations

import json
import os
import resource
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs so, and tests of Ctrl-C start processes of their own.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_COST = "cpu_s"
_CHILDREN = "children_cpu_s"
_COSTS_FILE = "FORETOLD_TEST_COSTS"
_TOLD = 10
_BEGAN = pytest.StashKey[tuple[float, float]]()


def _cpu_s() -> tuple[float, float]:
    """What this process has used so far, and what the children that it has waited for have."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own, children = (each.ru_utime + each.ru_stime for each in used)
    return own, children


@pytest.fixture
def one_session() -> Iterator[None]:
    """For tests that make many short runs: they share a session."""
    from foretold.kernel.session import session  # few folders need the engine to load this file

    with session():
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note before the first phase; each phase's report takes `user_properties` along."""
    item.stash[_BEGAN] = _cpu_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The last report of a test carries its whole cost, also out of a worker of xdist."""
    report = yield
    if call.when == "teardown":
        (own_then, children_then), (own, children) = item.stash[_BEGAN], _cpu_s()
        children -= children_then
        report.user_properties += [(_COST, own - own_then + children), (_CHILDREN, children)]
    return report


def _costs(terminalreporter: pytest.TerminalReporter, wanted: str) -> Counter[str]:
    """Seconds per test, as the reports have brought them along."""
    return Counter(
        {
            report.nodeid: seconds
            for reports in terminalreporter.stats.values()
            for report in reports
            if isinstance(report, pytest.TestReport)
            for name, seconds in report.user_properties
            if name == wanted
        }
    )


def _per_file(costs: Counter[str]) -> Counter[str]:
    files: Counter[str] = Counter()
    for nodeid, seconds in costs.items():
        files.update({nodeid.partition("::")[0]: seconds})
    return files


def _write(path: Path, costs: Counter[str], children: Counter[str]) -> None:
    """All costs as JSON, in each table the dearest first."""
    tables = {
        "files": _per_file(costs),
        "files_children": _per_file(children),
        "tests": costs,
        "tests_children": children,
    }
    shown = {
        name: {key: round(seconds, 3) for key, seconds in table.most_common()}
        for name, table in tables.items()
    }
    path.write_text(json.dumps(shown, indent=1) + "\n")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The ten dearest, and what all of them cost together."""
    costs = _costs(terminalreporter, _COST)
    if not costs:
        return
    if path := os.environ.get(_COSTS_FILE):
        _write(Path(path), costs, _costs(terminalreporter, _CHILDREN))
    total_s = sum(costs.values())
    terminalreporter.section(f"CPU seconds: {total_s:.0f} in {len(costs)} tests, the ten dearest")
    for nodeid, seconds in costs.most_common(_TOLD):
        terminalreporter.write_line(f"{seconds:7.1f}  {nodeid}")
