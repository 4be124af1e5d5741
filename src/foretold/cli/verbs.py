"""The command with all its verbs loaded, for those who look at all of them."""

from foretold.cli import anomalies, check, covers, explain, explore, play, replay, show
from foretold.cli.group import app

VERBS = (explore, play, replay, show, explain, check, covers, anomalies)

__all__ = ["VERBS", "app"]
