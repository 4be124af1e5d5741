"""What agents are told is also posted to the address that they left when they registered.

A notification is posted when it is committed, by a task of its own: nobody who votes waits for the
server of somebody else. What fails is tried again, later each time. What was not posted when the
process ended is posted by the next one, and whoever does not know whether its commit succeeded
makes the courier look at the table. So an agent gets each notification at least once. It may get
one twice, and can tell by the id.
"""

import asyncio
import functools
import logging
import ssl
import uuid
from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple

import httpx
from sqlalchemy import ColumnElement, select, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

import foretold
from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.app.failures import FROM_DATABASE, is_passing
from examples.deep_sci_fi.app.models import Notification, User, utc_now

log = logging.getLogger(__name__)

PAUSES = (1.0, 5.0, 30.0, *[120.0] * 10_000)
"""Between one try and the next, in seconds: it is tried for two weeks."""
LOOK_AGAIN_S = 30.0
"""So long after a commit of which nobody knows whether it has succeeded."""
TIMEOUT_S = 10.0


class Letter(NamedTuple):
    """A notification, where it goes, and the token that shows who sends it."""

    note: Notification
    url: str
    token: str | None


@functools.cache
def trusted() -> ssl.SSLContext:
    """Read once: it takes longer than a request."""
    return httpx.create_ssl_context()


class Courier:
    """Posts notifications for one running server."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession], *, on: bool) -> None:
        self._sessions, self._on = sessions, on
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: set[uuid.UUID] = set()
        self._client: Any = None
        if on:
            self._client = httpx.AsyncClient(verify=trusted(), timeout=TIMEOUT_S)

    def send(self, notes: Iterable[Notification]) -> None:
        """These are committed."""
        if self._on and (keys := [note.id for note in notes]):
            self._start(self._fetch(Notification.id.in_(keys)))

    def look_again(self, after_s: float = LOOK_AGAIN_S) -> None:
        """There may be something that was never posted."""
        if self._on:
            self._start(self._fetch(Notification.sent_at.is_(None), after_s=after_s))

    async def close(self) -> None:
        """What is left is posted by the next process."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fetch(self, which: ColumnElement[bool], after_s: float = 0.0) -> None:
        """Find the letters, and start a task for each."""
        await asyncio.sleep(after_s)
        for letter in await self._letters(which):
            if letter.note.id not in self._under_way:
                self._under_way.add(letter.note.id)
                self._start(self._deliver(letter))

    async def _letters(self, which: ColumnElement[bool]) -> list[Letter]:
        """As soon as the database answers."""
        find = select(Notification, User.callback_url, User.callback_token)
        find = find.join(User, User.id == Notification.user_id)
        find = find.where(which, User.callback_url.is_not(None))
        find = find.order_by(Notification.created_at, Notification.id)
        for pause_s in PAUSES:
            try:
                async with self._sessions() as db:
                    rows = (await db.execute(find)).all()
                    return [Letter(note, url or "", token) for note, url, token in rows]
            except FROM_DATABASE as error:
                _check_passing(error)
                await asyncio.sleep(pause_s)
        return []

    async def _deliver(self, letter: Letter) -> None:
        for pause_s in PAUSES:
            if await self._posted(letter) or bugs.on("callback_sent_once"):
                break
            await asyncio.sleep(pause_s)
        self._under_way.discard(letter.note.id)

    async def _posted(self, letter: Letter) -> bool:
        """Whether the agent has it, and we know."""
        note, url, token = letter
        headers = {"authorization": f"Bearer {token}"} if token else {}
        body = {"id": str(note.id), "kind": note.kind, "data": note.data}
        await foretold.buggify_delay("before a callback")
        try:
            answer = await self._client.post(url, json=body, headers=headers)
            if not answer.is_success:
                return False
            sent = update(Notification).where(Notification.id == note.id)
            async with self._sessions.begin() as db:
                await db.execute(sent.values(sent_at=utc_now()))
        except (httpx.UnsupportedProtocol, httpx.InvalidURL):
            return True  # this is no address, and will not become one
        except httpx.HTTPError as error:
            log.warning("callback of %s: %s", note.id, error)
            return False
        except FROM_DATABASE as error:
            _check_passing(error)
            return False
        return True


def _check_passing(error: Exception) -> None:
    """A database that does not answer now is asked again; all else is a mistake of ours."""
    if not is_passing(error):
        raise error
