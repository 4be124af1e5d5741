"""Shows, at the end of a pytest run, how many of CPython's tests really ran on our loop."""

from __future__ import annotations

import platform

import pytest

from tests.conformance.judging import Tally

TALLIES = pytest.StashKey[list[Tally]]()


@pytest.fixture(scope="session")
def tallies(pytestconfig: pytest.Config) -> list[Tally]:
    """Figures to show at the end."""
    return pytestconfig.stash.setdefault(TALLIES, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the table."""
    rows = terminalreporter.config.stash.get(TALLIES, [])
    if not rows:
        return
    write = terminalreporter.write_line
    terminalreporter.section(f"asyncio's own tests of Python {platform.python_version()}")
    total = Tally("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:]))
    write(f"{'':24}{'run':>6}{'passed':>8}{'stepped our loop':>18}{'excluded':>10}{'skipped':>9}")
    for row in [*rows, total]:
        write(
            f"{row.module:24}{row.run:>6}{row.passed:>8}{row.stepped:>18}"
            f"{row.excluded:>10}{row.skipped:>9}"
            + (f"  and {row.unlisted} failed that are not listed" if row.unlisted else "")
        )
