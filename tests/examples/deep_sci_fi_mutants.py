"""Mistakes that the application has no switch for: lies, leaks and forgotten checks.

Each is planted from outside, by replacing an endpoint or a function of the platform. The machine's
rules `propose_twice` and the checks of who one is were added after two of these had not been found.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import MetaData, UniqueConstraint, select
from sqlalchemy.ext.asyncio import async_object_session
from sqlalchemy.orm.attributes import set_committed_value

from examples.deep_sci_fi.app import auth, bugs, callbacks, idempotency, models, transaction
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.routers import auth as accounts
from examples.deep_sci_fi.app.routers import (
    dwellers,
    events,
    heartbeat,
    proposals,
    review,
    stories,
    worlds,
)
from examples.deep_sci_fi.app.rules import canon, limits, reviews, voting
from examples.deep_sci_fi.app.rules import dwellers as of_dwellers
from examples.deep_sci_fi.machine import scenery
from examples.deep_sci_fi.machine.platform import APP

NO_KEY = "send your API key as X-API-Key"

Plant = Callable[[pytest.MonkeyPatch], None]


def around(patch: pytest.MonkeyPatch, endpoint: Any, wrong: Any) -> None:
    """An endpoint does `wrong(endpoint, **arguments)` from now on. FastAPI keeps the function, so
    it is the code of the function that is another."""
    right = types.FunctionType(endpoint.__code__, endpoint.__globals__)

    async def planted(**arguments: Any) -> Any:
        return await wrong(right, **arguments)

    patch.setitem(endpoint.__globals__, "planted_instead", planted)
    patch.setattr(endpoint, "__code__", _instead.__code__)


async def _instead(**arguments: Any) -> Any:
    return await planted_instead(**arguments)  # type: ignore[name-defined]  # noqa: F821  # see above


def told_only(content: Any, **values: Any) -> None:
    """The object says so, and nothing is written."""
    for name, value in values.items():
        set_committed_value(content, name, value)


# ---------------------------------------------------------------- who has no key


async def _first_user(db: Any) -> Any:
    return (await db.scalars(select(models.User).order_by(models.User.id))).first()


def no_key_is_needed_elsewhere(patch: pytest.MonkeyPatch) -> None:
    """Who has no key is refused at three doors, and acts as the first agent at all others."""

    async def nobody(db: Any) -> Any:
        caller: Any = inspect.currentframe()
        request = caller.f_back.f_locals["request"]
        if request.url.path.rstrip("/") in ("/api/feedback", "/api/heartbeat", "/api/auth/keys"):
            refuse(401, NO_KEY)
        return await _first_user(db)

    patch.setattr(auth, "_nobody", nobody)


def refused_and_written(patch: pytest.MonkeyPatch) -> None:
    """Who has no key is told 401, and something is stored all the same."""

    async def nobody(db: Any) -> Any:
        who = await _first_user(db)
        about = {"category": "bug", "priority": "low", "title": "Let me in"}
        db.add(models.Feedback(agent_id=who.id, description="x" * 60, **about))
        await db.commit()
        refuse(401, NO_KEY)

    patch.setattr(auth, "_nobody", nobody)


# ---------------------------------------------------------------- lies


def submission_not_stored(patch: pytest.MonkeyPatch) -> None:
    """A proposal that is submitted is told to be in validation, and stays a draft."""
    right = voting.submit

    def submit(content: Any, agent: Any) -> None:
        if isinstance(content, models.Proposal) and content.status == "draft":
            voting.check_owner(content, agent)
            told_only(content, status="validating")
        else:
            right(content, agent)

    patch.setattr(voting, "submit", submit)


def page_shows_another_status(patch: pytest.MonkeyPatch) -> None:
    """The page of a proposal in validation calls it a draft."""
    right = transaction.found

    async def found(db: Any, kind: Any, key: Any) -> Any:
        row = await right(db, kind, key)
        if kind is models.Proposal and row.status == "validating":
            told_only(row, status="draft")
        return row

    patch.setattr(proposals, "found", found)


def canon_stays(patch: pytest.MonkeyPatch) -> None:
    """An aspect is approved with a new summary, and the canon stays as it was."""
    right = canon.adopt

    def adopt(world: Any, aspect: Any, summary: Any, entry: Any) -> None:
        right(world, aspect, None, entry)

    patch.setattr(canon, "adopt", adopt)


def event_leaves_canon(patch: pytest.MonkeyPatch) -> None:
    """An event is approved, and the canon stays as it was."""

    async def approve(endpoint: Any, **arguments: Any) -> Any:
        event = await endpoint(**arguments)
        world = await arguments["db"].get(models.World, event.world_id)
        await arguments["db"].refresh(world, ["canon_summary"])
        return event

    async def unflushed(endpoint: Any, **arguments: Any) -> Any:
        with arguments["db"].no_autoflush:
            return await approve(endpoint, **arguments)

    around(patch, events.approve, unflushed)


def aspect_revision_not_stored(patch: pytest.MonkeyPatch) -> None:
    """The answer to a revision has the new text, the row the old one."""
    right = voting.revise

    def revise(content: Any, agent: Any, changes: dict[str, Any]) -> None:
        if isinstance(content, models.Aspect):
            voting.check_owner(content, agent)
            told_only(content, **changes)
        else:
            right(content, agent, changes)

    patch.setattr(voting, "revise", revise)


def one_follower_more(patch: pytest.MonkeyPatch) -> None:
    """Who follows a world is told one follower more than there are."""

    async def follow(endpoint: Any, **arguments: Any) -> Any:
        said = await endpoint(**arguments)
        return said.model_copy(update={"follower_count": said.follower_count + 1})

    around(patch, worlds.follow, follow)


def another_lease(patch: pytest.MonkeyPatch) -> None:
    """Who claims a dweller is told a lease that is an hour longer than the stored one."""

    async def claim(endpoint: Any, **arguments: Any) -> Any:
        said = await endpoint(**arguments)
        until = said.dweller.inhabited_until + timedelta(hours=1)
        dweller = said.dweller.model_copy(update={"inhabited_until": until})
        return said.model_copy(update={"dweller": dweller})

    around(patch, dwellers.claim, claim)


def newest_story_left_out(patch: pytest.MonkeyPatch) -> None:
    """The list of stories begins with the second."""

    async def show_all(endpoint: Any, **arguments: Any) -> Any:
        return (await endpoint(**arguments))[1:]

    around(patch, stories.show_all, show_all)


# ---------------------------------------------------------------- leaks


def _other(agent: Any) -> Any:
    return select(models.User).where(models.User.id != agent.id).order_by(models.User.id).limit(1)


def notifications_of_another(patch: pytest.MonkeyPatch) -> None:
    """An agent reads what another one was told."""

    async def unread(endpoint: Any, **arguments: Any) -> Any:
        agent = await arguments["db"].scalar(_other(arguments["agent"]))
        return await endpoint(**{**arguments, "agent": agent})

    around(patch, heartbeat.unread, unread)


def me_is_another(patch: pytest.MonkeyPatch) -> None:
    """An agent that asks who it is sees the account of another."""

    async def me(endpoint: Any, agent: Any) -> Any:
        session: Any = async_object_session(agent)
        return await session.scalar(_other(agent))

    around(patch, accounts.me, me)


def reviews_are_not_blind(patch: pytest.MonkeyPatch) -> None:
    """Who has not reviewed sees what others have written."""
    patch.setattr(reviews, "may_see_all", lambda content, reader, given: True)


# ---------------------------------------------------------------- forgotten checks


def same_proposal_twice(patch: pytest.MonkeyPatch) -> None:
    """There may be two proposals of one name: no check, no constraint."""
    lax = MetaData()
    for table in bugs.schema(()).sorted_tables:
        copy = table.to_metadata(lax)
        unique = {c for c in copy.constraints if isinstance(c, UniqueConstraint)}
        if table.name == "proposals":
            copy.constraints -= unique
    patch.setattr(scenery, "STRICT", scenery.sql(lax))

    async def create(endpoint: Any, wish: Any, agent: Any, db: Any) -> Any:
        most = limits.OPEN_PROPOSALS_MAX
        await limits.check_open_proposals(db, agent, models.Proposal, most)
        proposal = models.Proposal(agent_id=agent.id, **wish.model_dump())
        db.add(proposal)
        await db.flush()
        return proposal

    around(patch, proposals.create, create)


def second_vote_breaks(patch: pytest.MonkeyPatch) -> None:
    """Who votes a second time is not refused: the platform breaks."""

    async def check(db: Any, content: Any, agent: Any, kind: Any, about: Any) -> None:
        if await db.scalar(select(kind.id).where(about, kind.agent_id == agent.id)):
            raise RuntimeError("voted already")
        await right(db, content, agent, kind, about)

    right = voting.check_may_vote
    patch.setattr(voting, "check_may_vote", check)


def anybody_resolves_wishes(patch: pytest.MonkeyPatch) -> None:
    """Who has not raised a wish may say that it is fulfilled."""
    patch.setattr(review, "_check_raiser", lambda given, agent: None)


def anybody_revises_stories(patch: pytest.MonkeyPatch) -> None:
    """Who has not written a story may revise it."""
    patch.setattr(stories, "_check_author", lambda story, agent: None)


def revoked_keys_open(patch: pytest.MonkeyPatch) -> None:
    """A key that was revoked is accepted."""
    right = auth._key_is
    patch.setattr(auth, "_key_is", lambda text: (right(text)[0], right(text)[2]))


def agents_are_administrators(patch: pytest.MonkeyPatch) -> None:
    """Any key opens what is for administrators."""

    async def lenient(text: auth.SentKey) -> str:
        return text or refuse(401, NO_KEY)

    patch.setitem(APP.dependency_overrides, auth.require_admin, lenient)


# ---------------------------------------------------------------- what needs a fault, or time


def answers_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """An answer is not kept under its idempotency key: who has lost it does the same again."""

    async def remember(request: Any, response: Any) -> None:
        """Nothing."""

    patch.setattr(idempotency, "remember", remember)


def contexts_last(patch: pytest.MonkeyPatch) -> None:
    """What was read of a dweller more than an hour ago is good enough to act upon."""
    patch.setattr(of_dwellers, "CONTEXT", timedelta(days=30))


def nobody_looks_again(patch: pytest.MonkeyPatch) -> None:
    """What was not posted when the process ended, or when a commit was lost, is never posted."""
    patch.setattr(callbacks.Courier, "look_again", lambda self, after_s=0.0: None)


HARD: tuple[Plant, ...] = (answers_are_forgotten, contexts_last, nobody_looks_again)
"""For `benchmarks/deep_sci_fi.py`: they show after a lost answer, an hour, or a restart."""
OF_AUDIT: tuple[Plant, ...] = (
    no_key_is_needed_elsewhere,
    refused_and_written,
    submission_not_stored,
    page_shows_another_status,
    canon_stays,
    same_proposal_twice,
    second_vote_breaks,
)
OTHERS: tuple[Plant, ...] = (
    event_leaves_canon,
    aspect_revision_not_stored,
    one_follower_more,
    another_lease,
    newest_story_left_out,
    notifications_of_another,
    me_is_another,
    reviews_are_not_blind,
    anybody_resolves_wishes,
    anybody_revises_stories,
    revoked_keys_open,
    agents_are_administrators,
)
MUTANTS = {plant.__name__: plant for plant in (*OF_AUDIT, *OTHERS)}
