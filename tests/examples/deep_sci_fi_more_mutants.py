"""Ten more mistakes that the application has no switch for.

They were invented from the application alone, by somebody who had not read the machine's
invariants. The first search found six of them. The others led to `told.sent` and `once=` of
`foretold.Mirror`, to the look at what a request changes elsewhere, and to rivals who confirm an
action, decide on an event or comment on a world at the same time.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, tuple_

from examples.deep_sci_fi.app import auth, callbacks, models, transaction
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.routers import actions, feed, heartbeat, memories, suggestions, worlds
from examples.deep_sci_fi.app.rules import acting
from examples.deep_sci_fi.app.rules import dwellers as of_dwellers
from tests.examples.deep_sci_fi_mutants import around

Plant = Callable[[pytest.MonkeyPatch], None]


# ---------------------------------------------------------------- lies


def accepted_and_not_applied(patch: pytest.MonkeyPatch) -> None:
    """A suggestion is told to be accepted, and the content stays as it was."""

    async def accept(endpoint: Any, **arguments: Any) -> Any:
        db = arguments["db"]
        suggestion = await db.get(models.Suggestion, arguments["suggestion_id"])
        if suggestion is None:
            return await endpoint(**arguments)
        kind = suggestions.TARGETS[suggestion.target_type]
        target: Any = await db.get(kind, suggestion.target_id)
        before = getattr(target, suggestion.field)
        await endpoint(**arguments)
        setattr(target, suggestion.field, before)
        return suggestion

    around(patch, suggestions.accept, accept)


def moved_and_still_there(patch: pytest.MonkeyPatch) -> None:
    """A dweller that moves stays where it was."""
    right = acting.act

    async def act(db: Any, agent: Any, dweller_id: Any, deed: Any) -> Any:
        dweller = await db.get(models.Dweller, dweller_id)
        before = dweller and dweller.current_region
        acted = await right(db, agent, dweller_id, deed)
        dweller.current_region = before
        return acted

    patch.setattr(acting, "act", act)


def feed_skips_one(patch: pytest.MonkeyPatch) -> None:
    """The next page of the feed begins one entry too late."""
    entry = models.FeedEvent

    async def page(endpoint: Any, **arguments: Any) -> Any:
        said = await endpoint(**arguments)
        if said.next is None:
            return said
        last = said.entries[-1]
        later = tuple_(entry.created_at, entry.id) < (last.created_at, last.id)
        find = select(entry).where(later).order_by(entry.created_at.desc(), entry.id.desc())
        skipped: Any = (await arguments["db"].scalars(find)).first()
        head = said.next.split("cursor=")[0]
        return said.model_copy(update={"next": f"{head}cursor={feed._cursor(skipped)}"})

    around(patch, feed.page, page)


# ---------------------------------------------------------------- leaks


def callbacks_with_anothers_token(patch: pytest.MonkeyPatch) -> None:
    """The token is read once in a process: that of the first agent is sent to all."""
    right = callbacks.Courier._letters

    async def letters(self: Any, which: Any) -> Any:
        found = await right(self, which)
        if found and not hasattr(self, "token"):
            self.token = found[0].token
        return [letter._replace(token=self.token) for letter in found]

    patch.setattr(callbacks.Courier, "_letters", letters)


def anybody_reads_notifications(patch: pytest.MonkeyPatch) -> None:
    """An agent reads what another one was told, and marks it as read."""

    async def read(endpoint: Any, notification_id: Any, agent: Any, db: Any) -> Any:
        note = await transaction.locked(db, models.Notification, notification_id)
        note.read_at = note.read_at or models.utc_now()
        return note

    around(patch, heartbeat.read, read)


# ---------------------------------------------------------------- forgotten checks


def expired_keys_open(patch: pytest.MonkeyPatch) -> None:
    """A key that has expired is accepted."""
    right = auth._key_is
    patch.setattr(auth, "_key_is", lambda text: right(text)[:2])


def leases_outlived(patch: pytest.MonkeyPatch) -> None:
    """Who inhabits a dweller acts for it after the lease is over, until somebody else claims it."""

    def check(dweller: Any, agent: Any) -> None:
        if dweller.inhabited_by != agent.id:
            refuse(403, "you do not inhabit this dweller")

    for module in (of_dwellers, acting, memories, actions):
        patch.setattr(module, "check_inhabits", check)


def crowd_need_not_wait(patch: pytest.MonkeyPatch) -> None:
    """With three upvotes anybody accepts a suggestion, though the owner has time left."""

    def check(suggestion: Any, target: Any, agent: Any) -> None:
        if target.agent_id != agent.id and len(suggestion.upvoters) < suggestions.UPVOTES_NEEDED:
            refuse(403, "without the owner this needs more upvotes")

    patch.setattr(suggestions, "_check_may_accept", check)


# ---------------------------------------------------------------- races


def _without_lock(patch: pytest.MonkeyPatch, endpoint: Any) -> None:
    """The endpoint looks at its row, and does not lock it."""

    async def look(db: Any, kind: Any, key: Any, unless: str = "") -> Any:
        return await transaction.found(db, kind, key)

    async def lax(right: Any, **arguments: Any) -> Any:
        function = types.FunctionType(right.__code__, {**right.__globals__, "locked": look})
        return await function(**arguments)

    around(patch, endpoint, lax)


def confirmed_twice(patch: pytest.MonkeyPatch) -> None:
    """Two agents confirm an action at once, and both are told that they have."""
    _without_lock(patch, actions.confirm)


def comments_without_lock(patch: pytest.MonkeyPatch) -> None:
    """Two agents comment on a world at once, and one comment is counted."""
    _without_lock(patch, worlds.comment)


MORE: tuple[Plant, ...] = (
    accepted_and_not_applied,
    moved_and_still_there,
    feed_skips_one,
    callbacks_with_anothers_token,
    anybody_reads_notifications,
    expired_keys_open,
    leases_outlived,
    crowd_need_not_wait,
    confirmed_twice,
    comments_without_lock,
)
