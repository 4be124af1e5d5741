"""Rules: registration, keys, signs of life, administrators, time; and who has no key at all."""

from typing import Any

from hypothesis import strategies as st

import foretold
from examples.deep_sci_fi.app.schemas import agents as schemas
from examples.deep_sci_fi.machine import things
from examples.deep_sci_fi.machine.bodies import worded
from examples.deep_sci_fi.machine.platform import Platform, part_of
from examples.deep_sci_fi.machine.scenery import WORDS
from examples.deep_sci_fi.machine.things import Thing

MINUTE, HOUR = 60, 3600
JUMPS = (
    16,
    MINUTE + 1,
    HOUR + 1,
    *(hours * HOUR + MINUTE for hours in (4, 12, 20, 24)),
    169 * HOUR,
)
"""One past each threshold of the platform: repetition, limits, contexts, deadlines, silence."""
WAITED_S_MAX = 14 * 24 * HOUR
"""In a run: a world lasts a month at most."""
TOO_OFTEN = 3
"""An address may register twice a minute."""
NEW_KEY = foretold.from_model(schemas.NewKey, expires_in_hours=st.sampled_from([None, 1, 4, 8760]))
WRITES: tuple[tuple[str, dict[str, str]], ...] = (
    ("feedback", {"category": "bug", "title": "Let me in", "description": WORDS}),
    ("heartbeat", {}),
    ("auth/keys", {}),
)


@part_of("Opinions")
class Accounts(Platform):
    """Who is there."""

    @foretold.rule(
        name=st.sampled_from(["Agent 1", "Zoe"]),
        model=st.sampled_from(["model-1", None]),
        times=st.sampled_from([1, 1, 1, TOO_OFTEN]),
    )
    async def register(self, actor: Any, name: str, model: str | None, times: int) -> None:
        """As somebody new, who may look like somebody else; some overdo it."""
        for _ in range(times):
            await self._register(actor, name, model)

    async def _register(self, actor: Any, name: str, model: str | None) -> None:
        body = worded(schemas.Registration, {"name": name, "username": name, "model_id": model})
        answer = await self.send(actor, "POST", "auth/agent", body, **{"x-api-key": ""})
        foretold.sometimes(answer.status_code == 429, "an address registers too often")
        made = self.judge(answer)
        self.made("users", made["agent"], "")
        key = {"x-api-key": made["api_key"]}
        me = await self.send(actor, "GET", "auth/me", **key)
        code = me.status_code
        foretold.always(code == 200, "a new key can be used at once", code=code)
        right = me.json()["id"] == made["agent"]["id"]
        foretold.always(right, "agents are told who they are", told=me.json())

    @foretold.rule(target=things.keys, wish=NEW_KEY)
    async def add_key(self, actor: Any, wish: Any) -> Thing:
        made = await self.once(actor, "auth/keys", worded(schemas.NewKey, wish.model_dump()))
        about = made["key"] | {"agent_id": actor.agent.id}
        return self.made("api_keys", about, text=made["api_key"])

    @foretold.rule(key=things.mine(things.keys))
    async def revoke_key(self, actor: Any, key: Thing) -> None:
        await self.post(actor, f"auth/keys/{key}/revoke")

    @foretold.rule(key=things.keys)
    async def revoke_any_key(self, actor: Any, key: Thing) -> None:
        await self.admin(actor, "POST", f"admin/keys/{key}/revoke")


@part_of("Opinions", "Feedback", "Proposing")
class Signs(Platform):
    """Of life."""

    @foretold.rule(sign=foretold.from_model(schemas.Heartbeat))
    async def beat(self, actor: Any, sign: Any) -> None:
        await self.post(actor, "heartbeat", worded(schemas.Heartbeat, sign.model_dump()))


@part_of("Opinions", "Feedback")
class Inbox(Signs):
    """What agents are told, and who is away."""

    @foretold.rule(pause=foretold.from_model(schemas.Maintenance, reason=st.just("repairs")))
    async def announce_maintenance(self, actor: Any, pause: Any) -> None:
        body = worded(schemas.Maintenance, pause.model_dump())
        await self.post(actor, "heartbeat/maintenance", body)

    @foretold.rule(target=things.notes)
    async def read_notifications(self, actor: Any) -> Any:
        found = (await self.get(actor, "notifications"))["notifications"]
        return foretold.multiple(*(Thing(note["id"], actor.agent.id) for note in found[:3]))

    @foretold.rule(note=things.mine(things.notes))
    async def dismiss(self, actor: Any, note: Thing) -> None:
        await self.post(actor, f"notifications/{note}/read")


class Always(Platform):
    """In all runs: time passes, and somebody tries without a key."""

    @foretold.rule(what=st.sampled_from(WRITES))
    async def trespass(self, actor: Any, what: Any) -> None:
        """Without a key."""
        path, body = what
        answer = await self.send(actor, "POST", path, body, **{"x-api-key": ""})
        code = answer.status_code
        foretold.always(code == 401, "who has no key changes nothing", path=path, code=code)

    @foretold.precondition(lambda self: self.waited_s < WAITED_S_MAX)
    @foretold.rule(seconds=st.sampled_from(JUMPS))
    async def wait(self, seconds: int) -> None:
        """Time passes, also for those who are in the middle of something."""
        self.waited_s += seconds
        await self.world.clock.advance(seconds)
