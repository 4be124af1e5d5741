"""The command with all its verbs: importing a verb adds it."""

from foretold.cli import anomalies, check, covers, explain, explore, play, replay, show
from foretold.cli.group import app

VERBS = (explore, play, replay, show, explain, check, covers, anomalies)

__all__ = ["VERBS", "app"]
