"""Rules: old keys, other people's reviews, what was sent before, and two who change one dweller's
memories."""

from typing import Any

from hypothesis import strategies as st

import foretold
from examples.deep_sci_fi.machine import things
from examples.deep_sci_fi.machine.dwelling import Deeds, Dwelling, is_to_escalate
from examples.deep_sci_fi.machine.platform import Platform, part_of
from examples.deep_sci_fi.machine.things import Thing
from examples.deep_sci_fi.machine.worlds import NAMES, Proposing, Reviewing

KEY = """select is_revoked or expires_at is not null and expires_at <= $2::text::timestamptz
    from api_keys where id = $1::text::uuid"""
REVIEWED = {"aspect": things.aspects, "dweller_proposal": things.dweller_proposals}
REVIEWED |= {"story": things.stories}


def is_somebody_elses(dweller: Thing, agent: Any) -> bool:
    """Another agent inhabits it."""
    return dweller.owner not in ("", agent.id)


class Keys(Platform):
    """In all runs: who has another key uses it."""

    @foretold.rule(key=things.keys)
    async def use_key(self, actor: Any, key: Thing) -> None:
        """Whoever finds it, as long as it lasts; what is over stays over."""
        was_over = self._is_over(key)
        answer = await self.send(actor, "GET", "auth/me", **{"x-api-key": key.more["text"]})
        code = answer.status_code
        foretold.sometimes(was_over, "somebody uses a key that is revoked or expired")
        if was_over:
            foretold.always(code == 401, "an old key opens nothing", code=code)
        elif not self._is_over(key):
            foretold.always(code == 200, "a key can be used until it is revoked", code=code)
        if code == 200:
            told = answer.json()["id"]
            foretold.always(told == key.owner, "agents are told who they are", told=told)

    def _is_over(self, key: Thing) -> bool:
        return any(row[0] for row in self.pg.sql(KEY, key, self.now().isoformat()))


class Repeating(Proposing):
    """In all runs: programs send again what they have just sent, without an idempotency key."""

    async def send(
        self, actor: Any, method: str, path: str, body: Any = None, **headers: str
    ) -> Any:
        """What has succeeded can be sent again."""
        answer = await super().send(actor, method, path, body, **headers)
        if answer.is_success and method != "GET" and not headers:
            actor.last_sent = (method, path, body)
        return answer

    @foretold.precondition(lambda self, actor: "last_sent" in actor)
    @foretold.rule()
    async def send_again(self, actor: Any) -> None:
        """It is done again or refused, and never breaks anything."""
        answer = await self.send(actor, *actor.last_sent)
        code = answer.status_code
        foretold.sometimes(code in (400, 409, 429), "a request that was repeated is refused")

    @foretold.rule(target=things.proposals, name=NAMES)
    async def propose_twice(self, actor: Any, name: str) -> Thing:
        """The same world: it is made, and the second time refused; as the same, or because it is
        one too many."""
        made = await self.post(actor, "proposals", self.world_called(name))
        answer = await self.send(actor, "POST", "proposals", self.world_called(name))
        code, refused = answer.status_code, answer.status_code in (409, 429)
        foretold.always(refused, "the same proposal is made once", name=name, code=code)
        return self.made("proposals", made, system="vote")


@part_of("Reviewing", "Canon", "Stories")
class Reading(Reviewing):
    """All that can be reviewed is read."""

    @foretold.rule(
        what=st.one_of(*(st.tuples(st.just(kind), found) for kind, found in REVIEWED.items()))
    )
    async def read_other_reviews(self, actor: Any, what: tuple[str, Thing]) -> None:
        """Of aspects, characters and stories."""
        await self.see_reviews(actor, *what)


@part_of("Stories", "Dwelling")
class Remembering(Dwelling, Deeds):
    """What a dweller remembers changes at both ends."""

    @foretold.rule(
        target=things.events,
        action=things.fit(things.actions, is_to_escalate),
        dweller=things.fit(things.dwellers, is_somebody_elses),
    )
    async def escalate_meanwhile(self, actor: Any, action: Thing, dweller: Thing) -> Any:
        """Everybody learns of an event, just when an inhabitant writes something down."""
        others = [other for other in self.cast if other.agent is not actor.agent]
        rivals = [other for other in others if self.is_mine(other, dweller)]
        requests: list[Any] = [self._escalate(actor, action)]
        if rivals:
            requests.append(self._remember(foretold.choose(rivals, "who remembers"), dweller))
        made = await self.at_once(requests)
        return foretold.multiple(*(event for event in made if event))
