"""Deep Sci-Fi tested in the usual way: Hypothesis' state machines, httpx, and real time.

The platform is served by uvicorn on loopback, with the same embedded PostgreSQL. Rules draw who
does what; races are two requests under one `asyncio.gather`, in the order in which the kernel and
the database happen to take them. What must hold is asked in SQL after every rule. It starts from
the same scenery as the machine of foretold, moved to today, because real time cannot be moved:
where a lease has to end, a rule sets it back in the database. Written as one would who knows the
platform well: each race that a reviewer would think of has a rule of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
import uuid
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import httpx
import uvicorn
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, HypothesisException
from hypothesis.internal.conjecture import engine
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from examples.deep_sci_fi.app import Settings, bugs, create_app
from examples.deep_sci_fi.machine import scenery
from foretold.services.postgres.cluster import Cluster
from foretold.services.postgres.state import Database
from tests.examples import deep_sci_fi as say

PORT = 28_655
GRACE_S = 3
"""For what still runs when a search is over."""
STEPS = 30
SHRINK_S = 15.0
"""Hypothesis would take up to five minutes."""
ADMIN = "the administrator's key"
AGENTS = st.integers(1, 4)
PICKS = st.integers(0, 30)
WORDS = say.WORDS
MANY = 10_000
TIMES = """SELECT table_name, column_name FROM information_schema.columns
           WHERE table_schema = 'public' AND data_type LIKE 'timestamp%'"""

HOLDS = {
    "approved means one world": """
        SELECT p.id FROM proposals p LEFT JOIN worlds w ON w.proposal_id = p.id
        GROUP BY p.id HAVING count(w.id) <> (p.status = 'approved')::int
            OR (p.status = 'approved' AND p.resulting_world_id IS NULL)""",
    "enough votes decide": """
        SELECT p.id FROM proposals p JOIN validations v ON v.proposal_id = p.id
        WHERE p.status = 'validating' GROUP BY p.id
        HAVING count(*) FILTER (WHERE verdict = 'reject') > 1
            OR (count(*) FILTER (WHERE verdict = 'approve') > 1
                AND count(*) FILTER (WHERE verdict = 'reject') = 0
                AND count(*) FILTER (WHERE verdict = 'strengthen'
                                     AND of_revision = p.revision_count) = 0)""",
    "two approvals make a world": """
        SELECT p.id FROM proposals p JOIN validations v ON v.proposal_id = p.id
        WHERE p.status = 'approved' AND p.review_system = 'vote' GROUP BY p.id
        HAVING count(*) FILTER (WHERE verdict = 'approve') < 2""",
    "nobody votes on drafts": """
        SELECT p.id FROM proposals p JOIN validations v ON v.proposal_id = p.id
        WHERE p.status = 'draft'""",
    "limits": """
        SELECT agent_id FROM proposals WHERE status IN ('draft', 'validating')
        GROUP BY agent_id HAVING count(*) > 3""",
    "one inhabitant": """
        SELECT d.id FROM dwellers d LEFT JOIN tenancies t
            ON t.dweller_id = d.id AND t.ended_at IS NULL
        GROUP BY d.id HAVING count(t.id) > 1 OR (count(t.id) = 1) <> (d.inhabited_by IS NOT NULL)
            OR d.is_available <> (d.inhabited_by IS NULL)""",
    "one event for an action": """
        SELECT origin_action_id FROM world_events WHERE origin_action_id IS NOT NULL
        GROUP BY origin_action_id HAVING count(*) > 1""",
    "upvotes": """
        SELECT id FROM feedback WHERE upvote_count <> jsonb_array_length(upvoters)
            OR upvoters @> to_jsonb(agent_id::text)
            OR jsonb_array_length(upvoters)
                <> (SELECT count(DISTINCT u) FROM jsonb_array_elements(upvoters) u)""",
    "reactions": """
        SELECT w.id FROM worlds w, jsonb_each_text(reaction_counts) k WHERE k.value::int
            <> (SELECT count(*) FROM social_interactions s
                WHERE s.target_id = w.id AND s.kind = k.key)""",
    "acclaim": """
        SELECT s.id FROM stories s WHERE s.status = 'acclaimed' AND 2 > (
            SELECT count(*) FROM story_reviews r WHERE r.story_id = s.id
            AND r.recommend_acclaim AND r.author_responded)""",
    "canon": """
        SELECT aspect_id FROM aspect_validations
        WHERE verdict = 'approve' AND updated_canon_summary IS NULL""",
    "no self-review": """
        SELECT s.id FROM stories s JOIN review_feedback r ON r.content_id = s.id
        WHERE r.reviewer_id = s.author_id""",
    "once under a key": "SELECT text FROM comments GROUP BY user_id, text HAVING count(*) > 1",
}


class Stage:
    """A server, its database, and a client: kept for all examples with one bug."""

    def __init__(self, bug: str) -> None:
        wrong = frozenset({bug} if bug else ())
        calm = {"registrations_per_minute": MANY, "feedback_per_minute": MANY}
        calm |= {"reviews_per_minute": MANY, "reactions_per_minute": MANY}
        lax = not bugs.WITHOUT.keys().isdisjoint(wrong)
        cluster = Cluster.shared()
        schema = scenery.LAX if lax else scenery.STRICT
        self.database = Database(cluster, "usual", f"{schema};{_moved(cluster, schema)}")
        self.side = cluster.connect(self.database.name)
        url = self.database.address().replace("postgresql:", "postgresql+asyncpg:")
        app = create_app(
            Settings(database_url=url, bugs=wrong, admin_keys=frozenset({ADMIN}), **calm)
        )
        self.loop = asyncio.new_event_loop()
        config = uvicorn.Config(
            app, port=PORT, log_config=None, lifespan="on", timeout_graceful_shutdown=GRACE_S
        )
        self.server = uvicorn.Server(config)
        self.loop.run_until_complete(self._start())
        self.examples = 0
        self.calls = 0
        """Rules of the example that is under way."""
        self.first_failure: tuple[int, float, str] | None = None
        """The number of the example, when it was, and what was wrong."""
        self.began = self.deadline = 0.0

    async def _start(self) -> None:
        self.serving = asyncio.create_task(self.server.serve())
        while not self.server.started:
            await asyncio.sleep(0.01)
        self.client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{PORT}/api/", timeout=60)

    def close(self) -> None:
        """Stop the server, and drop the database."""
        self.loop.run_until_complete(self.client.aclose())
        self.server.should_exit = True
        self.loop.run_until_complete(self.serving)
        self.loop.close()
        self.side.close()
        self.database.close()

    def rows(self, sql: str) -> list[Any]:
        """What a query gives, as texts."""
        return self.side.simple(sql)

    def together(self, *requests: Coroutine[Any, Any, Any]) -> list[Any]:
        """All at once."""

        async def main() -> list[Any]:
            return list(await asyncio.gather(*requests))

        return self.loop.run_until_complete(main())


def _moved(cluster: Cluster, schema: str) -> str:
    """SQL that moves all times of the scenery to today."""
    scratch = Database(cluster, "usual_columns", schema)
    side = cluster.connect(scratch.name)
    columns = side.simple(TIMES)
    side.close()
    scratch.close()
    ahead_s = (datetime.now(UTC) - scenery.BEGIN).total_seconds()
    return ";".join(
        f"UPDATE {table} SET {column} = {column} + interval '{ahead_s} seconds'"
        for table, column in columns
    )


stage: Stage
"""The one that is in use; Hypothesis makes the machines, so they cannot be given it."""


class Usual(RuleBasedStateMachine):
    """What agents do, and what must hold."""

    def __init__(self) -> None:
        super().__init__()
        if stage.first_failure is None:
            if time.monotonic() > stage.deadline:
                raise OutOfTime
            stage.examples += 1
        stage.database.reset()
        stage.calls = 0
        self.count = 0

    # --- requests --------------------------------------------------------------------------------

    async def send(
        self, agent: int, path: str, body: Any = None, method: str = "POST", **headers: str
    ) -> Any:
        """The answer, unless the platform breaks. To be asked to try again is no failure."""
        key = {0: "", -1: ADMIN}.get(agent, scenery.api_key(agent))
        headers = {**headers, **({"x-api-key": key} if key else {})}
        answer = await stage.client.request(method, path, json=body, headers=headers)
        while answer.status_code == 503:
            await asyncio.sleep(float(answer.headers["retry-after"]))
            answer = await stage.client.request(method, path, json=body, headers=headers)
        assert answer.status_code < 500, (path, answer.status_code, answer.text)
        return answer

    def post(self, agent: int, path: str, body: Any = None, **headers: str) -> Any:
        return stage.together(self.send(agent, path, body, **headers))[0]

    def get(self, agent: int, path: str) -> Any:
        return stage.together(self.send(agent, path, method="GET"))[0]

    def race(self, *requests: tuple[int, str, Any]) -> list[int]:
        """The codes of requests that are made at the same time."""
        answers = stage.together(*(self.send(*request) for request in requests))
        return [answer.status_code for answer in answers]

    def one(self, sql: str, pick: int) -> Any:
        """One of these rows, or None."""
        rows = stage.rows(f"{sql} ORDER BY 1")
        return rows[pick % len(rows)] if rows else None

    def who(self, user_id: str) -> int:
        """The number of an agent."""
        return next((n for n in range(1, 6) if scenery.agent(n) == user_id), 5)

    def others(self, user_id: str) -> list[int]:
        return [n for n in range(1, 5) if scenery.agent(n) != user_id]

    def fresh(self) -> str:
        self.count += 1
        return f"{WORDS}{self.count}"

    # --- proposals -------------------------------------------------------------------------------

    @rule(agent=AGENTS, pick=PICKS)
    def propose(self, agent: int, pick: int) -> None:
        answer = self.post(agent, "proposals", say.proposal(f"World {pick}"))
        if answer.is_success:
            assert self.get(agent, f"proposals/{answer.json()['id']}").status_code == 200

    @rule(agent=AGENTS)
    def propose_twice_at_once(self, agent: int) -> None:
        self.race(*((agent, "proposals", say.proposal(name)) for name in ("One", "Two")))

    @rule(pick=PICKS)
    def submit(self, pick: int) -> None:
        if found := self.one("SELECT id, agent_id FROM proposals WHERE status = 'draft'", pick):
            self.post(self.who(found[1]), f"proposals/{found[0]}/submit?force=true")

    @rule(pick=PICKS)
    def revise(self, pick: int) -> None:
        if found := self.one(
            "SELECT id, agent_id FROM proposals WHERE status = 'validating'", pick
        ):
            body = {"premise": self.fresh()}
            self.post(self.who(found[1]), f"proposals/{found[0]}/revise", body)

    @rule(pick=PICKS, agent=AGENTS, verdict=st.sampled_from(["approve", "approve", "strengthen"]))
    def vote(self, pick: int, agent: int, verdict: str) -> None:
        if found := self.one("SELECT id FROM proposals", pick):
            self.post(agent, f"proposals/{found[0]}/validate", say.vote(verdict))

    @rule(pick=PICKS)
    def vote_at_once(self, pick: int) -> None:
        sql = "SELECT id, agent_id FROM proposals WHERE status = 'validating'"
        if found := self.one(sql, pick):
            path = f"proposals/{found[0]}"
            votes = [(n, f"{path}/validate", say.vote()) for n in self.others(found[1])]
            self.race(*votes[:2], (1, path, None, "GET"))  # type: ignore[arg-type]  # read meanwhile
            shown = self.get(1, path).json()
            assert shown["status"] != "approved" or shown["resulting_world_id"]

    @rule(pick=PICKS, agent=AGENTS)
    def look_while_it_is_decided(self, pick: int, agent: int) -> None:
        sql = "SELECT id, agent_id FROM proposals WHERE status = 'validating'"
        if found := self.one(sql, pick):
            path = f"proposals/{found[0]}"
            answers = stage.together(
                self.send(agent, f"{path}/validate", say.vote()),
                *(self.send(1, path, method="GET") for _ in range(3)),
            )
            for shown in (answer.json() for answer in answers[1:]):
                assert shown["status"] != "approved" or shown["resulting_world_id"]

    @rule(pick=PICKS)
    def resolve_at_once(self, pick: int) -> None:
        sql = "SELECT id, agent_id FROM proposals WHERE review_system = 'review'"
        if found := self.one(sql, pick):
            items = stage.rows(
                "SELECT i.id, r.reviewer_id FROM review_feedback r JOIN feedback_items i "
                f"ON i.review_id = r.id WHERE r.content_id = '{found[0]}' ORDER BY 1"
            )
            self.race(
                *(
                    (self.who(by), f"review/feedback-item/{item}/resolve", None)
                    for item, by in items
                )
            )

    @rule(pick=PICKS)
    def withdraw_and_accept_at_once(self, pick: int) -> None:
        sql = """SELECT s.id, s.suggested_by, p.agent_id FROM revision_suggestions s
                 JOIN proposals p ON p.id = s.target_id WHERE s.status = 'pending'"""
        if found := self.one(sql, pick):
            path = f"suggestions/{found[0]}"
            codes = self.race(
                (self.who(found[1]), f"{path}/withdraw", None),
                (self.who(found[2]), f"{path}/accept", None),
            )
            assert codes.count(200) <= 1, codes

    # --- dwellers --------------------------------------------------------------------------------

    @rule(pick=PICKS, agent=AGENTS)
    def claim(self, pick: int, agent: int) -> None:
        if found := self.one("SELECT id FROM dwellers", pick):
            self.post(agent, f"dwellers/{found[0]}/claim")

    @rule(pick=PICKS, agents=st.permutations([1, 2, 3, 4]))
    def claim_at_once(self, pick: int, agents: list[int]) -> None:
        if found := self.one("SELECT id FROM dwellers WHERE is_available", pick):
            codes = self.race(*((n, f"dwellers/{found[0]}/claim", None) for n in agents[:2]))
            assert codes.count(200) <= 1, codes

    @rule(pick=PICKS, agent=AGENTS)
    def release_and_claim_at_once(self, pick: int, agent: int) -> None:
        sql = "SELECT id, inhabited_by FROM dwellers WHERE inhabited_by IS NOT NULL"
        found = self.one(sql, pick)
        if found and self.who(found[1]) != agent:
            path = f"dwellers/{found[0]}"
            codes = self.race(
                (self.who(found[1]), f"{path}/release", None), (agent, f"{path}/claim", None)
            )
            if codes[1] == 200:
                assert self.get(agent, path).json()["inhabited_by"] == scenery.agent(agent)

    @rule(pick=PICKS, agent=AGENTS)
    def a_lease_ends(self, pick: int, agent: int) -> None:
        """Time cannot be moved, but the row can."""
        sql = "SELECT id, inhabited_by FROM dwellers WHERE inhabited_by IS NOT NULL"
        found = self.one(sql, pick)
        if found and self.who(found[1]) != agent:
            stage.rows(
                "UPDATE dwellers SET inhabited_until = now() - interval '1 hour' "
                f"WHERE id = '{found[0]}'"
            )
            answer = self.post(agent, f"dwellers/{found[0]}/claim")
            assert answer.status_code == 200 or "five" in answer.text or "5" in answer.text

    @rule(pick=PICKS)
    def remember_twice(self, pick: int) -> None:
        sql = "SELECT id, inhabited_by FROM dwellers WHERE inhabited_until > now()"
        if found := self.one(sql, pick):
            agent, path = self.who(found[1]), f"dwellers/{found[0]}/memory"
            notes = [self.fresh(), self.fresh()]
            for note in notes:
                self.post(agent, f"{path}/relationship", {"about": "Ben", "note": note})
            kept = self.get(agent, path).json()["relationship_memories"].get("Ben", [])
            assert all(note in str(kept) for note in notes)

    @rule(pick=PICKS)
    def escalate_at_once(self, pick: int) -> None:
        sql = "SELECT id FROM dweller_actions WHERE importance_confirmed_by IS NOT NULL"
        if found := self.one(sql, pick):
            path = f"actions/{found[0]}"
            self.race(*((n, f"{path}/escalate", say.event()) for n in (3, 4)))
            assert self.get(1, path).status_code == 200

    # --- community -------------------------------------------------------------------------------

    @rule(agent=AGENTS)
    def give_feedback(self, agent: int) -> None:
        answer = self.post(agent, "feedback", say.feedback(f"Title {self.count}"))
        if answer.is_success:
            assert self.get(agent, f"feedback/{answer.json()['id']}").status_code == 200

    @rule(pick=PICKS, agent=AGENTS)
    def upvote(self, pick: int, agent: int) -> None:
        if found := self.one("SELECT id FROM feedback", pick):
            self.post(agent, f"feedback/{found[0]}/upvote")

    @rule(pick=PICKS)
    def upvote_at_once(self, pick: int) -> None:
        if found := self.one("SELECT id, agent_id FROM feedback", pick):
            voters = self.others(found[1])
            before = self.get(1, f"feedback/{found[0]}").json()["upvote_count"]
            codes = self.race(*((n, f"feedback/{found[0]}/upvote", None) for n in voters))
            after = self.get(1, f"feedback/{found[0]}").json()["upvote_count"]
            assert after == before + codes.count(200)

    @rule(pick=PICKS, status=st.sampled_from(["resolved", "in_progress", "wont_fix"]))
    def decide_feedback(self, pick: int, status: str) -> None:
        if found := self.one("SELECT id, status FROM feedback", pick):
            notes = {} if status == "in_progress" else {"resolution_notes": WORDS}
            request = self.send(
                -1, f"feedback/{found[0]}/status", {"status": status} | notes, "PATCH"
            )
            (answer,) = stage.together(request)
            assert found[1] not in ("resolved", "wont_fix") or not answer.is_success

    @rule(pick=PICKS)
    def react_at_once(self, pick: int) -> None:
        if found := self.one("SELECT id FROM worlds", pick):
            wish = {"target_type": "world", "target_id": found[0], "kind": "fire"}
            self.race(*((n, "reactions", wish) for n in (1, 2, 3)))

    @rule(pick=PICKS, agent=AGENTS)
    def review_story(self, pick: int, agent: int) -> None:
        if found := self.one("SELECT id FROM stories", pick):
            self.post(agent, f"stories/{found[0]}/review", say.story_review())
            self.post(agent, f"review/story/{found[0]}/feedback", say.review())

    @rule(pick=PICKS)
    def revise_story(self, pick: int) -> None:
        if found := self.one("SELECT id, author_id FROM stories", pick):
            self.post(
                self.who(found[1]), f"stories/{found[0]}/revise", {"title": self.fresh()[:60]}
            )

    @rule(pick=PICKS)
    def answer_review(self, pick: int) -> None:
        sql = """SELECT r.id, s.id, s.author_id FROM story_reviews r
                 JOIN stories s ON s.id = r.story_id"""
        if found := self.one(sql, pick):
            path = f"stories/{found[1]}/reviews/{found[0]}/respond"
            self.post(self.who(found[2]), path, say.REPLY)

    @rule(pick=PICKS, agent=AGENTS, canon=st.booleans())
    def approve_aspect(self, pick: int, agent: int, canon: bool) -> None:
        if found := self.one("SELECT id FROM aspects WHERE status = 'validating'", pick):
            more = {"updated_canon_summary": WORDS} if canon else {}
            body = {"verdict": "approve", "critique": WORDS, **more}
            self.post(agent, f"aspects/{found[0]}/validate", body)

    @rule(agent=AGENTS)
    def comment_twice_at_once(self, agent: int) -> None:
        world = self.one("SELECT id FROM worlds", 0)
        key = {"idempotency-key": str(uuid.uuid4())}
        path, body = f"worlds/{world[0]}/comments", {"text": self.fresh()}
        stage.together(*(self.send(agent, path, body, **key) for _ in range(2)))
        answer = self.post(agent % 4 + 1, path, body, **key)
        if answer.is_success:
            assert answer.json()["user_id"] == scenery.agent(agent % 4 + 1)

    # --- accounts, pages -------------------------------------------------------------------------

    @rule(name=st.sampled_from(["Agent 1", "Zoe"]), model=st.sampled_from(["model-1", None]))
    def register(self, name: str, model: str | None) -> None:
        self.post(0, "auth/agent", {"name": name, "username": name, "model_id": model})

    @rule()
    def trespass(self) -> None:
        assert self.post(0, "feedback", say.feedback("Let me in")).status_code == 401

    @rule(agent=AGENTS)
    def read_on(self, agent: int) -> None:
        first = self.get(agent, "feed?limit=1").json()
        if first["next"]:
            link = first["next"].removeprefix("/api/")
            second = self.get(agent, link).json()
            assert second["entries"] != first["entries"]

    # --- what must hold --------------------------------------------------------------------------

    @invariant()
    def holds(self) -> None:
        for what, sql in HOLDS.items():
            wrong = stage.rows(sql)
            assert not wrong, (what, wrong)
        stage.calls += 1

    def teardown(self) -> None:
        """Note which example failed first. The next one puts the database back."""
        error = sys.exc_info()[1]
        is_failure = isinstance(error, Exception) and not isinstance(error, HypothesisException)
        if is_failure and stage.first_failure is None:  # and not the end of an example
            said = f"{type(error).__name__}: {error}".partition("\n")[0][:100]
            stage.first_failure = stage.examples, time.monotonic(), said


class OutOfTime(BaseException):
    """The search has used up its time. Hypothesis lets what is no `Exception` pass."""


def search(bug: str, runs: int, seconds: float, start: int = 0) -> dict[str, Any]:
    """What this approach does about one bug: runs and seconds until found, rules when shrunk."""
    global stage
    engine.MAX_SHRINKING_SECONDS = SHRINK_S
    stage = Stage(bug)
    stage.began = time.monotonic()
    stage.deadline = stage.began + seconds
    how = settings(
        max_examples=runs,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    flaky = False
    try:
        with contextlib.redirect_stdout(None):
            run_state_machine_as_test(seed(start)(Usual), settings=how)
    except Flaky:
        flaky = True
    except (OutOfTime, Exception):  # whatever it is: `teardown` has seen it
        pass
    finally:
        stage.close()
    if stage.first_failure is None:
        return {"runs": None, "tried": stage.examples}
    run, at, said = stage.first_failure
    return {
        "runs": run,
        "seconds": round(at - stage.began, 1),
        "calls": None if flaky else stage.calls,
        "said": said,
    }
