"""A port where traders auction goods and ship them to other ports: no goods are lost or doubled.

A port is a shard. A ship that leaves one port is a message to another, where it arrives as a
command of its own.
"""

from dataclasses import dataclass, field, replace

from examples.cardinal.archetype import EntityId
from examples.cardinal.system import Hook, SystemContext
from examples.cardinal.world import World

TRADERS_MAX = 24
LOTS_MAX = 24
GOODS_MAX = 20
VOYAGE_TICKS = 3
AUCTION_TICKS = 8
START_GOLD = 200
START_GOODS = 10
NOBODY = EntityId(-1)
MASTER = "harbour master"
"""Keeps the goods of owners for whom the port has no room."""


@dataclass(frozen=True)
class Trader:
    """Somebody at this port."""

    name: str = ""


@dataclass(frozen=True)
class Purse:
    """Gold that is not bound by a bid."""

    gold: int = 0


@dataclass(frozen=True)
class Store:
    """Goods ashore."""

    goods: int = 0


@dataclass(frozen=True)
class Statement:
    """What a trader's account said before today's alms."""

    gold: int = 0


@dataclass(frozen=True)
class Lot:
    """Goods under the hammer."""

    seller: EntityId = NOBODY
    goods: int = 0
    ticks_left: int = 0


@dataclass(frozen=True)
class BestBid:
    """A lot has one as soon as somebody has bid."""

    bidder: EntityId = NOBODY
    gold: int = 0


@dataclass(frozen=True)
class Cargo:
    """A ship under sail."""

    owner: str = ""
    port: str = ""
    goods: int = 0
    ticks_left: int = 0


@dataclass(frozen=True)
class Join:
    """Open an account at this port."""

    name: str


@dataclass(frozen=True)
class Offer:
    """Put goods under the hammer."""

    trader: EntityId
    goods: int


@dataclass(frozen=True)
class Bid:
    """Bind gold for a lot."""

    trader: EntityId
    lot: EntityId
    gold: int


@dataclass(frozen=True)
class Manifest:
    """Part of a command: what a ship carries."""

    goods: int
    marks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ship:
    """Send goods to the other port."""

    trader: EntityId
    manifest: Manifest


@dataclass(frozen=True)
class Arrive:
    """A ship from another port. Ports send it to each other."""

    owner: str
    goods: int


@dataclass(frozen=True)
class LotOffered:
    """For all."""

    goods: int


@dataclass(frozen=True)
class LotSold:
    """For all."""

    goods: int
    gold: int


@dataclass(frozen=True)
class Outbid:
    """For one trader."""

    lot: EntityId


def open_accounts(ctx: SystemContext) -> None:
    room = TRADERS_MAX - len(ctx.find(Trader))
    for command in ctx.commands(Join)[: max(room, 0)]:
        account(ctx, command.payload.name, START_GOLD, START_GOODS)


def account(ctx: SystemContext, name: str, gold: int, goods: int) -> EntityId:
    return ctx.create(Trader(name), Purse(gold), Store(goods), Statement())


def offer(ctx: SystemContext) -> None:
    room = LOTS_MAX - len(ctx.find(Lot))
    for command in ctx.commands(Offer)[: max(room, 0)]:
        seller, goods = command.payload.trader, command.payload.goods % GOODS_MAX + 1
        if take_goods(ctx, seller, goods):
            ctx.create(Lot(seller, goods, AUCTION_TICKS))
            ctx.emit(LotOffered(goods))


def take_goods(ctx: SystemContext, trader: EntityId, goods: int) -> bool:
    if not ctx.has(trader, Store) or ctx.get(trader, Store).goods < goods:
        return False
    ctx.set(trader, Store(ctx.get(trader, Store).goods - goods))
    return True


def bid(ctx: SystemContext) -> None:
    for command in ctx.commands(Bid):
        asked = command.payload
        gold = asked.gold % START_GOLD + 1
        if not ctx.has(asked.lot, Lot) or not ctx.has(asked.trader, Purse):
            continue
        best = ctx.get(asked.lot, BestBid) if ctx.has(asked.lot, BestBid) else BestBid()
        if gold <= best.gold or ctx.get(asked.trader, Purse).gold < gold:
            continue
        pay(ctx, asked.trader, -gold)
        if best.bidder != NOBODY:
            pay(ctx, best.bidder, best.gold)
            ctx.emit(Outbid(asked.lot), to=ctx.get(best.bidder, Trader).name or "nameless")
        ctx.set(asked.lot, BestBid(asked.trader, gold))


def pay(ctx: SystemContext, trader: EntityId, gold: int) -> None:
    ctx.set(trader, Purse(ctx.get(trader, Purse).gold + gold))


def hammer(ctx: SystemContext) -> None:
    """Lots whose time is over are sold, or go back."""
    for entity, lot in ctx.find(Lot):
        if lot.ticks_left > 1:
            ctx.set(entity, replace(lot, ticks_left=lot.ticks_left - 1))
            continue
        buyer = lot.seller
        if ctx.has(entity, BestBid):
            best = ctx.get(entity, BestBid)
            buyer = best.bidder
            pay(ctx, lot.seller, best.gold)
            ctx.emit(LotSold(lot.goods, best.gold))
        ctx.set(buyer, Store(ctx.get(buyer, Store).goods + lot.goods))
        ctx.destroy(entity)


def depart(ctx: SystemContext) -> None:
    for command in ctx.commands(Ship):
        owner, goods = command.payload.trader, command.payload.manifest.goods % GOODS_MAX + 1
        if take_goods(ctx, owner, goods):
            name = ctx.get(owner, Trader).name
            ctx.create(Cargo(name, "island", goods, VOYAGE_TICKS))


def sail(ctx: SystemContext) -> None:
    for entity, cargo in ctx.find(Cargo):
        if cargo.ticks_left > 1:
            ctx.set(entity, replace(cargo, ticks_left=cargo.ticks_left - 1))
        else:
            ctx.send(cargo.port, Arrive(cargo.owner, cargo.goods))
            ctx.destroy(entity)


def unload(ctx: SystemContext) -> None:
    for command in ctx.commands(Arrive):
        owner, goods = command.payload.owner, command.payload.goods % (GOODS_MAX + 1)
        known = {trader.name: entity for entity, trader in ctx.find(Trader)}
        if owner not in known and len(known) >= TRADERS_MAX:
            owner = MASTER
        if owner in known:
            store = ctx.get(known[owner], Store)
            ctx.set(known[owner], Store(store.goods + goods))
        else:
            account(ctx, owner, 0, goods)


def state_accounts(ctx: SystemContext) -> None:
    """Before `give_alms`, in the order of registration."""
    for entity, purse, statement in ctx.find(Purse, Statement):
        if purse.gold != statement.gold:
            ctx.set(entity, Statement(purse.gold))


def give_alms(ctx: SystemContext) -> None:
    """The port gives all but the rich a coin each tick: nobody is ruined for ever."""
    for entity, purse in ctx.find(Purse):
        if purse.gold < 2 * START_GOLD:
            ctx.set(entity, Purse(purse.gold + 1))


def setup(world: World) -> None:
    """The whole game."""
    for component in (Trader, Purse, Store, Statement, Lot, BestBid, Cargo):
        world.component(component)
    for command in (Join, Offer, Bid, Ship, Arrive):
        world.command(command)
    for event in (LotOffered, LotSold, Outbid):
        world.event(event)
    world.system(open_accounts, Hook.PRE_UPDATE)
    world.system(unload, Hook.PRE_UPDATE)
    world.system(hammer)
    world.system(offer)
    world.system(bid)
    world.system(sail)
    world.system(depart)
    world.system(state_accounts, Hook.POST_UPDATE, reads=(Purse,), writes=(Statement,))
    world.system(give_alms, Hook.POST_UPDATE, writes=(Purse,))
