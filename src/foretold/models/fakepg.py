"""`FakePg`: the model in place of the server, for runs that take microseconds.

    fake = foretold.models.FakePg("read committed", {"lamp": 3})
    async with fake.transaction("alice") as t:
        ((_, left),) = await t.select(at("lamp"))
        await t.update(at("lamp"), to(left - 1))

Its statements take a moment of virtual time each, a session that has to wait waits, and whatever
the server would decide comes from the tape. Errors are `FakePgError`, with the SQLSTATE. How far it
can be trusted `foretold.conform` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final

from foretold.errors import UsageError
from foretold.models.pgmodel import READ_COMMITTED, UPDATE, WAIT, PgModel
from foretold.models.statements import Change, Where
from foretold.spec.checkers.either import decided_by
from foretold.spec.conform import WAITS, Answer
from foretold.spec.nondet import STREAM
from foretold.tape import Stream
from foretold.world.current import current_world

STATEMENT_S: Final = (0.0003, 0.0005, 0.001, 0.002, 0.0001)
"""How long a statement takes, there and back."""


class FakePgError(Exception):
    """The server would say no; `sqlstate` is its code."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


class FakePg:
    """A database that is a model."""

    def __init__(
        self, isolation: str = READ_COMMITTED, rows: Mapping[Any, Any] | None = None
    ) -> None:
        self._model = PgModel(isolation, rows)
        self._decides = decided_by(self._choose)
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._streams: dict[str, Stream] = {}

    def rows(self) -> dict[Any, Any]:
        """What is committed."""
        return self._model.state()

    def session(self, name: str) -> FakeSession:
        """A connection; statements without `begin` are transactions of their own."""
        return FakeSession(self, name)

    def transaction(self, name: str) -> FakeTransaction:
        """A transaction of a session: committed at the end, rolled back if something is raised."""
        return FakeTransaction(self.session(name))

    async def _say(self, actor: str, method: Callable[..., Answer], *arguments: Any) -> Any:
        if actor in self._waiting:
            raise UsageError(f"the session {actor!r} waits for a lock and can do nothing else")
        stream = self._streams.get(actor)
        if stream is None:
            stream = current_world().tape.stream("postgres", "fake", actor)
            self._streams[actor] = stream
        await asyncio.sleep(stream.pick(STATEMENT_S, "time for a statement"))
        with self._decides:  # not as `Fake` does it: this model is known not to look around
            outcome, went_on = method(*arguments, actor=actor)
        if went_on:
            self._let_go_on(went_on)
        if outcome is WAITS:
            outcome = await self._turn_of(actor)
        if type(outcome) is str and len(outcome) == 5 and outcome[:2].isdigit():
            raise FakePgError(outcome)
        return outcome

    async def _turn_of(self, actor: str) -> Any:
        """Wait for a lock. Returns what came of the statement."""
        waits = self._waiting[actor] = asyncio.get_running_loop().create_future()
        try:
            return await waits
        except asyncio.CancelledError:  # as a driver does, which hangs up
            if self._waiting.pop(actor, None) is not None:
                with self._decides:
                    _, went_on = self._model.disconnect(actor=actor)
                self._let_go_on(went_on)
            raise

    def _choose(self, options: int) -> int:
        return current_world().tape.stream(STREAM, "fake", PgModel.__name__).choose(options)

    def _let_go_on(self, went_on: tuple[tuple[str, Any], ...]) -> None:
        """Those that a statement let go on hear what came of theirs."""
        for other, outcome in went_on:
            waits = self._waiting.pop(other)
            if not waits.done():
                waits.set_result(outcome)


class FakeSession:
    """One connection to a `FakePg`."""

    def __init__(self, fake: FakePg, name: str) -> None:
        self._fake, self._name, self._model = fake, name, fake._model

    async def begin(self) -> None:
        if self._name in self._model.open:
            raise UsageError(
                f"the session {self._name!r} has a transaction already. Each transaction at the "
                "same time needs a session of its own.\n"
                '  right: fake.transaction("alice") and fake.transaction("bob")'
            )
        await self._fake._say(self._name, self._model.begin)

    async def commit(self) -> None:
        await self._fake._say(self._name, self._model.commit)

    async def rollback(self) -> None:
        await self._fake._say(self._name, self._model.rollback)

    async def select(self, where: Where) -> Any:
        """Pairs of key and value."""
        return await self._fake._say(self._name, self._model.select, where)

    async def lock(self, where: Where, mode: str = UPDATE, policy: str = WAIT) -> Any:
        """`SELECT … FOR UPDATE`, or FOR SHARE; pairs of key and value."""
        return await self._fake._say(self._name, self._model.lock, where, mode, policy)

    async def update(self, where: Where, change: Change) -> int:
        """How many rows were changed."""
        return _count(await self._fake._say(self._name, self._model.update, where, change))

    async def delete(self, where: Where) -> int:
        return _count(await self._fake._say(self._name, self._model.delete, where))

    async def insert(self, key: Any, value: Any) -> None:
        await self._fake._say(self._name, self._model.insert, key, value)


class FakeTransaction:
    """A transaction of a `FakeSession`, as `async with` has it."""

    __slots__ = ("_session",)

    def __init__(self, session: FakeSession) -> None:
        self._session = session

    async def __aenter__(self) -> FakeSession:
        await self._session.begin()
        return self._session

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            await self._session.commit()
        else:
            await self._session.rollback()


def _count(tag: str) -> int:
    return int(tag.rpartition(" ")[2])
