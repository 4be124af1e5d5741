"""The connections of one client: how many there may be, who waits for one, which are used again.

It does what httpcore's pool does with `httpx.Limits`, in virtual time. It does not connect: a place
is given out, empty or with a connection that rests in it.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import httpx

from foretold.kernel.clock import NS, to_ns

if TYPE_CHECKING:
    from foretold.services.web.link import Link

TOO_LONG = "too long"
SERVER_KEEPS_NS = 5 * NS
"""uvicorn closes a connection that was idle for so long."""


class Slot:
    """Room for one connection."""

    __slots__ = ("idle", "link")

    def __init__(self) -> None:
        self.link: Link | None = None
        self.idle = False


class Waiter:
    """A request that has no place yet."""

    __slots__ = ("future", "place")

    future: asyncio.Future[str | None]

    def __init__(self) -> None:
        self.place: Slot | None = None


class Pool:
    """The places of one client."""

    def __init__(self, limits: httpx.Limits) -> None:
        self._most = _or_any(limits.max_connections)
        self._most_kept = min(self._most, _or_any(limits.max_keepalive_connections))
        expiry_s = limits.keepalive_expiry
        own_ns = SERVER_KEEPS_NS if expiry_s is None else to_ns(expiry_s)
        self._kept_ns = min(own_ns, SERVER_KEEPS_NS)
        self._places: list[Slot] = []
        self._waiting: list[Waiter] = []

    async def place(self, loop: asyncio.AbstractEventLoop, timeout_s: float | None) -> Slot:
        """Room for a request, as soon as there is some."""
        found = None if self._waiting else self._free()
        return await self._wait(loop, timeout_s) if found is None else found

    async def _wait(self, loop: asyncio.AbstractEventLoop, timeout_s: float | None) -> Slot:
        """In httpcore everybody who waits is woken for a connection that has become idle. Who was
        too slow waits again, with all of its patience."""
        waiter = Waiter()
        self._waiting.append(waiter)
        try:
            while True:
                future = waiter.future = loop.create_future()
                alarm = None if timeout_s is None else loop.call_later(timeout_s, _give_up, future)
                try:
                    await future
                finally:
                    if alarm is not None:
                        alarm.cancel()
                if future.result() == TOO_LONG:
                    raise httpx.PoolTimeout("")
                found = waiter.place or self._free()
                if found is not None:
                    break
        except BaseException:
            self._waiting.remove(waiter)
            if waiter.place is not None:
                self.leave(waiter.place)
            else:
                self._wake()
            raise
        self._waiting.remove(waiter)
        return found

    def leave(self, place: Slot) -> None:
        """Its request is over. A connection that can be used again rests here."""
        link = place.link
        if link is not None and link.client is not None and link.keep_alive:
            link.idle_since_ns = link.client_clock.ns
            place.idle = True
        else:
            if link is not None:
                link.close_client()
            if place in self._places:
                self._places.remove(place)
        self._tidy()
        if self._waiting:
            self._wake()

    def _wake(self) -> None:
        """There may be room now."""
        idle = any(place.idle for place in self._places)
        for waiter in self._waiting:
            if waiter.future.done():
                continue
            if not idle:
                waiter.place = self._free()
                if waiter.place is None:
                    return
            waiter.future.set_result(None)

    def close(self) -> None:
        """The client is closed, and its connections are."""
        places, self._places = self._places, []
        for place in places:
            link = place.link
            if link is not None:
                answer = link.answer
                link.close_client()
                if answer is not None:
                    answer.reset()

    def _free(self) -> Slot | None:
        """The connection that rests since the beginning, or room for a new one."""
        self._tidy()
        for place in self._places:
            if place.idle:
                place.idle = False
                return place
        if len(self._places) >= self._most:
            return None
        place = Slot()
        self._places.append(place)
        return place

    def _tidy(self) -> None:
        """Close what nobody should use any more. (httpcore counts all connections here, not only
        those that rest.)"""
        for place in self._places[:]:
            link = place.link
            if not place.idle or link is None:
                continue
            if link.client is None:
                self._places.remove(place)
            elif link.client_clock.ns - link.idle_since_ns >= self._kept_ns or (
                len(self._places) > self._most_kept
            ):
                self._places.remove(place)
                link.close_client()


def _or_any(number: int | None) -> int:
    return sys.maxsize if number is None else number


def _give_up(future: asyncio.Future[str | None]) -> None:
    if not future.done():
        future.set_result(TOO_LONG)
