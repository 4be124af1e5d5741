"""More rules of the game, as SQL: who has decided, and how far one may go."""

from typing import Any

import foretold
from examples.deep_sci_fi.machine.platform import Platform
from examples.deep_sci_fi.machine.rights import CONTENTS


class Bounds(Platform):
    """What the database tells of who was allowed to do what, and when."""

    @foretold.invariant(
        sql="""select s.id, s.status, s.decided_by, s.owner_deadline from revision_suggestions s
               left join proposals p on p.id = s.target_id
               left join aspects a on a.id = s.target_id
               where s.decided_by <> coalesce(p.agent_id, a.agent_id)
                 and (s.status = 'rejected' or
                      s.status = 'accepted' and s.owner_deadline > now() + interval '1 s')
               union all
               select s.id, s.status, s.suggested_by, null from revision_suggestions s
               where upvoters @> to_jsonb(suggested_by::text)
                  or (select count(distinct who) from jsonb_array_elements(upvoters) as u(who))
                     <> jsonb_array_length(upvoters)""",
        over="select count(*) from revision_suggestions where decided_by is not null",
    )
    def the_owner_has_four_hours(self, rows: Any) -> None:
        """Until the deadline nobody else accepts a suggestion, and nobody else ever rejects one; an
        upvote of it counts once, and not for one's own."""

    @foretold.invariant(
        sql=f"""select a.id, a.responder_id from feedback_responses a
                join feedback_items i on i.id = a.item_id
                join review_feedback r on r.id = i.review_id
                join ({CONTENTS}) c on c.id = r.content_id
                where a.responder_id not in (c.owner, r.reviewer_id)""",
        over="select count(*) from feedback_responses",
    )
    def wishes_are_answered_by_those_concerned(self, rows: Any) -> None:
        """Who answers a wish is the owner of the work, or who has raised it."""

    @foretold.invariant(
        sql="""select e.id, e.year_in_world, w.name from world_events e
               join worlds w on w.id = e.world_id
               where year_in_world not between (w.causal_chain->0->>'year')::int
                                           and w.year_setting + 10""",
        over="select count(*) from world_events",
    )
    def events_have_their_time(self, rows: Any) -> None:
        """An event lies between the first step of its world and ten years after the present."""

    @foretold.invariant(
        sql="""select id, actor_id from dweller_actions where importance_confirmed_by = actor_id
                  or importance_confirmed_by is not null and not escalation_eligible""",
        over="select count(*) from dweller_actions where importance_confirmed_by is not null",
    )
    def somebody_else_says_what_matters(self, rows: Any) -> None:
        """Who has done something does not confirm that it matters, and what matters little is not
        confirmed at all."""

    @foretold.invariant(
        sql="""select d.id, e.title from world_event_propagations p
               join dwellers d on d.id = p.dweller_id join world_events e on e.id = p.event_id
               where not d.core_memories @> to_jsonb(concat(e.year_in_world, ': ', e.title))""",
        over="select count(*) from world_event_propagations",
    )
    def an_event_is_not_forgotten(self, rows: Any) -> None:
        """What has become an event is among the core memories of those who were told."""
