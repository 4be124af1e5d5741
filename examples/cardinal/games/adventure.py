"""Players fight: who dies leaves a gravestone for a while; who lives regenerates."""

from dataclasses import dataclass, replace

from examples.cardinal.archetype import EntityId
from examples.cardinal.system import Hook, SystemContext
from examples.cardinal.world import World

HEALTH_MAX = 100
PLAYERS_MAX = 40
STONE_TICKS = 5
SPAWNED = 10


@dataclass(frozen=True)
class Player:
    """A nickname in the world."""

    nickname: str = ""


@dataclass(frozen=True)
class Health:
    """Zero is dead."""

    points: int = 0


@dataclass(frozen=True)
class Vigour:
    """How strong a player felt at the end of the last tick."""

    share: float = 0.0


@dataclass(frozen=True)
class Shield:
    """Halves the damage until it is used up."""

    left: int = 0


@dataclass(frozen=True)
class Gravestone:
    """Where a player fell."""

    nickname: str = ""
    ticks_left: int = 0


@dataclass(frozen=True)
class CreatePlayer:
    """Join the game."""

    nickname: str


@dataclass(frozen=True)
class AttackPlayer:
    """Hit somebody."""

    target: EntityId
    damage: int


@dataclass(frozen=True)
class RaiseShield:
    """Protect yourself, or another."""

    target: EntityId
    strength: int


@dataclass(frozen=True)
class CallExternal:
    """Ask the oracle, which lives on another shard."""

    question: str


@dataclass(frozen=True)
class PlayerDied:
    """An event, and between systems a signal."""

    nickname: str


def spawn(ctx: SystemContext) -> None:
    for number in range(SPAWNED):
        join(ctx, f"default-{number}")


def join(ctx: SystemContext, nickname: str) -> None:
    ctx.create(Player(nickname), Health(HEALTH_MAX), Vigour(1.0))


def create_players(ctx: SystemContext) -> None:
    room = PLAYERS_MAX - len(ctx.find(Player))
    for command in ctx.commands(CreatePlayer)[: max(room, 0)]:
        join(ctx, command.payload.nickname)


def raise_shields(ctx: SystemContext) -> None:
    for command in ctx.commands(RaiseShield):
        asked = command.payload
        if ctx.has(asked.target, Player) and asked.strength % 8:
            ctx.set(asked.target, Shield(asked.strength % 8))


def attack(ctx: SystemContext) -> None:
    for command in ctx.commands(AttackPlayer):
        target, damage = command.payload.target, command.payload.damage % 150
        if not ctx.has(target, Health):
            continue
        if ctx.has(target, Shield):
            damage //= 2
            left = ctx.get(target, Shield).left - 1
            if left > 0:
                ctx.set(target, Shield(left))
            else:
                ctx.remove(target, Shield)
        points = ctx.get(target, Health).points - damage
        if points > 0:
            ctx.set(target, Health(points))
        else:
            died = PlayerDied(ctx.get(target, Player).nickname)
            ctx.destroy(target)
            ctx.signal(died)
            ctx.emit(died)


def bury(ctx: SystemContext) -> None:
    for died in ctx.signals(PlayerDied):
        ctx.create(Gravestone(died.nickname, STONE_TICKS))


def weather(ctx: SystemContext) -> None:
    for entity, stone in ctx.find(Gravestone):
        if stone.ticks_left <= 1:
            ctx.destroy(entity)
        else:
            ctx.set(entity, replace(stone, ticks_left=stone.ticks_left - 1))


def feel(ctx: SystemContext) -> None:
    """Vigour follows the health of the tick's beginning: it runs before `regenerate`."""
    for entity, health, vigour in ctx.find(Health, Vigour):
        share = health.points / HEALTH_MAX
        if share != vigour.share:
            ctx.set(entity, Vigour(share))


def regenerate(ctx: SystemContext) -> None:
    for entity, health in ctx.find(Health):
        if health.points < HEALTH_MAX:
            ctx.set(entity, Health(min(HEALTH_MAX, health.points + 10)))


def call_external(ctx: SystemContext) -> None:
    for command in ctx.commands(CallExternal):
        ctx.send("oracle", command.payload)


def setup(world: World) -> None:
    """The whole game."""
    for component in (Player, Health, Vigour, Shield, Gravestone):
        world.component(component)
    for command in (CreatePlayer, AttackPlayer, RaiseShield, CallExternal):
        world.command(command)
    world.event(PlayerDied)
    world.system(spawn, Hook.INIT)
    world.system(create_players, Hook.PRE_UPDATE)
    world.system(raise_shields)
    world.system(attack)
    world.system(bury)
    world.system(feel, Hook.POST_UPDATE, reads=(Health,), writes=(Vigour,))
    world.system(regenerate, Hook.POST_UPDATE, writes=(Health,))
    world.system(weather, Hook.POST_UPDATE)
    world.system(call_external, Hook.POST_UPDATE, reads=())
