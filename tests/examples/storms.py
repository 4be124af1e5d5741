"""Machines that look at nothing but the serial oracle."""

from __future__ import annotations

from typing import Any


class OracleAlone:
    """Goes before a machine of `foretold.openapi`: every run ends in a storm, there are no faults,
    no request comes twice before it, and nothing else is looked at."""

    storms = 1.0
    faults = None
    reads_back = False
    duplicates_are_refused_or_change_nothing = None
    without_credentials_nothing_changes = None

    async def setup(self: Any) -> None:
        """As the machine, but for its doubles."""
        await super().setup()  # type: ignore[misc]  # of the machine behind this class
        self.doubles.there_are = False
