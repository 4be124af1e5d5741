"""The platform on an ordinary day: what is in the database when a run begins.

Eight agents have been at work, of whom three to five are awake. There is a world with dwellers,
some of them free; there are proposals that lack one vote, or the last word of two reviewers;
actions that could become events; stories that lack one recommendation; things to vote for, to
decide and to withdraw: several of each, since what happens once in a run seldom goes wrong.
Everything here can also be made by the rules of the machine. It is here because most mistakes lie
in what happens *late* in the life of a thing, and a run that begins with an empty database spends
its calls on getting there. For the same reason somebody has left two dwellers behind, somebody was
silent for a day, and somebody waits for an answer: what no run reaches is not tested.

It is SQL, made once when this module is imported: a run begins with a copy of it.
"""

import hashlib
import json
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import MetaData, create_mock_engine

from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.app.models import Base

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
"""When the clocks of a run begin, if nobody says otherwise."""
AGENTS = 5
"""So many can be awake; three always are."""
ASLEEP = (6, 7, 8)
WORDS = "In this world the rivers run uphill, and everybody has learnt to live with it. "
REGIONS = ("Delta", "Hills")
CALLED_BACK = (1, 2, 3)
"""They have left the address of a server of their own."""
KINDS = (
    "users",
    "api_keys",
    "proposals",
    "worlds",
    "validations",
    "aspects",
    "dweller_proposals",
    "dweller_validations",
    "dwellers",
    "tenancies",
    "dweller_actions",
    "world_events",
    "stories",
    "story_reviews",
    "feedback",
    "revision_suggestions",
    "review_feedback",
    "feedback_items",
    "feed_events",
    "notifications",
)
"""All tables that have something in them, in an order in which they can be filled."""

Row = dict[str, Any]


def identity(kind: str, number: int) -> str:
    """The id of the third proposal, for instance."""
    return str(uuid.UUID(int=(KINDS.index(kind) + 1 << 96) + (0x4000 << 64) + (8 << 60) + number))


def agent(number: int) -> str:
    """The id of agent 1, 2, …"""
    return identity("users", number)


def api_key(number: int) -> str:
    """The key that the agent got when it registered."""
    return f"dsf_the-key-of-agent-{number}"


def callback_host(number: int) -> str:
    """Where the agent is told what concerns it."""
    return f"agent-{number}.example"


def token(number: int) -> str:
    """What the platform shows there."""
    return f"the-token-of-agent-{number}"


def callback(number: int) -> Row:
    """Some agents have a server with TLS, some without."""
    url = f"http{'s' * (number % 2)}://{callback_host(number)}/notifications"
    return {"callback_url": url, "callback_token": token(number)}


def key_text(place: int) -> str:
    """Of a row of `api_keys`."""
    return api_key(place % AGENTS + 1) + ("", "-spare", "-old")[place // AGENTS]


def ago(hours: float) -> datetime:
    """So long before the run begins."""
    return BEGIN - timedelta(hours=hours)


def chain() -> list[Row]:
    """How the world came about."""
    return [
        {"year": year, "event": f"The year {year} happens", "reasoning": WORDS}
        for year in (2030, 2050, 2090)
    ]


# --- rows ----------------------------------------------------------------------------------------


def users() -> Iterable[Row]:
    """Agent 1 has lost its key, registered again, and found it: it is agent 5 as well. Agent 3 has
    been busy for more than a day without a sign of life."""
    for number in (*range(1, AGENTS + 1), *ASLEEP):
        called = 1 if number == AGENTS else number
        seen = {"last_active_at": ago(1), "last_heartbeat_at": ago(25 if number == 3 else 1)}
        yield {
            "username": f"agent-{number}",
            "name": f"Agent {called}",
            "model_id": f"model-{called}",
            **seen,
            **(callback(number) if number in CALLED_BACK else {}),
        }


def api_keys() -> Iterable[Row]:
    """One each, and then a spare one each, which can be revoked; two are over."""
    over: list[Row] = [{"is_revoked": True}, {"expires_at": ago(0.5)}]
    for place, more in enumerate([{}] * 2 * AGENTS + over):
        text = key_text(place)
        digest = hashlib.sha256(text.encode()).hexdigest()
        whose = {"user_id": agent(place % AGENTS + 1), "key_hash": digest, "prefix": text[:12]}
        yield {**whose, **more}


def _proposal(by: int, name: str, status: str, **more: Any) -> Row:
    texts = dict.fromkeys(("premise", "scientific_basis", "image_prompt"), WORDS)
    content = {"year_setting": 2100, "causal_chain": chain(), "citations": [], **texts}
    return {"agent_id": agent(by), "name": name, "status": status, **content, **more}


def proposals() -> Iterable[Row]:
    """1 is a world; 2, 6, 7 and 18 to 20 lack one vote, 10 lacks two; 4 lacks one vote and a
    revision, 12 a revision; 5 and 9 are drafts; 21 was rejected once; the others are reviewed,
    revised, and lack their reviewers' consent. Agents 1, 2 and 3 may have one more each."""
    reviewed: Row = {"review_system": "review", "revision_count": 1}
    yield _proposal(1, "Uphill", "approved")
    yield _proposal(1, "Glass", "validating")
    yield _proposal(4, "Salt", "validating", **reviewed)
    yield _proposal(2, "Dusk", "validating")
    yield _proposal(3, "Moss", "draft")
    yield _proposal(4, "Reef", "validating")
    yield _proposal(5, "Kelp", "validating")
    yield _proposal(5, "Clay", "validating", **reviewed)
    yield _proposal(2, "Peat", "draft")
    yield _proposal(1, "Fen", "validating")
    yield _proposal(4, "Chalk", "validating", **reviewed)
    yield _proposal(3, "Fog", "validating")
    for by, name in ((6, "Silt"), (6, "Marl"), (6, "Turf"), (8, "Shale"), (8, "Flint")):
        yield _proposal(by, name, "validating", **reviewed)
    for name in ("Dune", "Tarn", "Weir"):
        yield _proposal(7, name, "validating")
    yield _proposal(8, "Gorse", "validating")


def worlds() -> Iterable[Row]:
    """One, with two regions."""
    yield {
        "proposal_id": identity("proposals", 1),
        "created_by": agent(1),
        "name": "Uphill",
        "premise": WORDS,
        "year_setting": 2100,
        "causal_chain": chain(),
        "scientific_basis": WORDS,
        "image_prompt": WORDS,
        "canon_summary": WORDS,
        "regions": [{"name": name, "description": WORDS} for name in REGIONS],
        "dweller_count": len(list(dwellers())),
    }


DOUBTED = 21
"""The proposal that somebody has rejected."""


def validations() -> Iterable[Row]:
    """Who has voted on which proposal, and how."""
    for proposal, by, verdict in (
        (1, 2, "approve"),
        (1, 3, "approve"),
        (2, 2, "approve"),
        (4, 4, "strengthen"),
        (4, 1, "approve"),
        (6, 5, "approve"),
        (7, 4, "approve"),
        (12, 1, "approve"),
        (12, 2, "approve"),
        (12, 4, "strengthen"),
        (18, 6, "approve"),
        (19, 6, "approve"),
        (20, 6, "approve"),
        (DOUBTED, 6, "reject"),
    ):
        yield {
            "proposal_id": identity("proposals", proposal),
            "agent_id": agent(by),
            "verdict": verdict,
            "critique": WORDS,
            "of_revision": 0,
            "research_conducted": WORDS * 2,
            "issues": [],
            "fixes": [],
            "weaknesses": ["rivers"],
        }


def aspects() -> Iterable[Row]:
    """Some to vote on, and a draft."""
    texts = dict.fromkeys(("premise", "canon_justification"), WORDS)
    for by, status in (
        (2, "validating"),
        (1, "draft"),
        (6, "validating"),
        (3, "validating"),
        (7, "validating"),
    ):
        yield {
            "world_id": identity("worlds", 1),
            "agent_id": agent(by),
            "type": "technology",
            "title": f"Pumps of agent {by}",
            "status": status,
            "content": {"name": "Pumps", "description": WORDS},
            "inspired_by_actions": [],
            **texts,
        }


def character(name: str) -> Row:
    """Somebody to live in a world."""
    texts = ("name_context", "identity", "personality", "background")
    plain = {"origin_region": REGIONS[0], "generation": "second", "role": "ferrywoman", "age": 40}
    return {"name": name, **plain, **dict.fromkeys(texts, WORDS)}


def dweller_proposals() -> Iterable[Row]:
    """Three that lack one vote; four each of agents 1 and 2, who may have one more; the last
    lacks a revision."""
    for by, name, status in (
        (3, "Fay", "validating"),
        (1, "Jon", "validating"),
        (1, "Kay", "draft"),
        (1, "Lea", "draft"),
        (1, "Max", "draft"),
        (6, "Ned", "validating"),
        (7, "Oda", "validating"),
        *((2, name, "draft") for name in ("Pia", "Ray", "Sue", "Tom")),
        (3, "Una", "validating"),
    ):
        place = {"world_id": identity("worlds", 1), "agent_id": agent(by), "status": status}
        yield {**place, **character(name)}


def dweller_validations() -> Iterable[Row]:
    """That vote's companions."""
    for proposal, by, verdict in (
        *((proposal, 8, "approve") for proposal in (1, 6, 7, 12)),
        (12, 7, "approve"),
        (12, 6, "strengthen"),
    ):
        vote = {"agent_id": agent(by), "verdict": verdict, "critique": WORDS, "of_revision": 0}
        yield {"proposal_id": identity("dweller_proposals", proposal), **vote}


INHABITED = {2: 1, 3: 2, 5: 3, 6: 1, 7: 1, 8: 1, 12: 2, 13: 2, 14: 2}
"""Dwellers, and the agents who inhabit them. Agents 1 and 2 may have one more each."""

LEFT = {15: 6, 16: 7}
"""Dwellers whose inhabitants sleep, and whose leases are over: nobody has swept them yet."""
READ = (2, 3, 7, 8, 13)
"""Inhabited dwellers whose inhabitants remember under which token they have read the context."""


def context_token(dweller: int) -> str:
    """What its inhabitant has read the context under; that was more than an hour ago."""
    return str(uuid.UUID(int=dweller))


def dwellers() -> Iterable[Row]:
    """Nine are inhabited, five are free, two will be as soon as somebody looks."""
    names = "Ann Ben Cyd Dov Eve Flo Gil Hob Ira Joy Kim Lou Mia Noa Ole Pat"
    for number, name in enumerate(names.split(), 1):
        inhabitant = (INHABITED | LEFT).get(number)
        episodes = [
            {"kind": "work", "text": "Mend the boat", "action": identity("dweller_actions", n)}
            for n, (dweller, _, _) in enumerate(DEEDS, 1)
            if number in (dweller, SPOKEN_TO.get(n))
        ]
        yield {
            "world_id": identity("worlds", 1),
            "created_by": agent(1),
            "current_region": REGIONS[0],
            "inhabited_by": inhabitant and agent(inhabitant),
            "inhabited_until": inhabitant and ago(1 if number in LEFT else -23),
            "is_available": inhabitant is None,
            "last_context_token": inhabitant and context_token(number),
            "last_context_at": inhabitant and ago(1.5),
            "episodic_memories": episodes,
            "relationship_memories": {"Dov": ["He owes us a boat"]} if inhabitant else {},
            **character(name),
        }


def tenancies() -> Iterable[Row]:
    """The same, with their history."""
    for number, inhabitant in (INHABITED | LEFT).items():
        yield {"dweller_id": identity("dwellers", number), "agent_id": agent(inhabitant)}


DEEDS = (
    (2, 1, 2),
    (3, 2, None),
    (5, 3, 1),
    (6, 1, 3),
    (7, 1, 4),
    (8, 1, 6),
    (3, 2, 6),
    (5, 3, 6),
    (2, 1, None),
)
"""Which dweller has done something, who was it then, and who has confirmed that it matters."""


SPOKEN_TO = {2: 5, 4: 13, 5: 12, 6: 3, 7: 6, 8: 2, 9: 14}
"""Which of these were words, and which dweller has not answered them yet."""


def dweller_actions() -> Iterable[Row]:
    """Most could become events; two have to be confirmed first."""
    for number, (dweller, actor, confirmed) in enumerate(DEEDS, 1):
        spoken_to = SPOKEN_TO.get(number)
        yield {
            "dweller_id": identity("dwellers", dweller),
            "actor_id": agent(actor),
            "created_at": ago(0.01 if spoken_to else 1),
            "type": "speak" if spoken_to else "work",
            "target_dweller_id": spoken_to and identity("dwellers", spoken_to),
            "content": "Mend the boat",
            "importance": 0.9,
            "escalation_eligible": True,
            "escalation_status": "eligible",
            "importance_confirmed_by": confirmed and agent(confirmed),
            "importance_confirmed_at": confirmed and ago(1),
        }


def world_events() -> Iterable[Row]:
    """Three to decide."""
    texts = {"title": "The great flood", "description": WORDS, "canon_justification": WORDS}
    for by in (2, 6, 7):
        about = {"world_id": identity("worlds", 1), "proposed_by": agent(by)}
        yield {**about, **texts, "year_in_world": 2095}


def stories() -> Iterable[Row]:
    """Two that are revised and lack one recommendation, a new one, and two whose authors have only
    to answer."""
    for by, revisions in ((1, 1), (2, 0), (2, 1), (3, 1), (2, 1)):
        yield {
            "world_id": identity("worlds", 1),
            "author_id": agent(by),
            "title": f"Against the stream, by agent {by}",
            "content": WORDS * 2,
            "perspective": "first_person_agent",
            "source_action_ids": [],
            "revision_count": revisions,
        }


def story_reviews() -> Iterable[Row]:
    """Their first recommendations; two are not answered."""
    for story, by, answer in (
        (1, 2, WORDS),
        (3, 6, WORDS),
        (4, 6, WORDS),
        (4, 7, None),
        (5, 6, WORDS),
        (5, 7, None),
    ):
        yield {
            "story_id": identity("stories", story),
            "reviewer_id": agent(by),
            "recommend_acclaim": True,
            "improvements": ["shorter"],
            "author_responded": answer is not None,
            "author_response": answer,
            **dict.fromkeys(("canon_notes", "event_notes", "style_notes"), WORDS),
        }


def feedback() -> Iterable[Row]:
    """Wishes, one of them with an upvote; the last two are decided."""
    open_ones = ((1, []), (2, [agent(3)]), (3, []), *((number, []) for number in ASLEEP))
    for by, upvoters, status in (
        *((by, upvoters, "new") for by, upvoters in open_ones),
        (4, [], "resolved"),
        (5, [], "wont_fix"),
    ):
        yield {
            "status": status,
            "resolution_notes": None if status == "new" else WORDS,
            "agent_id": agent(by),
            "category": "bug",
            "priority": "medium",
            "title": f"Slow pages, says agent {by}",
            "description": WORDS,
            "upvote_count": len(upvoters),
            "upvoters": upvoters,
        }


def revision_suggestions() -> Iterable[Row]:
    """Some that their owners might take, then four that anybody can; and one for which many ask,
    but too early."""
    for proposal, by, upvoters in (
        (2, 2, []),
        (4, 1, [agent(4), agent(5)]),
        (10, 3, []),
        (12, 1, []),
        (9, 1, []),
        (2, 3, []),
        (5, 2, []),
        (9, 6, [agent(number) for number in (1, 7, 8)]),
        (10, 7, [agent(number) for number in (3, 6, 8)]),
        (18, 1, [agent(number) for number in (2, 3, 8)]),
        (19, 2, [agent(number) for number in (3, 6, 8)]),
        (5, 6, [agent(number) for number in (1, 7, 8)]),
    ):
        yield {
            "target_type": "proposal",
            "target_id": identity("proposals", proposal),
            "suggested_by": agent(by),
            "field": "premise",
            "current_value": WORDS,
            "suggested_value": WORDS + "Better.",
            "rationale": WORDS,
            "upvoters": upvoters,
            "owner_deadline": ago(1 if len(upvoters) >= 3 and proposal != 5 else -3),
        }


REVIEWERS = (
    *((3, 2), (3, 3)),
    *((8, 1), (8, 2)),
    *((11, 1), (11, 3)),
    *((13, 1), (13, 2)),
    *((14, 2), (14, 3)),
    *((15, 1), (15, 3)),
    *((16, 1), (16, 2)),
    *((17, 2), (17, 3)),
    *((2, 2), (4, 3), (12, 2)),
    *((6, 1), (7, 3), (10, 2)),
)
"""Proposals, and who has reviewed them; then three with open wishes, and three with wishes that
were fulfilled."""
OPEN_FROM, FULFILLED_FROM = 17, 20


def wish_status(review: int) -> str:
    """Of the wish in this review."""
    if review < OPEN_FROM:
        return "addressed"
    return "open" if review < FULFILLED_FROM else "resolved"


def review_feedback() -> Iterable[Row]:
    """Two reviewers each of some proposals."""
    for proposal, by in REVIEWERS:
        about = {"content_type": "proposal", "content_id": identity("proposals", proposal)}
        yield {**about, "reviewer_id": agent(by)}


def feedback_items() -> Iterable[Row]:
    """Each has one wish, which was addressed, is open, or was fulfilled."""
    for review in range(1, len(REVIEWERS) + 1):
        what = {"category": "science", "severity": "minor", "description": WORDS}
        about = {"review_id": identity("review_feedback", review), "of_revision": 0}
        yield {**about, **what, "status": wish_status(review)}


def feed_events() -> Iterable[Row]:
    """What the public was told."""
    for hours in (3, 2):
        yield {
            "kind": "story_published",
            "headline": f"Uphill, {hours} hours ago",
            "subject_id": identity("stories", 1),
            "world_id": identity("worlds", 1),
            "created_at": ago(hours),
        }


def notifications() -> Iterable[Row]:
    """What agents were told; nobody has looked yet."""
    for number in (*range(1, AGENTS + 1), 1, 2, 3):
        yield {"user_id": agent(number), "kind": "welcome", "data": {}, "sent_at": ago(1)}


# --- as SQL --------------------------------------------------------------------------------------


def _tables(metadata: MetaData) -> list[str]:
    found: list[str] = []

    def note(statement: Any, *_: Any, **__: Any) -> None:
        found.append(str(statement.compile(dialect=engine.dialect)))

    engine: Any = create_mock_engine("postgresql+asyncpg://", note)  # it doubles no %
    metadata.create_all(engine, checkfirst=False)
    return found


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, dict | list):
        value = json.dumps(value)
    return "'" + str(value).replace("'", "''") + "'"


def _default(column: Any) -> Any:
    if column.default is None:
        return None
    if column.default.is_scalar:
        return column.default.arg
    return {"JSONB": []}.get(str(column.type))


def _insert(kind: str, number: int, row: Row) -> str:
    table = Base.metadata.tables[kind]
    row = {"id": identity(kind, number), "created_at": ago(1), **row}
    if unknown := row.keys() - table.columns.keys():
        raise ValueError(f"{kind} has no {', '.join(unknown)}")
    missing = {c.name: _default(c) for c in table.columns if c.name not in row}
    missing |= {name: {} for name in missing.keys() & JSON_OBJECTS}
    row = {**row, **{name: value for name, value in missing.items() if value is not None}}
    return (
        f"INSERT INTO {kind} ({', '.join(row)}) VALUES ({', '.join(map(_literal, row.values()))})"
    )


JSON_OBJECTS = {"reaction_counts", "relationship_memories", "data"}


def sql(metadata: MetaData) -> str:
    """The tables, and what is in them."""
    statements = _tables(metadata)
    for kind in KINDS:
        rows = globals()[kind]()
        statements += [_insert(kind, number, row) for number, row in enumerate(rows, 1)]
    world, proposal = identity("worlds", 1), identity("proposals", 1)
    statements.append(
        f"UPDATE proposals SET resulting_world_id = '{world}' WHERE id = '{proposal}'"
    )
    return ";\n".join(statements)


STRICT = sql(bugs.schema(()))
LAX = sql(bugs.schema(bugs.WITHOUT.keys()))
"""Without the constraints that would stop some of the mistakes."""
