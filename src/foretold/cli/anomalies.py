"""`foretold anomalies`: what the PostgreSQL of this machine does at each isolation level."""

from __future__ import annotations

from foretold.cli.group import app
from foretold.models.matrix import anomalies
from foretold.report.terminal import put


@app.command("anomalies")
def anomalies_command() -> None:
    """Which anomalies does PostgreSQL show at which isolation level? Run every order of small
    programs on the real server, compare each with the model, and print the table."""
    put(str(anomalies()))
