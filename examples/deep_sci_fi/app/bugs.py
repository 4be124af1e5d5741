"""Mistakes that can be switched on, one by one, to see whether tests find them.

All are off by default. `Settings(bugs=frozenset({"claim_without_lock"}))` gives an application with
that mistake. Each stands in the place where it would be made, as `if bugs.on("…")` or as the
`unless=` of a lock; `KNOWN` tells what goes wrong. Those that are named `rule_…` break one of the
ten rules of the game outright; most others need two requests at once, or a fault, or time.

Some mistakes would be stopped by a constraint of the database. Where they are on, the database must
be one that lacks it: `schema(bugs)` gives the tables as they would then be.
"""

import contextvars
import functools
from collections.abc import Collection

from sqlalchemy import MetaData

from examples.deep_sci_fi.app.models import Base

KNOWN = {
    # --- races, faults, forgotten cases ----------------------------------------------------------
    "graduation_without_lock": (
        "two reviewers resolve the last two items at once; each resolution is committed, then both "
        "find nothing left open, and the proposal becomes two worlds"
    ),
    "world_id_before_flush": (
        "the world gets its id when it is flushed; read before, it is None: an approved proposal "
        "has no resulting_world_id"
    ),
    "memories_mutated_in_place": (
        "SQLAlchemy does not see a change inside a JSON value: the second and every later note "
        "about a relationship is answered with 200 and lost"
    ),
    "limits_count_then_insert": (
        "the agent's row is not locked while its things are counted: two requests at once both "
        "see one place left, and the agent has more proposals or dwellers than allowed"
    ),
    "reactions_without_unique": (
        "no unique constraint, no lock: the counter of reactions loses updates, and differs from "
        "the number of reactions"
    ),
    "third_registration_fails": (
        "the look for an earlier registration of the same name and model expects one row at most: "
        "the third such registration is answered with 500"
    ),
    "idempotency_runs_twice": (
        "the key is looked up, but nothing stops a second request with it while the first runs: "
        "both are done"
    ),
    "idempotency_key_unscoped": (
        "keys are looked up without their user: an agent that sends another's key gets the "
        "other's answer"
    ),
    "escalate_unlocked": (
        "two agents escalate one action at once: two events, and the action's page fails from "
        "then on, since it expects one"
    ),
    "release_claim_race": (
        "a release makes the dweller available first and takes its inhabitant out in a second "
        "transaction: whoever claims it in between is thrown out"
    ),
    "withdraw_accept_race": (
        "a suggestion is withdrawn without looking whether it was accepted meanwhile: the content "
        "has changed, the suggestion says withdrawn"
    ),
    "story_self_review": (
        "the review module asks for `agent_id`, which a story does not have (its author is "
        "`author_id`): authors review their own stories"
    ),
    "strengthen_gate_stuck": (
        "a revision clears the strengthen gate, but nobody counts the votes again: a proposal "
        "with enough approvals stays in validation for ever"
    ),
    "claim_without_lock": (
        "two agents claim one free dweller at once, and both are told that it is theirs"
    ),
    "validation_without_lock": (
        "two deciding votes at once: each counts without the other, and the proposal stays in "
        "validation with enough approvals; or both count both, and there are two worlds"
    ),
    "lease_not_released": (
        "a lease of 24 hours ends, but the dweller stays taken: nobody else can claim it"
    ),
    "feed_cursor_separator": (
        "the cursor is a timestamp and an id with `|` between them, put into the link as it is: "
        "`+00:00` arrives as ` 00:00`, cannot be read, and the first page is shown again"
    ),
    "upvote_read_modify_write": (
        "two agents upvote one piece of feedback at once: the list is read, extended and written "
        "without a lock, and one of the upvotes is lost"
    ),
    "approve_in_two_transactions": (
        "the proposal is approved in one transaction and its world made in the next: others see, "
        "and a fault in between leaves, an approved proposal without a world"
    ),
    "touch_throttled": (
        "an agent's last activity is written once a minute only, to save an UPDATE; but that "
        "UPDATE was what kept one agent's requests apart: limits are exceeded"
    ),
    "commit_after_response": (
        "the answer is sent first and the transaction committed then: the client may not find "
        "what it has just made, and never learns that the commit failed"
    ),
    "callback_sent_once": (
        "what cannot be posted to an agent's server is not posted again: a short outage of that "
        "server, or a lost answer, and the agent never hears of it"
    ),
    # --- one mutant for each rule of the game ----------------------------------------------------
    "rule_vote_on_drafts": "drafts can be voted on, and are approved without being validated",
    "rule_claim_inhabited": "a dweller that somebody inhabits can be claimed",
    "rule_upvote_uncounted": "the second and every later upvoter is listed, but not counted",
    "rule_self_upvote": "agents can upvote their own feedback",
    "rule_double_upvote": "an agent can upvote the same feedback again",
    "rule_one_approval": "one approval is enough for a world",
    "rule_canon_optional": "an aspect can be approved without an updated canon summary",
    "rule_acclaim_unanswered": "a story is acclaimed though reviews of it are unanswered",
    "rule_terminal_reopens": "resolved feedback can be taken up again",
    "rule_unauthenticated_writes": "a request without a key acts as the agent that came first",
}

RULES = tuple(name for name in KNOWN if name.startswith("rule_"))

WITHOUT = {
    "graduation_without_lock": ("one_world_per_proposal",),
    "validation_without_lock": ("one_world_per_proposal",),
    "escalate_unlocked": ("one_event_per_action",),
    "claim_without_lock": ("one_inhabitant",),
    "rule_claim_inhabited": ("one_inhabitant",),
    "reactions_without_unique": ("one_of_a_kind",),
}
"""The unique indexes that nobody who makes this mistake would have thought of."""

_active: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar(
    "bugs", default=frozenset()
)


def check_known(names: Collection[str]) -> None:
    """Refuse a name that is none: a misspelt bug would be looked for in vain."""
    if unknown := sorted(set(names) - set(KNOWN)):
        raise ValueError(f"no such bugs: {', '.join(unknown)}; known are {', '.join(KNOWN)}")


def switch_on(names: frozenset[str]) -> None:
    """These are on from here to the end of the request."""
    _active.set(names)


def on(name: str) -> bool:
    """Whether this mistake is made here and now."""
    return name in _active.get()


def schema(names: Collection[str]) -> MetaData:
    """The tables of an application with these bugs: without the indexes that would stop them."""
    check_known(names)
    return Base.metadata if WITHOUT.keys().isdisjoint(names) else _lax_schema()


@functools.cache
def _lax_schema() -> MetaData:
    """All that can be missing is: so two kinds of database are enough for all bugs."""
    missing = {index for indexes in WITHOUT.values() for index in indexes}
    lax = MetaData()
    for table in Base.metadata.sorted_tables:
        copy = table.to_metadata(lax)
        copy.indexes -= {index for index in copy.indexes if index.name in missing}
    return lax
