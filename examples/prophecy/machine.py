"""Accounts against their model, with a prophecy for what nobody here decides.

    foretold explore examples.prophecy.machine:Accounts
    foretold explore examples.prophecy.machine:Accounts --plant

The second line plants the client's bugs (`client.py`), one by one.
"""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

import foretold
from examples.prophecy.client import Client
from examples.prophecy.service import SCHEMA, app

ANSWER = foretold.Prophecy(
    "answer",
    ok=None,
    lost="request_lost",
    lost_after="response_lost",
    late="response_late",
    cancelled="db_cancelled",
)
"""How a request ends: who decides that is the network, a proxy, the database."""
USERNAMES = st.sampled_from(["ada", "bob", "cleo"])


class Auth:
    """The whole specification. What is foretold is one of its inputs."""

    def __init__(self) -> None:
        self.stored: list[str] = []
        """What the server has."""
        self.users: list[str] = []
        """What the client shows."""
        self.error: str | None = None

    def create_user(self, username: str, password: str, answer: str) -> None:
        self.error = None
        if answer == "lost":
            self.error = "timeout"
            return
        if answer == "cancelled":
            self.error = "busy"
            return
        exists = username in self.stored
        if not exists:
            self.stored = sorted([*self.stored, username])
        if answer == "lost_after" or (answer == "late" and foretold.either(False, True)):
            self.error = "timeout"
        elif exists:
            self.error = "username_exists"
        else:
            self.users.append(username)


class Accounts(foretold.Machine):
    """One client; its requests are lost before the commit and after it, late, or cancelled."""

    model = Auth
    steps = 6
    quiet_s = 0.0

    async def setup(self) -> None:
        self.pg = await self.world.postgres(schema=SCHEMA)
        self.web = await self.world.web(app, environment={"DATABASE_URL": self.pg.dsn})
        self.client = Client(self.web.client("client"))

    async def teardown(self) -> None:
        await self.client.web.aclose()

    @foretold.rule(username=USERNAMES, password=st.sampled_from(["secret", ""]), answer=ANSWER)
    async def create_user(self, username: str, password: str, answer: str) -> None:
        await self.client.create_user(username, password)

    @foretold.refines
    def as_auth(self, prophecy: Mapping[str, str]) -> dict[str, Any]:
        """A system error is the model's error only if it was foretold."""
        foreseen = prophecy.get("answer", "ok") != "ok"
        system_error = self.client.system_error if foreseen else None
        rows = self.pg.sql("select username from account order by username")
        return {
            "stored": [row["username"] for row in rows],
            "users": self.client.users,
            "error": system_error or self.client.error,
        }
