"""What each test costs, in CPU seconds: the suite has to stay short, on a busy machine as well.

Wall-clock seconds say more about the other programs on the machine than about a test. So the ten
tests that use the most CPU are listed at the end, with the child processes that they wait for.
"""

from __future__ import annotations

import resource
from collections.abc import Generator

import pytest

_COST = "cpu_s"
_TOLD = 10
_BEGAN = pytest.StashKey[float]()


def _cpu_s() -> float:
    """What this process and the children that it has waited for have used so far."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


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
        report.user_properties.append((_COST, _cpu_s() - item.stash[_BEGAN]))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The ten dearest, and what all of them cost together."""
    costs: dict[str, float] = {
        report.nodeid: float(str(seconds))
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
        for name, seconds in report.user_properties
        if name == _COST
    }
    if not costs:
        return
    total_s = sum(costs.values())
    terminalreporter.section(f"CPU seconds: {total_s:.0f} in {len(costs)} tests, the ten dearest")
    for nodeid in sorted(costs, key=costs.__getitem__, reverse=True)[:_TOLD]:
        terminalreporter.write_line(f"{costs[nodeid]:7.1f}  {nodeid}")
