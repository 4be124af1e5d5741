"""What agents were told must be so when all is over; and what must come, comes."""

import functools
from datetime import timedelta
from typing import Any

import httpx

import foretold
from examples.deep_sci_fi.machine.game import ENOUGH, UNDECIDED
from examples.deep_sci_fi.machine.platform import Busy, Platform

PATIENCE_S = 120
READY = f"""{ENOUGH.format(proposals="proposals", votes="validations", wrong=UNDECIDED)}
    union all
    select p.id, p.status from proposals p
    where review_system = 'review' and status = 'validating'
      and 2 <= (select count(*) from review_feedback r where r.content_id = p.id)
      and not exists (
        select from feedback_items i join review_feedback r on r.id = i.review_id
        where r.content_id = p.id and i.status in ('open', 'addressed'))"""
"""Proposals that have all they need, and are not decided."""
LEASE = timedelta(hours=24, minutes=1)


class Promises(Platform):
    """The platform keeps its word."""

    @foretold.invariant(when="end")
    def what_was_made_is_there(self) -> int:
        """Whatever an agent was told it has made can be found."""
        for table, told in self.promised.items():
            there = {row[0] for row in self.pg.sql(f"select id::text from {table}")}
            lost = sorted(told - there)
            assert not lost, f"{table}: told to be made, and not there: {', '.join(lost)}"
        return sum(map(len, self.promised.values()))

    @foretold.invariant(when="end")
    def no_upvote_is_lost(self) -> int:
        """Whoever was told that the upvote counts is among the upvoters."""
        query = "select f.id::text, u from feedback f, jsonb_array_elements_text(upvoters) as x(u)"
        lost = sorted(self.upvoted - {(key, who) for key, who in self.pg.sql(query)})
        assert not lost, f"lost upvotes (feedback, agent): {lost}"
        return len(self.upvoted)

    @foretold.invariant(when="end")
    def no_suggestion_loses_an_upvote(self) -> int:
        """Nor does a suggestion lose one."""
        query = """select s.id::text, u from revision_suggestions s,
                   jsonb_array_elements_text(upvoters) as x(u)"""
        lost = sorted(self.backed - {(key, who) for key, who in self.pg.sql(query)})
        assert not lost, f"lost upvotes (suggestion, agent): {lost}"
        return len(self.backed)

    @foretold.invariant(when="end")
    def no_memory_is_lost(self) -> int:
        """What an agent was told a dweller remembers, it does."""
        query = """select d.id::text, kept #>> '{}' from dwellers d, jsonb_path_query(
                   jsonb_build_array(core_memories, relationship_memories), '$.**') as m(kept)"""
        remembered = {(dweller, text) for dweller, text in self.pg.sql(query)}
        lost = sorted(self.noted - remembered)
        assert not lost, f"forgotten (dweller, memory): {lost}"
        return len(self.noted)

    @foretold.invariant(when="end")
    async def pages_say_what_the_database_says(self) -> int:
        """Statuses and upvotes are the same for readers as in the database."""
        reader: Any = self.cast[0]
        shown = await self.patiently(lambda: self.get(reader, "proposals?limit=100"))
        stored: dict[str, str] = dict(self.pg.sql("select id::text, status from proposals"))
        wrong = [page["id"] for page in shown if page["status"] != stored[page["id"]]]
        assert not wrong, f"proposals whose page differs from the database: {wrong}"
        wishes = await self.patiently(lambda: self.get(reader, "feedback?limit=100"))
        wrong = [wish["id"] for wish in wishes if wish["upvote_count"] != len(wish["upvoters"])]
        assert not wrong, f"feedback whose page counts wrong: {wrong}"
        return len(shown) + len(wishes)

    @foretold.invariant(within_s=PATIENCE_S)
    async def what_is_ready_is_decided(self) -> int:
        """When faults have stopped, the platform answers, and no proposal waits that has enough
        votes, or reviewers who have nothing left to wish for."""
        shown = await self.get(self.cast[0], "proposals?limit=100")
        ready = {str(row[0]) for row in self.pg.sql(READY)}
        stuck = [p["id"] for p in shown if p["status"] == "validating" and p["id"] in ready]
        assert not stuck, f"proposals that have all they need: {stuck}"
        return len(shown)

    async def patiently(self, ask: Any) -> Any:
        """The answer, when what faults have broken is repaired: soon, since there are none now."""
        for _ in range(PATIENCE_S):
            try:
                return await ask()
            except (httpx.TransportError, Busy):
                await self.world.clock.advance(1)
        raise AssertionError(f"no answer for {PATIENCE_S} seconds, and no faults")

    @foretold.invariant(when="end")
    async def leases_end(self) -> int:
        """A day after the last action a dweller can be claimed by somebody else."""
        query = (
            "select id::text, inhabited_by::text from dwellers where not is_available order by 1"
        )
        held = self.pg.sql(query)
        await self.world.clock.advance(LEASE.total_seconds())
        cast: list[Any] = self.cast
        claims = [(one, a) for one, holder in held for a in cast if a.agent.id != holder]
        for dweller, other in claims[:1]:
            path = f"dwellers/{dweller}/claim"
            answer = await self.patiently(functools.partial(self.send, other, "POST", path))
            code = answer.status_code
            assert code in (200, 429), f"the lease of {dweller} is over, and a claim gives {code}"
        return len(claims)
